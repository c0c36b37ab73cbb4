"""What adapters reported, taken into the row: outcomes, observations, cancellations, verification.

A report counts while its attempt is the newest and nobody has attested; afterwards it is recorded as a late reply and
changes nothing. Every function here runs in one transaction and finds its own earlier commit.
"""

from __future__ import annotations

from counterfoil.activities.operations.announcing import announce
from counterfoil.activities.operations.journal import AttemptKind, latest_attempt
from counterfoil.activities.operations.rows import (
    go_on,
    is_authorised,
    is_settled,
    let_go,
    move,
    problem_json,
    record,
    request_of,
    route_of,
)
from counterfoil.activities.store.ledger import Entry
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.errors import ErrorCode
from counterfoil.models.operations import rules
from counterfoil.models.operations.lifecycle import ISSUED, Cancellation, Event, State, Verification
from counterfoil.models.operations.outcomes import (
    CancelAccepted,
    Cancelled,
    CancelOutcome,
    CancelTooLate,
    Completed,
    Contradicted,
    Failed,
    NotApplied,
    Observation,
    Partial,
    Prepared,
    Running,
    UnknownEffect,
    VerificationOutcome,
    VerificationUnavailable,
    Verified,
)
from counterfoil.models.tables import AttemptRow, OperationRow


async def settle_attempt(work: UnitOfWork, row: OperationRow, generation: int, outcome: Observation) -> None:
    """Take the reply of a journaled attempt, once."""
    attempt = await work.session.get(AttemptRow, (row.id, generation))
    if attempt is None or attempt.outcome is not None:
        return
    if not (isinstance(outcome, UnknownEffect) and outcome.code == ErrorCode.ADAPTER_TIMED_OUT):
        # A time-out is no answer: what the adapter says later is, and is taken then.
        attempt.outcome = outcome.model_dump_json()
        attempt.settled_at = work.now
    current = row.generation == generation and not row.attested and row.state in ISSUED | {State.PREPARING}
    if not current:
        record(work, row, _late(outcome, generation))
        return
    if row.state == State.UNKNOWN:
        # The reply overtook the fence: it is the best observation there is. Its workflow may be waiting.
        work.wakes.append(row.id)
    row.attempt_open = False
    await _take(work, row, outcome)
    await stop_exhausted(work, row)


def _late(outcome: Observation, generation: int) -> Entry:
    return Entry(
        kind="late_reply",
        summary=f"attempt {generation} answered '{outcome.status}' after it had been settled otherwise",
        material=False,
        data={"generation": generation, "status": outcome.status},
    )


async def settle_preparation(work: UnitOfWork, row: OperationRow, outcome: Observation) -> None:
    """Take the outcome of a pure preparation: nothing was journaled for it, nothing happened in the world."""
    match outcome:
        case Prepared():
            await _prepared(work, row, outcome)
        case Failed():
            row.problem = problem_json(outcome.code, outcome.detail)
            await move(work, row, Event.REPORT_FAILED, outcome.detail, data={"code": outcome.code})
        case _:
            detail = getattr(outcome, "detail", "") or "the preparation gave no proposal"
            row.problem = problem_json(ErrorCode.ADAPTER_JUNK, detail)
            await move(work, row, Event.REPORT_FAILED, detail, data={"code": ErrorCode.ADAPTER_JUNK})


async def settle_observation(work: UnitOfWork, row: OperationRow, generation: int, seen: Observation) -> None:
    """Take one look at a dispatched attempt, and count it."""
    if row.state not in (State.RUNNING, State.UNKNOWN) or row.generation != generation:
        return
    row.polls += 1
    row.adapter_calls += 1
    row.updated_at = work.now
    await _take(work, row, seen)
    await stop_exhausted(work, row)


async def stop_exhausted(work: UnitOfWork, row: OperationRow) -> None:
    """Stop observing an effect that has used up its polls, its adapter calls or its deadline: it stays unknown."""
    if row.state not in (State.RUNNING, State.UNKNOWN) or (row.state == State.UNKNOWN and row.observation_exhausted):
        return
    limits = request_of(row).constraints
    late = row.deadline is not None and work.now >= row.deadline
    if row.polls < row.polls_limit and row.adapter_calls < limits.max_adapter_calls and not late:
        return
    row.observation_exhausted = True
    reason = "its deadline passed" if late else f"{row.polls} polls told nothing final"
    detail = f"observation stopped: {reason}"
    if row.state == State.RUNNING:
        row.problem = problem_json(ErrorCode.LIMIT_REACHED, detail)
        await move(work, row, rules.event_of_loss(route_of(row)), detail)
    else:
        record(work, row, Entry(kind="observation_exhausted", summary=detail, material=False))
        announce(work, row)


async def _take(work: UnitOfWork, row: OperationRow, seen: Observation) -> None:
    attempt = await latest_attempt(work, row)
    prepares = attempt is not None and attempt.kind == AttemptKind.PREPARE
    match seen:
        case Prepared() if prepares:
            await _prepared(work, row, seen)
        case Completed() if not prepares:
            await _completed(work, row, seen)
        case Running() if route_of(row).observation:
            await _running(work, row, seen)
        case Running():
            row.external_id = seen.external_id
            await _lost(work, row, ErrorCode.ADAPTER_JUNK, "the work runs on, and its route cannot observe it")
        case Failed():
            row.problem = problem_json(seen.code, seen.detail)
            _confirm_cancellation(row)
            await move(work, row, Event.REPORT_FAILED, seen.detail, data={"code": seen.code})
        case UnknownEffect():
            row.external_id = seen.external_id or row.external_id
            await _lost(work, row, seen.code, seen.detail)
        case NotApplied() | Cancelled() if not _is_fresh(work, row, seen):
            await _lost(work, row, ErrorCode.ADAPTER_JUNK, "its evidence is older than the dispatch, or in the future")
        case NotApplied():
            await _not_applied(work, row, seen, replayable=not prepares)
        case Cancelled():
            row.cancellation = Cancellation.CONFIRMED
            await move(work, row, Event.CONFIRM_CANCELLED, seen.detail, evidence=seen.evidence)
        case _:
            await _lost(work, row, ErrorCode.ADAPTER_JUNK, f"'{seen.status}' is no answer to this attempt")


def _is_fresh(work: UnitOfWork, row: OperationRow, seen: NotApplied | Cancelled) -> bool:
    return rules.evidence_is_fresh(seen.evidence, row.dispatched_at, work.now, None)


async def _prepared(work: UnitOfWork, row: OperationRow, seen: Prepared) -> None:
    row.prepared = seen.model_dump_json()
    row.problem = None
    if row.state in (State.RUNNING, State.UNKNOWN):
        await move(work, row, Event.RECOVER_PREPARED, seen.summary)
    if row.cancellation != Cancellation.NONE:
        row.cancellation = Cancellation.CONFIRMED
        await move(work, row, Event.CANCEL_LOCALLY, "cancelled once its preparation had ended")
        return
    await go_on(work, row, seen.summary)


async def _completed(work: UnitOfWork, row: OperationRow, seen: Completed) -> None:
    row.result = seen.result.model_dump_json()
    row.problem = None
    verifiable = route_of(row).verification
    row.verification = Verification.PENDING if verifiable else Verification.UNAVAILABLE
    if row.cancellation in (Cancellation.REQUESTED, Cancellation.UNKNOWN):
        row.cancellation = Cancellation.TOO_LATE
    await move(work, row, Event.REPORT_COMPLETED, seen.result.summary, data={"result": seen.result.kind})


async def _running(work: UnitOfWork, row: OperationRow, seen: Running) -> None:
    row.poll_after_seconds = seen.poll_after_seconds
    if row.state == State.RUNNING and row.external_id == seen.external_id:
        return
    row.external_id = seen.external_id
    await move(
        work, row, Event.REPORT_RUNNING, seen.summary or "running at the target", data={"external_id": seen.external_id}
    )


async def _lost(work: UnitOfWork, row: OperationRow, code: str, detail: str) -> None:
    if row.state == State.UNKNOWN:
        return
    row.problem = problem_json(code, detail)
    await move(work, row, rules.event_of_loss(route_of(row)), detail, data={"code": code})


async def _not_applied(work: UnitOfWork, row: OperationRow, seen: NotApplied, *, replayable: bool) -> None:
    limits = request_of(row).constraints
    again = (
        replayable
        and row.cancellation == Cancellation.NONE
        and is_authorised(row)
        and row.attempts < limits.max_attempts
        and rules.affords(request_of(row), route_of(row), attempts=row.attempts)
        and rules.replay_is_safe(route_of(row), row.first_dispatched_at, work.now)
    )
    row.observation_exhausted = False
    if again:
        row.problem = None
        await move(work, row, Event.REPLAY, f"proved absent, eligible again: {seen.detail}", evidence=seen.evidence)
        return
    row.problem = problem_json("NOT_APPLIED", seen.detail)
    _confirm_cancellation(row)
    await move(work, row, Event.PROVE_ABSENT, seen.detail, evidence=seen.evidence)


def _confirm_cancellation(row: OperationRow) -> None:
    """A requested cancellation ends in certainty when the effect certainly did not happen."""
    if row.cancellation in (Cancellation.REQUESTED, Cancellation.UNKNOWN):
        row.cancellation = Cancellation.CONFIRMED


async def journal_cancel(work: UnitOfWork, row: OperationRow) -> bool:
    """Record, before it is sent, that the target is asked to cancel; False where that no longer applies."""
    if row.cancel_sent or row.state != State.RUNNING or row.cancellation != Cancellation.REQUESTED:
        return False
    row.cancel_sent = True
    row.adapter_calls += 1
    record(work, row, Entry(kind="cancel_sent", summary="the target was asked to cancel", material=False))
    return True


async def settle_cancel(work: UnitOfWork, row: OperationRow, answer: CancelOutcome) -> None:
    """Take the target's answer to a cancellation. What it left open, observation reconciles."""
    if row.cancellation != Cancellation.REQUESTED:
        return
    match answer:
        case Cancelled() if row.state in (State.RUNNING, State.UNKNOWN):
            row.cancellation = Cancellation.CONFIRMED
            await move(work, row, Event.CONFIRM_CANCELLED, answer.detail, evidence=answer.evidence)
        case CancelTooLate():
            row.cancellation = Cancellation.TOO_LATE
            record(work, row, Entry(kind="cancel_too_late", summary=answer.detail or "the work was done already"))
        case CancelAccepted():
            summary = answer.detail or "the target accepted the cancellation"
            record(work, row, Entry(kind="cancel_accepted", summary=summary, material=False))
        case _:
            row.cancellation = Cancellation.UNKNOWN
            detail = getattr(answer, "detail", "") or "no answer to the cancellation"
            record(work, row, Entry(kind="cancel_unknown", summary=detail))


async def settle_verification(work: UnitOfWork, row: OperationRow, seen: VerificationOutcome) -> None:
    """Take a verification. Evidence older than the dispatch or than the request allows is `expired`, not proof."""
    if row.state != State.COMPLETED or not (row.verification == Verification.PENDING or row.reverify):
        return
    again, row.reverify = row.reverify, False
    row.adapter_calls += 1
    status, summary = _judged(work, row, seen)
    proved_before = row.verification != Verification.PENDING
    keeps_old = again and proved_before and status in (Verification.UNAVAILABLE, Verification.EXPIRED)
    if not keeps_old:
        if status != row.verification:
            announce(work, row)
        row.verification = status
        if not isinstance(seen, VerificationUnavailable):
            row.evidence = seen.evidence.model_dump_json()
        if isinstance(seen, Verified | Partial) and seen.result is not None and status != Verification.EXPIRED:
            row.result = seen.result.model_dump_json()
    row.updated_at = work.now
    evidence = None if isinstance(seen, VerificationUnavailable) else seen.evidence
    if is_settled(row):
        await let_go(work, row)
    record(
        work,
        row,
        Entry(kind="verification", summary=summary, evidence=evidence, data={"status": status, "kept": keeps_old}),
    )


def _judged(work: UnitOfWork, row: OperationRow, seen: VerificationOutcome) -> tuple[Verification, str]:
    match seen:
        case VerificationUnavailable():
            return Verification.UNAVAILABLE, seen.detail or "no fresh evidence can be had"
        case Verified() | Partial() | Contradicted():
            max_age = request_of(row).constraints.verification_max_age_seconds
            if not rules.evidence_is_fresh(seen.evidence, row.dispatched_at, work.now, max_age):
                return Verification.EXPIRED, "the evidence is older than the dispatch, or than the request allows"
            status = Verification(seen.status)
            detail = "fresh evidence shows the whole change" if isinstance(seen, Verified) else seen.detail
            return status, detail
