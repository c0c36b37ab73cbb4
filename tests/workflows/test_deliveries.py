"""Callbacks through a real worker: each event once, however the receiver behaves, and in nobody's way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode

from counterfoil import verify_callback
from counterfoil.activities.deliveries import outbox
from counterfoil.control_plane.client import ControlPlane
from counterfoil.models.operations.outcomes import UnknownEffect
from support.callback_receiver import KEY, Receiver, receiving, until
from support.gate import Gate
from support.scripted import completed, request, scripted
from support.stack import Stack, settled

QUESTION = {"reason": "it is live data", "question": "Set the value to 2?"}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as running:
        yield running


@pytest_asyncio.fixture
async def telling(
    client: Client, tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Stack]:
    """A stack, not started yet, that tells `receiver`."""
    monkeypatch.setenv("CALLBACK_TEST_KEY", KEY)
    made = Stack(
        client, tmp_path, heartbeat_seconds=15, callback_url=receiver.url, callback_key="env:CALLBACK_TEST_KEY"
    )
    try:
        yield made
    finally:
        await made.close()


async def received(receiver: Receiver, count: int, seconds: float = 20) -> None:
    await asyncio.to_thread(until, lambda: len(receiver.received) >= count, seconds)


async def test_a_receiver_is_told_once_that_an_operation_asks_and_once_that_it_settled(
    telling: Stack, receiver: Receiver
):
    scripted(telling.catalog)
    await telling.start()
    control_plane = telling.control_plane()

    created = await control_plane.create(request(decision=QUESTION))
    await received(receiver, 1)
    asks = receiver.told()[0]
    await control_plane.decide(created.operation_id, "approve", proposal_digest=asks["proposal_digest"])
    operation = await settled(control_plane, created.operation_id)
    await received(receiver, 2)

    assert [(one["type"], one["state"], one["verification"]) for one in receiver.told()] == [
        ("operation.awaits_decision", "awaiting_decision", "pending"),
        ("operation.settled", "completed", "verified"),
    ]
    assert receiver.told()[1]["version"] == operation.version
    assert receiver.told()[1]["proposal_digest"] is None
    sent = receiver.received[1]
    assert verify_callback(bytes.fromhex(KEY), sent.headers, sent.body).operation_id == created.operation_id


async def test_an_unknown_effect_is_told_of_once_and_again_when_it_is_found(telling: Stack, receiver: Receiver):
    adapter = scripted(telling.catalog)
    gate = Gate(completed())
    adapter.script("execute", UnknownEffect(code="REPLY_LOST", detail="no answer"))
    adapter.script("observe", gate)
    await telling.start()
    control_plane = telling.control_plane()

    created = await control_plane.create(request())
    await received(receiver, 1)
    gate.open()
    await settled(control_plane, created.operation_id)
    await received(receiver, 2)

    assert [(one["type"], one["state"]) for one in receiver.told()] == [
        ("operation.unknown", "unknown"),
        ("operation.settled", "completed"),
    ]


@pytest.mark.parametrize("answer", [500, "reset"])
async def test_a_callback_that_was_not_taken_is_sent_again_and_costs_the_history_nothing(
    telling: Stack, receiver: Receiver, answer: int | str
):
    scripted(telling.catalog)
    receiver.answers.append(answer)
    await telling.start()
    control_plane = telling.control_plane()

    created = await control_plane.create(request())
    await received(receiver, 2)
    await ended(telling)

    operation = await control_plane.get(created.operation_id)
    assert [(one.state, one.tries) for one in operation.deliveries] == [("delivered", 2)]
    assert [one.told["version"] for one in receiver.received] == [operation.version, operation.version]
    assert await activities_scheduled(telling) == 1
    history = str(await (deliveries(telling)).fetch_history())
    assert "in-the-address" not in history
    assert KEY not in history


async def test_operations_take_no_longer_while_the_receiver_does_not_answer(telling: Stack, receiver: Receiver):
    scripted(telling.catalog)
    receiver.always = "hang"
    await telling.start()
    control_plane = telling.control_plane()

    operations = []
    for key in range(5):
        resources = [{"kind": "remote_entity", "system": "scripted", "identity": f"r{key}"}]
        created = await control_plane.create(request(key=f"k{key}", resources=resources))
        operations.append(await settled(control_plane, created.operation_id, timeout_seconds=10))

    assert {one.state for one in operations} == {"completed"}
    assert {one.deliveries[0].state for one in operations} == {"pending"}
    receiver.always = 204
    receiver.released.set()


async def test_what_settles_while_callbacks_are_being_sent_needs_no_further_turn(telling: Stack, receiver: Receiver):
    scripted(telling.catalog)
    await telling.start()
    control_plane = telling.control_plane()

    for key in ("a", "b", "c"):
        created = await control_plane.create(request(key=key))
        await settled(control_plane, created.operation_id)
    await received(receiver, 3)
    await ended(telling)

    assert await activities_scheduled(telling) == 1


async def test_the_sweep_has_delivered_what_nobody_was_woken_for(
    telling: Stack, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(outbox, "OVERDUE", timedelta(milliseconds=100))
    scripted(telling.catalog)
    await telling.start()
    assert telling.unit is not None
    control_plane = telling.control_plane()
    monkeypatch.setattr(telling.unit.bell, "_wake", lost)

    created = await control_plane.create(request())
    await settled(control_plane, created.operation_id)
    await asyncio.sleep(0.2)
    assert receiver.received == []
    await telling.sweep()
    await received(receiver, 1)

    assert receiver.told()[0]["type"] == "operation.settled"


async def test_a_worker_that_is_told_to_stop_does_not_wait_for_the_next_try(telling: Stack, receiver: Receiver):
    scripted(telling.catalog)
    receiver.always = 503
    await telling.start()
    control_plane = telling.control_plane()
    created = await control_plane.create(request())
    await settled(control_plane, created.operation_id)
    await received(receiver, 1)

    began = asyncio.get_running_loop().time()
    await telling.stop()
    took = asyncio.get_running_loop().time() - began
    receiver.always = 204
    await telling.start()
    await received(receiver, 2)

    assert took < 4
    assert len({one.id for one in receiver.received}) == 1


async def test_nothing_is_kept_and_no_workflow_runs_where_nobody_is_to_be_told(
    stack: Stack, control_plane: ControlPlane
):
    scripted(stack.catalog)
    await stack.start()

    created = await control_plane.create(request())
    operation = await settled(control_plane, created.operation_id)

    assert operation.deliveries == ()
    with pytest.raises(RPCError) as missing:
        await deliveries(stack).describe()
    assert missing.value.status is RPCStatusCode.NOT_FOUND


async def test_a_worker_that_has_nobody_to_tell_any_more_ends_the_workflow_and_keeps_what_waits(
    telling: Stack, receiver: Receiver
):
    scripted(telling.catalog)
    receiver.always = 503
    await telling.start()
    control_plane = telling.control_plane()
    created = await control_plane.create(request())
    await settled(control_plane, created.operation_id)
    await received(receiver, 1)
    await telling.stop()
    told = telling.settings
    telling.settings = told.model_copy(update={"callback_url": None, "callback_key": None})
    await telling.start()
    await ended(telling)

    operation = await control_plane.get(created.operation_id)

    assert [one.state for one in operation.deliveries] == ["pending"]


async def lost() -> None:
    """A wake-up that Temporal never got."""


def deliveries(stack: Stack) -> WorkflowHandle:
    return stack.handle(f"{stack.settings.task_queue}-deliveries")


async def ended(stack: Stack) -> None:
    """Wait until nothing waits to be sent, as far as the workflow knows."""
    await asyncio.wait_for(deliveries(stack).result(), 60)
    assert (await deliveries(stack).describe()).status is WorkflowExecutionStatus.COMPLETED


async def activities_scheduled(stack: Stack) -> int:
    return (await stack.events(f"{stack.settings.task_queue}-deliveries")).count("ACTIVITY_TASK_SCHEDULED")
