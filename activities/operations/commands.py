"""Applying a command: one transaction checks its seal, its key and the state, moves the row and keeps the answer.

Whatever arrives is recorded, with the reason where it was refused. A refused command is not kept under its key, so it
may be tried again; an applied one is, so a repetition gets the first answer.
"""

from __future__ import annotations

from dataclasses import dataclass

from counterfoil.activities.operations.creation import start
from counterfoil.activities.operations.journal import AttemptKind, latest_attempt
from counterfoil.activities.operations.rows import go_on, move, note, record, request_of, route_of
from counterfoil.activities.store.ledger import Entry
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.common import UNAUTHENTICATED, Actor, canonical_json, digest_of
from counterfoil.models.errors import CounterfoilError, ErrorCode, Refusal
from counterfoil.models.operations import rules
from counterfoil.models.operations.commands import (
    Answer,
    AnswerStatus,
    Cancel,
    Command,
    CommandName,
    Decide,
    Execute,
    Prepare,
    Reconcile,
    Repair,
    ResolutionStatus,
    ResolveUnknown,
    Verdict,
    command_key,
    unseal,
)
from counterfoil.models.operations.contract import OnCreate
from counterfoil.models.operations.lifecycle import ISSUED, UNDISPATCHED, Cancellation, Event, State, Verification
from counterfoil.models.operations.outcomes import TypedResult
from counterfoil.models.operations.record import DecisionRecord
from counterfoil.models.operations.sealing import Received
from counterfoil.models.tables import CommandRow, OperationRow


@dataclass(frozen=True)
class SealPolicy:
    """How commands are authenticated: the key that seals them, and whether bare ones are honoured at all."""

    key: bytes | None
    allow_unsealed: bool


async def apply(work: UnitOfWork, row: OperationRow, received: Received, policy: SealPolicy) -> Answer:
    """Take one command. Never raises for what the sender did wrong: the answer says it."""
    actor = UNAUTHENTICATED
    try:
        command, actor = unseal(received, operation_id=row.id, key=policy.key, allow_unsealed=policy.allow_unsealed)
        name = CommandName(received.name)
        key = command_key(name, command)
        earlier = await _earlier_answer(work, row, command, key)
        if earlier is not None:
            note(work, row, _note("command_repeated", received, actor, f"'{name}' was given before"))
            return earlier
        detail = await _dispatch(work, row, command, actor)
    except Refusal as refusal:
        return await refused(work, row, received, refusal, actor)
    answer = _answer(row, AnswerStatus.APPLIED, detail)
    work.session.add(
        CommandRow(
            operation_id=row.id,
            key=key,
            content_digest=digest_of(command),
            answer=answer.model_dump_json(),
            at=work.now,
        )
    )
    return answer


async def refused(
    work: UnitOfWork, row: OperationRow, received: Received, refusal: Refusal, actor: Actor = UNAUTHENTICATED
) -> Answer:
    """Record a command that was not taken, and say why."""
    note(work, row, _note("command_refused", received, actor, str(refusal), code=refusal.code))
    return _answer(row, AnswerStatus.REFUSED, refusal.detail, refusal)


def _note(kind: str, received: Received, actor: Actor, summary: str, code: str | None = None) -> Entry:
    data = {"command": received.name[:80], "channel": received.channel} | ({} if code is None else {"code": code})
    return Entry(kind=kind, summary=summary, actor=actor, material=False, data=data)


def _answer(row: OperationRow, status: AnswerStatus, detail: str, refusal: CounterfoilError | None = None) -> Answer:
    return Answer(
        status=status,
        operation_id=row.id,
        state=row.state,
        revision=row.revision,
        code=None if refusal is None else refusal.code,
        detail=detail,
        remedy="" if refusal is None else refusal.remedy,
    )


async def _earlier_answer(work: UnitOfWork, row: OperationRow, command: Command, key: str) -> Answer | None:
    kept = await work.session.get(CommandRow, (row.id, key))
    if kept is None:
        return None
    if kept.content_digest != digest_of(command):
        code = ErrorCode.RESOLUTION_KEY_CONFLICT if isinstance(command, ResolveUnknown) else ErrorCode.BAD_COMMAND
        raise Refusal(
            code,
            "this key was used for another command of this operation",
            subject=row.id,
            remedy="use a new key for a new command",
        )
    answer = Answer.model_validate_json(kept.answer)
    return answer.model_copy(update={"status": AnswerStatus.REPEATED})


async def _dispatch(work: UnitOfWork, row: OperationRow, command: Command, actor: Actor) -> str:
    match command:
        case Decide():
            return await _decide(work, row, command, actor)
        case Cancel():
            return await _cancel(work, row, command, actor)
        case ResolveUnknown():
            return await _resolve(work, row, command, actor)
        case Prepare():
            return await _let(work, row, OnCreate.PREPARE, actor)
        case Execute():
            return await _let(work, row, OnCreate.EXECUTE, actor)
        case Reconcile():
            return await _reconcile(work, row, actor)
        case Repair():
            raise _not_possible(row, "a repair is only for an operation whose store is behind its workflow")


async def _repeated(work: UnitOfWork, row: OperationRow, detail: str, actor: Actor) -> str:
    """A command that asks for what was done already: it changes nothing, and is recorded."""
    record(work, row, Entry(kind="command_repeated", summary=detail, actor=actor, material=False))
    return detail


def _not_possible(row: OperationRow, detail: str, code: ErrorCode = ErrorCode.NOT_POSSIBLE) -> Refusal:
    return Refusal(code, detail, subject=row.id, remedy="read the operation's present state and decide again")


async def _decide(work: UnitOfWork, row: OperationRow, command: Decide, actor: Actor) -> str:
    decided = None if row.decision is None else DecisionRecord.model_validate_json(row.decision)
    if command.proposal_digest != row.proposal_digest:
        raise Refusal(
            ErrorCode.PROPOSAL_MISMATCH,
            "the answer names another proposal than the one that stands",
            subject=row.id,
            remedy=f"look at the proposal {row.proposal_digest} and answer that",
        )
    if decided is not None and (decided.verdict, decided.proposal_digest) == (command.verdict, command.proposal_digest):
        return await _repeated(work, row, f"decided before: {decided.verdict} by {decided.actor.principal}", actor)
    if row.state != State.AWAITING_DECISION:
        raise _not_possible(row, f"the operation is '{row.state}' and awaits no decision")
    if row.decision_expires_at is not None and work.now >= row.decision_expires_at:
        raise _not_possible(row, "the question has expired", ErrorCode.DECISION_EXPIRED)
    event = {Verdict.APPROVE: Event.APPROVE, Verdict.DECLINE: Event.DECLINE, Verdict.REVISE: Event.REVISE}
    row.decision = DecisionRecord(
        verdict=command.verdict, proposal_digest=command.proposal_digest, notes=command.notes, actor=actor, at=work.now
    ).model_dump_json()
    if command.verdict is Verdict.APPROVE:
        row.approved_digest = command.proposal_digest
    summary = f"{command.verdict} by {actor.principal}"
    await move(work, row, event[command.verdict], summary, actor=actor, data={"proposal": command.proposal_digest})
    return summary


async def _cancel(work: UnitOfWork, row: OperationRow, command: Cancel, actor: Actor) -> str:
    state = State(row.state)
    if row.cancellation != Cancellation.NONE:
        return await _repeated(work, row, f"cancellation was asked for before; it is {row.cancellation}", actor)
    if state in UNDISPATCHED and not row.attempt_open:
        row.cancellation = Cancellation.CONFIRMED
        await move(work, row, Event.CANCEL_LOCALLY, f"cancelled before dispatch by {actor.principal}", actor=actor)
        return "cancelled before anything was dispatched"
    if state in ISSUED or row.attempt_open:
        row.cancellation = Cancellation.REQUESTED
        summary = f"cancellation requested by {actor.principal}"
        record(work, row, Entry(kind="cancel_requested", summary=summary, actor=actor))
        return "the effect may be under way: cancellation is requested, observation will tell"
    if state is State.COMPLETED:
        row.cancellation = Cancellation.TOO_LATE
        summary = f"{actor.principal} asked to cancel what was completed: it stays completed"
        record(work, row, Entry(kind="cancel_too_late", summary=summary, actor=actor))
        return "too late: the operation is completed, and cancelling is not undoing"
    raise _not_possible(row, f"the operation is '{state}' already")


async def _resolve(work: UnitOfWork, row: OperationRow, command: ResolveUnknown, actor: Actor) -> str:
    if command.expected_revision != row.revision:
        raise Refusal(
            ErrorCode.STALE_REVISION,
            f"the operation is at revision {row.revision}, the attestation was made for {command.expected_revision}",
            subject=row.id,
            remedy="look at the operation as it is now, and attest that",
        )
    if row.state != State.UNKNOWN:
        raise _not_possible(row, f"the operation is '{row.state}', there is nothing unknown to attest")
    is_silent = rules.has_gone_silent(row.updated_at, row.poll_after_seconds, work.now)
    if route_of(row).observation and not row.observation_exhausted and not is_silent:
        raise _not_possible(row, "its route is still observing it", ErrorCode.OBSERVATION_PENDING)
    attempt = await latest_attempt(work, row)
    prepares = attempt is not None and attempt.kind == AttemptKind.PREPARE
    if prepares and command.status is ResolutionStatus.APPLIED:
        raise _not_possible(row, "what is unknown is a preparation; attest that it was not applied, or stopped")
    events = {
        ResolutionStatus.APPLIED: Event.ATTEST_APPLIED,
        ResolutionStatus.NOT_APPLIED: Event.ATTEST_NOT_APPLIED,
        ResolutionStatus.STOPPED: Event.ATTEST_STOPPED,
    }
    row.attested = True
    row.verification = Verification.UNAVAILABLE
    if command.status is ResolutionStatus.APPLIED:
        row.result = TypedResult(kind="attestation", summary=command.summary).model_dump_json()
    if row.cancellation in (Cancellation.REQUESTED, Cancellation.UNKNOWN):
        applied = command.status is ResolutionStatus.APPLIED
        row.cancellation = Cancellation.TOO_LATE if applied else Cancellation.CONFIRMED
    row.problem = canonical_json({"code": "ATTESTED", "detail": command.summary}).decode()
    summary = f"{actor.principal} attests: {command.status}. {command.summary}"
    data = {"resolution_key": command.resolution_key, "status": command.status}
    await move(work, row, events[command.status], summary, actor=actor, data=data)
    return f"attested as {command.status}"


async def _let(work: UnitOfWork, row: OperationRow, intent: OnCreate, actor: Actor) -> str:
    state = State(row.state)
    if state is State.HELD:
        row.intent = intent
        await start(work, row, route_of(row), actor=actor)
        return f"the operation is '{row.state}' now"
    if intent is OnCreate.EXECUTE and row.intent != OnCreate.EXECUTE:
        if state is State.PREPARED:
            row.intent = intent
            await go_on(work, row, f"execution asked for by {actor.principal}", actor=actor)
            return f"the operation is '{row.state}' now"
        if state is State.PREPARING:
            row.intent = intent
            record(work, row, Entry(kind="execute_asked", summary="to be executed once prepared", actor=actor))
            return "the operation will go on when its preparation is done"
    raise _not_possible(row, f"the operation is '{state}' and needs no such push")


async def _reconcile(work: UnitOfWork, row: OperationRow, actor: Actor) -> str:
    route, state = route_of(row), State(row.state)
    if row.adapter_calls >= request_of(row).constraints.max_adapter_calls:
        raise _not_possible(row, "the request allows no more adapter calls", ErrorCode.LIMIT_REACHED)
    if state is State.COMPLETED and route.verification and not row.attested:
        row.reverify = True
        record(work, row, Entry(kind="reconcile", summary="verification is refreshed", actor=actor, material=False))
        return "the verification is being refreshed"
    if state in (State.UNKNOWN, State.RUNNING) and row.deadline is not None and work.now >= row.deadline:
        raise _not_possible(row, "the deadline has passed, so it is not observed any more", ErrorCode.DEADLINE_PASSED)
    if state in (State.UNKNOWN, State.RUNNING) and route.observation:
        row.observation_exhausted = False
        row.polls_limit = max(row.polls_limit, row.polls + 1)
        record(work, row, Entry(kind="reconcile", summary="observed once more", actor=actor, material=False))
        return "the effect is being observed again"
    raise _not_possible(row, f"the operation is '{state}' and there is nothing to look at again on its route")
