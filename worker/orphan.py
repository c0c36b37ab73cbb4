"""A Temporal server that outlived the process that started it: found by a note beside its file, and ended.

Two servers on one SQLite file would corrupt each other's histories, so a new one never starts beside an old one.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from counterfoil.models.errors import ErrorCode, Unavailable

END_SECONDS = 10


@contextmanager
def noted(file: Path, server_pid: int) -> Iterator[None]:
    """Note beside `file` which server has it, and who started that, while the block runs."""
    note = _note(file)
    note.write_text(f"{server_pid} {os.getpid()}")
    try:
        yield
    finally:
        note.unlink(missing_ok=True)


def end_orphan(file: Path) -> None:
    """End a server that still has `file` though whoever started it is gone. Blocking.

    Raises `Unavailable` (`TEMPORAL_UNAVAILABLE`) where the server is not an orphan: its owner lives.
    """
    try:
        server, owner = map(int, _note(file).read_text().split())
    except (OSError, ValueError):
        return
    if str(file) not in _command_line(server):
        return
    if owner != os.getpid() and _lives(owner):
        raise Unavailable(
            ErrorCode.TEMPORAL_UNAVAILABLE,
            f"the process {owner} runs a Temporal server on this file already",
            subject=str(file),
            remedy="stop that process, or use another state directory",
        )
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.kill(server, number)
        deadline = time.monotonic() + END_SECONDS
        while str(file) in _command_line(server):
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        else:
            return


def _note(file: Path) -> Path:
    return file.with_suffix(".pid")


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _command_line(pid: int) -> str:
    """A process's command line; empty where there is no such process."""
    if Path("/proc/self").exists():
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            return ""
    return subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
