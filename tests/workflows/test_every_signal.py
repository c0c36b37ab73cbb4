"""Every documented signal, bare, and the schedule that sweeps: none may wedge anything."""

from __future__ import annotations

import asyncio

import pytest

from counterfoil.control_plane.client import ControlPlane
from counterfoil.models.operations.lifecycle import State
from support.scripted import request, scripted
from support.stack import Stack, settled

HELD = {"on_create": "hold"}


@pytest.mark.parametrize("name", ["prepare", "execute", "reconcile", "repair", "decide", "cancel", "nobody-knows"])
@pytest.mark.parametrize("arguments", [[], [{}], [{}, {}]])
async def test_a_signal_of_any_name_and_shape_leaves_the_operation_answering(
    stack: Stack, control_plane: ControlPlane, name: str, arguments: list[dict[str, str]]
):
    scripted(stack.catalog)
    await stack.start()
    created = await control_plane.create(request(**HELD))

    await stack.handle(created.operation_id).signal(name, args=arguments)

    if name == "execute" and arguments == [{}]:
        await control_plane.wait(created.operation_id, State.COMPLETED, timeout_seconds=30)
        return
    if name == "prepare" and arguments == [{}]:
        await control_plane.wait(created.operation_id, State.PREPARED, timeout_seconds=30)
    await control_plane.execute(created.operation_id)
    assert (await settled(control_plane, created.operation_id)).state == "completed"


async def test_the_schedule_resumes_what_was_terminated(stack: Stack, control_plane: ControlPlane):
    scripted(stack.catalog)
    await stack.start()
    created = await control_plane.create(request(**HELD))
    await stack.handle(created.operation_id).terminate("by hand")

    await stack.client.get_schedule_handle(f"{stack.settings.task_queue}-sweep").trigger()

    for _ in range(100):
        description = await stack.handle(created.operation_id).describe()
        if description.status is not None and description.status.name == "RUNNING":
            break
        await asyncio.sleep(0.1)
    else:
        pytest.fail("nobody resumed the operation")
    await control_plane.execute(created.operation_id)
    assert (await settled(control_plane, created.operation_id)).state == "completed"
