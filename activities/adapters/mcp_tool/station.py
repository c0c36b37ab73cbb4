"""Where connections live: one background thread with an event loop, started on first use.

An adapter's call has an event loop that ends with it; a server that runs a task must not. So every connection belongs
to a task of this loop that opens it, keeps it and closes it, whoever waits for what.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from counterfoil.activities.adapters.mcp_tool.connection import Connection, Unreachable, connected
from counterfoil.activities.adapters.mcp_tool.profile import ServerProfile
from counterfoil.activities.adapters.mcp_tool.questions import Questions

T = TypeVar("T")

MOST_KEPT = 64
"""Connections that are kept for tasks. Beyond that no further task is begun."""

KEPT_SECONDS = 24 * 3600.0
"""A connection kept for a task nobody looked at for so long is closed."""

CLOSING_SECONDS = 4.0
"""What closing a connection takes at most."""


class Line:
    """A connection, held open by a task of its own until it is closed."""

    def __init__(self, profile: ServerProfile, questions: Questions) -> None:
        self._profile = profile
        self._questions = questions
        self._done = asyncio.Event()
        self._opened: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
        self._opened.add_done_callback(lambda opened: opened.cancelled() or opened.exception())
        self._keeper = asyncio.create_task(self._keep())

    async def connection(self) -> Connection:
        """The connection, once the server has answered the handshake. Raises `Unreachable`."""
        return await asyncio.shield(self._opened)

    async def close(self) -> None:
        """Close the connection, and wait until the server is gone."""
        self._done.set()
        if not self._opened.done():
            self._keeper.cancel()
        await asyncio.wait([self._keeper])

    @property
    def ended(self) -> bool:
        return self._keeper.done()

    async def _keep(self) -> None:
        try:
            async with connected(self._profile, self._questions) as connection:
                if not self._opened.done():
                    self._opened.set_result(connection)
                await self._done.wait()
        except (Unreachable, asyncio.CancelledError) as error:
            if not self._opened.done():
                self._opened.set_exception(Unreachable(str(error) or "the connection was given up"))


class Station:
    """The loop, and the connections that are kept for tasks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._kept: dict[str, tuple[Line, float]] = {}

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the station's loop, from another one. Cancelling this cancels that."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._running()))

    @property
    def full(self) -> bool:
        """Whether no further task may be begun."""
        return len(self._kept) >= MOST_KEPT

    def keep(self, key: str, line: Line) -> None:
        """Keep a connection for the task it runs."""
        self._kept[key] = (line, self._now())

    async def kept(self, key: str) -> Line | None:
        """The connection kept for a task, if it still stands."""
        await self._drop_forgotten()
        found = self._kept.get(key)
        if found is None:
            return None
        line, _ = found
        if line.ended:
            del self._kept[key]
            return None
        self._kept[key] = (line, self._now())
        return line

    async def let_go(self, key: str) -> None:
        """Close the connection kept for a task."""
        found = self._kept.pop(key, None)
        if found is not None:
            await found[0].close()

    async def _drop_forgotten(self) -> None:
        forgotten = [key for key, (_, seen) in self._kept.items() if self._now() - seen > KEPT_SECONDS]
        for key in forgotten:
            await self.let_go(key)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="mcp", daemon=True).start()
                atexit.register(self.close)
            return self._loop

    def close(self) -> None:
        """Close every connection and end the loop. Blocking; tasks that servers run for us are lost with it."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is None:
            return
        atexit.unregister(self.close)
        closing = asyncio.run_coroutine_threadsafe(self._close_all(), loop)
        try:
            closing.result(2 * CLOSING_SECONDS)
        except TimeoutError:
            closing.cancel()
        loop.call_soon_threadsafe(loop.stop)

    async def _close_all(self) -> None:
        await asyncio.gather(*(self.let_go(key) for key in list(self._kept)))
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others, timeout=CLOSING_SECONDS)
