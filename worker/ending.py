"""How processes here end: told to stop by signals, in order; and past the interpreter's own shutdown.

The Temporal core's threads can crash an interpreter that is shutting down (temporalio/sdk-python#300). A finished
command must report its own status every time, so every one ends by `os._exit`, once everything it said is flushed.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import NoReturn

from counterfoil.worker.exit_codes import ExitCode

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def end(status: int) -> NoReturn:
    """Flush what was said and end the process at once. A reader that went away is no failure; a full disk is."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError) as error:
            if getattr(error, "errno", None) != errno.EPIPE:
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
