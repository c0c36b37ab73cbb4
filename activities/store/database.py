"""One async engine for SQLite and PostgreSQL, and the unit of work: one transaction, retried when it is safe to.

SQLite runs in WAL with `synchronous=FULL` (the journal must outlive a power cut) and takes the write lock when a
transaction begins, so two writers never deadlock half-way. PostgreSQL locks rows in one fixed order: the operation,
then resources by digest, then the session.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Connection, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, IntegrityError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlmodel.ext.asyncio.session import AsyncSession

from counterfoil.models.common import Clock, utc_now
from counterfoil.models.errors import ErrorCode, Unavailable

T = TypeVar("T")

BUSY_TIMEOUT_SECONDS = 10
RETRY_DELAYS_SECONDS = (0.05, 0.25, 1.0)
UNIQUE_VIOLATION = "23505"
"""PostgreSQL's name for it; SQLite, with its one writer, cannot meet it in work that looks before it inserts."""


def async_url(url: str) -> str:
    """A database URL with the async driver this package uses for it.

    Accepts `sqlite:///path` and `postgresql://…`; raises ValueError for any other database.
    """
    parsed = make_url(url)
    drivers = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+psycopg"}
    backend = parsed.get_backend_name()
    if backend not in drivers:
        raise ValueError(f"'{backend}' is not supported: use sqlite or postgresql")
    return parsed.set(drivername=drivers[backend]).render_as_string(hide_password=False)


class UnitOfWork:
    """One transaction: its session, the instant it counts as, and whether it may only read."""

    def __init__(self, session: AsyncSession, now: datetime, *, read_only: bool = False) -> None:
        self.session = session
        self.now = now
        self.read_only = read_only
        self.wakes: list[str] = []
        """Operations whose workflows should look at their rows again once this is committed."""


class Database:
    """The engine and its transactions."""

    def __init__(self, url: str, *, clock: Clock = utc_now, pool_size: int = 10) -> None:
        self.url = async_url(url)
        self.clock = clock
        self.is_sqlite = self.url.startswith("sqlite")
        self.engine = _sqlite_engine(self.url) if self.is_sqlite else _postgres_engine(self.url, pool_size)
        # SQLite has one writer: queue for it here, in order, instead of polling its lock.
        self._writer = asyncio.Lock() if self.is_sqlite else None

    async def close(self) -> None:
        await self.engine.dispose()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[UnitOfWork]:
        """One read-write transaction; commits unless the block raises."""
        if self._writer is None:
            async with self._open(read_only=False) as work:
                yield work
        else:
            async with self._writer, self._open(read_only=False) as work:
                yield work

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[UnitOfWork]:
        """One read-only transaction that sees a single state of the database."""
        async with self._open(read_only=True) as work:
            yield work

    @asynccontextmanager
    async def _open(self, *, read_only: bool) -> AsyncIterator[UnitOfWork]:
        options: dict[str, Any] = {"counterfoil_read_only": read_only}
        if not self.is_sqlite and read_only:
            options |= {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        async with self.engine.connect() as connection:
            await connection.execution_options(**options)
            async with AsyncSession(connection, expire_on_commit=False) as session:
                yield UnitOfWork(session, self.clock(), read_only=read_only)
                if not read_only:
                    await session.commit()

    async def run(self, work: Callable[[UnitOfWork], Awaitable[T]]) -> T:
        """Run an idempotent piece of work in a transaction, again if the database faltered.

        The work must find what an earlier, doubtful commit of itself left behind, because a commit whose reply was
        lost is tried again. Raises `Unavailable` (`STORE_UNAVAILABLE`) when the database stays away.
        """
        return await self._retried(self.transaction, work)

    async def read(self, work: Callable[[UnitOfWork], Awaitable[T]]) -> T:
        """Run a piece of reading on one snapshot, again if the database faltered."""
        return await self._retried(self.snapshot, work)

    async def _retried(self, opening: Callable[[], Any], work: Callable[[UnitOfWork], Awaitable[T]]) -> T:
        for delay in (*RETRY_DELAYS_SECONDS, None):
            try:
                async with opening() as unit:
                    result = await work(unit)
                return result
            except (DBAPIError, PoolTimeoutError, OSError) as error:
                if not _is_passing(error) or (delay is None and isinstance(error, IntegrityError)):
                    raise
                if delay is None:
                    raise Unavailable(
                        ErrorCode.STORE_UNAVAILABLE,
                        f"the database does not answer: {_reason(error)}",
                        subject=make_url(self.url).render_as_string(hide_password=True),
                        remedy="check that it runs and can be reached; this is tried again by itself",
                    ) from error
                await asyncio.sleep(delay)
        raise AssertionError("unreachable")


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


def _sqlite_engine(url: str) -> AsyncEngine:
    engine = create_async_engine(url, connect_args={"timeout": BUSY_TIMEOUT_SECONDS}, pool_size=8, max_overflow=8)

    @event.listens_for(engine.sync_engine, "connect")
    def _configure(connection: Any, _record: Any) -> None:
        # The driver must not begin transactions by itself: `_begin` below says how.
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "temp_store=MEMORY"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def _begin(connection: Connection) -> None:
        read_only = connection.get_execution_options().get("counterfoil_read_only", False)
        connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")

    return engine


def _postgres_engine(url: str, pool_size: int) -> AsyncEngine:
    return create_async_engine(url, pool_size=pool_size, max_overflow=pool_size, pool_pre_ping=True, pool_timeout=10)
