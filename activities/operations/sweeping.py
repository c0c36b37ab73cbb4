"""The sweep: finds open operations whose workflow does not run, or whose turn has come unnoticed, and wakes them.

It runs when a worker starts and on a Temporal Schedule, so nobody keeps a timer as a safety net.
"""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import and_, or_, select

from counterfoil.activities.operations import claims
from counterfoil.activities.operations.engine import Engine, EngineStatus
from counterfoil.activities.operations.rows import resources_of
from counterfoil.activities.store.database import Database
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.operations.lifecycle import OPEN, State, Verification
from counterfoil.models.operations.record import Swept
from counterfoil.models.tables import OPERATIONS, OperationRow

PAGE = 200
OVERDUE = timedelta(minutes=1)


async def sweep(database: Database, engine: Engine) -> Swept:
    """Look at every unsettled row once."""
    seen = restarted = woken = doubted = 0
    after = ""
    while page := await database.read(lambda work, start=after: _page(work, start)):  # type: ignore[misc]
        for row in page:
            seen += 1
            match await engine.status(row.id):
                case EngineStatus.RUNNING:
                    if await database.read(lambda work, one=row: _may_go(work, one)):  # type: ignore[misc]
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
    return Swept(open_operations=seen, restarted=restarted, woken=woken, doubted=doubted)


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


async def _may_go(work: UnitOfWork, row: OperationRow) -> bool:
    # An instant that lies ahead was written by a wrong clock, and says as little as one that is long past.
    overdue = abs(work.now - row.updated_at) > OVERDUE
    if row.state == State.COMPLETED:
        # A late reply completed it, and the wake-up that went with it may have been lost.
        return overdue
    if row.state not in (State.PREPARING, State.QUEUED):
        return False
    if row.blocked is None:
        # A command moved it on, and the workflow's own record of that may have been lost with its worker.
        return overdue
    return await claims.are_free(work, row, claims.wanted(row.workspace, resources_of(row)))
