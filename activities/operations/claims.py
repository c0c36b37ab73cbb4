"""Claims on resources: all of an operation's at once, first come first served, released by the settling transaction.

An operation holds all its claims or none, so there is no deadlock. Waiters are served in the order in which their
operations were queued, so there is no starvation; but one that waits for an unknown effect is overtaken by those that
do not conflict with what is held, because nobody can say when a person will answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import Boolean, ColumnElement, and_, bindparam, case, delete, false, insert, or_, select, update
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from counterfoil.activities.store.prepared import Prepared
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.errors import ErrorCode, Refusal
from counterfoil.models.operations.contract import Resource, ResourceKind, resource_digest, workspace_digest
from counterfoil.models.operations.lifecycle import State
from counterfoil.models.operations.view import Blocked
from counterfoil.models.tables import CLAIMS, OPERATIONS, RESOURCES, ClaimRow, OperationRow

WAKE_LIMIT = 64
"""How many waiters of one resource a release names at most; the next release names the next ones."""

# The statements of the common case, where nobody is in the way and nobody waits, are made once.
_NAME_ON_SQLITE = Prepared(sqlite_insert(RESOURCES).on_conflict_do_nothing())
_NAME_ON_POSTGRES = postgres_insert(RESOURCES).on_conflict_do_nothing()
_CLAIM = Prepared(insert(CLAIMS))
_MARK = Prepared(
    update(CLAIMS)
    .where(CLAIMS.c.operation_id == bindparam("operation"))
    .values(held=bindparam("now_held"), overtakable=bindparam("now_overtakable"))
)
_GIVE_UP = Prepared(
    delete(CLAIMS)
    .where(CLAIMS.c.operation_id == bindparam("operation"))
    .returning(CLAIMS.c.resource, CLAIMS.c.exclusive)
)
_THOSE_OF = Prepared(select(CLAIMS).where(CLAIMS.c.operation_id == bindparam("operation")).order_by(CLAIMS.c.resource))

_LINE = Prepared(
    select(CLAIMS)
    .where(
        CLAIMS.c.resource == bindparam("resource"),
        CLAIMS.c.held.is_(False),
        or_(CLAIMS.c.exclusive.is_(True), bindparam("sharers_too", type_=Boolean)),
        or_(CLAIMS.c.overtakable.is_(False), bindparam("all_of_them", type_=Boolean)),
    )
    .order_by(CLAIMS.c.queued_at, CLAIMS.c.operation_id)
    .limit(WAKE_LIMIT)
)


@lru_cache(maxsize=256)
def _who_waits(count: int) -> Prepared:
    """For `count` resources: somebody who waits for one of them."""
    these = _one_of("these", count)
    return Prepared(select(CLAIMS.c.operation_id).where(these, CLAIMS.c.held.is_(False)).limit(1))


@lru_cache(maxsize=1024)
def _who_is_there(count: int, exclusive: int) -> Prepared:
    """For `count` resources, `exclusive` of them wanted alone: somebody else whose claim, held or not, conflicts."""
    conflicts = or_(CLAIMS.c.exclusive.is_(True), _one_of("alone", exclusive))
    others = CLAIMS.c.operation_id != bindparam("operation")
    return Prepared(select(CLAIMS.c.operation_id).where(_one_of("these", count), others, conflicts).limit(1))


def _one_of(name: str, count: int) -> ColumnElement[bool]:
    return or_(false(), *(CLAIMS.c.resource == bindparam(f"{name}_{place}") for place in range(count)))


def _named(name: str, resources: Sequence[str]) -> dict[str, str]:
    return {f"{name}_{place}": resource for place, resource in enumerate(resources)}


@dataclass(frozen=True)
class Wanted:
    """One resource an operation needs, and how."""

    resource: str
    exclusive: bool
    name: str


def wanted(workspace: str, resources: Sequence[Resource], *, read_only: bool = False) -> list[Wanted]:
    """What an operation on these (normalised) resources claims, in the one order rows are locked in.

    Declared resources exclusively (queries shared) and the workspace shared; undeclared work the whole workspace;
    work that is `read_only`, everything shared.
    """
    needs = [
        Wanted(
            resource_digest(resource),
            resource.kind is not ResourceKind.QUERY and not read_only,
            f"{resource.system}:{resource.identity}",
        )
        for resource in resources
    ]
    needs.append(whole_workspace(workspace, exclusive=not resources and not read_only))
    return sorted(needs, key=lambda need: need.resource)


def whole_workspace(workspace: str, *, exclusive: bool) -> Wanted:
    """A workspace, as something to hold."""
    return Wanted(workspace_digest(workspace), exclusive, f"workspace:{workspace}")


@dataclass(frozen=True)
class _Blocker:
    """A claim that another operation waits for."""

    operation_id: str
    resource: str
    held: bool
    is_unknown: bool


async def take(work: UnitOfWork, row: OperationRow, needs: Sequence[Wanted]) -> Blocked | None:
    """Hold all of `needs` for an operation, or none: then its claims wait, and the answer says for whom."""
    await _lock_resources(work, needs)
    asked_before = row.blocked is not None or row.generation > 0
    mine = {claim.resource: claim for claim in await _claims_of(work, row.id)} if asked_before else {}
    if mine and all(claim.held for claim in mine.values()):
        return None
    queued_at = _place_in_line(work, row, mine.values())
    blocker = await _blocker(work, row.id, needs, queued_at)
    may_be_overtaken = blocker is not None and blocker.is_unknown
    if mine:
        asked = {"operation": row.id, "now_held": blocker is None, "now_overtakable": may_be_overtaken}
        await work.session.execute(_MARK, asked)
    new = [
        {
            "operation_id": row.id,
            "resource": need.resource,
            "exclusive": need.exclusive,
            "held": blocker is None,
            "overtakable": may_be_overtaken,
            "queued_at": queued_at,
        }
        for need in needs
        if need.resource not in mine
    ]
    if new:
        await work.session.execute(_CLAIM, new)
    if blocker is None:
        return None
    return Blocked(code=ErrorCode.LOCKED, detail=_in_the_way(needs, blocker))


def _in_the_way(needs: Sequence[Wanted], blocker: _Blocker) -> str:
    name = next(need.name for need in needs if need.resource == blocker.resource)
    how = "held by" if blocker.held else "claimed earlier by"
    because = ", whose effect is unknown" if blocker.is_unknown else ""
    return f"{name} is {how} {blocker.operation_id}{because}"


async def take_at_once(work: UnitOfWork, holder: str, need: Wanted) -> None:
    """Hold one resource for a call that no operation makes. It does not wait, and passes nobody who does.

    Raises `Refusal` (`LOCKED`).
    """
    await _lock_resources(work, [need])
    blocker = await _blocker(work, holder, [need], work.now)
    if blocker is not None:
        raise _locked(need, blocker)
    claim = {"operation_id": holder, "resource": need.resource, "exclusive": need.exclusive, "held": True}
    await work.session.execute(_CLAIM, [claim | {"overtakable": False, "queued_at": work.now}])


async def require_not_held(work: UnitOfWork, need: Wanted) -> None:
    """Refuse (`LOCKED`) where somebody holds what conflicts with this. Reads only."""
    blocker = await _blocker(work, "", [need], work.now)
    if blocker is not None and blocker.held:
        raise _locked(need, blocker)


def _locked(need: Wanted, blocker: _Blocker) -> Refusal:
    return Refusal(
        ErrorCode.LOCKED,
        _in_the_way([need], blocker),
        subject=blocker.operation_id,
        remedy="try again when it is settled, or make this an operation: it waits for its turn",
    )


async def are_free(work: UnitOfWork, row: OperationRow, needs: Sequence[Wanted]) -> bool:
    """Whether an operation that waits could take its claims now. Reads only."""
    queued_at = _place_in_line(work, row, await _claims_of(work, row.id))
    return await _blocker(work, row.id, needs, queued_at) is None


async def release(work: UnitOfWork, operation_id: str) -> None:
    """Give up all claims of an operation, and name the waiters that may go next in `work.wakes`."""
    await _lock_resources_of(work, operation_id)
    freed = (await work.session.execute(_GIVE_UP, {"operation": operation_id})).all()
    if not freed:
        return
    waits_for_it = _named("these", [claim.resource for claim in freed])
    if not (await work.session.execute(_who_waits(len(freed)), waits_for_it)).rows:
        return
    await _name_next_waiters(work, [claim.resource for claim in freed if claim.exclusive])
    await _name_next_waiters(work, [claim.resource for claim in freed if not claim.exclusive], only_exclusive=True)


async def let_others_pass(work: UnitOfWork, operation_id: str) -> None:
    """An operation became unknown: those that wait for it may be overtaken, and whoever waits behind them is named."""
    await _lock_resources_of(work, operation_id)
    held = [claim for claim in await _claims_of(work, operation_id) if claim.held]
    everything = [claim.resource for claim in held]
    exclusive = [claim.resource for claim in held if claim.exclusive]
    stuck = select(CLAIMS.c.operation_id).where(
        CLAIMS.c.resource.in_(everything),
        CLAIMS.c.held.is_(False),
        or_(CLAIMS.c.exclusive.is_(True), CLAIMS.c.resource.in_(exclusive)),
    )
    overtakable = update(CLAIMS).where(CLAIMS.c.operation_id.in_(stuck)).values(overtakable=True)
    marked = (await work.session.execute(overtakable.returning(CLAIMS.c.resource))).scalars()
    await _name_next_waiters(work, marked, only_standing=True)


def _place_in_line(work: UnitOfWork, row: OperationRow, claims: Iterable[ClaimRow]) -> datetime:
    """Since when an operation waits: asking again does not put it at the end."""
    return min((claim.queued_at for claim in claims), default=row.queued_at or work.now)


async def _claims_of(work: UnitOfWork, operation_id: str) -> list[ClaimRow]:
    return await work.session.all(ClaimRow, _THOSE_OF, {"operation": operation_id})


async def _lock_resources(work: UnitOfWork, needs: Sequence[Wanted]) -> None:
    """Serialise grants on the same resources: one row each, locked in digest order. SQLite has one writer anyway."""
    rows = [{"digest": need.resource, "name": need.name[:500]} for need in needs]
    await work.session.execute(_NAME_ON_SQLITE if work.on_sqlite else _NAME_ON_POSTGRES, rows)
    if not work.on_sqlite:
        digests = [need.resource for need in needs]
        locked = select(RESOURCES.c.digest).where(RESOURCES.c.digest.in_(digests))
        await work.session.execute(locked.order_by(RESOURCES.c.digest).with_for_update())


async def _lock_resources_of(work: UnitOfWork, operation_id: str) -> None:
    """The same for all an operation claims: whoever is just taking one is waited for, and then found waiting."""
    if not work.on_sqlite:
        claimed = select(CLAIMS.c.resource).where(CLAIMS.c.operation_id == operation_id)
        locked = select(RESOURCES.c.digest).where(RESOURCES.c.digest.in_(claimed))
        await work.session.execute(locked.order_by(RESOURCES.c.digest).with_for_update())


async def _blocker(
    work: UnitOfWork, operation_id: str, needs: Sequence[Wanted], queued_at: datetime
) -> _Blocker | None:
    """A claim that stands in the way; of several, one that an unknown effect holds."""
    everything = [need.resource for need in needs]
    exclusive = [need.resource for need in needs if need.exclusive]
    asked = {"operation": operation_id} | _named("these", everything) | _named("alone", exclusive)
    if not (await work.session.execute(_who_is_there(len(everything), len(exclusive)), asked)).rows:
        return None
    conflicts = or_(CLAIMS.c.exclusive.is_(True), CLAIMS.c.resource.in_(exclusive))
    others = and_(CLAIMS.c.resource.in_(everything), CLAIMS.c.operation_id != operation_id, conflicts)
    unknown_first = case((OPERATIONS.c.state == State.UNKNOWN, 0), else_=1)
    holding = (
        select(CLAIMS.c.operation_id, CLAIMS.c.resource, OPERATIONS.c.state)
        .join(OPERATIONS, OPERATIONS.c.id == CLAIMS.c.operation_id, isouter=True)  # a direct call is no operation
        .where(others, CLAIMS.c.held.is_(True))
        .order_by(unknown_first)
        .limit(1)
    )
    if (holder := (await work.session.execute(holding)).first()) is not None:
        return _Blocker(holder.operation_id, holder.resource, True, holder.state == State.UNKNOWN)
    # However many wait, those before this one are a range of an index, and one of them is enough.
    waiting = (
        select(CLAIMS.c.operation_id, CLAIMS.c.resource)
        .where(
            others,
            CLAIMS.c.held.is_(False),
            CLAIMS.c.overtakable.is_(False),
            CLAIMS.c.queued_at <= queued_at,
            or_(CLAIMS.c.queued_at < queued_at, CLAIMS.c.operation_id < operation_id),
        )
        .limit(1)
    )
    if (earlier := (await work.session.execute(waiting)).first()) is not None:
        return _Blocker(earlier.operation_id, earlier.resource, False, False)
    return None


async def _name_next_waiters(
    work: UnitOfWork, resources: Iterable[str], *, only_exclusive: bool = False, only_standing: bool = False
) -> None:
    """Name, in `work.wakes`, whom each resource goes to next.

    `only_exclusive`: those who can share it had nobody in their way; `only_standing`: those who may not be overtaken.
    """
    for resource in sorted(set(resources)):
        asked = {"resource": resource, "sharers_too": not only_exclusive, "all_of_them": not only_standing}
        line = (await work.session.execute(_LINE, asked)).all()
        work.wakes += [name for name in _first_in(line) if name not in work.wakes]


def _first_in(line: Iterable[Any]) -> list[str]:
    """Whom a free resource goes to: the first waiter and those who can share it, past all that may be overtaken."""
    named: list[str] = []
    shared = False
    for claim in line:
        if claim.exclusive and shared:
            break
        named.append(claim.operation_id)
        if not claim.overtakable:
            if claim.exclusive:
                break
            shared = True
    return named
