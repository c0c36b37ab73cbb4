"""A real Temporal server, and an event loop in a thread of its own that serves it: for a whole test session.

Tests may be synchronous or asynchronous, on whichever loop they like: nothing here runs on theirs.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from counterfoil.models.errors import ErrorCode, Unavailable
from counterfoil.worker.embedded import TemporalServer, temporal_server

T = TypeVar("T")

START_SECONDS = 90
STOP_SECONDS = 30
LAST_BREATH_SECONDS = 0.2
"""The Temporal client's own threads can crash an interpreter that ends right after it was used."""


class Background:
    """The loop in its thread, and the server's address."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.server: TemporalServer | None = None
        self._thread = threading.Thread(target=self.loop.run_forever, name="counterfoil testing", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T], timeout_seconds: float) -> T:
        """Run something on the loop, and wait for it here. Raises `Unavailable` (`TIMED_OUT`)."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        try:
            return future.result(timeout_seconds)
        except TimeoutError:
            if future.done():
                raise
            future.cancel()
            raise Unavailable(
                ErrorCode.TIMED_OUT,
                f"the stack under test gave no answer within {timeout_seconds:g} s",
                remedy="look at what the test waits for; give it longer, if it needs that",
            ) from None

    def close(self) -> None:
        """End the loop and its thread."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(STOP_SECONDS)
        if not self._thread.is_alive():
            self.loop.close()
        time.sleep(LAST_BREATH_SECONDS)


@contextmanager
def in_the_background(folder: Path) -> Iterator[Background]:
    """Run a server on a file in `folder` while the block runs. Raises `Unavailable` (`TEMPORAL_UNAVAILABLE`)."""
    background = Background()
    held = AsyncExitStack()
    try:
        server = temporal_server(folder / "temporal.db")
        background.server = background.run(held.enter_async_context(server), START_SECONDS)
        yield background
    finally:
        with contextlib.suppress(Unavailable):
            background.run(held.aclose(), STOP_SECONDS)
        background.close()
