"""The workflow that takes a session's command, and passes it on to every operation it concerns."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RawValue, RetryPolicy

with workflow.unsafe.imports_passed_through():
    from counterfoil.activities.operations.activities import OperationActivities
    from counterfoil.models.operations.commands import COMMAND_LIMIT_BYTES, AnswerStatus
    from counterfoil.models.operations.sealing import Received
    from counterfoil.models.operations.sessions import SessionAnswer, SessionOrder, Told
    from counterfoil.workflows.inbox import decoded, printable

PATIENT = RetryPolicy(
    initial_interval=timedelta(milliseconds=200), backoff_coefficient=2, maximum_interval=timedelta(seconds=20)
)


@workflow.defn(name="SessionCommand")
class SessionCommand:
    """One command to a session: cancel its work, pause it, resume it."""

    @workflow.run
    async def run(self, argument: RawValue) -> SessionAnswer:
        """`argument` is `{"session": …, "name": …, "payload": …}`, the payload bare or sealed."""
        order = _order(*decoded([argument], COMMAND_LIMIT_BYTES))
        answer: SessionAnswer = await workflow.execute_activity_method(
            OperationActivities.apply_session_command,
            order,
            start_to_close_timeout=timedelta(seconds=10),
            retry_policy=PATIENT,
            summary=f"{order.received.name} · {order.session}"[:200],
        )
        if answer.status is AnswerStatus.REFUSED:
            return answer
        return answer.model_copy(update={"operations": await self._pass_on(order, answer.epoch)})

    async def _pass_on(self, order: SessionOrder, epoch: int) -> int:
        operations, after = 0, ""
        while True:
            told: Told = await workflow.execute_activity_method(
                OperationActivities.tell_operations,
                order.model_copy(update={"epoch": epoch, "after": after}),
                start_to_close_timeout=timedelta(minutes=5),
                heartbeat_timeout=timedelta(seconds=15),
                retry_policy=PATIENT,
                summary=f"tell the operations of {order.session}"[:200],
            )
            operations += told.operations
            if told.after is None:
                return operations
            after = told.after


def _order(argument: object, problem: str | None) -> SessionOrder:
    given = argument if isinstance(argument, dict) else {}
    session, name = given.get("session"), given.get("name")
    if problem is None and not (isinstance(session, str) and isinstance(name, str)):
        problem = "a session's command has 'session', 'name' and 'payload'"
    return SessionOrder(
        session=printable(str(session)),
        received=Received(name=printable(str(name)), payload=given.get("payload"), problem=problem),
    )
