"""Moving an operation's row: the one place where a state changes, and the ledger entry that always goes with it."""

from __future__ import annotations

from datetime import timedelta
from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter

from counterfoil.activities.operations import claims, dependencies
from counterfoil.activities.operations.announcing import announce
from counterfoil.activities.store import ledger
from counterfoil.activities.store.ledger import Entry
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.common import SYSTEM, Actor, canonical_json
from counterfoil.models.errors import CounterfoilError, ErrorCode, Refusal
from counterfoil.models.operations import lifecycle
from counterfoil.models.operations.contract import OnCreate, OperationRequest, Resource
from counterfoil.models.operations.lifecycle import CLOSED, Event, State, Verification
from counterfoil.models.operations.outcomes import Evidence, Prepared
from counterfoil.models.operations.route import Route
from counterfoil.models.operations.rules import proposal_digest
from counterfoil.models.tables import OperationRow

RESOURCES = TypeAdapter(tuple[Resource, ...])


class StoreBehind(CounterfoilError):
    """The store says less of an operation than its workflow remembers: it was restored from before."""


async def load(work: UnitOfWork, operation_id: str, *, seen_revision: int = 0) -> OperationRow:
    """An operation's row, locked for this unit unless it only reads.

    Raises `Refusal` (`NOT_FOUND`), or `StoreBehind` where the caller has seen a newer state of it than is here.
    """
    row = await work.session.get(OperationRow, operation_id, lock=not work.read_only)
    if row is None and seen_revision == 0:
        raise Refusal(
            ErrorCode.NOT_FOUND,
            "there is no such operation",
            subject=operation_id,
            remedy="an operation's id comes from its session and idempotency key",
        )
    if row is None or row.revision < seen_revision:
        have = "no row at all" if row is None else f"revision {row.revision}"
        raise StoreBehind(
            ErrorCode.STORE_BEHIND,
            f"the workflow has seen revision {seen_revision} of this operation, the store has {have}",
            subject=operation_id,
            remedy="the database was restored from before this operation moved on: run `counterfoil repair`",
        )
    return row


def record(work: UnitOfWork, row: OperationRow, entry: Entry) -> None:
    """Append a ledger entry that goes with no transition but says that something went on with the operation."""
    row.updated_at = work.now
    note(work, row, entry)


def note(work: UnitOfWork, row: OperationRow, entry: Entry) -> None:
    """Append a ledger entry about something that changed nothing, such as a refused command."""
    ledger.append(work, row, entry)


async def move(
    work: UnitOfWork,
    row: OperationRow,
    event: Event,
    summary: str,
    *,
    actor: Actor = SYSTEM,
    evidence: Evidence | None = None,
    data: dict[str, Any] | None = None,
) -> None:
    """Apply one event of the lifecycle: state, revision, ledger, claims, all in this unit.

    Raises `Refusal` (`NOT_POSSIBLE`) where the lifecycle has no such transition; nothing is changed then.
    """
    before = State(row.state)
    after = lifecycle.apply(before, event, subject=row.id)
    row.state = after
    row.revision += 1
    row.updated_at = work.now
    if after is not State.QUEUED:
        row.blocked = None
    if after is State.QUEUED:
        row.queued_at = work.now
    if after in CLOSED:
        row.closed_at = work.now
    if after in CLOSED - {State.COMPLETED}:
        row.verification = Verification.UNAVAILABLE  # nothing was claimed, so there is nothing to verify
    await _settle_claims(work, row)
    ledger.append(
        work, row, Entry(kind=event, summary=summary, actor=actor, evidence=evidence, data=(data or {}) | {"to": after})
    )
    if after is not before:
        announce(work, row)


async def _settle_claims(work: UnitOfWork, row: OperationRow) -> None:
    """Give claims back where nothing more may happen. What is proved absent and queued again keeps what it holds."""
    if is_settled(row):
        await let_go(work, row)
    elif row.state in (State.PREPARED, State.AWAITING_DECISION):
        await claims.release(work, row.id)
    elif row.state == State.UNKNOWN:
        await claims.let_others_pass(work, row.id)
        await dependencies.name_dependents(work, row.id)


async def let_go(work: UnitOfWork, row: OperationRow) -> None:
    """An operation is settled: what it held is free, and whoever waits for it is named."""
    await claims.release(work, row.id)
    await dependencies.name_dependents(work, row.id)


def is_settled(row: OperationRow) -> bool:
    """Whether nothing more happens to this row by itself: closed, and where completed, not awaiting verification."""
    return lifecycle.is_settled(State(row.state), Verification(row.verification))


def is_authorised(row: OperationRow) -> bool:
    """Whether the effect was asked for and, where a person must decide, approved exactly as it is proposed now."""
    if row.intent != OnCreate.EXECUTE:
        return False
    approved = row.approved_digest is not None and row.approved_digest == row.proposal_digest
    return approved or request_of(row).decision is None


# A row is read several times in one step, and contracts are frozen: what was parsed lately is kept.
_request = lru_cache(256)(OperationRequest.model_validate_json)
_route = lru_cache(256)(Route.model_validate_json)
_resources = lru_cache(256)(RESOURCES.validate_json)


def request_of(row: OperationRow) -> OperationRequest:
    """The request as it is kept: a large input is empty here, and stands in the blob `row.input_blob`."""
    return _request(row.request)


def route_of(row: OperationRow) -> Route:
    """The pinned route."""
    return _route(row.route)


def resources_of(row: OperationRow) -> tuple[Resource, ...]:
    """The normalised resources."""
    return _resources(row.resources)


def prepared_of(row: OperationRow) -> Prepared | None:
    """The persisted proposal, if there is one."""
    return None if row.prepared is None else Prepared.model_validate_json(row.prepared)


async def go_on(work: UnitOfWork, row: OperationRow, summary: str, *, actor: Actor = SYSTEM) -> None:
    """From a row whose proposal is complete, take it as far as its intent and its decision allow."""
    request = request_of(row)
    row.proposal_digest = proposal_digest(
        request_digest=row.request_digest, route=route_of(row), request=request, prepared=prepared_of(row)
    )
    if row.intent != OnCreate.EXECUTE:
        if row.state == State.PREPARING:
            await move(work, row, Event.PREPARED, summary, actor=actor, data={"proposal": row.proposal_digest})
        return
    if request.decision is None:
        await move(work, row, Event.QUEUE, summary, actor=actor, data={"proposal": row.proposal_digest})
        return
    expiry = request.decision.expires_after_seconds
    row.decision_expires_at = None if expiry is None else work.now + timedelta(seconds=expiry)
    await move(work, row, Event.ASK, summary, actor=actor, data={"proposal": row.proposal_digest})


def problem_json(code: str, detail: str) -> str:
    """How a row keeps why it failed or is unknown."""
    return canonical_json({"code": code, "detail": detail[:1500]}).decode()
