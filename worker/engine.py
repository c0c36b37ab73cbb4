"""The engine of `activities.operations.engine`, over a Temporal client."""

from __future__ import annotations

from datetime import timedelta

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from counterfoil.activities.operations.engine import EngineStatus

_STATUS = {
    WorkflowExecutionStatus.RUNNING: EngineStatus.RUNNING,
    WorkflowExecutionStatus.CONTINUED_AS_NEW: EngineStatus.RUNNING,
    WorkflowExecutionStatus.COMPLETED: EngineStatus.FINISHED,
}
CALL_TIMEOUT = timedelta(seconds=10)


class TemporalEngine:
    """Wakes operations' workflows, and says whether they run."""

    def __init__(self, client: Client, task_queue: str) -> None:
        self._client = client
        self._task_queue = task_queue

    async def wake(self, operation_id: str) -> None:
        await self._client.start_workflow(
            "ApplicationOperation",
            {"resume": operation_id},
            id=operation_id,
            task_queue=self._task_queue,
            start_signal="wake",
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

    async def status(self, operation_id: str) -> EngineStatus:
        try:
            description = await self._client.get_workflow_handle(operation_id).describe(rpc_timeout=CALL_TIMEOUT)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return EngineStatus.MISSING
            raise
        if description.status is None:
            return EngineStatus.RUNNING
        return _STATUS.get(description.status, EngineStatus.STOPPED)
