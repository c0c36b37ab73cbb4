"""One commit for all units that wait for the writer: a commit waits for the disk, and the disk serves many as one.

SQLite has one writer. While one group's commit is on its way to the disk, in a thread, further units gather; they are
the next group. Within a group each unit has a savepoint, so one that fails takes none along. Nobody is told that a
unit is done before its group is on the disk.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import OperationalError

from counterfoil.activities.store.unit import UnitOfWork, direct_unit
from counterfoil.models.common import Clock

T = TypeVar("T")
Unit = Callable[[UnitOfWork], Awaitable[Any]]

BUSY_TIMEOUT_SECONDS = 10
GROUP_LIMIT = 32


class GroupCommit:
    """SQLite's writer."""

    def __init__(self, engine: Engine, clock: Clock, *, announces: bool = False) -> None:
        self._engine = engine
        self._clock = clock
        self._announces = announces
        self._waiting: deque[tuple[Unit, asyncio.Future[Any]]] = deque()
        self._turn = asyncio.Lock()
        self._serving: asyncio.Task[None] | None = None

    async def run(self, unit: Callable[[UnitOfWork], Awaitable[T]]) -> T:
        """Run a unit and return what it returned, once that is on the disk."""
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append((unit, done))
        if self._serving is None:
            self._serving = asyncio.create_task(self._serve())
        return await done

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[UnitOfWork]:
        """A transaction that shares its commit with none; commits unless the block raises."""
        async with self._turn:
            with self._engine.connect() as connection:
                await _begin(connection)
                work = direct_unit(connection, self._clock(), announces=self._announces)
                yield work
                await work.write()
                await _in_thread(connection.commit)

    async def _serve(self) -> None:
        """Group after group, until nobody waits."""
        group: list[tuple[Unit, asyncio.Future[Any]]] = []
        try:
            while self._waiting:
                async with self._turn:
                    group = [self._waiting.popleft() for _ in range(min(len(self._waiting), GROUP_LIMIT))]
                    await self._commit(group)
        finally:
            self._serving = None
            for _, done in [*group, *self._waiting]:
                done.cancel()  # only where the loop is ending: each is done otherwise
            self._waiting.clear()

    async def _commit(self, group: list[tuple[Unit, asyncio.Future[Any]]]) -> None:
        try:
            with self._engine.connect() as connection:
                await _begin(connection)
                results = [
                    (done, await self._savepoint(connection, unit, done))
                    for unit, done in group
                    if not done.cancelled()
                ]
                await _in_thread(connection.commit)
        except BaseException as error:
            for _, done in group:
                if not done.done():
                    done.set_exception(error)
            if not isinstance(error, Exception):
                raise
        else:
            for done, result in results:
                if not done.done():
                    done.set_result(result)

    async def _savepoint(self, connection: Connection, unit: Unit, done: asyncio.Future[Any]) -> Any:
        """Run one unit of a group; where it fails, it alone is undone and told."""
        driver: Any = connection.connection.driver_connection
        driver.execute("SAVEPOINT unit")
        try:
            work = direct_unit(connection, self._clock(), announces=self._announces)
            result = await unit(work)
            await work.write()
        except BaseException as error:
            driver.execute("ROLLBACK TO unit")
            if not done.done():
                done.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return None
        driver.execute("RELEASE unit")
        return result


async def _begin(connection: Connection) -> None:
    """Take SQLite's write lock here where it is free, which it is unless another process writes: then wait elsewhere.

    A trip to a thread and back would keep the lock for as long as the threads quarrel about the interpreter.
    """
    driver: Any = connection.connection.driver_connection
    driver.execute("PRAGMA busy_timeout=0")
    try:
        connection.begin()
        taken = True
    except OperationalError:
        taken = False
    driver.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_SECONDS * 1000}")
    if not taken:
        await _in_thread(connection.begin)


async def _in_thread(wait: Callable[[], T]) -> T:
    """Run something that may wait in a thread, to its end even when this task is cancelled meanwhile."""
    running = asyncio.get_running_loop().run_in_executor(None, wait)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise
