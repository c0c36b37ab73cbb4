"""Reading operations whole: rows, attempts and ledger as the contracts of `models.operations.record`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from pydantic import TypeAdapter
from sqlalchemy import select

from counterfoil.activities.deliveries import outbox
from counterfoil.activities.operations import dependencies
from counterfoil.activities.operations.rows import prepared_of, request_of, resources_of, route_of
from counterfoil.activities.store import ledger
from counterfoil.activities.store.ledger import HistoryGap
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.common import Actor
from counterfoil.models.deliveries.contract import DeliveryState
from counterfoil.models.errors import ErrorCode, Refusal
from counterfoil.models.operations import rules
from counterfoil.models.operations.lifecycle import Cancellation, State, Verification
from counterfoil.models.operations.outcomes import Evidence, Problem, TypedResult
from counterfoil.models.operations.record import (
    AttemptRecord,
    ClaimRecord,
    DecisionRecord,
    LedgerEntry,
    Operation,
    OperationSummary,
    SessionRecord,
)
from counterfoil.models.operations.view import Blocked
from counterfoil.models.tables import (
    ATTEMPTS,
    CLAIMS,
    LEDGER,
    OPERATIONS,
    RESOURCES,
    AttemptRow,
    LedgerRow,
    OperationRow,
    SessionRow,
)

_JSON: TypeAdapter[dict[str, object]] = TypeAdapter(dict[str, object])


async def find(work: UnitOfWork, operation_id: str) -> OperationRow:
    """An operation's row, to read. Raises `Refusal` (`NOT_FOUND`)."""
    row = await work.session.get(OperationRow, operation_id)
    if row is None:
        raise Refusal(
            ErrorCode.NOT_FOUND,
            "there is no such operation",
            subject=operation_id,
            remedy="`counterfoil operation list` shows those there are",
        )
    return row


async def whole(work: UnitOfWork, operation_id: str) -> Operation:
    """Everything the store knows of one operation."""
    row = await find(work, operation_id)
    attempts = select(ATTEMPTS).where(ATTEMPTS.c.operation_id == row.id).order_by(ATTEMPTS.c.generation)
    late = (
        select(LEDGER)
        .where(LEDGER.c.subject_kind == ledger.OPERATION, LEDGER.c.subject_id == row.id, LEDGER.c.kind == "late_reply")
        .order_by(LEDGER.c.version)
    )
    claims = (
        select(CLAIMS, RESOURCES.c.name)
        .join(RESOURCES, RESOURCES.c.digest == CLAIMS.c.resource)
        .where(CLAIMS.c.operation_id == row.id)
        .order_by(RESOURCES.c.name)
    )
    deliveries = await outbox.about(work, row.id)
    summary = summary_of(row, work.now)
    given_up = any(one.state is DeliveryState.GIVEN_UP for one in deliveries)
    return Operation(
        **(summary.model_dump() | {"callback_given_up": given_up}),
        request=request_of(row),
        request_digest=row.request_digest,
        route=route_of(row),
        resources=resources_of(row),
        prepared=prepared_of(row),
        proposal_digest=row.proposal_digest,
        decision=None if row.decision is None else DecisionRecord.model_validate_json(row.decision),
        decision_expires_at=row.decision_expires_at,
        deadline=row.deadline,
        external_id=row.external_id,
        blocked=None if row.blocked is None else Blocked.model_validate_json(row.blocked),
        observation_exhausted=row.observation_exhausted,
        polls=row.polls,
        version=row.ledger_version,
        attempts=tuple(attempt_of(attempt) for attempt in await work.session.all(AttemptRow, attempts)),
        claims=tuple(
            ClaimRecord(
                name=claim.name,
                exclusive=claim.exclusive,
                held=claim.held,
                since=claim.queued_at,
                overtakable=claim.overtakable and not claim.held,
            )
            for claim in (await work.session.execute(claims)).all()
        ),
        dependencies=await dependencies.records_of(work, row.id) if request_of(row).depends_on else (),
        superseded_by=row.superseded_by,
        estimated_cost=rules.spent_by(route_of(row), row.attempts),
        result=None if row.result is None else TypedResult.model_validate_json(row.result),
        evidence=None if row.evidence is None else Evidence.model_validate_json(row.evidence),
        problem=None if row.problem is None else Problem.model_validate_json(row.problem),
        closed_at=row.closed_at,
        attested=row.attested,
        late_replies=tuple(entry_of(entry) for entry in await work.session.all(LedgerRow, late)),
        deliveries=deliveries,
    )


async def session_of(work: UnitOfWork, session: str) -> SessionRecord:
    """How a session stands. Raises `Refusal` (`NOT_FOUND`)."""
    row = await work.session.get(SessionRow, session)
    if row is None:
        raise Refusal(
            ErrorCode.NOT_FOUND,
            "there is no such session",
            subject=session,
            remedy="a session is there once it has asked for an operation",
        )
    return SessionRecord(
        session=row.id, workspace=row.workspace, epoch=row.epoch, paused=row.paused, timeline=row.timeline
    )


async def summaries(
    work: UnitOfWork,
    *,
    workspace: str | None = None,
    session: str | None = None,
    states: Sequence[State] = (),
    limit: int = 100,
) -> list[OperationSummary]:
    """The newest operations that fit, newest first."""
    query = select(OPERATIONS).order_by(OPERATIONS.c.created_at.desc(), OPERATIONS.c.id).limit(limit)
    if workspace is not None:
        query = query.where(OPERATIONS.c.workspace == workspace)
    if session is not None:
        query = query.where(OPERATIONS.c.session == session)
    if states:
        query = query.where(OPERATIONS.c.state.in_(list(states)))
    rows = await work.session.all(OperationRow, query)
    given_up = await outbox.given_up(work, [row.id for row in rows])
    return [summary_of(row, work.now).model_copy(update={"callback_given_up": row.id in given_up}) for row in rows]


async def entries(
    work: UnitOfWork, operation_id: str, *, after: int = 0, limit: int = 1000
) -> list[LedgerEntry] | HistoryGap:
    """An operation's ledger after a version, oldest first."""
    row = await find(work, operation_id)
    found = await ledger.history(work, row, after=after, limit=limit)
    return found if isinstance(found, HistoryGap) else [entry_of(entry) for entry in found]


def summary_of(row: OperationRow, now: datetime) -> OperationSummary:
    """One line about an operation."""
    return OperationSummary(
        operation_id=row.id,
        workspace=row.workspace,
        session=row.session,
        capability=row.capability,
        route_id=row.route_id,
        objective=request_of(row).objective,
        state=State(row.state),
        verification=_verification_at(row, now),
        cancellation=Cancellation(row.cancellation),
        revision=row.revision,
        reverifying=row.reverify,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def _verification_at(row: OperationRow, now: datetime) -> Verification:
    """A verification as it counts now: proof that has outlived the age the request allows is expired."""
    max_age = request_of(row).constraints.verification_max_age_seconds
    proved = row.verification in (Verification.VERIFIED, Verification.PARTIAL)
    if max_age is None or row.evidence is None or not proved:
        return Verification(row.verification)
    observed_at = Evidence.model_validate_json(row.evidence).observed_at
    return Verification.EXPIRED if now - observed_at > timedelta(seconds=max_age) else Verification(row.verification)


def attempt_of(row: AttemptRow) -> AttemptRecord:
    """One journaled attempt."""
    return AttemptRecord(
        generation=row.generation,
        kind=row.kind,
        adapter=row.adapter,
        adapter_version=row.adapter_version,
        environment=row.environment,
        journaled_at=row.journaled_at,
        settled_at=row.settled_at,
        outcome=None if row.outcome is None else _JSON.validate_json(row.outcome),
    )


def entry_of(row: LedgerRow) -> LedgerEntry:
    """One ledger entry."""
    return LedgerEntry(
        version=row.version,
        kind=row.kind,
        summary=row.summary,
        actor=Actor.model_validate_json(row.actor),
        material=row.material,
        at=row.at,
        evidence=None if row.evidence is None else Evidence.model_validate_json(row.evidence),
        data=None if row.data is None else _JSON.validate_json(row.data),
    )
