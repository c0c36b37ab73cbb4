"""Cancelling is cooperative, happens once, and is never an undo."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from counterfoil.control_plane.client import ControlPlane
from counterfoil.models.errors import Refusal
from counterfoil.models.operations.outcomes import (
    CancelAccepted,
    Cancelled,
    CancelTooLate,
    Evidence,
    NotApplied,
    Prepared,
    Running,
    UnknownEffect,
)
from counterfoil.models.operations.route import PreparationSupport
from support.gate import Gate
from support.scripted import completed, request, scripted
from support.stack import Stack, settled

QUESTION = {"reason": "it is live data", "question": "Set the value to 2?"}
JOB = Running(external_id="job-1", poll_after_seconds=0.2)


def proof() -> Evidence:
    return Evidence(source="scripted target", observed_at=datetime.now(UTC))


def phases(adapter, name: str) -> int:
    return [phase for phase, _ in adapter.calls].count(name)


async def running(stack: Stack, control_plane: ControlPlane, **changes):
    created = await control_plane.create(request(**changes))
    return await control_plane.wait(created.operation_id, "running", timeout_seconds=30)


@pytest.mark.parametrize("on_create", ["hold", "prepare"])
async def test_what_was_not_dispatched_is_cancelled_on_the_spot(
    stack: Stack, control_plane: ControlPlane, on_create: str
):
    adapter = scripted(stack.catalog)
    await stack.start()

    created = await control_plane.create(request(on_create=on_create))
    await control_plane.cancel(created.operation_id, "changed my mind")
    operation = await settled(control_plane, created.operation_id)

    assert (operation.state, operation.cancellation) == ("cancelled", "confirmed")
    assert (await stack.handle(created.operation_id).result())["state"] == "cancelled"
    assert adapter.effects == []


async def test_cancelling_in_temporal_means_the_same(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog)
    await stack.start()

    created = await control_plane.create(request(decision=QUESTION))
    await stack.handle(created.operation_id).cancel()
    operation = await control_plane.wait(created.operation_id, "cancelled", timeout_seconds=30)

    assert operation.cancellation == "confirmed"
    assert (await stack.handle(created.operation_id).result())["state"] == "cancelled"
    assert adapter.effects == []


async def test_cancelling_in_temporal_before_the_first_step_leaves_a_cancelled_operation(
    stack: Stack, control_plane: ControlPlane
):
    adapter = scripted(stack.catalog, preparation=PreparationSupport.PURE)
    asked_for = request()
    handle = await stack.client.start_workflow(
        "ApplicationOperation",
        asked_for.model_dump(mode="json"),
        id=asked_for.operation_id,
        task_queue=stack.settings.task_queue,
    )
    await handle.cancel()
    await stack.start()

    assert (await handle.result())["state"] == "cancelled"
    assert adapter.effects == []


async def test_a_preparation_under_way_is_cancelled_without_waiting_for_it(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog, preparation=PreparationSupport.PURE)
    gate = Gate(Prepared(summary="sets value to 2"))
    adapter.script("prepare", gate)
    await stack.start()

    created = await control_plane.create(request())
    await gate.reached()
    await control_plane.cancel(created.operation_id, "changed my mind")
    assert (await control_plane.get(created.operation_id)).state == "cancelled"
    result = await stack.handle(created.operation_id).result()
    gate.open()

    assert result["state"] == "cancelled"
    assert adapter.effects == []


async def test_an_effectful_preparation_is_never_cut_off_by_a_command(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog, preparation=PreparationSupport.EFFECTFUL, observation=False)
    gate = Gate(Prepared(summary="a draft at the target"))
    adapter.script("prepare", gate)
    await stack.start()

    created = await control_plane.create(request())
    await gate.reached()
    await stack.handle(created.operation_id).signal("nonsense", 1)
    await control_plane.cancel(created.operation_id, "changed my mind")
    assert (await control_plane.get(created.operation_id)).state == "preparing"
    gate.open()
    operation = await control_plane.wait(created.operation_id, "cancelled", timeout_seconds=30)

    assert (operation.cancellation, phases(adapter, "prepare")) == ("confirmed", 1)
    assert adapter.effects == []


async def test_a_dispatch_nobody_has_picked_up_is_cancelled_at_once(stack: Stack, control_plane: ControlPlane):
    stack.settings = stack.settings.model_copy(update={"adapter_queues": "separate"})
    adapter = scripted(stack.catalog, environment="elsewhere")
    await stack.start()

    created = await control_plane.create(request())
    await control_plane.cancel(created.operation_id, "changed my mind")

    assert (await stack.handle(created.operation_id).result())["state"] == "cancelled"
    assert adapter.calls == []


async def test_cancelling_during_the_call_waits_for_what_it_brings(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog, cancellation=True)
    gate = Gate(completed())
    adapter.script("execute", gate)
    await stack.start()

    created = await control_plane.create(request())
    await gate.reached()
    await control_plane.cancel(created.operation_id, "changed my mind")
    asked_for = await control_plane.get(created.operation_id)
    assert (asked_for.state, asked_for.cancellation) == ("dispatching", "requested")
    gate.open()
    operation = await settled(control_plane, created.operation_id)

    assert (operation.state, operation.cancellation) == ("completed", "too_late")
    assert (len(adapter.effects), phases(adapter, "cancel")) == (1, 0)


async def test_a_job_is_asked_to_cancel_once_and_observed_to_have_stopped(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog, cancellation=True)
    adapter.script("execute", JOB)
    adapter.script("observe", *[JOB] * 2)
    gate = Gate(JOB)
    adapter.script("observe", gate)
    adapter.script("cancel", CancelAccepted())
    await stack.start()

    operation = await running(stack, control_plane)
    await gate.reached()
    await control_plane.cancel(operation.operation_id, "changed my mind")
    await control_plane.cancel(operation.operation_id, "really", key="again")
    adapter.script("observe", JOB, lambda _c, _o: Cancelled(detail="stopped", evidence=proof()))
    gate.open()
    ended = await control_plane.wait(operation.operation_id, "cancelled", timeout_seconds=30)

    assert (ended.cancellation, phases(adapter, "cancel"), len(adapter.effects)) == ("confirmed", 1, 1)


async def test_a_target_that_confirms_at_once_ends_the_operation(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog, cancellation=True)
    adapter.script("execute", JOB)
    adapter.script("observe", *[JOB] * 1000)
    adapter.script("cancel", lambda _c, _o: Cancelled(detail="stopped", evidence=proof()))
    await stack.start()

    operation = await running(stack, control_plane)
    await control_plane.cancel(operation.operation_id, "changed my mind")
    ended = await control_plane.wait(operation.operation_id, "cancelled", timeout_seconds=30)

    assert (ended.cancellation, phases(adapter, "cancel")) == ("confirmed", 1)


@pytest.mark.parametrize("answer", [CancelAccepted(), CancelTooLate()], ids=["accepted", "too late"])
async def test_a_job_that_completes_all_the_same_was_cancelled_too_late(
    stack: Stack, control_plane: ControlPlane, answer
):
    adapter = scripted(stack.catalog, cancellation=True)
    adapter.script("execute", JOB)
    gate = Gate(JOB)
    adapter.script("observe", gate)
    adapter.script("cancel", answer)
    await stack.start()

    operation = await running(stack, control_plane)
    await gate.reached()
    await control_plane.cancel(operation.operation_id, "changed my mind")
    gate.open()
    ended = await control_plane.wait(operation.operation_id, "completed", timeout_seconds=30)

    assert (ended.cancellation, phases(adapter, "cancel"), len(adapter.effects)) == ("too_late", 1, 1)


async def test_a_lost_answer_to_a_cancel_is_reconciled_by_looking_and_never_sent_again(
    stack: Stack, control_plane: ControlPlane
):
    adapter = scripted(stack.catalog, cancellation=True)
    adapter.script("execute", JOB)
    gate = Gate(JOB)
    adapter.script("observe", gate)
    adapter.script("cancel", ConnectionResetError("lost"))
    await stack.start()

    operation = await running(stack, control_plane)
    await gate.reached()
    adapter.script("observe", *[JOB] * 3, lambda _c, _o: Cancelled(detail="stopped", evidence=proof()))
    await control_plane.cancel(operation.operation_id, "changed my mind")
    gate.open()
    ended = await control_plane.wait(operation.operation_id, "cancelled", timeout_seconds=30)

    assert (ended.cancellation, phases(adapter, "cancel"), len(adapter.effects)) == ("confirmed", 1, 1)


async def test_a_job_whose_route_cannot_cancel_is_observed_to_its_end(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog, cancellation=False)
    adapter.script("execute", JOB)
    gate = Gate(completed())
    adapter.script("observe", gate)
    await stack.start()

    operation = await running(stack, control_plane)
    await gate.reached()
    await control_plane.cancel(operation.operation_id, "changed my mind")
    gate.open()
    ended = await control_plane.wait(operation.operation_id, "completed", timeout_seconds=30)

    assert (ended.cancellation, phases(adapter, "cancel")) == ("too_late", 0)


async def test_a_cancelled_unknown_that_is_proved_absent_is_not_made_again(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog, replay={"kind": "conditional"})
    adapter.script("execute", UnknownEffect(code="LOST", detail="no reply"))
    gate = Gate(lambda _c, _o: NotApplied(detail="never arrived", evidence=proof()))
    adapter.script("observe", gate)
    await stack.start()

    created = await control_plane.create(request(constraints={"max_attempts": 3}))
    await gate.reached()
    await control_plane.cancel(created.operation_id, "changed my mind")
    gate.open()
    ended = await control_plane.wait(created.operation_id, "not_applied", timeout_seconds=30)

    assert (ended.cancellation, len(adapter.effects)) == ("confirmed", 1)


async def test_a_completed_operation_stays_completed(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog)
    await stack.start()

    created = await control_plane.create(request())
    await settled(control_plane, created.operation_id)
    await stack.handle(created.operation_id).result()
    answer = await control_plane.cancel(created.operation_id, "changed my mind")
    operation = await control_plane.get(created.operation_id)

    assert "too late" in answer.detail
    assert (operation.state, operation.verification, operation.cancellation) == ("completed", "verified", "too_late")
    assert len(adapter.effects) == 1


async def test_what_was_declined_cannot_be_cancelled_any_more(stack: Stack, control_plane: ControlPlane):
    scripted(stack.catalog)
    await stack.start()

    created = await control_plane.create(request(decision=QUESTION))
    asked = await control_plane.wait(created.operation_id, "awaiting_decision", timeout_seconds=30)
    await control_plane.decide(asked.operation_id, "decline", proposal_digest=asked.proposal_digest)
    with pytest.raises(Refusal, match="NOT_POSSIBLE"):
        await control_plane.cancel(asked.operation_id, "changed my mind")
