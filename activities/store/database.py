"""One store for SQLite and PostgreSQL, and the unit of work: one transaction, retried when it is safe to.

PostgreSQL is spoken to asynchronously, and locks rows in one fixed order: the operation, then resources by digest, then
the session. SQLite answers in microseconds, so its units run where they are asked for; only waiting for another
process's write lock goes to a thread. It runs in WAL with `synchronous=FULL` (the journal must
outlive a power cut), and takes the write lock when a transaction begins, so two writers never deadlock half-way.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, TypeVar, cast

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, IntegrityError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlmodel import Session
from sqlmodel.ext.asyncio.session import AsyncSession

from counterfoil.activities.store.session import DirectSession, StoreSession
from counterfoil.models.common import Clock, utc_now
from counterfoil.models.errors import ErrorCode, Unavailable

T = TypeVar("T")

BUSY_TIMEOUT_SECONDS = 10
RETRY_DELAYS_SECONDS = (0.05, 0.25, 1.0)
UNIQUE_VIOLATION = "23505"
"""PostgreSQL's name for it; SQLite, with its one writer, cannot meet it in work that looks before it inserts."""


class UnitOfWork:
    """One transaction: its session, the instant it counts as, and whether it may only read.

    What is added or changed is written once, at the end, or where `session.flush` is called.
    """

    def __init__(
        self, session: StoreSession, now: datetime, *, on_sqlite: bool = True, read_only: bool = False
    ) -> None:
        self.session = session
        self.now = now
        self.on_sqlite = on_sqlite
        self.read_only = read_only
        self.wakes: list[str] = []
        """Operations whose workflows should look at their rows again once this is committed."""


class Database:
    """The engine and its transactions. Opens no connection before the first one."""

    def __init__(self, url: str, *, clock: Clock = utc_now, pool_size: int = 10) -> None:
        """`url` is `sqlite:///path` or `postgresql://…`; raises ValueError for any other database."""
        parsed = make_url(url)
        self.url = parsed.render_as_string(hide_password=True)
        self.clock = clock
        self.on_sqlite = parsed.get_backend_name() == "sqlite"
        self._direct: Engine | None = None
        self._async: AsyncEngine | None = None
        if self.on_sqlite:
            self._direct = _sqlite_engine(parsed.set(drivername="sqlite").render_as_string())
        elif parsed.get_backend_name() == "postgresql":
            self._async = _postgres_engine(
                parsed.set(drivername="postgresql+psycopg").render_as_string(hide_password=False), pool_size
            )
        else:
            raise ValueError(f"'{parsed.get_backend_name()}' is not supported: use sqlite or postgresql")
        # SQLite has one writer: queue for it here, in order, instead of polling its lock.
        self._writer = asyncio.Lock()

    async def close(self) -> None:
        """Give up all connections."""
        if self._direct is not None:
            self._direct.dispose()
        if self._async is not None:
            await self._async.dispose()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[UnitOfWork]:
        """One read-write transaction; commits unless the block raises."""
        if self._direct is None:
            async with self._postgres_unit(read_only=False) as work:
                yield work
        else:
            async with self._writer, self._sqlite_unit(self._direct, read_only=False) as work:
                yield work

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[UnitOfWork]:
        """One read-only transaction that sees a single state of the database."""
        if self._direct is None:
            async with self._postgres_unit(read_only=True) as work:
                yield work
        else:
            async with self._sqlite_unit(self._direct, read_only=True) as work:
                yield work

    @asynccontextmanager
    async def _sqlite_unit(self, engine: Engine, *, read_only: bool) -> AsyncIterator[UnitOfWork]:
        connection = engine.connect().execution_options(counterfoil_read_only=read_only)
        try:
            if read_only:
                connection.begin()
            else:
                await _begin_writing(connection)
            with Session(
                connection, expire_on_commit=False, autoflush=False, join_transaction_mode="control_fully"
            ) as session:
                yield UnitOfWork(DirectSession(session), self.clock(), on_sqlite=True, read_only=read_only)
                if not read_only:
                    session.commit()
        finally:
            connection.close()

    @asynccontextmanager
    async def _postgres_unit(self, *, read_only: bool) -> AsyncIterator[UnitOfWork]:
        assert self._async is not None
        options: dict[str, Any] = {}
        if read_only:
            options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        async with self._async.connect() as connection:
            await connection.execution_options(**options)
            async with AsyncSession(connection, expire_on_commit=False, autoflush=False) as session:
                yield UnitOfWork(cast(StoreSession, session), self.clock(), on_sqlite=False, read_only=read_only)
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
                        subject=self.url,
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


async def _begin_writing(connection: Connection) -> None:
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
