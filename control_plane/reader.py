"""Reading operations: what needs the database only, and works while Temporal is away. Light to import."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Self

from counterfoil.activities.operations import permissions, records
from counterfoil.activities.store.database import Database
from counterfoil.activities.store.ledger import HistoryGap
from counterfoil.control_plane.settings import ConnectionSettings, load_settings
from counterfoil.models.errors import ErrorCode, Unavailable
from counterfoil.models.operations import lifecycle
from counterfoil.models.operations.lifecycle import State
from counterfoil.models.operations.record import LedgerEntry, Operation, OperationSummary, SessionRecord
from counterfoil.models.operations.tools import PermissionRecord

WATCH_POLL_SECONDS = 0.1


class OperationReader:
    """Operations of one deployment, to look at."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Give up the database connections."""
        await self._database.close()

    async def get(self, operation_id: str) -> Operation:
        """The whole record. Raises `Refusal` (`NOT_FOUND`)."""
        return await self._database.read(lambda work: records.whole(work, operation_id))

    async def operations(
        self,
        *,
        workspace: str | None = None,
        session: str | None = None,
        states: Sequence[State] = (),
        limit: int = 100,
    ) -> list[OperationSummary]:
        """The newest operations that fit, newest first."""
        return await self._database.read(
            lambda work: records.summaries(work, workspace=workspace, session=session, states=states, limit=limit)
        )

    async def session(self, session: str) -> SessionRecord:
        """How a session stands: its epoch, and whether it is paused. Raises `Refusal` (`NOT_FOUND`)."""
        return await self._database.read(lambda work: records.session_of(work, session))

    async def history(self, operation_id: str, *, after: int = 0) -> list[LedgerEntry] | HistoryGap:
        """What happened to an operation after a version, oldest first; a `HistoryGap` where some was trimmed."""
        return await self._database.read(lambda work: records.entries(work, operation_id, after=after))

    async def permissions(self, session: str) -> list[PermissionRecord]:
        """Everything that was said of tools in a session; a tool that is not in it stands at its own default."""
        return await self._database.read(lambda work: permissions.said_in(work, session))

    async def watch(
        self, operation_id: str, *, after: int = 0, until_person: bool = False
    ) -> AsyncIterator[LedgerEntry]:
        """What happens to an operation, as it happens, until it is settled (or, if asked, until it awaits a person)."""
        while True:
            operation = await self.get(operation_id)
            entries = await self.history(operation_id, after=after)
            if isinstance(entries, HistoryGap):
                after = entries.floor
                continue
            for entry in entries:
                after = entry.version
                yield entry
            ended = is_settled(operation) or (until_person and awaits_person(operation))
            if ended and after >= operation.version:
                return
            await asyncio.sleep(WATCH_POLL_SECONDS)

    async def wait(self, operation_id: str, *states: State, timeout_seconds: float | None = None) -> Operation:
        """The operation once it is in one of `states`; with none given, once it is settled (or awaits a person).

        Raises `Unavailable` (`TIMED_OUT`).
        """
        deadline = None if timeout_seconds is None else asyncio.get_running_loop().time() + timeout_seconds
        while True:
            operation = await self.get(operation_id)
            if operation.state in states or (not states and (is_settled(operation) or awaits_person(operation))):
                return operation
            if deadline is not None and asyncio.get_running_loop().time() > deadline:
                raise Unavailable(
                    ErrorCode.TIMED_OUT,
                    f"the operation is still '{operation.state}' after {timeout_seconds:g} s",
                    subject=operation_id,
                    remedy="check that a worker runs; the operation itself goes on",
                )
            await asyncio.sleep(WATCH_POLL_SECONDS)


def is_settled(operation: OperationSummary) -> bool:
    """Whether nothing more happens to it by itself: closed, and where completed, not awaiting a verification."""
    return lifecycle.is_settled(operation.state, operation.verification) and not operation.reverifying


def awaits_person(operation: Operation) -> bool:
    """Whether it waits for a person: a decision, a revision, an attestation, or a push."""
    if operation.state is State.UNKNOWN:
        return operation.observation_exhausted or not operation.route.observation
    return operation.state in (State.AWAITING_DECISION, State.REVISION_REQUESTED, State.HELD, State.PREPARED)


def open_reader(settings: ConnectionSettings | None = None) -> OperationReader:
    """A reader of the deployment the settings name. Raises what `require_store` and `load_settings` raise."""
    chosen = settings or load_settings(ConnectionSettings)
    require_store(chosen)
    return OperationReader(Database(chosen.database))


def require_store(settings: ConnectionSettings) -> None:
    """Refuse to make a new, empty store where one was expected. Raises `Unavailable` (`STORE_UNAVAILABLE`)."""
    if settings.database_url is None and not (settings.state_dir / "counterfoil.db").exists():
        raise Unavailable(
            ErrorCode.STORE_UNAVAILABLE,
            f"there is no store in '{settings.state_dir}'",
            subject=str(settings.state_dir),
            remedy="`counterfoil dev` starts a stack here; or set COUNTERFOIL_STATE_DIR or COUNTERFOIL_DATABASE_URL",
        )
