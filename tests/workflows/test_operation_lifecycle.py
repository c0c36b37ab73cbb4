"""The life of one operation, from what was asked to what was proved."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from counterfoil.control_plane.client import ControlPlane
from counterfoil.models.errors import Refusal
from counterfoil.models.operations.outcomes import (
    Contradicted,
    Evidence,
    Failed,
    Partial,
    Running,
    TypedResult,
    UnknownEffect,
    VerificationUnavailable,
    Verified,
)
from counterfoil.models.operations.route import PreparationSupport
from counterfoil.models.operations.view import OperationResult
from support.gate import Gate
from support.scripted import completed, evidence, request, scripted
from support.stack import Stack, settled

QUESTION = {"reason": "it is live data", "question": "Set the value to 2?"}
PURE = {"preparation": PreparationSupport.PURE}


async def asked(control_plane: ControlPlane, **changes):
    """An operation that awaits its decision."""
    created = await control_plane.create(request(decision=QUESTION, **changes))
    return await control_plane.wait(created.operation_id, "awaiting_decision", timeout_seconds=30)


# how far it goes by itself


async def test_a_held_operation_does_nothing_until_it_is_told_to_prepare_and_then_to_execute(
    stack: Stack, control_plane: ControlPlane
):
    adapter = scripted(stack.catalog, **PURE)
    await stack.start()

    held = await control_plane.create(request(on_create="hold"))
    assert held.state == "held"
    await control_plane.prepare(held.operation_id)
    prepared = await control_plane.wait(held.operation_id, "prepared", timeout_seconds=30)
    assert adapter.calls == [("prepare", held.operation_id)]
    await control_plane.execute(prepared.operation_id)
    operation = await control_plane.wait(held.operation_id, "completed", timeout_seconds=30)

    assert operation.prepared.summary == "sets value to 2"
    assert adapter.effects == [(held.operation_id, 1)]


async def test_a_held_operation_told_to_execute_prepares_first(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog, **PURE)
    await stack.start()

    held = await control_plane.create(request(on_create="hold"))
    await control_plane.execute(held.operation_id)
    await control_plane.wait(held.operation_id, "completed", timeout_seconds=30)

    assert [phase for phase, _ in adapter.calls][:2] == ["prepare", "execute"]


async def test_a_prepared_operation_has_touched_nothing(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog, **PURE)
    await stack.start()

    created = await control_plane.create(request(on_create="prepare"))
    prepared = await control_plane.wait(created.operation_id, "prepared", timeout_seconds=30)

    assert prepared.proposal_digest is not None
    assert adapter.effects == []


async def test_a_preparation_that_fails_ends_the_operation_without_effect(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog, **PURE)
    adapter.script("prepare", Failed(code="SOURCE_CHANGED", detail="it moved"))
    await stack.start()

    created = await control_plane.create(request())
    operation = await settled(control_plane, created.operation_id)

    assert (operation.state, operation.problem.code) == ("failed", "SOURCE_CHANGED")
    assert adapter.effects == []


# the decision


async def test_an_approved_proposal_is_executed(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog, **PURE)
    await stack.start()

    operation = await asked(control_plane)
    assert adapter.effects == []
    await control_plane.decide(operation.operation_id, "approve", proposal_digest=operation.proposal_digest)
    done = await settled_after_decision(control_plane, operation.operation_id)

    assert (done.state, done.verification, done.decision.verdict) == ("completed", "verified", "approve")
    assert (done.decision.actor.principal, done.decision.actor.authenticated) == ("tester", True)
    assert adapter.effects == [(operation.operation_id, 1)]


async def settled_after_decision(control_plane: ControlPlane, operation_id: str):
    return await control_plane.wait(
        operation_id, "completed", "declined", "expired", "failed", "cancelled", timeout_seconds=30
    )


async def test_a_declined_proposal_is_closed_without_effect(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog, **PURE)
    await stack.start()

    operation = await asked(control_plane)
    await control_plane.decide(operation.operation_id, "decline", proposal_digest=operation.proposal_digest)
    done = await settled_after_decision(control_plane, operation.operation_id)

    assert done.state == "declined"
    assert adapter.effects == []


async def test_a_proposal_to_be_revised_waits_with_its_notes_and_can_no_longer_be_approved(
    stack: Stack, control_plane: ControlPlane
):
    adapter = scripted(stack.catalog, **PURE)
    await stack.start()

    operation = await asked(control_plane)
    digest = operation.proposal_digest
    await control_plane.decide(operation.operation_id, "revise", proposal_digest=digest, notes="make it 3")
    waiting = await control_plane.wait(operation.operation_id, "revision_requested", timeout_seconds=30)
    with pytest.raises(Refusal, match="NOT_POSSIBLE"):
        await control_plane.decide(operation.operation_id, "approve", proposal_digest=digest)

    assert waiting.decision.notes == "make it 3"
    assert adapter.effects == []


async def test_an_answer_to_another_proposal_authorises_nothing(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog, **PURE)
    await stack.start()

    operation = await asked(control_plane)
    with pytest.raises(Refusal, match="PROPOSAL_MISMATCH"):
        await control_plane.decide(operation.operation_id, "approve", proposal_digest="sha256:" + "0" * 64)

    assert (await control_plane.get(operation.operation_id)).state == "awaiting_decision"
    assert adapter.effects == []


async def test_a_question_nobody_answers_in_a_month_expires(skipping: Stack):
    adapter = scripted(skipping.catalog, **PURE)
    await skipping.start()
    control_plane = skipping.control_plane()

    decision = QUESTION | {"expires_after_seconds": 30 * 86400}
    created = await control_plane.create(request(decision=decision))
    operation = await control_plane.wait(created.operation_id, "expired", timeout_seconds=30)

    assert operation.state == "expired"
    assert adapter.effects == []


async def test_a_revision_nobody_makes_expires_with_its_question(skipping: Stack):
    scripted(skipping.catalog)
    await skipping.start()
    control_plane = skipping.control_plane()

    decision = QUESTION | {"expires_after_seconds": 366 * 86400}
    created = await control_plane.create(request(decision=decision, on_create="hold"))
    await control_plane.execute(created.operation_id)
    operation = await control_plane.wait(created.operation_id, "expired", timeout_seconds=30)

    assert operation.state == "expired"


async def test_a_question_asked_after_its_deadline_passed_expires(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog, **PURE)
    await stack.start()

    deadline = (datetime.now(UTC) + timedelta(seconds=3)).isoformat()
    created = await control_plane.create(request(decision=QUESTION, constraints={"deadline": deadline}))
    operation = await control_plane.wait(created.operation_id, "expired", timeout_seconds=30)

    assert operation.state == "expired"
    assert adapter.effects == []


# a deadline


async def test_an_operation_whose_adapter_nobody_serves_expires_at_its_deadline(
    stack: Stack, control_plane: ControlPlane
):
    stack.settings = stack.settings.model_copy(update={"adapter_queues": "separate"})
    adapter = scripted(stack.catalog, environment="elsewhere")
    await stack.start()

    deadline = (datetime.now(UTC) + timedelta(seconds=2)).isoformat()
    created = await control_plane.create(request(constraints={"deadline": deadline}))
    operation = await control_plane.wait(created.operation_id, "expired", timeout_seconds=30)

    assert operation.state == "expired"
    assert adapter.calls == []
    assert (await stack.handle(created.operation_id).result())["state"] == "expired"


async def test_a_preparation_nobody_serves_expires_at_its_deadline(stack: Stack, control_plane: ControlPlane):
    stack.settings = stack.settings.model_copy(update={"adapter_queues": "separate"})
    scripted(stack.catalog, environment="elsewhere", **PURE)
    await stack.start()

    deadline = (datetime.now(UTC) + timedelta(seconds=2)).isoformat()
    created = await control_plane.create(request(constraints={"deadline": deadline}))
    operation = await control_plane.wait(created.operation_id, "expired", timeout_seconds=30)

    assert operation.state == "expired"


# the history


async def test_the_whole_life_of_a_quick_operation_is_at_most_24_history_events(
    stack: Stack, control_plane: ControlPlane
):
    scripted(stack.catalog)
    await stack.start()

    created = await control_plane.create(request())
    await settled(control_plane, created.operation_id)
    await stack.handle(created.operation_id).result()

    assert len(await stack.events(created.operation_id)) <= 24


async def test_later_polls_add_no_history(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog)
    await stack.start()
    counts = []
    for key, polls in (("two", 2), ("twenty", 20)):
        adapter.script("execute", Running(external_id="job-1"))
        adapter.script("observe", *[Running(external_id="job-1", poll_after_seconds=0.02)] * (polls - 1), completed())
        created = await control_plane.create(request(key))
        operation = await settled(control_plane, created.operation_id)
        assert operation.polls == polls
        await stack.handle(created.operation_id).result()
        counts.append(len(await stack.events(created.operation_id)))

    assert counts[0] == counts[1]


async def test_a_job_that_is_polled_slowly_adds_no_history_either(skipping: Stack):
    adapter = scripted(skipping.catalog)
    await skipping.start()
    control_plane = skipping.control_plane()
    counts = []
    for key, polls in (("two", 2), ("six", 6)):
        adapter.script("execute", Running(external_id="job-1"))
        adapter.script("observe", *[Running(external_id="job-1", poll_after_seconds=20)] * (polls - 1), completed())
        created = await control_plane.create(request(key))
        await control_plane.wait(created.operation_id, "completed", timeout_seconds=60)
        await skipping.handle(created.operation_id).result()
        events = await skipping.events(created.operation_id)
        counts.append(len([event for event in events if "TIME_SKIPPING" not in event]))

    assert counts[0] == counts[1]


async def test_no_payload_in_a_history_exceeds_16_kib(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog, **PURE)
    result = TypedResult(kind="scripted", summary="much", data={"text": "x" * 200_000})
    adapter.script("execute", completed().model_copy(update={"result": result}))
    await stack.start()

    operation = await asked(control_plane, objective="o" * 3000, input={"text": "y" * 7000})
    await control_plane.decide(operation.operation_id, "approve", proposal_digest=operation.proposal_digest)
    done = await settled_after_decision(control_plane, operation.operation_id)
    await stack.handle(operation.operation_id).result()

    assert done.state == "completed"
    assert max(await stack.payload_sizes(operation.operation_id)) < 16 * 1024


async def test_the_workflow_returns_the_conclusion(stack: Stack, control_plane: ControlPlane):
    scripted(stack.catalog)
    await stack.start()

    created = await control_plane.create(request())
    handle = stack.client.get_workflow_handle(created.operation_id, result_type=OperationResult)
    result = await handle.result()

    assert (result.operation_id, result.state, result.verification) == (created.operation_id, "completed", "verified")
    assert (result.result.summary, result.result.data, result.problem) == ("done", {"value": 2}, None)


# a long job


async def test_a_long_job_is_observed_to_its_end(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog)
    gate = Gate(completed("exported"))
    adapter.script("execute", Running(external_id="job-7", summary="exporting"))
    adapter.script("observe", gate)
    await stack.start()

    created = await control_plane.create(request())
    running = await control_plane.wait(created.operation_id, "running", timeout_seconds=30)
    assert running.external_id == "job-7"
    gate.open()
    operation = await settled(control_plane, created.operation_id)

    assert (operation.state, operation.result.summary) == ("completed", "exported")
    assert adapter.effects == [(created.operation_id, 1)]


async def test_a_job_that_never_ends_stops_being_polled_and_stays_unknown(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog)
    adapter.script("execute", Running(external_id="job-7"))
    adapter.script("observe", *[Running(external_id="job-7", poll_after_seconds=0.01)] * 9)
    await stack.start()

    created = await control_plane.create(request(constraints={"max_polls": 4}))
    operation = await settled(control_plane, created.operation_id)

    assert (operation.state, operation.polls, operation.observation_exhausted) == ("unknown", 4, True)


# verification


@pytest.mark.parametrize(
    ("answer", "verification"),
    [
        (lambda _c, _o: Verified(evidence=evidence()), "verified"),
        (lambda _c, _o: Partial(evidence=evidence(), detail="3 of 5"), "partial"),
        (lambda _c, _o: Contradicted(evidence=evidence(), detail="it says 9"), "contradicted"),
        (lambda _c, _o: VerificationUnavailable(detail="no reader"), "unavailable"),
        (
            lambda _c, _o: Verified(
                evidence=Evidence(source="cache", observed_at=datetime.now(UTC) - timedelta(hours=1))
            ),
            "expired",
        ),
    ],
    ids=["verified", "partial", "contradicted", "unavailable", "expired"],
)
async def test_a_completed_operation_says_what_its_evidence_is_worth(
    stack: Stack, control_plane: ControlPlane, answer, verification
):
    adapter = scripted(stack.catalog)
    adapter.script("verify", answer)
    await stack.start()

    created = await control_plane.create(request())
    operation = await settled(control_plane, created.operation_id)

    assert (operation.state, operation.verification) == ("completed", verification)
    assert adapter.effects == [(created.operation_id, 1)]


async def test_a_verifier_that_fails_a_few_times_is_asked_again(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog)
    adapter.script("verify", OSError("down"), OSError("down"))
    await stack.start()

    created = await control_plane.create(request())
    operation = await settled(control_plane, created.operation_id)

    assert operation.verification == "verified"
    assert adapter.effects == [(created.operation_id, 1)]


async def test_what_cannot_be_verified_is_unavailable_at_once(stack: Stack, control_plane: ControlPlane):
    scripted(stack.catalog, verification=False)
    await stack.start()

    created = await control_plane.create(request())
    operation = await settled(control_plane, created.operation_id)

    assert (operation.state, operation.verification) == ("completed", "unavailable")


# reconcile


async def test_reconciling_a_partial_result_refines_it_without_another_effect(
    stack: Stack, control_plane: ControlPlane
):
    adapter = scripted(stack.catalog)
    adapter.script("verify", lambda _c, _o: Partial(evidence=evidence(), detail="3 of 5"))
    refined = TypedResult(kind="scripted", summary="all five")
    adapter.script("verify", lambda _c, _o: Verified(evidence=evidence(), result=refined))
    await stack.start()

    created = await control_plane.create(request())
    partial = await settled(control_plane, created.operation_id)
    assert partial.verification == "partial"
    await stack.handle(created.operation_id).result()
    await control_plane.reconcile(created.operation_id)
    operation = await verification_of(control_plane, created.operation_id, "verified")

    assert operation.result.summary == "all five"
    assert adapter.effects == [(created.operation_id, 1)]


async def verification_of(control_plane: ControlPlane, operation_id: str, verification: str):
    """The operation once its verification is this."""
    async for _ in control_plane.watch(operation_id):
        pass
    handle = control_plane.temporal.get_workflow_handle(operation_id)
    await handle.result()
    operation = await control_plane.get(operation_id)
    assert operation.verification == verification
    return operation


async def test_reconciling_without_fresh_evidence_keeps_the_proof_there_is(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog)
    await stack.start()

    created = await control_plane.create(request())
    proved = await settled(control_plane, created.operation_id)
    await stack.handle(created.operation_id).result()
    adapter.script("verify", VerificationUnavailable(detail="the reader is away"))
    await control_plane.reconcile(created.operation_id)
    operation = await verification_of(control_plane, created.operation_id, "verified")

    assert operation.evidence == proved.evidence
    assert [phase for phase, _ in adapter.calls].count("verify") == 2


async def test_reconciling_an_unknown_effect_looks_once_more(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog)
    adapter.script("execute", UnknownEffect(code="LOST", detail="no reply"))
    adapter.script("observe", UnknownEffect(code="LOST", detail="not there yet"))
    await stack.start()

    created = await control_plane.create(request(constraints={"max_polls": 1}))
    unknown = await settled(control_plane, created.operation_id)
    assert (unknown.state, unknown.observation_exhausted) == ("unknown", True)
    await control_plane.reconcile(created.operation_id)
    operation = await control_plane.wait(created.operation_id, "completed", timeout_seconds=30)

    assert operation.polls == 2
    assert adapter.effects == [(created.operation_id, 1)]
