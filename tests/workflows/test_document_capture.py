"""A capture as a workflow, and the upkeep: typed answers to whatever they are started with, and harmless repetition."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import ActivityError, ApplicationError

from counterfoil.control_plane.client import ControlPlane
from counterfoil.models.documents.anchoring import Quote
from counterfoil.models.documents.captures import WorkingOn
from counterfoil.models.errors import Refusal, Unavailable
from support.documents import Editor, capture_of
from support.stack import Stack


async def started(client: Client, stack: Stack, argument: Any) -> ApplicationError:
    """How a capture that was started by hand fails."""
    with pytest.raises(WorkflowFailureError) as failed:
        await client.execute_workflow(
            "DocumentCapture", argument, id=f"by-hand-{uuid.uuid4()}", task_queue=stack.settings.task_queue
        )
    cause = failed.value.cause
    cause = cause.cause if isinstance(cause, ActivityError) else cause
    assert isinstance(cause, ApplicationError)
    return cause


@pytest.mark.parametrize(
    "argument",
    [
        None,
        7,
        "text",
        [],
        {},
        {"request": None},
        {"request": {"capture_id": "c"}},
        {"blob": 3},
        {"request": "x" * 20_000},
    ],
)
async def test_whatever_it_is_started_with_ends_as_a_typed_failure(
    client: Client, stack: Stack, control_plane: ControlPlane, argument: Any
):
    await stack.start()

    assert (await started(client, stack, argument)).type == "BAD_REQUEST"


async def test_bytes_that_are_not_there_are_named(client: Client, stack: Stack, control_plane: ControlPlane):
    await stack.start()
    blob = {"digest": "sha256:" + "0" * 64, "size_bytes": 1}

    running = await client.start_workflow(
        "DocumentCapture", {"blob": blob}, id=f"by-hand-{uuid.uuid4()}", task_queue=stack.settings.task_queue
    )
    await asyncio.sleep(1)
    described = await running.describe()
    await running.terminate()

    assert described.raw_description.pending_activities[0].last_failure.application_failure_info.type == "BLOB_MISSING"


async def test_a_refusal_reaches_whoever_asked_with_its_code(stack: Stack, control_plane: ControlPlane):
    await stack.start()

    with pytest.raises(Refusal, match="NOT_FOUND"):
        await control_plane.documents.capture(capture_of(f"c-{uuid.uuid4()}"))


async def test_a_large_request_travels_as_a_reference(client: Client, stack: Stack, control_plane: ControlPlane):
    await stack.start()
    text = "word " * 4000
    await control_plane.documents.create("notes", workspace="acme", update=Editor(text.strip()).typed())
    target = await control_plane.documents.target("notes", 1, len(text) - 1)
    assert len(target.quote.exact) > 16_000
    request = capture_of(f"c-{uuid.uuid4()}", target)

    snapshot = await control_plane.documents.capture(request)

    assert snapshot.target is not None
    assert isinstance(request.choice, WorkingOn)
    assert snapshot.target.target == request.choice.target
    history = await client.get_workflow_handle(
        f"{stack.settings.task_queue}-capture-{request.capture_id}"
    ).fetch_history()
    assert all(event.ByteSize() < 16 * 1024 for event in history.events)


async def test_the_same_capture_by_many_at_once_is_one(stack: Stack, control_plane: ControlPlane):
    await stack.start()
    await control_plane.documents.create("notes", workspace="acme", update=Editor("text").typed())
    request = capture_of(f"c-{uuid.uuid4()}")

    made = await asyncio.gather(*(control_plane.documents.capture(request) for _ in range(5)))

    assert all(one == made[0] for one in made)
    with pytest.raises(Refusal, match="IDEMPOTENCY_CONFLICT"):
        await control_plane.documents.capture(request.model_copy(update={"label": "another"}))


async def test_without_a_worker_it_says_so_and_goes_on_when_there_is_one(stack: Stack):
    await stack.start()
    await stack.control_plane().documents.create("notes", workspace="acme", update=Editor("text").typed())
    await stack.stop()
    hasty = stack.control_plane(timeout_seconds=1)
    request = capture_of(f"c-{uuid.uuid4()}")

    with pytest.raises(Unavailable, match="TIMED_OUT"):
        await hasty.documents.capture(request)
    await stack.start()

    assert (await stack.control_plane().documents.capture(request)).capture_id == request.capture_id


async def test_the_upkeep_compacts_long_logs(client: Client, stack: Stack, control_plane: ControlPlane):
    await stack.start()
    documents = control_plane.documents
    await documents.create("long", workspace="acme")
    await documents.create("short", workspace="acme", update=Editor("x").typed())
    await documents.append("long", *(Editor(f"line {number}").update() for number in range(201)))

    done = await client.execute_workflow(
        "DocumentUpkeep", id=f"upkeep-{uuid.uuid4()}", task_queue=stack.settings.task_queue
    )

    assert done["compacted"] == 1
    assert (
        (await documents.head("long")).snapshot_digest is None,
        (await documents.head("short")).snapshot_digest,
    ) == (
        False,
        None,
    )


async def test_a_quarantined_document_is_released_once_it_is_whole(stack: Stack, control_plane: ControlPlane):
    await stack.start()
    assert stack.unit is not None
    await control_plane.documents.create("notes", workspace="acme", update=Editor("text").typed())
    await stack.unit.documents.log.quarantine("notes", "somebody doubted it")

    with pytest.raises(Refusal, match="DOCUMENT_QUARANTINED"):
        await control_plane.documents.markdown("notes")
    await control_plane.documents.release("notes")

    assert await control_plane.documents.markdown("notes") == "text\n"


async def test_review_goes_by_the_receipt_that_is_published(stack: Stack, control_plane: ControlPlane):
    await stack.start()
    documents = control_plane.documents
    await documents.create("notes", workspace="acme", update=Editor("one two").typed())

    receipt = await documents.publish_receipt("notes")
    (found,) = await documents.applicability("notes", Quote(exact="two"))

    assert await documents.current_receipt("notes") == receipt
    assert type(found).__name__ == "Applies"
