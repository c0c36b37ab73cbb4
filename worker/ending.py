"""How processes here end: told to stop by signals, in order; and past the interpreter's own shutdown.

The Temporal core's threads can crash an interpreter that is shutting down (temporalio/sdk-python#300). A finished
command must report its own status every time, so every one ends by `os._exit`, once everything it said is flushed.
"""

from __future__ import annotations

import asyncio
import io
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NoReturn, TextIO

from counterfoil.worker.exit_codes import ExitCode

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class ReaderGone(Exception):
    """Whoever read what we write has closed the pipe: `counterfoil … | head` has seen enough."""


class Heard(io.TextIOWrapper):
    """A stream that says `ReaderGone`, which no library on the way takes for a failure of its own."""

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except BrokenPipeError:
            raise ReaderGone from None

    def flush(self) -> None:
        try:
            super().flush()
        except BrokenPipeError:
            raise ReaderGone from None


def heard(stream: TextIO | None) -> TextIO:
    """A standard stream as `Heard`; one that leads nowhere for a process that was started without it."""
    if stream is None:
        return Path(os.devnull).open("w")
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    encoding, errors, line_buffering = stream.encoding, stream.errors, stream.line_buffering
    return Heard(stream.detach(), encoding=encoding, errors=errors, line_buffering=line_buffering)


def end(status: int) -> NoReturn:
    """Flush what was said and end the process at once. A reader that went away is no failure; a full disk is."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except ReaderGone:
            continue
        except (OSError, ValueError):
            status = status or ExitCode.INTERNAL
    os._exit(status)


class Stop:
    """What a running process is told: nothing yet, or to stop."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.ready = False
        """Once it serves, a process stops by finishing what runs; before, its start is given up."""


async def until_stopped(
    story: Callable[[Stop], Awaitable[ExitCode]], *, told: Callable[[Stop], None], at_once: Callable[[], None]
) -> ExitCode:
    """Run `story`; the first SIGTERM, SIGINT or SIGHUP asks it to stop, a second one ends the process at once.

    `told` says so to people; `at_once` does what must not be left undone even then.
    """
    stop = Stop()
    running = asyncio.ensure_future(story(stop))

    def signalled(number: int) -> None:
        if stop.asked.is_set():
            at_once()
            end(128 + number)
        stop.asked.set()
        told(stop)
        if not stop.ready:
            running.cancel()

    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        # Under nohup a hang-up is ignored, and stays so.
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, signalled, number)
    try:
        return await running
    except asyncio.CancelledError:
        if not stop.asked.is_set():
            raise
        return ExitCode.OK
