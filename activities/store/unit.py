"""The unit of work: what one transaction is given, on either database."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, CursorResult, Executable

from counterfoil.activities.store.session import Parameters, StoreSession


class UnitOfWork:
    """One transaction: its session, the instant it counts as, and whether it may only read.

    What is added or changed is written once, at the end, or where `session.flush` is called. After it comes what
    `last` names: rows that everybody needs are locked last.
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
        self.last: list[Callable[[], Awaitable[None]]] = []
        self.entries: dict[tuple[str, str], list[dict[str, Any]]] = {}
        """Ledger entries to be written last, by session and workspace."""

    async def write(self) -> None:
        """Write everything that is not written yet."""
        await self.session.flush()
        for write in self.last:
            await write()
        self.last.clear()


def direct_unit(connection: Connection, now: datetime, *, read_only: bool = False) -> UnitOfWork:
    """A unit on a blocking connection that answers without waiting, which is SQLite's."""

    async def execute(statement: Executable, params: Parameters = None) -> CursorResult[Any]:
        return connection.execute(statement, params)

    return UnitOfWork(StoreSession(execute), now, on_sqlite=True, read_only=read_only)
