"""Claims on resources: all of an operation's at once, first come first served, released by the settling transaction.

An operation holds all its claims or none, so there is no deadlock. Waiters are served in the order in which their
operations were queued, so there is no starvation; but one that waits for an unknown effect is overtaken by those that
do not conflict with what is held, because nobody can say when a person will answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

from sqlalchemy import ColumnElement, and_, bindparam, case, delete, func, insert, or_, update
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.orm import aliased
from sqlmodel import SQLModel, col, select
from sqlmodel.sql.expression import SelectOfScalar

from counterfoil.activities.store.database import UnitOfWork
from counterfoil.models.errors import ErrorCode
from counterfoil.models.operations.contract import Resource, ResourceKind, resource_digest, workspace_digest
from counterfoil.models.operations.lifecycle import State
from counterfoil.models.operations.view import Blocked
from counterfoil.models.tables import ClaimRow, OperationRow, ResourceRow

WAKE_LIMIT = 64
"""How many waiters of one resource a release names at most; the next release names the next ones."""


_CLAIMS = SQLModel.metadata.tables[str(ClaimRow.__tablename__)]
_RESOURCES = SQLModel.metadata.tables[str(ResourceRow.__tablename__)]

# The statements of the common case, where nobody is in the way and nobody waits, are made once.
_NAME_ON_SQLITE = sqlite_insert(_RESOURCES).on_conflict_do_nothing()
_NAME_ON_POSTGRES = postgres_insert(_RESOURCES).on_conflict_do_nothing()
_CLAIM = insert(_CLAIMS)
_GIVE_UP = (
    delete(_CLAIMS)
    .where(_CLAIMS.c.operation_id == bindparam("operation"))
    .returning(_CLAIMS.c.resource, _CLAIMS.c.exclusive)
)
_THESE = col(ClaimRow.resource).in_(bindparam("resources", expanding=True))
_WAITS = select(ClaimRow.operation_id).where(_THESE, col(ClaimRow.held).is_(False)).limit(1)
_IN_THE_WAY = (
    select(ClaimRow.operation_id)
    .where(
        _THESE,
        col(ClaimRow.operation_id) != bindparam("operation"),
        or_(
            col(ClaimRow.exclusive).is_(True),
            col(ClaimRow.resource).in_(bindparam("exclusive", expanding=True)),
        ),
    )
    .limit(1)
)


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


async def take(work: UnitOfWork, row: OperationRow, needs: Sequence[Wanted]) -> Blocked | None:
    """Hold all of `needs` for an operation, or none: then its claims wait, and the answer says for whom."""
    await _lock_resources(work, needs)
    asked_before = row.blocked is not None or row.generation > 0
    mine = {claim.resource: claim for claim in await _claims_of(work, row.id)} if asked_before else {}
    if mine and all(claim.held for claim in mine.values()):
        return None
    queued_at = _place_in_line(work, row, mine.values())
    blocker, is_unknown = await _blocker(work, row.id, needs, queued_at)
    for claim in mine.values():
        claim.held = blocker is None
        claim.overtakable = is_unknown
        work.session.add(claim)
    new = [
        {
            "operation_id": row.id,
            "resource": need.resource,
            "exclusive": need.exclusive,
            "held": blocker is None,
            "overtakable": is_unknown,
            "queued_at": queued_at,
        }
        for need in needs
        if need.resource not in mine
    ]
    if new:
        await work.session.exec(_CLAIM, params=new)
    if blocker is None:
        return None
    name = next(need.name for need in needs if need.resource == blocker.resource)
    how = "held by" if blocker.held else "claimed earlier by"
    because = ", whose effect is unknown" if is_unknown else ""
    return Blocked(code=ErrorCode.LOCKED, detail=f"{name} is {how} {blocker.operation_id}{because}")


async def are_free(work: UnitOfWork, row: OperationRow, needs: Sequence[Wanted]) -> bool:
    """Whether an operation that waits could take its claims now. Reads only."""
    queued_at = _place_in_line(work, row, await _claims_of(work, row.id))
    return (await _blocker(work, row.id, needs, queued_at))[0] is None


async def release(work: UnitOfWork, operation_id: str) -> None:
    """Give up all claims of an operation, and name the waiters that may go next in `work.wakes`."""
    await _lock_resources_of(work, operation_id)
    freed = (await work.session.exec(_GIVE_UP, params={"operation": operation_id})).all()
    if not freed or not await _somebody(work, _WAITS, {"resources": [resource for resource, _ in freed]}):
        return
    stood_in_everyones_way = [resource for resource, exclusive in freed if exclusive]
    shared = [resource for resource, exclusive in freed if not exclusive]
    waits = or_(
        col(ClaimRow.resource).in_(stood_in_everyones_way),
        and_(col(ClaimRow.resource).in_(shared), col(ClaimRow.exclusive).is_(True)),
    )
    await _name_next_waiters(work, waits)


async def let_others_pass(work: UnitOfWork, operation_id: str) -> None:
    """An operation became unknown: those that wait for it may be overtaken, and whoever waits behind them is named."""
    await _lock_resources_of(work, operation_id)
    held = [claim for claim in await _claims_of(work, operation_id) if claim.held]
    everything = [claim.resource for claim in held]
    exclusive = [claim.resource for claim in held if claim.exclusive]
    stuck = select(ClaimRow.operation_id).where(
        col(ClaimRow.resource).in_(everything),
        col(ClaimRow.held).is_(False),
        or_(col(ClaimRow.exclusive).is_(True), col(ClaimRow.resource).in_(exclusive)),
    )
    overtakable = update(ClaimRow).where(col(ClaimRow.operation_id).in_(stuck)).values(overtakable=True)
    marked = (await work.session.exec(overtakable.returning(col(ClaimRow.resource)))).scalars().all()
    if marked:
        behind = and_(col(ClaimRow.resource).in_(set(marked)), col(ClaimRow.overtakable).is_(False))
        await _name_next_waiters(work, behind)


def _place_in_line(work: UnitOfWork, row: OperationRow, claims: Iterable[ClaimRow]) -> datetime:
    """Since when an operation waits: asking again does not put it at the end."""
    return min((claim.queued_at for claim in claims), default=row.queued_at or work.now)


async def _claims_of(work: UnitOfWork, operation_id: str) -> list[ClaimRow]:
    query = select(ClaimRow).where(ClaimRow.operation_id == operation_id).order_by(ClaimRow.resource)
    return list((await work.session.exec(query)).all())


async def _lock_resources(work: UnitOfWork, needs: Sequence[Wanted]) -> None:
    """Serialise grants on the same resources: one row each, locked in digest order. SQLite has one writer anyway."""
    rows = [{"digest": need.resource, "name": need.name[:500]} for need in needs]
    await work.session.exec(_NAME_ON_SQLITE if work.on_sqlite else _NAME_ON_POSTGRES, params=rows)
    if not work.on_sqlite:
        digests = [need.resource for need in needs]
        locked = select(ResourceRow.digest).where(col(ResourceRow.digest).in_(digests))
        await work.session.exec(locked.order_by(ResourceRow.digest).with_for_update())


async def _lock_resources_of(work: UnitOfWork, operation_id: str) -> None:
    """The same for all an operation claims: whoever is just taking one is waited for, and then found waiting."""
    if not work.on_sqlite:
        claimed = select(ClaimRow.resource).where(ClaimRow.operation_id == operation_id)
        locked = select(ResourceRow.digest).where(col(ResourceRow.digest).in_(claimed))
        await work.session.exec(locked.order_by(ResourceRow.digest).with_for_update())


async def _blocker(
    work: UnitOfWork, operation_id: str, needs: Sequence[Wanted], queued_at: datetime
) -> tuple[ClaimRow | None, bool]:
    """A claim that stands in the way, and whether it is held by an unknown effect: of several, such a one."""
    everything = [need.resource for need in needs]
    exclusive = [need.resource for need in needs if need.exclusive]
    asked = {"resources": everything, "exclusive": exclusive, "operation": operation_id}
    if not await _somebody(work, _IN_THE_WAY, asked):
        return None, False
    conflicts = or_(col(ClaimRow.exclusive).is_(True), col(ClaimRow.resource).in_(exclusive))
    earlier: ColumnElement[bool] = or_(
        col(ClaimRow.queued_at) < queued_at,
        and_(col(ClaimRow.queued_at) == queued_at, col(ClaimRow.operation_id) < operation_id),
    )
    others = and_(col(ClaimRow.resource).in_(everything), col(ClaimRow.operation_id) != operation_id, conflicts)
    held = col(ClaimRow.held).is_(True)
    waiting = and_(col(ClaimRow.held).is_(False), col(ClaimRow.overtakable).is_(False), earlier)
    unknown_first = case((col(OperationRow.state) == State.UNKNOWN, 0), else_=1)
    query = (
        select(ClaimRow, OperationRow.state)
        .join(OperationRow, col(OperationRow.id) == ClaimRow.operation_id)
        .where(others, or_(held, waiting))
        .order_by(col(ClaimRow.held).desc(), unknown_first)
        .limit(1)
    )
    found = (await work.session.exec(query)).first()
    if found is None:
        return None, False
    claim, state = found
    return claim, claim.held and state == State.UNKNOWN


async def _somebody(work: UnitOfWork, question: SelectOfScalar[str], asked: dict[str, Any]) -> bool:
    return (await work.session.exec(question, params=asked)).first() is not None


async def _name_next_waiters(work: UnitOfWork, waits: ColumnElement[bool]) -> None:
    """Name, in `work.wakes`, whom each resource goes to next among the claims that `waits` picks."""
    place = (
        func.row_number()
        .over(partition_by=col(ClaimRow.resource), order_by=(col(ClaimRow.queued_at), col(ClaimRow.operation_id)))
        .label("place")
    )
    lines = select(ClaimRow, place).where(waits, col(ClaimRow.held).is_(False)).subquery()
    waiter = aliased(ClaimRow, lines)
    query = select(waiter).where(lines.c.place <= WAKE_LIMIT).order_by(lines.c.resource, lines.c.place)
    for _, line in groupby((await work.session.exec(query)).all(), key=lambda claim: claim.resource):
        work.wakes += [name for name in _first_in(line) if name not in work.wakes]


def _first_in(line: Iterable[ClaimRow]) -> list[str]:
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
