"""The floor operations are held against: a workflow with the same two activities, which write nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio import activity, workflow

with workflow.unsafe.imports_passed_through():
    from counterfoil.models.operations.outcomes import Completed, Evidence, TypedResult, Verified


def completed() -> Completed:
    """What the quick adapter answers."""
    return Completed(result=TypedResult(kind="record", summary="value set", data={"value": 7}))


def verified() -> Verified:
    """What its verification finds."""
    return Verified(evidence=Evidence(source="record", observed_at=datetime.now(UTC), version="2"))


@activity.defn
async def execute(request: dict[str, Any]) -> Completed:
    """The effect."""
    return completed()


@activity.defn
async def verify(request: dict[str, Any]) -> Verified:
    """The look at it."""
    return verified()


@workflow.defn
class BareWorkflow:
    """Two calls, nothing kept."""

    @workflow.run
    async def run(self, request: dict[str, Any]) -> Verified:
        await workflow.execute_activity(execute, request, start_to_close_timeout=timedelta(seconds=30))
        return await workflow.execute_activity(verify, request, start_to_close_timeout=timedelta(seconds=30))
