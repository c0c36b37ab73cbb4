"""Taking the place of an operation of which nothing has been done: a revised proposal, a changed plan.

Supersession races the dispatch in one transaction: both lock the same row, and exactly one wins. What was superseded
keeps its proposals and decisions, to be looked at.
"""

from __future__ import annotations

from counterfoil.activities.operations import dependencies
from counterfoil.activities.operations.rows import move, request_of
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.errors import ErrorCode, Refusal
from counterfoil.models.operations.contract import OperationRequest
from counterfoil.models.operations.lifecycle import UNDISPATCHED, Event
from counterfoil.models.tables import OperationRow


async def replaceable(work: UnitOfWork, request: OperationRequest) -> OperationRow | None:
    """The operation whose place a new request takes, held for this unit; None where it takes nobody's.

    Raises `Refusal` (`NOT_FOUND`, `NOT_SUPERSEDABLE`).
    """
    if request.supersedes is None:
        return None
    row = await work.session.get(OperationRow, request.supersedes, lock=not work.read_only)
    if row is None or row.session != request.owner.session:
        raise Refusal(
            ErrorCode.NOT_FOUND,
            f"this session has no operation {request.supersedes} to supersede",
            subject=request.operation_id,
            remedy="name an operation of the same session by its id",
        )
    if row.superseded_by == request.operation_id:
        return None  # by this very request, whose own row was lost in a restore
    if (reason := _why_not(row, request)) is not None:
        raise Refusal(
            ErrorCode.NOT_SUPERSEDABLE,
            f"{row.id} {reason}",
            subject=request.operation_id,
            remedy="ask for a further change, or for its compensation, as an operation of its own",
        )
    return row


def _why_not(row: OperationRow, request: OperationRequest) -> str | None:
    if row.superseded_by is not None:
        return f"was superseded by {row.superseded_by} already"
    if row.generation > 0 or row.attempt_open:
        return "has been sent to its target already"
    if row.state not in UNDISPATCHED:
        return f"is '{row.state}'"
    if request.plan_revision < (revision := request_of(row).plan_revision):
        return f"belongs to plan revision {revision}, which is newer than {request.plan_revision}"
    return None


async def supersede(work: UnitOfWork, replaced: OperationRow, replacement: OperationRow) -> None:
    """Put `replacement` in the place of `replaced`: it ends, and whoever waited for it waits for the other."""
    replaced.superseded_by = replacement.id
    await dependencies.let_stand_for(work, replaced.id, replacement.id)
    await move(work, replaced, Event.SUPERSEDE, f"superseded by {replacement.id}", data={"by": replacement.id})
    work.wakes.append(replaced.id)
