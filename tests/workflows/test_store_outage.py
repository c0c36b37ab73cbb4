"""A database that is away for a while, at each transition: the operation waits for it, and loses nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from counterfoil.control_plane.client import ControlPlane
from counterfoil.models.errors import ErrorCode, Unavailable
from support.scripted import request, scripted
from support.stack import Stack, settled


@pytest.mark.parametrize(
    ("healthy_calls", "faltering_calls"), [(0, 4), (1, 4), (2, 4), (3, 4), (1, 1)], ids=lambda number: str(number)
)
async def test_an_operation_waits_for_a_database_that_is_away(
    stack: Stack, control_plane: ControlPlane, healthy_calls: int, faltering_calls: int
):
    adapter = scripted(stack.catalog)
    await stack.start()
    assert stack.unit is not None
    database = stack.unit.database
    run, calls = database.run, 0

    async def faltering(work: Callable[[Any], Awaitable[Any]]) -> Any:
        nonlocal calls
        calls += 1
        if healthy_calls < calls <= healthy_calls + faltering_calls:
            raise Unavailable(ErrorCode.STORE_UNAVAILABLE, "the database does not answer")
        return await run(work)

    database.run = faltering  # type: ignore[method-assign]
    asked = request()
    handle = await stack.client.start_workflow(
        "ApplicationOperation",
        asked.model_dump(mode="json"),
        id=asked.operation_id,
        task_queue=stack.settings.task_queue,
    )

    assert (await handle.result())["state"] == "completed"
    operation = await settled(control_plane, asked.operation_id)
    assert (operation.state, operation.verification) == ("completed", "verified")
    assert len(adapter.effects) == 1
