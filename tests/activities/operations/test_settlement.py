"""What adapters reported, taken into the row: each outcome from each state, late replies, evidence, cancellation."""

from __future__ import annotations

import shutil
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from counterfoil.models.operations.outcomes import (
    CancelAccepted,
    Cancelled,
    CancelTooLate,
    Completed,
    Contradicted,
    Evidence,
    Failed,
    NotApplied,
    Partial,
    Prepared,
    Running,
    TypedResult,
    UnknownEffect,
    VerificationUnavailable,
    Verified,
)
from counterfoil.models.operations.route import ReplayGuarantee
from support.scripted import completed

NOON = datetime.fromisoformat("2026-07-01T12:00:00+00:00")
LOST = UnknownEffect(code="LOST", detail="no reply")
RUNNING = Running(external_id="job-1")
FAILED = Failed(code="REFUSED", detail="the target said no")
CONDITIONAL = ReplayGuarantee(kind="conditional")


@pytest.fixture
def database_url(empty_sqlite: Path, tmp_path: Path) -> str:
    """SQLite only: these are rules, and the machine runs them on PostgreSQL too."""
    shutil.copy(empty_sqlite, tmp_path / "store.db")
    return f"sqlite:///{tmp_path / 'store.db'}"


def evidence(at: datetime = NOON, **changes: Any) -> Evidence:
    return Evidence(**({"source": "target", "observed_at": at} | changes))


ABSENT = NotApplied(detail="it is not there and never will be", evidence=evidence())
CANCELLED = Cancelled(detail="stopped before it began", evidence=evidence())


async def dispatched(
    bench: Any, *, into: str = "dispatching", route: dict[str, Any] | None = None, **changes: Any
) -> str:
    """An operation in one of the three states in which an effect may be under way."""
    if not bench.catalog.routes():
        bench.route(**(route or {}))
    operation_id: str = (await bench.create(**changes)).id
    assert await bench.grant(operation_id)
    if into == "running":
        await bench.reply(operation_id, RUNNING)
    if into == "unknown":
        await bench.reply(operation_id, LOST)
    return operation_id


async def state(bench: Any, operation_id: str) -> str:
    return (await bench.read(operation_id)).state.value


@pytest.mark.parametrize(
    ("outcome", "expected"), [(completed(), "completed"), (RUNNING, "running"), (FAILED, "failed"), (LOST, "unknown")]
)
async def test_a_reply_is_believed_to_the_letter(bench: Any, outcome: Any, expected: str) -> None:
    operation_id = await dispatched(bench)

    await bench.reply(operation_id, outcome)
    await bench.reply(operation_id, outcome)

    operation = await bench.read(operation_id)
    assert operation.state == expected
    assert operation.attempts[0].outcome["status"] in (expected, outcome.status)
    assert operation.attempts[0].settled_at == NOON
    assert operation.revision == 3, "a reply whose commit was doubtful is taken once"


@pytest.mark.parametrize("into", ["running", "unknown"])
@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (completed(), "completed"),
        (FAILED, "failed"),
        (LOST, "unknown"),
        (RUNNING, "running"),
        (ABSENT, "not_applied"),
        (CANCELLED, "cancelled"),
        (Prepared(summary="a proposal, out of place"), "unknown"),
    ],
)
async def test_an_observation_is_believed_to_the_letter(bench: Any, into: str, seen: Any, expected: str) -> None:
    operation_id = await dispatched(bench, into=into)

    await bench.look(operation_id, seen)

    operation = await bench.read(operation_id)
    assert (operation.state, operation.polls) == (expected, 1)
    closed = expected in ("failed", "not_applied", "cancelled")
    assert await bench.held(operation_id) == (0 if closed else 2)


async def test_nothing_is_observed_of_what_is_not_under_way(bench: Any) -> None:
    operation_id = await dispatched(bench)
    await bench.look(operation_id, completed())
    assert await state(bench, operation_id) == "dispatching"

    await bench.reply(operation_id, FAILED)
    await bench.look(operation_id, completed())
    assert await state(bench, operation_id) == "failed"


async def test_a_look_at_an_older_attempt_says_nothing_of_the_newest(bench: Any) -> None:
    operation_id = await dispatched(
        bench, into="unknown", route={"replay": CONDITIONAL}, constraints={"max_attempts": 2}
    )
    await bench.look(operation_id, ABSENT)
    assert await bench.grant(operation_id, generation=2)
    await bench.reply(operation_id, LOST, generation=2)

    await bench.look(operation_id, completed(), generation=1)

    assert await state(bench, operation_id) == "unknown"


async def test_work_that_runs_on_where_nobody_can_look_is_unknown(bench: Any) -> None:
    operation_id = await dispatched(bench, route={"observation": False})

    await bench.reply(operation_id, RUNNING)

    operation = await bench.read(operation_id)
    assert (operation.state, operation.external_id) == ("unknown", "job-1")


# proved absent


@pytest.mark.parametrize(
    ("guarantee", "max_attempts", "after_seconds", "expected"),
    [
        (ReplayGuarantee(), 5, 0, "not_applied"),
        (CONDITIONAL, 1, 0, "not_applied"),
        (CONDITIONAL, 2, 10**6, "queued"),
        (ReplayGuarantee(kind="by_key", retention_seconds=3600), 2, 3599, "queued"),
        (ReplayGuarantee(kind="by_key", retention_seconds=3600), 2, 3600, "not_applied"),
    ],
)
async def test_what_was_proved_absent_is_eligible_again_only_under_a_guarantee_that_still_holds(
    bench: Any, guarantee: ReplayGuarantee, max_attempts: int, after_seconds: float, expected: str
) -> None:
    operation_id = await dispatched(
        bench, into="unknown", route={"replay": guarantee}, constraints={"max_attempts": max_attempts}
    )
    bench.clock.forward(after_seconds)

    await bench.look(operation_id, ABSENT)

    assert await state(bench, operation_id) == expected
    assert await bench.held(operation_id) == (2 if expected == "queued" else 0)


async def test_what_was_proved_absent_is_not_made_again_once_it_was_to_be_cancelled(bench: Any) -> None:
    operation_id = await dispatched(
        bench, into="unknown", route={"replay": CONDITIONAL}, constraints={"max_attempts": 2}
    )
    await bench.tell(operation_id, "cancel", {"reason": "enough"})

    await bench.look(operation_id, ABSENT)

    operation = await bench.read(operation_id)
    assert (operation.state, operation.cancellation) == ("not_applied", "confirmed")


# bounds


async def test_observation_stops_when_its_polls_are_used_up_and_the_resources_stay_locked(bench: Any) -> None:
    operation_id = await dispatched(bench, into="running", constraints={"max_polls": 3})

    for _ in range(5):
        await bench.look(operation_id, RUNNING)

    operation = await bench.read(operation_id)
    assert (operation.state, operation.observation_exhausted, operation.polls) == ("unknown", True, 5)
    assert operation.problem.code == "LIMIT_REACHED"
    assert await bench.held(operation_id) == 2
    assert (await bench.kinds(operation_id))[:5] == ["created", "queue", "grant", "report_running", "lose"]


async def test_observation_of_an_unknown_effect_stops_once_and_says_so_once(bench: Any) -> None:
    operation_id = await dispatched(bench, into="unknown", constraints={"max_polls": 1})
    for _ in range(3):
        await bench.look(operation_id, LOST)

    assert (await bench.kinds(operation_id)).count("observation_exhausted") == 1
    assert (await bench.read(operation_id)).revision == 3


@pytest.mark.parametrize("into", ["running", "unknown"])
async def test_a_deadline_ends_the_observation_and_settles_nothing(bench: Any, into: str) -> None:
    deadline = NOON + timedelta(hours=1)
    operation_id = await dispatched(bench, into=into, constraints={"deadline": deadline.isoformat()})
    bench.clock.now = deadline

    await bench.stop_exhausted(operation_id)
    await bench.stop_exhausted(operation_id)

    operation = await bench.read(operation_id)
    assert (operation.state, operation.observation_exhausted) == ("unknown", True)
    assert await bench.held(operation_id) == 2


async def test_adapter_calls_are_counted_and_end_the_observation(bench: Any) -> None:
    operation_id = await dispatched(bench, into="unknown", constraints={"max_adapter_calls": 3})
    await bench.look(operation_id, LOST)
    assert (await bench.read(operation_id)).observation_exhausted is False

    await bench.look(operation_id, LOST)

    assert (await bench.read(operation_id)).observation_exhausted is True


async def test_a_reply_that_says_running_after_observation_was_exhausted_can_still_be_attested(bench: Any) -> None:
    """Else it would run for ever: nobody looks any more, and only what is unknown can be attested."""
    operation_id = await dispatched(bench, constraints={"max_polls": 1})
    await bench.fence(operation_id)
    await bench.look(operation_id, LOST)
    assert (await bench.read(operation_id)).observation_exhausted is True

    await bench.reply(operation_id, RUNNING)

    operation = await bench.read(operation_id)
    assert (operation.state, operation.external_id) == ("unknown", "job-1")


# late replies


async def test_a_reply_that_overtakes_its_fence_is_the_best_observation_there_is(bench: Any) -> None:
    operation_id = await dispatched(bench)
    await bench.fence(operation_id)
    bench.woken.clear()

    await bench.reply(operation_id, completed())

    assert await state(bench, operation_id) == "completed"
    assert operation_id in bench.woken
    assert (await bench.read(operation_id)).late_replies == ()


@pytest.mark.parametrize("status", ["applied", "not_applied", "stopped"])
async def test_a_reply_after_an_attestation_is_recorded_and_changes_nothing(bench: Any, status: str) -> None:
    operation_id = await dispatched(bench, route={"observation": False})
    await bench.fence(operation_id)
    attestation = {"expected_revision": 3, "resolution_key": "k", "status": status, "summary": "I looked"}
    assert (await bench.tell(operation_id, "resolve_unknown", attestation)).status == "applied"
    before = await bench.read(operation_id)

    await bench.reply(operation_id, completed("too late"))
    await bench.reply(operation_id, completed("too late"))

    after = await bench.read(operation_id)
    assert (after.state, after.revision, after.result, after.verification) == (
        before.state,
        before.revision,
        before.result,
        "unavailable",
    )
    assert [(entry.kind, entry.data) for entry in after.late_replies] == [
        ("late_reply", {"generation": 1, "status": "completed"})
    ]
    assert after.attempts[0].outcome["result"]["summary"] == "too late", "it is kept as evidence"


async def test_a_reply_of_an_attempt_that_was_made_again_is_recorded_and_changes_nothing(bench: Any) -> None:
    operation_id = await dispatched(bench, route={"replay": CONDITIONAL}, constraints={"max_attempts": 2})
    await bench.fence(operation_id)
    await bench.look(operation_id, ABSENT)
    assert await bench.grant(operation_id, generation=2)

    await bench.reply(operation_id, FAILED, generation=1)

    operation = await bench.read(operation_id)
    assert (operation.state, len(operation.late_replies)) == ("dispatching", 1)


async def test_a_reply_to_an_attempt_nobody_journaled_is_nothing(bench: Any) -> None:
    operation_id = (await bench.create()).id

    await bench.reply(operation_id, completed())

    assert await state(bench, operation_id) == "queued"


# preparation


async def test_a_pure_preparation_leads_as_far_as_the_request_goes(bench: Any) -> None:
    bench.route(preparation="pure")
    question = {"reason": "r", "question": "q", "expires_after_seconds": 60}
    asked = await bench.create(key="a", decision=question)
    kept = await bench.create(key="b", on_create="prepare")
    direct = await bench.create(key="c")
    for row in (asked, kept, direct):
        await bench.prepared(row.id, Prepared(summary="sets A1 to 2"))

    assert [await state(bench, row.id) for row in (asked, kept, direct)] == ["awaiting_decision", "prepared", "queued"]
    operation = await bench.read(asked.id)
    assert operation.prepared.summary == "sets A1 to 2"
    assert operation.decision_expires_at == NOON + timedelta(seconds=60)
    assert operation.proposal_digest is not None


@pytest.mark.parametrize("outcome", [FAILED, LOST])
async def test_a_pure_preparation_that_gives_no_proposal_failed_for_nothing_was_done(bench: Any, outcome: Any) -> None:
    bench.route(preparation="pure")
    operation_id = (await bench.create()).id

    await bench.prepared(operation_id, outcome)

    assert await state(bench, operation_id) == "failed"


async def preparing(bench: Any, **changes: Any) -> str:
    bench.route(preparation="effectful", replay=CONDITIONAL)
    operation_id: str = (await bench.create(**changes)).id
    assert await bench.grant(operation_id, kind="prepare")
    return operation_id


@pytest.mark.parametrize("through", ["unknown", "running"])
async def test_an_effectful_preparation_that_was_lost_is_recovered_by_looking(bench: Any, through: str) -> None:
    operation_id = await preparing(bench)
    await bench.reply(operation_id, LOST)
    if through == "running":
        await bench.look(operation_id, RUNNING)
        assert await state(bench, operation_id) == "running"

    await bench.look(operation_id, Prepared(summary="drafted"))

    assert await state(bench, operation_id) == "queued"
    assert (await bench.read(operation_id)).prepared.summary == "drafted"


async def test_a_lost_preparation_is_never_made_again_whatever_the_route_guarantees(bench: Any) -> None:
    operation_id = await preparing(bench, constraints={"max_attempts": 5})
    await bench.reply(operation_id, LOST)

    await bench.look(operation_id, ABSENT)

    assert await state(bench, operation_id) == "not_applied"


async def test_a_final_result_is_no_answer_to_a_preparation(bench: Any) -> None:
    operation_id = await preparing(bench)

    await bench.reply(operation_id, completed())

    operation = await bench.read(operation_id)
    assert (operation.state, operation.problem.code) == ("unknown", "ADAPTER_JUNK")


async def test_a_preparation_that_was_to_be_cancelled_ends_before_its_effect(bench: Any) -> None:
    operation_id = await preparing(bench)
    await bench.tell(operation_id, "cancel", {"reason": "enough"})
    assert await state(bench, operation_id) == "preparing"

    await bench.reply(operation_id, Prepared(summary="drafted"))

    operation = await bench.read(operation_id)
    assert (operation.state, operation.cancellation) == ("cancelled", "confirmed")
    assert await bench.claims(operation_id) == []


# verification


async def done(bench: Any, **changes: Any) -> str:
    """A completed operation whose verification is pending."""
    operation_id = await dispatched(bench, **changes)
    await bench.reply(operation_id, completed())
    return operation_id


PROOF = evidence(NOON, version="2")


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (Verified(evidence=PROOF), "verified"),
        (Partial(evidence=PROOF, detail="3 of 5"), "partial"),
        (Contradicted(evidence=PROOF, detail="something else"), "contradicted"),
        (VerificationUnavailable(detail="nobody there"), "unavailable"),
    ],
)
async def test_a_verification_says_what_fresh_evidence_shows_and_frees_the_resources(
    bench: Any, seen: Any, expected: str
) -> None:
    operation_id = await done(bench)
    assert await bench.held(operation_id) == 2, "until it is verified, nobody may change what is to be read back"

    await bench.verify(operation_id, seen)
    await bench.verify(operation_id, VerificationUnavailable(detail="a repetition"))

    operation = await bench.read(operation_id)
    assert (operation.state, operation.verification) == ("completed", expected)
    assert (operation.evidence is None) == (expected == "unavailable")
    assert await bench.claims(operation_id) == []


async def test_a_route_that_cannot_verify_claims_nothing(bench: Any) -> None:
    operation_id = await done(bench, route={"verification": False})

    assert (await bench.read(operation_id)).verification == "unavailable"
    assert await bench.claims(operation_id) == []


@pytest.mark.parametrize(
    ("observed", "max_age", "expected"),
    [
        (timedelta(0), None, "verified"),
        (timedelta(microseconds=-1), None, "expired"),
        (timedelta(hours=-1), None, "expired"),
        (timedelta(seconds=100), None, "verified"),
        (timedelta(seconds=106), None, "expired"),
        (timedelta(seconds=40), 60, "verified"),
        (timedelta(seconds=39), 60, "expired"),
    ],
)
async def test_evidence_from_before_the_dispatch_from_the_future_or_too_old_is_no_proof(
    bench: Any, observed: timedelta, max_age: float | None, expected: str
) -> None:
    constraints = {} if max_age is None else {"verification_max_age_seconds": max_age}
    operation_id = await done(bench, constraints=constraints)
    bench.clock.forward(100)

    await bench.verify(operation_id, Verified(evidence=evidence(NOON + observed), result=refined()))

    operation = await bench.read(operation_id)
    assert operation.verification == expected
    assert operation.result.summary == ("looked at" if expected == "verified" else "done")


def refined() -> TypedResult:
    return TypedResult(kind="scripted", summary="looked at")


async def test_proof_expires_by_itself_when_it_has_grown_too_old(bench: Any) -> None:
    operation_id = await done(bench, constraints={"verification_max_age_seconds": 60})
    await bench.verify(operation_id, Verified(evidence=PROOF))
    assert (await bench.read(operation_id)).verification == "verified"

    bench.clock.forward(61)

    assert (await bench.read(operation_id)).verification == "expired"


async def test_reconciling_refreshes_the_proof_and_refines_the_result(bench: Any) -> None:
    operation_id = await done(bench)
    await bench.verify(operation_id, Partial(evidence=PROOF, detail="3 of 5"))
    bench.clock.forward(60)
    answer = await bench.tell(operation_id, "reconcile", {"key": "again"})
    assert answer.status == "applied"

    await bench.verify(operation_id, Verified(evidence=evidence(bench.clock.now), result=refined()))

    operation = await bench.read(operation_id)
    assert (operation.verification, operation.result.summary) == ("verified", "looked at")
    assert operation.evidence.observed_at == NOON + timedelta(seconds=60)
    assert len(operation.attempts) == 1, "nothing was made again"


@pytest.mark.parametrize(
    "seen", [VerificationUnavailable(detail="nobody there"), Verified(evidence=evidence(NOON - timedelta(hours=1)))]
)
async def test_reconciling_keeps_the_old_proof_when_no_fresh_one_can_be_had(bench: Any, seen: Any) -> None:
    operation_id = await done(bench)
    await bench.verify(operation_id, Verified(evidence=PROOF))
    await bench.tell(operation_id, "reconcile", {"key": "again"})

    await bench.verify(operation_id, seen)

    operation = await bench.read(operation_id)
    assert (operation.verification, operation.evidence) == ("verified", PROOF)
    assert (await bench.ledger(operation_id))[-1].data["kept"] is True


async def test_reconciling_before_anything_was_proved_keeps_nothing_old(bench: Any) -> None:
    operation_id = await done(bench)
    await bench.tell(operation_id, "reconcile", {"key": "again"})

    await bench.verify(operation_id, VerificationUnavailable(detail="nobody there"))

    assert (await bench.read(operation_id)).verification == "unavailable"
    assert await bench.claims(operation_id) == []


async def test_fresh_contradiction_replaces_an_old_proof(bench: Any) -> None:
    operation_id = await done(bench)
    await bench.verify(operation_id, Verified(evidence=PROOF))
    await bench.tell(operation_id, "reconcile", {"key": "again"})

    await bench.verify(operation_id, Contradicted(evidence=PROOF, detail="someone changed it back"))

    assert (await bench.read(operation_id)).verification == "contradicted"


# cancelling at the target


async def cancelling(bench: Any) -> str:
    operation_id = await dispatched(bench, into="running", route={"cancellation": True})
    await bench.tell(operation_id, "cancel", {"reason": "enough"})
    return operation_id


async def test_the_target_is_asked_to_cancel_once(bench: Any) -> None:
    operation_id = await cancelling(bench)

    assert await bench.send_cancel(operation_id) is True
    assert await bench.send_cancel(operation_id) is False


async def test_nobody_is_asked_to_cancel_what_was_not_to_be_cancelled(bench: Any) -> None:
    operation_id = await dispatched(bench, into="running", route={"cancellation": True})

    assert await bench.send_cancel(operation_id) is False


@pytest.mark.parametrize(
    ("answer", "then", "expected"),
    [
        (CANCELLED, None, ("cancelled", "confirmed")),
        (CancelTooLate(), completed(), ("completed", "too_late")),
        (CancelAccepted(), CANCELLED, ("cancelled", "confirmed")),
        (CancelAccepted(), completed(), ("completed", "too_late")),
        (CancelAccepted(), ABSENT, ("not_applied", "confirmed")),
        (CancelAccepted(), FAILED, ("failed", "confirmed")),
        (LOST, None, ("running", "unknown")),
        (LOST, completed(), ("completed", "too_late")),
        (LOST, CANCELLED, ("cancelled", "confirmed")),
        (None, completed(), ("completed", "too_late")),
    ],
)
async def test_what_a_cancellation_left_open_is_reconciled_by_looking(
    bench: Any, answer: Any, then: Any, expected: tuple[str, str]
) -> None:
    operation_id = await cancelling(bench)
    await bench.send_cancel(operation_id)
    if answer is not None:
        await bench.cancel_answer(operation_id, answer)
        await bench.cancel_answer(operation_id, answer)
    if then is not None:
        await bench.look(operation_id, then)

    operation = await bench.read(operation_id)
    assert (operation.state, operation.cancellation) == expected


async def test_an_answer_to_a_cancel_that_comes_after_completion_undoes_nothing(bench: Any) -> None:
    operation_id = await cancelling(bench)
    await bench.send_cancel(operation_id)
    await bench.look(operation_id, Completed(result=TypedResult(kind="scripted", summary="done")))

    await bench.cancel_answer(operation_id, CANCELLED)

    operation = await bench.read(operation_id)
    assert (operation.state, operation.cancellation) == ("completed", "too_late")


async def test_an_absence_seen_before_the_dispatch_proves_nothing(bench: Any) -> None:
    bench.route(replay=ReplayGuarantee(kind="conditional"))
    operation_id = (await bench.create(constraints={"max_attempts": 2})).id
    await bench.grant(operation_id)
    await bench.reply(operation_id, UnknownEffect(code="LOST", detail="no reply"))
    old = Evidence(source="target", observed_at=bench.clock.now - timedelta(hours=1))

    await bench.look(operation_id, NotApplied(detail="nothing there", evidence=old))

    assert (await bench.row(operation_id)).state == "unknown"
