"""Journal before effect: the transaction that grants a dispatch, and the one that fences a lost one.

`grant` runs inside the dispatch activity, immediately before the adapter is called. "Not granted, because …" is an
answer, not an error. `fence` runs when a dispatch was reported lost: it decides, once, between *never begun* (dispatch
again) and *begun without outcome* (unknown).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from counterfoil.activities.operations import claims, guards
from counterfoil.activities.operations.rows import (
    is_authorised,
    move,
    problem_json,
    request_of,
    resources_of,
    route_of,
)
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.errors import ErrorCode
from counterfoil.models.operations import rules
from counterfoil.models.operations.lifecycle import Event, State
from counterfoil.models.operations.rules import event_of_loss
from counterfoil.models.tables import AttemptRow, OperationRow


class AttemptKind(StrEnum):
    """What an attempt does: an effectful preparation, or the final action."""

    PREPARE = "prepare"
    EXECUTE = "execute"


@dataclass(frozen=True)
class Attempt:
    """An attempt about to be made: `token` tells this invocation of the activity from any other."""

    kind: AttemptKind
    generation: int
    token: str


async def grant(work: UnitOfWork, row: OperationRow, attempt: Attempt) -> bool:
    """Take the claims, check every guard and journal the attempt; False where it is not granted.

    The row says why: it expired, failed, or is `blocked`. Repeating a grant whose commit was doubtful finds it, unless
    it was fenced meanwhile.
    """
    # Journaling an attempt moves the row's generation up to it: a newer one was never journaled.
    known = attempt.generation <= row.generation
    journaled = await work.session.get(AttemptRow, (row.id, attempt.generation)) if known else None
    if journaled is not None:
        still_open = row.attempt_open and row.generation == attempt.generation and row.fence < attempt.generation
        return journaled.token == attempt.token and journaled.outcome is None and still_open
    if not _is_due(row, attempt):
        return False
    if row.deadline is not None and work.now >= row.deadline:
        await move(work, row, Event.EXPIRE, "the deadline passed before dispatch")
        return False
    if not await _within_limits(work, row) or not await guards.may_begin(work, row):
        return False
    needs = claims.wanted(row.workspace, resources_of(row), read_only=route_of(row).read_only)
    blocked = await claims.take(work, row, needs)
    row.blocked = None if blocked is None else blocked.model_dump_json()
    if blocked is not None:
        return False
    await _journal(work, row, attempt)
    return True


def _is_due(row: OperationRow, attempt: Attempt) -> bool:
    if attempt.generation <= max(row.generation, row.fence) or row.attempt_open:
        return False
    if attempt.kind is AttemptKind.PREPARE:
        return row.state == State.PREPARING
    return row.state == State.QUEUED and is_authorised(row)


async def _within_limits(work: UnitOfWork, row: OperationRow) -> bool:
    request, route = request_of(row), route_of(row)
    limits = request.constraints
    if row.attempts >= limits.max_attempts or row.adapter_calls >= limits.max_adapter_calls:
        detail = f"{row.attempts} attempts and {row.adapter_calls} adapter calls were made; the request allows no more"
    elif not rules.affords(request, route, attempts=row.attempts):
        detail = "one more attempt, by the route's estimate, would cost more than the request allows"
    else:
        return True
    row.problem = problem_json(ErrorCode.LIMIT_REACHED, detail)
    await move(work, row, Event.REPORT_FAILED, detail, data={"code": ErrorCode.LIMIT_REACHED})
    return False


async def _journal(work: UnitOfWork, row: OperationRow, attempt: Attempt) -> None:
    route = route_of(row)
    work.session.add(
        AttemptRow(
            operation_id=row.id,
            generation=attempt.generation,
            kind=attempt.kind,
            token=attempt.token,
            adapter=route.adapter,
            adapter_version=route.adapter_version,
            environment=route.environment,
            task_queue=row.task_queue,
            journaled_at=work.now,
        )
    )
    row.generation = attempt.generation
    row.attempt_open = True
    row.adapter_calls += 1
    row.problem = None
    # What an earlier attempt left at the target is not where this one can be looked at.
    row.external_id = None
    row.poll_after_seconds = None
    data = {"generation": attempt.generation, "adapter": f"{route.adapter}@{route.adapter_version}"}
    if attempt.kind is AttemptKind.PREPARE:
        return
    row.attempts += 1
    row.dispatched_at = work.now
    row.first_dispatched_at = row.first_dispatched_at or work.now
    await move(work, row, Event.GRANT, f"dispatched, attempt {row.attempts}", data=data)


async def fence(work: UnitOfWork, row: OperationRow, generation: int) -> None:
    """Decide what a lost attempt is. Afterwards no attempt up to `generation` can be journaled any more."""
    row.fence = max(row.fence, generation)
    journaled = await work.session.get(AttemptRow, (row.id, generation))
    begun_without_outcome = journaled is not None and journaled.outcome is None and row.generation == generation
    if begun_without_outcome and row.attempt_open and row.state in (State.DISPATCHING, State.PREPARING):
        row.attempt_open = False
        detail = "the worker was lost after it had journaled the attempt and before it recorded an outcome"
        row.problem = problem_json(ErrorCode.DISPATCH_LOST, detail)
        data = {"generation": generation, "code": ErrorCode.DISPATCH_LOST}
        await move(work, row, event_of_loss(route_of(row)), detail, data=data)


async def latest_attempt(work: UnitOfWork, row: OperationRow) -> AttemptRow | None:
    """The newest journaled attempt."""
    return await work.session.get(AttemptRow, (row.id, row.generation))
