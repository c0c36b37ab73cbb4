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
from itertools import groupby
from typing import Any

from sqlalchemy import ColumnElement, and_, bindparam, case, delete, false, func, insert, or_, select, update
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from counterfoil.activities.store.prepared import Prepared
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.errors import ErrorCode
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


def wanted(workspace: str, resources: Sequence[Resource]) -> list[Wanted]:
    """What an operation on these (normalised) resources claims, in the one order rows are locked in.

    Declared resources exclusively (queries shared) and the workspace shared; undeclared work the whole workspace.
    """
    needs = [
        Wanted(
            resource_digest(resource), resource.kind is not ResourceKind.QUERY, f"{resource.system}:{resource.identity}"
        )
        for resource in resources
    ]
    needs.append(Wanted(workspace_digest(workspace), not resources, f"workspace:{workspace}"))
    return sorted(needs, key=lambda need: need.resource)


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
    name = next(need.name for need in needs if need.resource == blocker.resource)
    how = "held by" if blocker.held else "claimed earlier by"
    because = ", whose effect is unknown" if blocker.is_unknown else ""
    return Blocked(code=ErrorCode.LOCKED, detail=f"{name} is {how} {blocker.operation_id}{because}")


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
    stood_in_everyones_way = [claim.resource for claim in freed if claim.exclusive]
    shared = [claim.resource for claim in freed if not claim.exclusive]
    waits = or_(
        CLAIMS.c.resource.in_(stood_in_everyones_way),
        and_(CLAIMS.c.resource.in_(shared), CLAIMS.c.exclusive.is_(True)),
    )
    await _name_next_waiters(work, waits)


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
    if marked:
        behind = and_(CLAIMS.c.resource.in_(set(marked)), CLAIMS.c.overtakable.is_(False))
        await _name_next_waiters(work, behind)


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
    earlier: ColumnElement[bool] = or_(
        CLAIMS.c.queued_at < queued_at,
        and_(CLAIMS.c.queued_at == queued_at, CLAIMS.c.operation_id < operation_id),
    )
    others = and_(CLAIMS.c.resource.in_(everything), CLAIMS.c.operation_id != operation_id, conflicts)
    is_held = CLAIMS.c.held.is_(True)
    waiting = and_(CLAIMS.c.held.is_(False), CLAIMS.c.overtakable.is_(False), earlier)
    unknown_first = case((OPERATIONS.c.state == State.UNKNOWN, 0), else_=1)
    query = (
        select(CLAIMS.c.operation_id, CLAIMS.c.resource, CLAIMS.c.held, OPERATIONS.c.state)
        .join(OPERATIONS, OPERATIONS.c.id == CLAIMS.c.operation_id)
        .where(others, or_(is_held, waiting))
        .order_by(CLAIMS.c.held.desc(), unknown_first)
        .limit(1)
    )
    found = (await work.session.execute(query)).first()
    if found is None:
        return None
    return _Blocker(found.operation_id, found.resource, found.held, found.held and found.state == State.UNKNOWN)


async def _name_next_waiters(work: UnitOfWork, waits: ColumnElement[bool]) -> None:
    """Name, in `work.wakes`, whom each resource goes to next among the claims that `waits` picks."""
    place = (
        func.row_number()
        .over(partition_by=CLAIMS.c.resource, order_by=(CLAIMS.c.queued_at, CLAIMS.c.operation_id))
        .label("place")
    )
    lines = select(CLAIMS, place).where(waits, CLAIMS.c.held.is_(False)).subquery()
    query = select(lines).where(lines.c.place <= WAKE_LIMIT).order_by(lines.c.resource, lines.c.place)
    for _, line in groupby((await work.session.execute(query)).all(), key=lambda claim: claim.resource):
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
