"""Rows of the matrix about the machinery: workers, the Temporal server, the store, and what is restored from before."""

from __future__ import annotations

import asyncio
import uuid

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import (
    ResetWorkflowExecutionRequest,
    SetWorkerDeploymentCurrentVersionRequest,
)
from temporalio.service import RPCError

from counterfoil.activities.fault_points import FaultPoint
from counterfoil.models.errors import CounterfoilError
from counterfoil.models.operations.contract import OperationRequest
from counterfoil.worker.faults.scene import QUESTION, Scene, expect, refused

DEPLOYMENT = "faults"


async def upgraded_on_the_way(scene: Scene) -> None:
    asked, running = scene.parcel(decision=QUESTION), scene.parcel(4)
    old = await scene.worker(deployment_name=DEPLOYMENT, build_id="1")
    await _make_current(scene, "1")
    for one in (asked, running):
        await scene.ask(one)
    await scene.until(asked, "awaiting_decision")
    await scene.until(running, "running")
    await scene.worker(deployment_name=DEPLOYMENT, build_id="2", max_cached_workflows="0")
    await _make_current(scene, "2")
    old.kill()
    await scene.approve(asked)
    for one in (asked, running):
        await scene.expect_end(one, "completed", "verified", effects=1, attempts=(1,), unknown=False)


async def _make_current(scene: Scene, build_id: str) -> None:
    """Have Temporal give work to this version, once it has heard of it."""
    request = SetWorkerDeploymentCurrentVersionRequest(
        namespace=scene.stage.client.namespace,
        deployment_name=DEPLOYMENT,
        build_id=build_id,
        ignore_missing_task_queues=True,
    )

    async def made() -> bool:
        try:
            await scene.stage.client.workflow_service.set_worker_deployment_current_version(request)
        except RPCError:
            return False
        return True

    await scene.until_true(f"version {build_id} is current", made)


async def temporal_killed_mid_approval(scene: Scene) -> None:
    asked = scene.parcel(decision=QUESTION)
    await scene.worker()
    await scene.ask(asked)
    await scene.until(asked, "awaiting_decision")
    await scene.stage.temporal.kill()
    await scene.stage.temporal.start()
    await scene.approve(asked)
    await scene.expect_end(asked, "completed", "verified", effects=1, attempts=(1,), unknown=False)


async def database_away(scene: Scene) -> None:
    waiting, approved = scene.parcel(decision=QUESTION), scene.parcel(decision=QUESTION)
    running, queued = scene.parcel(2, locker="row-22"), scene.parcel(locker="busy")
    await scene.worker()
    for asked in (waiting, approved, running, queued):
        await scene.ask(asked)
    await scene.until(running, "running")
    asked_for = await scene.until(approved, "awaiting_decision")
    async with scene.stage.store.outage():
        deciding = asyncio.create_task(_insist(scene, approved, str(asked_for.proposal_digest)))
        await asyncio.sleep(scene.outage_seconds)
    await deciding
    await scene.approve(waiting)
    for asked in (waiting, approved, running, queued):
        await scene.expect_end(asked, "completed", "verified", effects=1)


async def _insist(scene: Scene, asked: OperationRequest, digest: str) -> None:
    """Approve until it is answered."""
    until = asyncio.get_running_loop().time() + scene.outage_seconds + 60
    while asyncio.get_running_loop().time() < until:
        try:
            await scene.control_plane.decide(asked.operation_id, "approve", proposal_digest=digest)
        except CounterfoilError:
            await asyncio.sleep(0.5)
        else:
            return


async def temporal_restored_from_before(scene: Scene) -> None:
    asked = scene.parcel(decision=QUESTION)
    worker = await scene.worker()
    await scene.ask(asked)
    waiting = await scene.until(asked, "awaiting_decision")
    await scene.stage.temporal.kill()
    await asyncio.to_thread(scene.stage.temporal.save)
    await scene.stage.temporal.start()
    await scene.approve(asked)
    await scene.expect_end(asked, "completed", "verified", effects=1, attempts=(1,))
    worker.kill()
    await scene.stage.temporal.kill()
    await asyncio.to_thread(scene.stage.temporal.restore)
    await scene.stage.temporal.start()
    await scene.worker()
    answer = await scene.decide(waiting, "approve")
    expect("the approval, given again", answer.status.value, "repeated")
    await scene.expect_end(asked, "completed", "verified", effects=1, attempts=(1,))


async def store_restored_from_before(scene: Scene) -> None:
    asked = scene.parcel(decision=QUESTION)
    worker = await scene.worker()
    await scene.ask(asked)
    waiting = await scene.until(asked, "awaiting_decision")
    await scene.stage.store.save()
    await scene.approve(asked)
    await scene.expect_end(asked, "completed", "verified", effects=1, attempts=(1,))
    worker.kill()
    await scene.stage.away_from_store()
    await scene.stage.store.restore()
    await scene.stage.back_at_store()
    expect("what the restored store says", (await scene.get(asked)).state.value, "awaiting_decision")
    await scene.worker()

    async def noticed() -> bool:
        return asked.operation_id in await scene.control_plane.behind()

    await scene.until_true("it is listed as behind", noticed)
    expect("an approval of what was done", await refused(scene.decide(waiting, "approve")), "STORE_BEHIND")
    expect("effects", len(scene.effects(asked)), 1)
    await scene.control_plane.repair(asked.operation_id, "restored by the matrix")
    await scene.expect_end(asked, "completed", "verified", effects=1)


async def touched_in_the_temporal_ui(scene: Scene) -> None:
    await scene.worker()
    asked = {how: scene.parcel(decision=QUESTION) for how in ("terminate", "reset", "cancel")}
    running = {how: scene.parcel(-1 if how == "cancel" else 2) for how in ("terminate", "reset", "cancel")}
    for how in asked:
        await scene.ask(asked[how])
        await scene.ask(running[how])
        await scene.until(asked[how], "awaiting_decision")
        await scene.until(running[how], "running")
        for one in (asked[how], running[how]):
            await _touch(scene, one, how)
    for how, one in asked.items():
        if how != "cancel":
            await scene.approve(one)
            await scene.expect_end(one, "completed", "verified", effects=1, attempts=(1,))
            await scene.expect_end(running[how], "completed", "verified", effects=1, attempts=(1,))
        else:
            await scene.expect_end(one, "cancelled", "unavailable", effects=0, attempts=())
            await scene.expect_end(running[how], "cancelled", "unavailable", effects=0, attempts=(1,))


async def _touch(scene: Scene, asked: OperationRequest, how: str) -> None:
    workflow = scene.stage.client.get_workflow_handle(asked.operation_id)
    if how == "terminate":
        await workflow.terminate("by the matrix")
        return
    if how == "cancel":
        await workflow.cancel()
        return
    history = await workflow.fetch_history()
    first = next(one.event_id for one in history.events if one.HasField("workflow_task_completed_event_attributes"))
    await scene.stage.client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=scene.stage.client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=asked.operation_id, run_id=history.run_id),
            reason="by the matrix",
            workflow_task_finish_event_id=first,
            request_id=uuid.uuid4().hex,
        )
    )


async def looked_at_elsewhere(scene: Scene) -> None:
    asked = scene.parcel(max_attempts=2)
    await scene.begin(asked)
    await scene.worker_killed_at(FaultPoint.ADAPTER_RETURNED, adapter_queues="separate")
    await scene.worker(adapter_queues="separate", environment="elsewhere")
    await scene.worker(adapter_queues="separate", adapters="counterfoil.worker.faults.courier:register_next")
    await scene.until(asked, "unknown")
    await asyncio.sleep(3)
    unknown = await scene.get(asked)
    expect("state and looks while only others serve", (unknown.state.value, unknown.polls), ("unknown", 0))
    await scene.worker(adapter_queues="separate")
    await scene.expect_end(asked, "completed", "verified", effects=1, attempts=(1,), unknown=True)


async def temporal_lost_whole(scene: Scene) -> None:
    waiting, running = scene.parcel(decision=QUESTION), scene.parcel(3)
    worker = await scene.worker()
    for asked in (waiting, running):
        await scene.ask(asked)
    await scene.until(waiting, "awaiting_decision")
    await scene.until(running, "running")
    worker.kill()
    await scene.stage.temporal.kill()
    await asyncio.to_thread(scene.stage.temporal.forget)
    await scene.stage.temporal.start()
    await scene.worker()
    await scene.expect_end(running, "completed", "verified", effects=1, attempts=(1,), unknown=False)
    await scene.approve(waiting)
    await scene.expect_end(waiting, "completed", "verified", effects=1, attempts=(1,), unknown=False)
