"""The workflow that a Temporal Schedule starts to have the sweep made."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy

with workflow.unsafe.imports_passed_through():
    from counterfoil.activities.operations.activities import OperationActivities
    from counterfoil.models.operations.record import Swept


@workflow.defn(name="OperationSweep")
class OperationSweep:
    """One look at every unsettled operation."""

    @workflow.run
    async def run(self) -> Swept:
        return await workflow.execute_activity_method(
            OperationActivities.sweep,
            start_to_close_timeout=timedelta(minutes=10),
            # A worker that is killed while it sweeps must not keep the next sweep waiting.
            heartbeat_timeout=timedelta(seconds=30),
            retry_policy=RetryPolicy(maximum_attempts=3),
            summary="wake operations that nobody serves",
        )
