"""What an operation waits for: other operations, completed *and verified*, before it begins.

A dependency names an operation. Where that is superseded, the superseding transaction lets it stand for what took its
place, so who waits for whom is in one table, and a cycle is seen before it is made. What cannot be met any more ends
the operation that waits for it; what is unknown is reported, and waited for until someone knows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, or_, select, update

from counterfoil.activities.store.prepared import Prepared
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.errors import ErrorCode, Refusal
from counterfoil.models.operations.contract import OperationRequest
from counterfoil.models.operations.lifecycle import State, Verification
from counterfoil.models.operations.record import DependencyRecord
from counterfoil.models.operations.route import Route
from counterfoil.models.operations.rules import Standing, standing
from counterfoil.models.operations.view import Blocked
from counterfoil.models.tables import DEPENDENCIES, OPERATIONS, DependencyRow, OperationRow

_WAITING_FOR = Prepared(
    select(DEPENDENCIES.c.operation_id)
    .join(OPERATIONS, OPERATIONS.c.id == DEPENDENCIES.c.operation_id)
    .where(
        DEPENDENCIES.c.awaits == bindparam("operation"),
        or_(OPERATIONS.c.state == State.PREPARING, OPERATIONS.c.state == State.QUEUED),
    )
    .order_by(DEPENDENCIES.c.operation_id)
)
_AWAITED_BY = Prepared(
    select(DEPENDENCIES.c.named, OPERATIONS.c.id, OPERATIONS.c.state, OPERATIONS.c.verification, OPERATIONS.c.route)
    .join(OPERATIONS, OPERATIONS.c.id == DEPENDENCIES.c.awaits)
    .where(DEPENDENCIES.c.operation_id == bindparam("operation"))
    .order_by(DEPENDENCIES.c.named)
)
_STAND_IN = Prepared(
    update(DEPENDENCIES).where(DEPENDENCIES.c.awaits == bindparam("replaced")).values(awaits=bindparam("replacement"))
)


async def found(work: UnitOfWork, request: OperationRequest) -> dict[str, str]:
    """For every operation a new request depends on: what stands for it now.

    Raises `Refusal`: `DEPENDENCY_NOT_FOUND`, `DEPENDENCY_CYCLE`, or `DEPENDENCY_FAILED` for one that can no longer be
    completed and verified.
    """
    awaits = {name: await _stands_for(work, request, name) for name in sorted(set(request.depends_on))}
    if request.supersedes is not None and await _leads_to(work, awaits.values(), request.supersedes):
        raise _cycle(request, f"what it depends on waits for {request.supersedes}, whose place it would take")
    return awaits


async def _stands_for(work: UnitOfWork, request: OperationRequest, name: str) -> str:
    if name == request.operation_id:
        raise _cycle(request, "it depends on itself")
    row = await work.session.get(OperationRow, name)
    while row is not None and row.superseded_by is not None:
        row = await work.session.get(OperationRow, row.superseded_by)
    if row is None or row.workspace != request.owner.workspace:
        raise Refusal(
            ErrorCode.DEPENDENCY_NOT_FOUND,
            f"there is no operation {name} in the workspace to depend on",
            subject=request.operation_id,
            remedy="create what it depends on first, and name it by its id",
        )
    if _standing_of(row) is Standing.FAILED:
        raise Refusal(
            ErrorCode.DEPENDENCY_FAILED,
            _told(Awaited(name, row.id, State(row.state), Verification(row.verification), _standing_of(row))),
            subject=request.operation_id,
            remedy="depend on an operation that can be completed and verified",
        )
    return row.id


def _cycle(request: OperationRequest, detail: str) -> Refusal:
    return Refusal(
        ErrorCode.DEPENDENCY_CYCLE,
        detail,
        subject=request.operation_id,
        remedy="leave out what would make them wait for each other for ever",
    )


async def _leads_to(work: UnitOfWork, starts: Iterable[str], goal: str) -> bool:
    """Whether somebody waits, over however many others, for `goal`.

    Those on the way are held against other supersessions until this unit ends: two of them could close a cycle that
    neither sees alone.
    """
    ahead, seen = sorted(set(starts)), set[str]()
    while ahead:
        if goal in ahead:
            return True
        seen.update(ahead)
        following = set[str]()
        for operation_id in ahead:
            await work.session.get(OperationRow, operation_id, lock=not work.read_only)
            following.update(one.id for one in (await _rows_of(work, operation_id)))
        ahead = sorted(following - seen)
    return False


def enter(work: UnitOfWork, operation_id: str, awaits: dict[str, str]) -> None:
    """Keep what a new operation waits for."""
    for named, stands_for in awaits.items():
        work.session.add(DependencyRow(operation_id=operation_id, named=named, awaits=stands_for))


async def let_stand_for(work: UnitOfWork, replaced: str, replacement: str) -> None:
    """Whoever waited for `replaced` waits for its replacement from now on."""
    await work.session.execute(_STAND_IN, {"replaced": replaced, "replacement": replacement})


async def name_dependents(work: UnitOfWork, operation_id: str) -> None:
    """Name, in `work.wakes`, whoever waits for an operation that has come to an end, or become unknown."""
    waiting = (await work.session.execute(_WAITING_FOR, {"operation": operation_id})).scalars()
    work.wakes += [name for name in waiting if name not in work.wakes]


@dataclass(frozen=True)
class Awaited:
    """One operation that another depends on, as it stands."""

    named: str
    id: str
    state: State
    verification: Verification
    standing: Standing


async def in_the_way(work: UnitOfWork, operation_id: str) -> Blocked | None:
    """Why an operation may not begin yet, or ever (`DEPENDENCY_FAILED`); None where all it depends on is met."""
    open_ones = [one for one in await awaited_by(work, operation_id) if one.standing is not Standing.MET]
    for kind, code in _CODES.items():
        for one in open_ones:
            if one.standing is kind:
                return Blocked(code=code, detail=_told(one))
    return None


_CODES = {
    Standing.FAILED: ErrorCode.DEPENDENCY_FAILED,
    Standing.UNKNOWN: ErrorCode.DEPENDENCY_UNKNOWN,
    Standing.PENDING: ErrorCode.DEPENDENCY_PENDING,
}
"""What is said of several dependencies: the worst of them."""


async def awaited_by(work: UnitOfWork, operation_id: str) -> list[Awaited]:
    """Everything an operation depends on."""
    return [
        Awaited(
            one.named,
            one.id,
            State(one.state),
            Verification(one.verification),
            standing(State(one.state), Verification(one.verification), Route.model_validate_json(one.route)),
        )
        for one in await _rows_of(work, operation_id)
    ]


async def records_of(work: UnitOfWork, operation_id: str) -> tuple[DependencyRecord, ...]:
    """The same, for people."""
    return tuple(
        DependencyRecord(named=one.named, operation_id=one.id, state=one.state, verification=one.verification)
        for one in await awaited_by(work, operation_id)
    )


async def _rows_of(work: UnitOfWork, operation_id: str) -> Iterable[Any]:
    return (await work.session.execute(_AWAITED_BY, {"operation": operation_id})).all()


def _standing_of(row: OperationRow) -> Standing:
    return standing(State(row.state), Verification(row.verification), Route.model_validate_json(row.route))


def _told(one: Awaited) -> str:
    place = "" if one.id == one.named else f", which took the place of {one.named}"
    verified = f" and its verification '{one.verification}'" if one.state is State.COMPLETED else ""
    match one.standing:
        case Standing.FAILED:
            return f"it depends on {one.id}{place}: that is '{one.state}'{verified}, and cannot come to be verified"
        case Standing.UNKNOWN:
            return f"it depends on {one.id}{place}: whether that had its effect is unknown"
        case _:
            return f"it waits for {one.id}{place}: that is '{one.state}'{verified}"
