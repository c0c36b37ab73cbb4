"""The row is the truth: whatever is terminated, reset, lost or restored, nothing happens twice and nothing is stuck."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import uuid
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.api.common.v1 import Payload, WorkflowExecution
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryRequest, ResetWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.common import RawValue, SearchAttributeKey
from temporalio.testing import WorkflowEnvironment

from counterfoil.control_plane.client import ControlPlane
from counterfoil.control_plane.temporal import data_converter
from counterfoil.models.common import utc_now
from counterfoil.models.errors import CounterfoilError
from counterfoil.models.operations.commands import Received
from counterfoil.models.operations.outcomes import Prepared, Running, UnknownEffect
from counterfoil.models.operations.route import PreparationSupport, ReplayGuarantee
from counterfoil.models.operations.view import ApplyInput
from counterfoil.worker.embedded import TemporalServer, find_temporal, temporal_server
from counterfoil.workflows import search_attributes
from support.gate import Gate
from support.scripted import completed, request, scripted
from support.stack import Stack, settled

QUESTION = {"reason": "it is live data", "question": "Set the value to 2?"}
LOST = UnknownEffect(code="LOST", detail="no reply")
JOB = Running(external_id="job-1", poll_after_seconds=0.1)
SETTLED = ("completed", "failed", "not_applied", "stopped", "cancelled", "declined", "expired")


async def until(look, patience_seconds: float = 30):
    """What `look` gives once it is true."""
    for _ in range(int(patience_seconds / 0.1)):
        if found := await look():
            return found
        await asyncio.sleep(0.1)
    raise AssertionError("it never came true")


async def reset(stack: Stack, operation_id: str) -> None:
    """Reset the newest run to its first step, as the Temporal UI does."""
    history = await stack.handle(operation_id).fetch_history()
    first = next(
        event.event_id for event in history.events if event.HasField("workflow_task_completed_event_attributes")
    )
    await stack.client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=stack.client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=operation_id, run_id=history.run_id),
            reason="a test",
            workflow_task_finish_event_id=first,
            request_id=uuid.uuid4().hex,
        )
    )


@contextlib.asynccontextmanager
async def beside(stack: Stack, address: str, folder: Path, **settings) -> AsyncIterator[Stack]:
    """Another worker of the same deployment, with adapters of its own; not started yet."""
    client = await Client.connect(address, data_converter=data_converter())
    other = Stack(client, folder)
    other.settings = stack.settings.model_copy(update=settings)
    try:
        yield other
    finally:
        await other.close()


# Terminate and Reset


class Scene:
    """An operation held in one state, until `go_on`."""

    def __init__(self, stack: Stack, control_plane: ControlPlane) -> None:
        self.adapter = scripted(
            stack.catalog, preparation=PreparationSupport.PURE, replay=ReplayGuarantee(kind="conditional")
        )
        self._control_plane = control_plane
        self._gates: list[Gate] = []

    def gate(self, phase: str, answer) -> Gate:
        gate = Gate(answer)
        self._gates.append(gate)
        self.adapter.script(phase, gate)
        return gate

    async def enter(self, state: str) -> str:
        create = self._control_plane.create
        match state:
            case "held" | "prepared":
                operation = await create(request(on_create={"held": "hold", "prepared": "prepare"}[state]))
                await self._control_plane.wait(operation.operation_id, state, timeout_seconds=30)
            case "awaiting_decision":
                operation = await create(request(decision=QUESTION))
                await self._control_plane.wait(operation.operation_id, state, timeout_seconds=30)
            case "preparing":
                gate = self.gate("prepare", Prepared(summary="sets value to 2"))
                operation = await create(request())
                await gate.reached()
            case "dispatching":
                gate = self.gate("execute", completed())
                operation = await create(request())
                await gate.reached()
            case "running" | "unknown":
                self.adapter.script("execute", JOB if state == "running" else LOST)
                gate = self.gate("observe", completed())
                operation = await create(request())
                await gate.reached()
        return operation.operation_id

    async def go_on(self, operation_id: str) -> None:
        for gate in self._gates:
            gate.open()
        operation = await self._control_plane.get(operation_id)
        if operation.state == "held" or operation.state == "prepared":
            await self._control_plane.execute(operation_id)
        elif operation.state == "awaiting_decision":
            digest = operation.proposal_digest
            await self._control_plane.decide(operation_id, "approve", proposal_digest=digest)


STATES = ["held", "preparing", "prepared", "awaiting_decision", "dispatching", "running", "unknown"]


@pytest.mark.parametrize("state", STATES)
async def test_a_terminated_workflow_is_resumed_from_its_row_by_the_sweep(
    stack: Stack, control_plane: ControlPlane, state: str
):
    scene = Scene(stack, control_plane)
    await stack.start()
    operation_id = await scene.enter(state)

    await stack.handle(operation_id).terminate("a test")
    swept = await stack.sweep()
    assert (swept.restarted, swept.doubted) == (1, 0)
    await scene.go_on(operation_id)
    operation = await control_plane.wait(operation_id, *SETTLED, timeout_seconds=40)

    assert operation.state == "completed"
    assert len(scene.adapter.effects) == 1
    assert (await stack.handle(operation_id).result())["state"] == "completed"


@pytest.mark.parametrize("state", STATES)
async def test_a_reset_workflow_finds_its_row_and_repeats_no_effect(
    stack: Stack, control_plane: ControlPlane, state: str
):
    scene = Scene(stack, control_plane)
    await stack.start()
    operation_id = await scene.enter(state)

    await reset(stack, operation_id)
    await scene.go_on(operation_id)
    operation = await control_plane.wait(operation_id, *SETTLED, timeout_seconds=40)

    assert operation.state == "completed"
    assert len(scene.adapter.effects) == 1


async def test_a_finished_workflow_that_is_reset_comes_to_the_same_end(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog)
    await stack.start()
    created = await control_plane.create(request())
    first = await stack.handle(created.operation_id).result()

    await reset(stack, created.operation_id)

    assert await stack.client.get_workflow_handle(created.operation_id).result() == first
    assert len(adapter.effects) == 1


async def test_the_answer_of_an_adapter_outlives_the_workflow_that_asked(stack: Stack, control_plane: ControlPlane):
    stack.settings = stack.settings.model_copy(update={"heartbeat_seconds": 2})
    adapter = scripted(stack.catalog, observation=False, call_timeout_seconds=30)
    gate = Gate(completed("the only evidence"))
    adapter.script("execute", gate)
    await stack.start()
    created = await control_plane.create(request())
    await gate.reached()

    await stack.handle(created.operation_id).terminate("a test")
    await asyncio.sleep(3)  # by now the activity has been told that nobody waits for it
    gate.open()
    operation = await control_plane.wait(created.operation_id, "completed", timeout_seconds=30)

    assert operation.result.summary == "the only evidence"
    await stack.sweep()
    assert (await settled(control_plane, created.operation_id)).verification == "verified"
    assert len(adapter.effects) == 1


async def test_an_operation_started_many_times_at_once_is_one_operation(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog)
    await stack.start()

    created = await asyncio.gather(*(control_plane.create(request()) for _ in range(6)))
    operation = await settled(control_plane, created[0].operation_id)

    assert {one.operation_id for one in created} == {operation.operation_id}
    assert adapter.effects == [(operation.operation_id, 1)]


async def test_signals_survive_a_reset_and_count_once(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog)
    await stack.start()
    created = await control_plane.create(request(decision=QUESTION))
    asked = await control_plane.wait(created.operation_id, "awaiting_decision", timeout_seconds=30)
    approval = {"proposal_digest": asked.proposal_digest, "verdict": "approve"}
    await stack.handle(created.operation_id).signal("decide", approval)
    await settled(control_plane, created.operation_id)
    await stack.handle(created.operation_id).result()

    await reset(stack, created.operation_id)
    await stack.client.get_workflow_handle(created.operation_id).result()

    assert adapter.effects == [(created.operation_id, 1)]


# Temporal's own state lost


async def test_a_temporal_that_forgot_everything_is_told_every_open_operation_by_the_sweep(
    stack: Stack, control_plane: ControlPlane, tmp_path: Path
):
    adapter = scripted(stack.catalog, observation=False)
    adapter.script("execute", LOST)
    await stack.start()
    unknown = await settled(control_plane, (await control_plane.create(request("k1"))).operation_id)
    queued = await control_plane.create(request("k2"))
    created = await control_plane.create(request("k3", decision=QUESTION))
    asked = await control_plane.wait(created.operation_id, "awaiting_decision", timeout_seconds=30)
    done = request("k4", resources=[{"kind": "remote_entity", "system": "scripted", "identity": "record-9"}])
    await settled(control_plane, (await control_plane.create(done)).operation_id)
    await stack.stop()

    async with (
        temporal_server(tmp_path / "new" / "temporal.db") as server,
        beside(stack, server.address, tmp_path / "again") as again,
    ):
        again.catalog = stack.catalog
        await again.start()
        anew = again.control_plane()
        for operation in (unknown, queued, asked):
            await until(lambda one=operation: runs(again, one.operation_id))
        await anew.decide(asked.operation_id, "approve", proposal_digest=asked.proposal_digest)
        await anew.resolve_unknown(
            unknown.operation_id,
            expected_revision=unknown.revision,
            resolution_key="r1",
            status="not_applied",
            summary="looked",
        )
        for operation in (queued, asked):
            assert (await anew.wait(operation.operation_id, "completed", timeout_seconds=30)).state == "completed"
        assert (await anew.create(done)).state == "completed"

    assert sorted(generation for _, generation in adapter.effects) == [1, 1, 1, 1]
    assert len({operation_id for operation_id, _ in adapter.effects}) == 4


async def runs(stack: Stack, operation_id: str) -> bool:
    with contextlib.suppress(Exception):
        return (await stack.handle(operation_id).describe()).status.name == "RUNNING"
    return False


# the store restored from before


async def is_behind(control_plane: ControlPlane, operation_id: str) -> bool:
    return operation_id in await control_plane.behind()


class Store:
    """The stack's SQLite file: kept as it is now, and brought back later."""

    def __init__(self, stack: Stack) -> None:
        self._file = stack.settings.database.removeprefix("sqlite:///")
        self._kept = sqlite3.connect(":memory:", check_same_thread=False)

    def keep(self) -> None:
        with contextlib.closing(sqlite3.connect(self._file)) as live:
            live.backup(self._kept)

    def restore(self) -> None:
        with contextlib.closing(sqlite3.connect(self._file, timeout=10)) as live:
            self._kept.backup(live)


async def test_a_store_restored_from_before_is_noticed_and_repaired_by_looking_at_the_target(
    stack: Stack, control_plane: ControlPlane
):
    adapter = scripted(stack.catalog)
    adapter.script("execute", JOB)
    gate = Gate(JOB)
    adapter.script("observe", gate)
    await stack.start()
    created = await control_plane.create(request(on_create="hold"))
    store = Store(stack)
    store.keep()
    await control_plane.execute(created.operation_id)
    await gate.reached()

    store.restore()
    gate.open()
    await until(lambda: is_behind(control_plane, created.operation_id))
    with pytest.raises(CounterfoilError, match="STORE_BEHIND"):
        await control_plane.execute(created.operation_id)
    await stack.sweep()
    assert len(adapter.effects) == 1
    await control_plane.repair(created.operation_id, "restored from last night")
    operation = await control_plane.wait(created.operation_id, "completed", timeout_seconds=30)

    assert operation.verification in ("pending", "verified")
    assert len(adapter.effects) == 1


async def test_a_store_restored_from_before_a_dispatch_under_way_dispatches_nothing_again(
    stack: Stack, control_plane: ControlPlane
):
    adapter = scripted(stack.catalog, observation=False, call_timeout_seconds=60)
    gate = Gate(completed())
    adapter.script("execute", gate)
    blocker = scripted(stack.catalog, "blocker.v1", observation=False)
    blocker.script("execute", LOST)
    await stack.start()
    # The second one waits for the first one's resource: its row is kept exactly as it is before the dispatch.
    first = await settled(control_plane, (await control_plane.create(request("k0", "blocker.v1"))).operation_id)
    second = await control_plane.create(request("k1"))
    await until(lambda: is_blocked(control_plane, second.operation_id))
    store = Store(stack)
    store.keep()
    await attest(control_plane, first)
    await gate.reached()

    store.restore()
    gate.open()
    await until(lambda: is_behind(control_plane, second.operation_id))
    await control_plane.repair(second.operation_id, "restored from last night")
    operation = await settled(control_plane, second.operation_id)

    assert (operation.state, len(adapter.effects)) == ("unknown", 1)


async def is_blocked(control_plane: ControlPlane, operation_id: str) -> bool:
    return (await control_plane.get(operation_id)).blocked is not None


async def attest(control_plane: ControlPlane, operation, status: str = "stopped"):
    return await control_plane.resolve_unknown(
        operation.operation_id,
        expected_revision=operation.revision,
        resolution_key="r1",
        status=status,
        summary="looked",
    )


async def test_an_open_row_whose_workflow_has_finished_is_doubted_and_never_dispatched(
    stack: Stack, control_plane: ControlPlane
):
    adapter = scripted(stack.catalog, observation=False)
    await stack.start()
    created = await control_plane.create(request(on_create="hold"))
    store = Store(stack)
    store.keep()
    await control_plane.execute(created.operation_id)
    await stack.handle(created.operation_id).result()
    store.restore()

    swept = await stack.sweep()
    assert (swept.doubted, swept.restarted) == (1, 0)
    await until(lambda: is_behind(control_plane, created.operation_id))
    await control_plane.repair(created.operation_id, "restored from last night")
    operation = await settled(control_plane, created.operation_id)
    assert operation.state == "unknown"
    await attest(control_plane, operation, "applied")

    assert (await stack.handle(created.operation_id).result())["state"] == "completed"
    assert len(adapter.effects) == 1


@pytest.mark.parametrize("existed", [True, False])
async def test_nobody_starts_an_operation_again_whose_workflow_has_finished(
    stack: Stack, control_plane: ControlPlane, existed: bool
):
    adapter = scripted(stack.catalog)
    await stack.start()
    store = Store(stack)
    store.keep()
    created = await control_plane.create(request(on_create="hold"))
    if existed:
        store.keep()
    await control_plane.execute(created.operation_id)
    await stack.handle(created.operation_id).result()
    store.restore()

    with pytest.raises(CounterfoilError, match="STORE_BEHIND"):
        await control_plane.create(request(on_create="hold"))
    if existed:
        with pytest.raises(CounterfoilError, match="STORE_BEHIND"):
            await control_plane.execute(created.operation_id)
    await stack.unit.activities._parts.engine.wake(created.operation_id)

    assert (await stack.handle(created.operation_id).describe()).status.name == "COMPLETED"
    assert len(adapter.effects) == 1


async def test_terminating_a_workflow_that_waits_for_a_repair_does_not_make_it_forget(
    stack: Stack, control_plane: ControlPlane
):
    adapter = scripted(stack.catalog, observation=False)
    await stack.start()
    created = await control_plane.create(request(on_create="hold"))
    store = Store(stack)
    store.keep()
    await control_plane.execute(created.operation_id)
    await stack.handle(created.operation_id).result()
    store.restore()
    await stack.sweep()
    await until(lambda: is_behind(control_plane, created.operation_id))

    await stack.handle(created.operation_id).terminate("a test")
    swept = await stack.sweep()

    assert (swept.doubted, swept.restarted) == (1, 0)
    await until(lambda: is_behind(control_plane, created.operation_id))
    assert len(adapter.effects) == 1


async def test_an_operation_that_settles_while_the_sweep_looks_is_not_doubted(
    stack: Stack, control_plane: ControlPlane
):
    scripted(stack.catalog)
    await stack.start()
    created = await control_plane.create(request(on_create="hold"))
    engine = stack.unit.activities._parts.engine
    status = engine.status

    async def settles_meanwhile(operation_id: str):
        await control_plane.execute(operation_id)
        await stack.handle(operation_id).result()
        return await status(operation_id)

    engine.status = settles_meanwhile
    swept = await stack.sweep()

    assert (swept.open_operations, swept.doubted) == (1, 0)
    assert (await control_plane.get(created.operation_id)).state == "completed"
    assert not await is_behind(control_plane, created.operation_id)


# the right worker


async def test_another_adapter_version_never_acts_for_an_operation_nor_looks(
    stack: Stack, control_plane: ControlPlane, server: TemporalServer, tmp_path: Path
):
    stack.settings = stack.settings.model_copy(update={"adapter_queues": "separate"})
    adapter = scripted(stack.catalog)
    slow = Running(external_id="job-1", poll_after_seconds=5)
    adapter.script("execute", slow)
    adapter.script("observe", slow)
    await stack.start()
    created = await control_plane.create(request())
    await until(lambda: has_polls(control_plane, created.operation_id))
    await stack.stop()

    async with beside(stack, server.address, tmp_path / "newer") as newer:
        upgraded = scripted(newer.catalog, adapter_version="2")
        await newer.start()
        elsewhere = [{"kind": "remote_entity", "system": "scripted", "identity": "record-2"}]
        await newer.control_plane().create(request("k2", resources=elsewhere))
        await until(lambda: has_effects(upgraded))
        assert created.operation_id not in {operation_id for _, operation_id in upgraded.calls}
        assert (await control_plane.get(created.operation_id)).state == "running"

        await stack.start()
        operation = await control_plane.wait(created.operation_id, "completed", timeout_seconds=40)
    assert operation.route.adapter_version == "1"
    assert adapter.effects == [(created.operation_id, 1)]


async def has_polls(control_plane: ControlPlane, operation_id: str) -> bool:
    return (await control_plane.get(operation_id)).polls == 1


async def has_effects(adapter) -> bool:
    return bool(adapter.effects)


async def test_only_a_worker_of_the_operations_environment_acts_for_it(
    stack: Stack, control_plane: ControlPlane, server: TemporalServer, tmp_path: Path
):
    stack.settings = stack.settings.model_copy(update={"adapter_queues": "separate"})
    adapter = scripted(stack.catalog, environment="mars")
    await stack.start()
    created = await control_plane.create(request())
    await asyncio.sleep(1)
    assert adapter.calls == []

    async with beside(stack, server.address, tmp_path / "there", environment="mars") as there:
        there.catalog = stack.catalog
        await there.start()
        operation = await control_plane.wait(created.operation_id, "completed", timeout_seconds=30)

    assert operation.attempts[0].environment == "mars"
    assert adapter.effects == [(created.operation_id, 1)]


# workers that stop, and workers that are lost


async def test_a_worker_that_is_stopped_lets_a_running_dispatch_finish(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog, call_timeout_seconds=30, verification=False)
    gate = Gate(completed())
    adapter.script("execute", gate)
    await stack.start()
    created = await control_plane.create(request())
    await gate.reached()

    stopping = asyncio.create_task(stack.stop())
    await asyncio.sleep(0.5)
    gate.open()
    await stopping

    operation = await control_plane.get(created.operation_id)
    assert (operation.state, operation.attempts[0].outcome["status"]) == ("completed", "completed")
    assert len(adapter.effects) == 1


async def test_a_dispatch_nobody_hears_of_is_fenced_and_its_late_reply_counts(
    stack: Stack, control_plane: ControlPlane
):
    stack.settings = stack.settings.model_copy(update={"heartbeat_seconds": 1})
    adapter = scripted(stack.catalog, observation=False, call_timeout_seconds=60)
    gate = Gate(completed("it was done"))
    adapter.script("execute", gate)
    await stack.start()
    stack.unit.activities.heart = contextlib.nullcontext
    created = await control_plane.create(request())
    await gate.reached()

    lost = await control_plane.wait(created.operation_id, "unknown", timeout_seconds=30)
    assert lost.problem.code == "DISPATCH_LOST"
    gate.open()
    operation = await control_plane.wait(created.operation_id, "completed", timeout_seconds=30)

    assert operation.result.summary == "it was done"
    assert len(adapter.effects) == 1


async def test_a_dispatch_lost_before_it_was_journaled_is_made_once_by_the_next_worker(
    stack: Stack, control_plane: ControlPlane
):
    adapter = scripted(stack.catalog)
    await stack.start()
    lost = 0

    def lose_once(point) -> None:
        nonlocal lost
        if point.value == "journal.before_commit" and lost == 0:
            lost += 1
            raise ConnectionAbortedError("the worker is gone")

    stack.unit.activities._checkpoint = lose_once
    created = await control_plane.create(request())
    operation = await control_plane.wait(created.operation_id, "completed", timeout_seconds=30)

    assert (operation.state, lost) == ("completed", 1)
    assert len(adapter.effects) == 1


# little caches and long histories


async def test_everything_works_without_a_workflow_cache(stack: Stack, control_plane: ControlPlane):
    stack.settings = stack.settings.model_copy(update={"max_cached_workflows": 0})
    adapter = scripted(stack.catalog, preparation=PreparationSupport.PURE)
    lossy = scripted(stack.catalog, "lossy.v1", observation=False)
    lossy.script("execute", LOST)
    await stack.start()

    created = await control_plane.create(request("k1", decision=QUESTION))
    asked = await control_plane.wait(created.operation_id, "awaiting_decision", timeout_seconds=30)
    await stack.handle(asked.operation_id).signal("decide", "nonsense")
    await control_plane.decide(asked.operation_id, "approve", proposal_digest=asked.proposal_digest)
    await control_plane.wait(asked.operation_id, "completed", timeout_seconds=30)
    created = await control_plane.create(request("k2", "lossy.v1"))
    unknown = await settled(control_plane, created.operation_id)
    await attest(control_plane, unknown)
    created = await control_plane.create(request("k3", decision=QUESTION))
    await control_plane.cancel(created.operation_id, "changed my mind")

    states = {one.operation_id: one.state for one in await control_plane.operations()}
    assert sorted(states.values()) == ["cancelled", "completed", "stopped"]
    assert (len(adapter.effects), len(lossy.effects)) == (1, 1)


@pytest.fixture(scope="module")
def attributes() -> list[SearchAttributeKey]:
    return [key for key in vars(search_attributes).values() if isinstance(key, SearchAttributeKey)]


@contextlib.asynccontextmanager
async def forgetful(attributes: list[SearchAttributeKey]) -> AsyncIterator[Client]:
    """A server that asks for a new run after a few events."""
    environment = await WorkflowEnvironment.start_local(
        dev_server_existing_path=str(find_temporal()),
        dev_server_extra_args=["--dynamic-config-value", "limit.historyCount.suggestContinueAsNew=20"],
        search_attributes=attributes,
        data_converter=data_converter(),
    )
    async with environment:
        yield environment.client


async def test_continuing_as_new_forgets_nothing(attributes, tmp_path: Path):
    async with forgetful(attributes) as client:
        stack = Stack(client, tmp_path, heartbeat_seconds=15)
        adapter = scripted(stack.catalog)
        adapter.script("execute", JOB)
        gate = Gate(completed())
        adapter.script("observe", *[gate] * 50)
        await stack.start()
        control_plane = stack.control_plane()

        created = await control_plane.create(request(decision=QUESTION))
        asked = await control_plane.wait(created.operation_id, "awaiting_decision", timeout_seconds=30)
        handle = stack.handle(created.operation_id)
        for number in range(12):
            await handle.signal("nonsense", number)
        await until(lambda: has_refused(control_plane, created.operation_id, 12))
        await control_plane.decide(asked.operation_id, "approve", proposal_digest=asked.proposal_digest)
        await gate.reached()
        for number in range(12, 24):
            await handle.signal("nonsense", number)
        await until(lambda: has_refused(control_plane, created.operation_id, 24))
        gate.open()
        operation = await control_plane.wait(created.operation_id, "completed", timeout_seconds=40)
        description = await stack.handle(created.operation_id).describe()
        await until(lambda: continued(client, created.operation_id))
        await stack.close()

    assert (operation.state, operation.decision.verdict) == ("completed", "approve")
    assert adapter.effects == [(created.operation_id, 1)]
    assert description.typed_search_attributes.get(search_attributes.OPERATION_SESSION) == created.session


async def has_refused(control_plane: ControlPlane, operation_id: str, count: int) -> bool:
    entries = await control_plane.history(operation_id)
    return [entry.kind for entry in entries].count("command_refused") >= count


async def continued(client: Client, operation_id: str) -> bool:
    runs = [run.status.name async for run in client.list_workflows(f'WorkflowId="{operation_id}"')]
    return "CONTINUED_AS_NEW" in runs


# encryption


async def test_with_a_key_nothing_in_a_history_can_be_read(server: TemporalServer, tmp_path: Path):
    key = b"0123456789abcdef0123456789abcdef"
    client = await Client.connect(server.address, data_converter=data_converter(key))
    stack = Stack(client, tmp_path, heartbeat_seconds=15)
    adapter = scripted(stack.catalog, preparation=PreparationSupport.PURE)
    adapter.script("prepare", ValueError("SECRET-error of an adapter"))
    adapter.script("execute", completed("SECRET-result"))
    await stack.start()
    control_plane = stack.control_plane()

    created = await control_plane.create(
        request(
            objective="SECRET-objective",
            input={"value": "SECRET-input"},
            decision={"reason": "SECRET-reason", "question": "SECRET-question"},
        )
    )
    asked = await control_plane.wait(created.operation_id, "awaiting_decision", timeout_seconds=30)
    bare = await Client.connect(server.address, data_converter=data_converter())
    stranger = bare.get_workflow_handle(created.operation_id)
    await stranger.signal("decide", RawValue(Payload(metadata={"encoding": b"binary/encrypted"}, data=b"x" * 40)))
    await until(lambda: has_refused(control_plane, created.operation_id, 1))
    await control_plane.decide(
        created.operation_id, "approve", proposal_digest=asked.proposal_digest, notes="SECRET-notes"
    )
    await control_plane.wait(created.operation_id, "completed", timeout_seconds=30)
    await stack.handle(created.operation_id).result()

    history = await client.workflow_service.get_workflow_execution_history(
        GetWorkflowExecutionHistoryRequest(
            namespace=client.namespace, execution=WorkflowExecution(workflow_id=created.operation_id)
        )
    )
    await stack.close()
    assert len(history.history.events) > 15
    assert b"SECRET" not in history.SerializeToString()


async def test_a_client_is_told_in_time_that_no_worker_answers(stack: Stack):
    scripted(stack.catalog)
    await stack.start()
    await stack.stop()
    impatient = stack.control_plane(timeout_seconds=2)

    began = asyncio.get_running_loop().time()
    with pytest.raises(CounterfoilError) as refused:
        await impatient.create(request())

    assert refused.value.code == "TIMED_OUT"
    assert "check that a worker runs" in refused.value.remedy
    assert asyncio.get_running_loop().time() - began < 10


async def test_an_approval_whose_workflow_task_was_lost_is_found_by_the_sweep(
    stack: Stack, control_plane: ControlPlane
):
    adapter = scripted(stack.catalog)
    await stack.start()
    assert stack.unit is not None
    asked = request(decision={"reason": "r", "question": "q"}, owner={"workspace": "w", "session": uuid.uuid4().hex})
    await control_plane.create(asked)
    waiting = await settled(control_plane, asked.operation_id)
    approval = {"proposal_digest": waiting.proposal_digest, "verdict": "approve"}
    # What a worker did that was killed, two minutes ago, before it told Temporal: only the row knows of the approval.
    stack.unit.database.clock = lambda: utc_now() - timedelta(minutes=2)
    await stack.unit.activities.apply_command(
        ApplyInput(operation_id=asked.operation_id, command=Received(name="decide", payload=approval, channel="update"))
    )
    stack.unit.database.clock = utc_now

    swept = await stack.sweep()

    operation = await settled(control_plane, asked.operation_id)

    assert (swept.woken, swept.restarted, swept.doubted) == (1, 0, 0)
    assert (operation.state, operation.verification) == ("completed", "verified")
    assert adapter.effects == [(asked.operation_id, 1)]
