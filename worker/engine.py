"""The engine of `activities.operations.engine`, over a Temporal client."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from counterfoil.activities.operations.engine import EngineStatus
from counterfoil.workflows.application_operation import STORE_BEHIND
from counterfoil.workflows.search_attributes import OPERATION_STATUS

_STATUS = {
    WorkflowExecutionStatus.RUNNING: EngineStatus.RUNNING,
    WorkflowExecutionStatus.CONTINUED_AS_NEW: EngineStatus.RUNNING,
    WorkflowExecutionStatus.COMPLETED: EngineStatus.FINISHED,
}
CALL_TIMEOUT = timedelta(seconds=10)


class TemporalEngine:
    """Wakes operations' workflows, says whether they run, and has callbacks delivered."""

    def __init__(self, client: Client, task_queue: str) -> None:
        self._client = client
        self._task_queue = task_queue

    async def wake(self, operation_id: str) -> None:
        await self._signal("wake", operation_id)

    async def cancel(self, operation_id: str, command: dict[str, Any]) -> None:
        await self._signal("cancel", operation_id, command)

    async def _signal(self, name: str, operation_id: str, *arguments: Any) -> None:
        # Where one has finished, an open row is older than that: the sweep doubts it, nobody just goes on.
        with contextlib.suppress(WorkflowAlreadyStartedError):
            await self._client.start_workflow(
                "ApplicationOperation",
                {"resume": operation_id},
                id=operation_id,
                task_queue=self._task_queue,
                start_signal=name,
                start_signal_args=arguments,
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY,
                rpc_timeout=CALL_TIMEOUT,
            )

    async def doubt(self, operation_id: str) -> None:
        await self._client.start_workflow(
            "ApplicationOperation",
            {"resume": operation_id, "doubt": True},
            id=operation_id,
            task_queue=self._task_queue,
            start_signal="wake",
            rpc_timeout=CALL_TIMEOUT,
        )

    async def deliver(self) -> None:
        await self._client.start_workflow(
            "Deliveries",
            id=f"{self._task_queue}-deliveries",
            task_queue=self._task_queue,
            start_signal="wake",
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            rpc_timeout=CALL_TIMEOUT,
        )

    async def running(self) -> AsyncIterator[str]:
        mine = f'WorkflowType="ApplicationOperation" AND ExecutionStatus="Running" AND TaskQueue="{self._task_queue}"'
        async for execution in self._client.list_workflows(mine):
            yield execution.id

    async def status(self, operation_id: str) -> EngineStatus:
        try:
            description = await self._client.get_workflow_handle(operation_id).describe(rpc_timeout=CALL_TIMEOUT)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return EngineStatus.MISSING
            raise
        if description.status is None:
            return EngineStatus.RUNNING
        status = _STATUS.get(description.status, EngineStatus.STOPPED)
        if status is EngineStatus.STOPPED and description.typed_search_attributes.get(OPERATION_STATUS) == STORE_BEHIND:
            return EngineStatus.BEHIND
        return status
