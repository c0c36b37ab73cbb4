"""A large input reaches the adapter whole, and neither a row nor a history grows with it."""

from __future__ import annotations

import pytest
from temporalio.client import WorkflowFailureError

from counterfoil.activities.adapters.base import AdapterContext, Order
from counterfoil.control_plane.client import ControlPlane
from support.scripted import request, scripted
from support.stack import Stack, settled

LARGE = {"text": "x" * 200_000}


async def test_the_client_puts_a_large_input_into_a_blob_and_the_adapter_sees_it_whole(
    stack: Stack, control_plane: ControlPlane
):
    seen = []

    def execute(context: AdapterContext, order: Order) -> object:
        seen.append(order.request.input)
        return None

    scripted(stack.catalog, verification=False, observation=False).script("execute", execute)
    await stack.start()

    created = await control_plane.create(request(input=LARGE))
    await settled(control_plane, created.operation_id)

    assert seen == [LARGE]
    history = await stack.handle(created.operation_id).fetch_history()
    assert max(event.ByteSize() for event in history.events) < 16 * 1024
    again = await control_plane.create(request(input=LARGE))
    assert again.operation_id == created.operation_id


async def test_a_host_may_start_with_a_large_input_inline(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog)
    await stack.start()
    asked = request(input=LARGE)

    handle = await stack.client.start_workflow(
        "ApplicationOperation",
        asked.model_dump(mode="json"),
        id=asked.operation_id,
        task_queue=stack.settings.task_queue,
    )

    assert (await handle.result())["state"] == "completed"
    assert adapter.effects == [(asked.operation_id, 1)]


@pytest.mark.parametrize(
    "blob",
    [
        {"digest": "sha256:" + "0" * 64, "size_bytes": 3},
        {"digest": "sha256:" + "0" * 64, "size_bytes": 3_000_000},
        {"digest": "../../etc/passwd", "size_bytes": 3},
        "nothing",
    ],
)
async def test_a_start_whose_input_is_nowhere_ends_at_once_with_a_typed_error(stack: Stack, blob: object):
    adapter = scripted(stack.catalog)
    await stack.start()
    asked = request()

    handle = await stack.client.start_workflow(
        "ApplicationOperation",
        {"request": asked.model_dump(mode="json"), "input_blob": blob},
        id=asked.operation_id,
        task_queue=stack.settings.task_queue,
    )

    with pytest.raises(WorkflowFailureError) as failure:
        await handle.result()
    assert failure.value.cause.type in ("BAD_REQUEST", "INPUT_TOO_LARGE")
    assert adapter.effects == []
