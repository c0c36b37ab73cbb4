"""What must hold, besides free resources, before an operation begins.

Its owner goes on, what it depends on is completed and verified, and what it assumed has not changed.

`in_the_way` only looks; `may_begin` takes what it says into the row, in the transaction that would grant a dispatch.
"""

from __future__ import annotations

from sqlalchemy import bindparam, select

from counterfoil.activities.operations import claims, dependencies
from counterfoil.activities.operations.rows import move, problem_json, request_of
from counterfoil.activities.store import ledger
from counterfoil.activities.store.prepared import Prepared
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.errors import ErrorCode, Refusal
from counterfoil.models.operations.contract import OperationRequest, Owner
from counterfoil.models.operations.lifecycle import Cancellation, Event
from counterfoil.models.operations.view import Blocked
from counterfoil.models.tables import LEDGER, OperationRow, SessionRow

FINAL = frozenset({ErrorCode.OWNER_CANCELLED, ErrorCode.DEPENDENCY_FAILED, ErrorCode.STALE_ASSUMPTIONS})
"""What does not pass by waiting: it ends the operation."""

_CHANGED = Prepared(
    select(LEDGER.c.version)
    .where(
        LEDGER.c.subject_kind == ledger.OPERATION,
        LEDGER.c.subject_id == bindparam("subject"),
        LEDGER.c.version > bindparam("version"),
        LEDGER.c.material.is_(True),
    )
    .limit(1)
)


async def in_the_way(work: UnitOfWork, row: OperationRow) -> Blocked | None:
    """What keeps an operation from being dispatched, its resources aside; None where nothing does."""
    session = await work.session.get(SessionRow, row.session)
    if session is not None and row.epoch < session.epoch:
        return Blocked(code=ErrorCode.OWNER_CANCELLED, detail="its session's work was cancelled")
    if session is not None and session.paused:
        return Blocked(code=ErrorCode.OWNER_PAUSED, detail="its session is paused")
    if row.first_dispatched_at is not None:
        return None
    request = request_of(row)
    if request.depends_on and (waits := await dependencies.in_the_way(work, row.id)) is not None:
        return waits
    for assumed in request.assumptions:
        asked = {"subject": assumed.subject, "version": assumed.version}
        if (await work.session.execute(_CHANGED, asked)).rows:
            detail = f"{assumed.subject} has changed since version {assumed.version}, which the request assumed"
            return Blocked(code=ErrorCode.STALE_ASSUMPTIONS, detail=detail)
    return None


async def may_begin(work: UnitOfWork, row: OperationRow) -> bool:
    """Whether nothing is in the way. Where something is, the row says what: it is blocked, or has ended."""
    return await _taken_in(work, row, await in_the_way(work, row))


async def may_prepare(work: UnitOfWork, row: OperationRow) -> bool:
    """The same before a preparation that has no effect: it needs what it depends on, and nothing else."""
    if (waits := await dependencies.in_the_way(work, row.id)) is None:
        row.blocked = None
    return await _taken_in(work, row, waits)


async def _taken_in(work: UnitOfWork, row: OperationRow, found: Blocked | None) -> bool:
    if found is None:
        return True
    row.blocked = found.model_dump_json()
    # Whatever it stood in line for is not kept from others; its place it will have again.
    await claims.release(work, row.id)
    if found.code is ErrorCode.OWNER_CANCELLED:
        row.cancellation = Cancellation.CONFIRMED
        await move(work, row, Event.CANCEL_LOCALLY, "cancelled with its session's work")
    elif found.code in FINAL:
        row.problem = problem_json(found.code, found.detail)
        await move(work, row, Event.REPORT_FAILED, found.detail, data={"code": found.code})
    return False


async def refuse_owner(work: UnitOfWork, owner: Owner) -> None:
    """Refuse what a cancelled run asks for. Raises `Refusal` (`OWNER_CANCELLED`, `BAD_REQUEST`)."""
    session = await work.session.get(SessionRow, owner.session)
    epoch = 0 if session is None else session.epoch
    if owner.epoch < epoch:
        raise Refusal(
            ErrorCode.OWNER_CANCELLED,
            f"the session's work was cancelled; a run that begins now asks in epoch {epoch}",
            subject=owner.session,
            remedy=f"stop; an explicit follow-up run passes owner.epoch {epoch}",
        )
    if owner.epoch > epoch:
        raise Refusal(
            ErrorCode.BAD_REQUEST,
            f"the session is in epoch {epoch}, not in {owner.epoch}",
            subject=owner.session,
            remedy=f"pass owner.epoch {epoch}",
        )


async def refuse_direct_change(work: UnitOfWork, owner: Owner) -> None:
    """Refuse a change outside any operation where its session was cancelled or is paused: it cannot wait."""
    await refuse_owner(work, owner)
    session = await work.session.get(SessionRow, owner.session)
    if session is not None and session.paused:
        raise Refusal(
            ErrorCode.OWNER_PAUSED,
            "the session is paused",
            subject=owner.session,
            remedy="make it an operation, which waits; or resume the session",
        )


async def refuse_assumptions(work: UnitOfWork, request: OperationRequest) -> None:
    """Refuse assumptions about nothing. Raises `Refusal` (`NOT_FOUND`, `BAD_REQUEST`)."""
    for assumed in request.assumptions:
        row = await work.session.get(OperationRow, assumed.subject)
        if row is None or row.workspace != request.owner.workspace:
            raise Refusal(
                ErrorCode.NOT_FOUND,
                f"there is no operation {assumed.subject} in the workspace to assume anything of",
                subject=request.operation_id,
                remedy="name an operation by its id",
            )
        if assumed.version > row.ledger_version:
            raise Refusal(
                ErrorCode.BAD_REQUEST,
                f"{assumed.subject} has not reached version {assumed.version}; it is at {row.ledger_version}",
                subject=request.operation_id,
                remedy="assume a version that was read",
            )
