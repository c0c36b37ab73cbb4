"""One store for SQLite and PostgreSQL, and the unit of work: one transaction, retried when it is safe to.

PostgreSQL is spoken to asynchronously, and locks rows in one fixed order: the operation, then resources by digest, then
the session. SQLite answers in microseconds, so its units run where they are asked for; only its commits, and waiting
for another process's write lock, go to a thread. It runs in WAL with `synchronous=FULL` (the journal must
outlive a power cut), and takes the write lock when a transaction begins, so two writers never deadlock half-way.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, IntegrityError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from counterfoil.activities.fault_points import CommitFault
from counterfoil.activities.store.group_commit import BUSY_TIMEOUT_SECONDS, GroupCommit
from counterfoil.activities.store.unit import UnitOfWork, awaited_unit, direct_unit
from counterfoil.models.common import Clock, utc_now
from counterfoil.models.errors import ErrorCode, Unavailable

T = TypeVar("T")

RETRY_DELAYS_SECONDS = (0.05, 0.25, 1.0)
UNIQUE_VIOLATION = "23505"
"""PostgreSQL's name for it; SQLite, with its one writer, cannot meet it in work that looks before it inserts."""


class Database:
    """The engine and its transactions. Opens no connection before the first one."""

    def __init__(
        self,
        url: str,
        *,
        clock: Clock = utc_now,
        pool_size: int = 10,
        enqueued: Callable[[], None] | None = None,
        commit_fault: CommitFault | None = None,
    ) -> None:
        """`url` is `sqlite:///path` or `postgresql://…`; raises ValueError for any other database.

        Where `enqueued` is given, changes are announced in the outbox, and it is called after each commit that put
        something there.
        """
        parsed = make_url(url)
        self.url = parsed.render_as_string(hide_password=True)
        self.clock = clock
        self._enqueued = enqueued
        self._commit_fault = commit_fault
        self.on_sqlite = parsed.get_backend_name() == "sqlite"
        self._direct: Engine | None = None
        self._writer: GroupCommit | None = None
        self._async: AsyncEngine | None = None
        if self.on_sqlite:
            self._direct = _sqlite_engine(parsed.set(drivername="sqlite").render_as_string())
            self._writer = GroupCommit(self._direct, lambda: self.clock(), announces=self.announces)
        elif parsed.get_backend_name() == "postgresql":
            self._async = _postgres_engine(
                parsed.set(drivername="postgresql+psycopg").render_as_string(hide_password=False), pool_size
            )
        else:
            raise ValueError(f"'{parsed.get_backend_name()}' is not supported: use sqlite or postgresql")

    @property
    def announces(self) -> bool:
        """Whether changes are announced in the outbox."""
        return self._enqueued is not None

    async def close(self) -> None:
        """Give up all connections."""
        if self._direct is not None:
            self._direct.dispose()
        if self._async is not None:
            await self._async.dispose()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[UnitOfWork]:
        """One read-write transaction; commits unless the block raises."""
        opened = self._on_postgres() if self._writer is None else self._writer.alone()
        async with opened as work:
            yield work

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[UnitOfWork]:
        """One read-only transaction that sees a single state of the database."""
        opened = self._on_postgres(read_only=True) if self._direct is None else self._looking_at_sqlite(self._direct)
        async with opened as work:
            yield work

    @asynccontextmanager
    async def _looking_at_sqlite(self, engine: Engine) -> AsyncIterator[UnitOfWork]:
        with engine.connect() as connection:
            connection.execution_options(counterfoil_read_only=True)
            # Begun here: prepared statements go to the driver itself, which begins nothing.
            with connection.begin():
                yield direct_unit(connection, self.clock(), read_only=True)

    @asynccontextmanager
    async def _on_postgres(self, *, read_only: bool = False) -> AsyncIterator[UnitOfWork]:
        assert self._async is not None
        options: dict[str, Any] = {}
        if read_only:
            options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        async with self._async.connect() as connection:
            await connection.execution_options(**options)
            work = awaited_unit(connection, self.clock(), read_only=read_only, announces=self.announces)
            yield work
            if not read_only:
                await work.write()
                await connection.commit()

    async def run(self, work: Callable[[UnitOfWork], Awaitable[T]]) -> T:
        """Run an idempotent piece of work in a transaction, again if the database faltered.

        The work must find what an earlier, doubtful commit of itself left behind, because a commit whose reply was
        lost is tried again. Raises `Unavailable` (`STORE_UNAVAILABLE`) when the database stays away.
        """
        run = partial(_in, self.transaction) if self._writer is None else self._writer.run
        if self._commit_fault is not None:
            run = partial(_doubted, self._commit_fault, run)
        if self._enqueued is None:
            return await self._retried(run, work)

        async def noting(unit: UnitOfWork) -> T:
            units.append(unit)
            return await work(unit)

        units: list[UnitOfWork] = []
        result: T = await self._retried(run, noting)
        if units[-1].enqueued:
            self._enqueued()
        return result

    async def read(self, work: Callable[[UnitOfWork], Awaitable[T]]) -> T:
        """Run a piece of reading on one snapshot, again if the database faltered."""
        return await self._retried(partial(_in, self.snapshot), work)

    async def _retried(
        self,
        run: Callable[[Callable[[UnitOfWork], Awaitable[T]]], Awaitable[T]],
        work: Callable[[UnitOfWork], Awaitable[T]],
    ) -> T:
        for delay in (*RETRY_DELAYS_SECONDS, None):
            try:
                return await run(work)
            except (DBAPIError, PoolTimeoutError, OSError) as error:
                if not _is_passing(error) or (delay is None and isinstance(error, IntegrityError)):
                    raise
                if delay is None:
                    raise Unavailable(
                        ErrorCode.STORE_UNAVAILABLE,
                        f"the database does not answer: {_reason(error)}",
                        subject=self.url,
                        remedy="check that it runs and can be reached; this is tried again by itself",
                    ) from error
                await asyncio.sleep(delay)
        raise AssertionError("unreachable")


async def _in(opening: Callable[[], Any], work: Callable[[UnitOfWork], Awaitable[T]]) -> T:
    async with opening() as unit:
        return await work(unit)


async def _doubted(
    fault: CommitFault,
    opening: Callable[[Callable[[UnitOfWork], Awaitable[tuple[T, Any]]]], Awaitable[tuple[T, Any]]],
    work: Callable[[UnitOfWork], Awaitable[T]],
) -> T:
    async def watched(unit: UnitOfWork) -> tuple[T, Any]:
        fault.begun()
        return await work(unit), fault.worked()

    result, doubted = await opening(watched)
    if doubted is not None:
        fault.committed(doubted)
    return result


def _reason(error: BaseException) -> str:
    said = str(getattr(error, "orig", None) or error).strip() or type(error).__name__
    return said.splitlines()[0][:300]


def _is_passing(error: BaseException) -> bool:
    """Whether trying again may help: lost connections, locks, deadlocks, serialisation failures.

    So does a row that another transaction made first: tried again, the work finds it.
    """
    if isinstance(error, OSError | PoolTimeoutError):
        return True
    if isinstance(error, IntegrityError):
        return getattr(error.orig, "sqlstate", None) == UNIQUE_VIOLATION
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return True
    return isinstance(error, OperationalError | InterfaceError) and "no such table" not in str(error)


def _sqlite_engine(url: str) -> Engine:
    engine = create_engine(
        url, connect_args={"timeout": BUSY_TIMEOUT_SECONDS, "check_same_thread": False}, pool_size=8, max_overflow=8
    )

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: Any) -> None:
        # The driver must not begin transactions by itself: `_begin` below says how.
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "temp_store=MEMORY"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        read_only = connection.get_execution_options().get("counterfoil_read_only", False)
        connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")

    return engine


def _postgres_engine(url: str, pool_size: int) -> AsyncEngine:
    return create_async_engine(url, pool_size=pool_size, max_overflow=pool_size, pool_pre_ping=True, pool_timeout=10)
