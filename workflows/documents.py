"""The workflows of documents: a capture that is asked for from outside a turn, and the regular upkeep."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue, RetryPolicy
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from counterfoil.activities.documents.activities import DocumentActivities
    from counterfoil.models.documents.snapshots import SnapshotReference
    from counterfoil.models.documents.upkeep import Upkept
    from counterfoil.models.errors import ErrorCode, Refusal
    from counterfoil.workflows.inbox import decoded

ARGUMENT_LIMIT_BYTES = 16 * 1024
PATIENT = RetryPolicy(
    initial_interval=timedelta(milliseconds=200), backoff_coefficient=2, maximum_interval=timedelta(seconds=20)
)


@workflow.defn(name="DocumentCapture")
class DocumentCapture:
    """One capture. The capture's id makes it the same however often it is asked for."""

    @workflow.run
    async def run(self, argument: RawValue) -> SnapshotReference:
        """`argument` is `{"request": …}`, or `{"blob": …}` where the request is large."""
        return await workflow.execute_activity_method(
            DocumentActivities.capture_document,
            _asked(*decoded([argument], ARGUMENT_LIMIT_BYTES)),
            start_to_close_timeout=timedelta(minutes=2),
            retry_policy=PATIENT,
            summary="capture a document",
        )


@workflow.defn(name="DocumentUpkeep")
class DocumentUpkeep:
    """Keeps logs short, and removes bytes that nothing uses."""

    @workflow.run
    async def run(self) -> Upkept:
        return await workflow.execute_activity_method(
            DocumentActivities.keep_up_documents,
            start_to_close_timeout=timedelta(minutes=30),
            heartbeat_timeout=timedelta(minutes=5),
            retry_policy=RetryPolicy(maximum_attempts=3),
            summary="keep documents up",
        )


def _asked(argument: Any, problem: str | None) -> dict[str, Any]:
    if problem is None and not isinstance(argument, dict):
        problem = "a capture has a 'request' or a 'blob'"
    if problem is not None:
        refusal = Refusal(ErrorCode.BAD_REQUEST, problem, subject="capture", remedy="correct the request")
        raise ApplicationError(problem, refusal.as_details(), type=refusal.code, non_retryable=True)
    return dict(argument)
