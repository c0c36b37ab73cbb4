"""The unit of work: what one transaction is given, on either database."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection

from counterfoil.activities.store.prepared import Found, Parameters, Prepared, found_by, run_on_sqlite
from counterfoil.activities.store.session import Statement, StoreSession


class UnitOfWork:
    """One transaction: its session, the instant it counts as, and whether it may only read.

    What is added or changed is written once, at the end, or where `session.flush` is called. After it comes what
    `last` names: rows that everybody needs are locked last.
    """

    def __init__(
        self,
        session: StoreSession,
        now: datetime,
        *,
        on_sqlite: bool = True,
        read_only: bool = False,
        announces: bool = False,
    ) -> None:
        self.session = session
        self.now = now
        self.on_sqlite = on_sqlite
        self.read_only = read_only
        self.announces = announces
        """Whether anybody is told of changes."""
        self.closing: dict[str, Callable[[], None]] = {}
        """What can be said of a subject only when all of the unit's changes to it are made."""
        self.enqueued = False
        """Whether something was put into the outbox."""
        self.wakes: list[str] = []
        """Operations whose workflows should look at their rows again once this is committed."""
        self.last: list[Callable[[], Awaitable[None]]] = []
        self.entries: dict[tuple[str, str], list[dict[str, Any]]] = {}
        """Ledger entries to be written last, by session and workspace."""

    async def write(self) -> None:
        """Write everything that is not written yet."""
        for close in self.closing.values():
            close()
        self.closing.clear()
        await self.session.flush()
        for write in self.last:
            await write()
        self.last.clear()


def direct_unit(
    connection: Connection, now: datetime, *, read_only: bool = False, announces: bool = False
) -> UnitOfWork:
    """A unit on a blocking connection that answers without waiting, which is SQLite's."""

    driver: Any = connection.connection.driver_connection

    async def execute(statement: Statement, params: Parameters = None) -> Found:
        if isinstance(statement, Prepared):
            return run_on_sqlite(driver, statement, params)
        return found_by(connection.execute(statement, params))

    return UnitOfWork(StoreSession(execute), now, on_sqlite=True, read_only=read_only, announces=announces)


def awaited_unit(
    connection: AsyncConnection, now: datetime, *, read_only: bool = False, announces: bool = False
) -> UnitOfWork:
    """A unit on a connection that is waited for, which is PostgreSQL's."""

    async def execute(statement: Statement, params: Parameters = None) -> Found:
        plain = statement.statement if isinstance(statement, Prepared) else statement
        return found_by(await connection.execute(plain, params))

    return UnitOfWork(StoreSession(execute), now, on_sqlite=False, read_only=read_only, announces=announces)
