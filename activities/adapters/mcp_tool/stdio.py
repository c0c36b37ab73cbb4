"""A server as a process: started in a session of its own, and ended with everything it started, whatever happens.

What it writes to standard error is discarded: it may hold secrets, and nobody asked for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from counterfoil.activities.adapters.mcp_tool import guard
from counterfoil.activities.adapters.mcp_tool.profile import StdioTransport
from counterfoil.activities.adapters.mcp_tool.streams import (
    MESSAGE_LIMIT_BYTES,
    Incoming,
    Outgoing,
    StreamsOf,
    Traffic,
    is_call,
)

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

LEAVE_SECONDS = 1.0
"""How long a server may take to leave when its input ends, and again when it is told to."""

_LOOK_SECONDS = 0.02


@asynccontextmanager
async def stdio_streams(transport: StdioTransport, environment: dict[str, str], traffic: Traffic) -> StreamsOf:
    """Start the server and speak to it. Raises `OSError` where it cannot be started."""
    process = await asyncio.create_subprocess_exec(
        *_command(transport, environment),
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        env=environment,
        cwd=transport.folder,
        start_new_session=True,
        limit=MESSAGE_LIMIT_BYTES,
    )
    try:
        yield Incoming(_Reader(process, traffic).read, traffic), Outgoing(_Writer(process, traffic).write)
    finally:
        await asyncio.shield(asyncio.ensure_future(_end(process)))


def _command(transport: StdioTransport, environment: dict[str, str]) -> list[str]:
    """The command line. On Linux the server goes with us even if we are killed: see `guard`."""
    program = shutil.which(transport.command, path=environment.get("PATH"))
    if program is None:
        raise FileNotFoundError(errno.ENOENT, "there is no such program")
    if sys.platform != "linux":
        return [program, *transport.args]
    # Relative programs are the worker's, whichever folder the server runs in.
    program = str(Path(program).absolute())
    return [sys.executable, "-I", "-S", str(Path(guard.__file__)), str(os.getpid()), program, *transport.args]


class _Reader:
    def __init__(self, process: Process, traffic: Traffic) -> None:
        assert process.stdout is not None
        self._lines = process.stdout
        self._traffic = traffic

    async def read(self) -> SessionMessage:
        """The next message. Lines that are none are counted and passed over."""
        from mcp.shared.message import SessionMessage
        from mcp_types import jsonrpc_message_adapter

        while True:
            try:
                line = await self._lines.readline()
            except (ValueError, OSError):  # a line beyond the limit, or a broken pipe
                raise StopAsyncIteration from None
            if not line:
                raise StopAsyncIteration
            try:
                return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
            except ValueError:
                await self._traffic.ignore()


class _Writer:
    def __init__(self, process: Process, traffic: Traffic) -> None:
        self._process = process
        self._traffic = traffic

    async def write(self, item: SessionMessage) -> None:
        import anyio

        pipe = self._process.stdin
        if pipe is None or self._process.returncode is not None:
            raise anyio.BrokenResourceError
        line = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        if is_call(item.message):
            self._traffic.call_sent = True
        try:
            pipe.write(line)
            await pipe.drain()
        except (OSError, RuntimeError):
            raise anyio.BrokenResourceError from None


async def _end(process: Process) -> None:
    """Let the server leave; then tell its whole group to; then kill what is left of the group."""
    if process.stdin is not None:
        with contextlib.suppress(OSError, RuntimeError):
            process.stdin.close()
    await _gone(process, LEAVE_SECONDS)
    # The group outlives its leader where the server left children behind, so it is signalled in any case.
    if _signal(process.pid, signal.SIGTERM):
        await _gone(process, LEAVE_SECONDS)
        _signal(process.pid, signal.SIGKILL)
    await _gone(process, LEAVE_SECONDS)
    process._transport.close()  # type: ignore[attr-defined]  # else a pipe that a stray holds keeps it open


async def _gone(process: Process, seconds: float) -> None:
    """Wait until the process and its group are gone, but no longer than this."""
    until = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < until:
        if process.returncode is not None and not _signal(process.pid, 0):
            return
        await asyncio.sleep(_LOOK_SECONDS)


def _signal(group: int, number: int) -> bool:
    """Signal the group; whether there was any of it left."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
