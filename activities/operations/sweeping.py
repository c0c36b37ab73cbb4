"""The sweep: finds open operations whose workflow does not run, or whose turn has come unnoticed, and wakes them.

It runs when a worker starts and on a Temporal Schedule, so nobody keeps a timer as a safety net.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

from sqlalchemy import and_, or_, select

from counterfoil.activities.deliveries import outbox
from counterfoil.activities.operations import claims, guards
from counterfoil.activities.operations.engine import Engine, EngineStatus
from counterfoil.activities.operations.rows import is_settled, resources_of, route_of
from counterfoil.activities.store.database import Database
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.operations import rules
from counterfoil.models.operations.lifecycle import OPEN, Cancellation, State, Verification
from counterfoil.models.operations.record import Swept
from counterfoil.models.tables import OPERATIONS, OperationRow, SessionRow

PAGE = 200
OVERDUE = timedelta(minutes=1)


CallOff = Callable[[str, int], Awaitable[None]]
"""Asks an operation to end because its session's work was cancelled up to an epoch."""


async def sweep(database: Database, engine: Engine, call_off: CallOff) -> Swept:
    """Look once at every unsettled row, at every workflow that runs on without one, and at the outbox."""
    unsettled, restarted, woken, doubted = set[str](), 0, 0, 0
    after = ""
    while page := await database.read(lambda work, start=after: _page(work, start)):  # type: ignore[misc]
        for row in page:
            unsettled.add(row.id)
            match await engine.status(row.id):
                case EngineStatus.RUNNING:
                    if (epoch := await database.read(lambda work, one=row: _called_off(work, one))) is not None:  # type: ignore[misc]
                        await call_off(row.id, epoch)
                        woken += 1
                    elif await database.read(lambda work, one=row: _may_go(work, one)):  # type: ignore[misc]
                        await engine.wake(row.id)
                        woken += 1
                case EngineStatus.FINISHED | EngineStatus.BEHIND:
                    # It may have been settled, and so finished, since the page was read.
                    if await database.read(lambda work, one=row: _is_unsettled(work, one)):  # type: ignore[misc]
                        await engine.doubt(row.id)
                        doubted += 1
                case EngineStatus.STOPPED | EngineStatus.MISSING:
                    await engine.wake(row.id)
                    restarted += 1
        after = page[-1].id
    async for operation_id in engine.running():
        # Somebody else settled its row (one that took its place, say), and the wake-up was lost.
        if operation_id not in unsettled and await database.read(lambda work, one=operation_id: _has_ended(work, one)):  # type: ignore[misc]
            await engine.wake(operation_id)
            woken += 1
    if database.announces and await database.read(outbox.is_overdue):
        await engine.deliver()
    return Swept(open_operations=len(unsettled), restarted=restarted, woken=woken, doubted=doubted)


async def _has_ended(work: UnitOfWork, operation_id: str) -> bool:
    row = await work.session.get(OperationRow, operation_id)
    return row is not None and is_settled(row) and not row.reverify and _is_overdue(work, row)


UNSETTLED = or_(
    OPERATIONS.c.state.in_(OPEN),
    and_(OPERATIONS.c.state == State.COMPLETED, OPERATIONS.c.verification == Verification.PENDING),
)


async def _page(work: UnitOfWork, after: str) -> list[OperationRow]:
    query = select(OPERATIONS).where(UNSETTLED, OPERATIONS.c.id > after).order_by(OPERATIONS.c.id).limit(PAGE)
    return await work.session.all(OperationRow, query)


async def _is_unsettled(work: UnitOfWork, row: OperationRow) -> bool:
    query = select(OPERATIONS.c.id).where(UNSETTLED, OPERATIONS.c.id == row.id)
    return (await work.session.execute(query)).first() is not None


async def _called_off(work: UnitOfWork, row: OperationRow) -> int | None:
    """The epoch in which an operation's session goes on without it, where it has not heard of that."""
    session = await work.session.get(SessionRow, row.session)
    late = session is not None and row.epoch < session.epoch and row.cancellation == Cancellation.NONE
    return session.epoch if session is not None and late and row.state in OPEN else None


async def _may_go(work: UnitOfWork, row: OperationRow) -> bool:
    overdue = _is_overdue(work, row)
    if row.state == State.COMPLETED:
        # A late reply completed it, and the wake-up that went with it may have been lost.
        return overdue
    if row.state == State.UNKNOWN:
        # It was to be looked at once more, and whoever was told of that is gone.
        observed = route_of(row).observation and not row.observation_exhausted
        return observed and rules.has_gone_silent(row.updated_at, row.poll_after_seconds, work.now)
    if row.state not in (State.PREPARING, State.QUEUED):
        return False
    if row.blocked is None:
        # A command moved it on, and the workflow's own record of that may have been lost with its worker.
        return overdue
    if (blocked := await guards.in_the_way(work, row)) is not None:
        return blocked.code in guards.FINAL
    needs = claims.wanted(row.workspace, resources_of(row), read_only=route_of(row).read_only)
    return await claims.are_free(work, row, needs)


def _is_overdue(work: UnitOfWork, row: OperationRow) -> bool:
    # An instant that lies ahead was written by a wrong clock, and says as little as one that is long past.
    return abs(work.now - row.updated_at) > OVERDUE
