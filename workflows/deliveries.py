"""The workflow that has callbacks delivered: one a deployment, which runs only while something waits to be sent.

The outbox is the truth. This loop asks an activity to send what is due, sleeps until the next is due or it is woken,
and ends when nothing waits. Whoever puts something into the outbox starts it, or wakes it; the sweep does where they
could not.
"""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy

with workflow.unsafe.imports_passed_through():
    from counterfoil.activities.deliveries.activities import DeliveryActivities
    from counterfoil.models.deliveries.contract import Rest

LONGEST_TURN = timedelta(minutes=30)
UNHEARD = timedelta(seconds=15)
FOR_EVER = RetryPolicy(
    initial_interval=timedelta(seconds=1), backoff_coefficient=2, maximum_interval=timedelta(seconds=60)
)


@workflow.defn(name="Deliveries")
class Deliveries:
    """Delivers callbacks until none waits."""

    def __init__(self) -> None:
        self._woken = False

    @workflow.run
    async def run(self) -> None:
        while True:
            self._woken = False
            rest = await self._deliver()
            if self._woken:
                continue
            if rest.next_in_seconds is None:
                return
            if workflow.info().is_continue_as_new_suggested():
                workflow.continue_as_new()
            await self._sleep(timedelta(seconds=rest.next_in_seconds))

    @workflow.signal
    def wake(self) -> None:
        """Something was put into the outbox."""
        self._woken = True

    async def _deliver(self) -> Rest:
        return await workflow.execute_activity_method(
            DeliveryActivities.deliver,
            start_to_close_timeout=LONGEST_TURN,
            heartbeat_timeout=UNHEARD,
            retry_policy=FOR_EVER,
            summary="send callbacks that are due",
        )

    async def _sleep(self, patience: timedelta) -> None:
        try:
            await workflow.wait_condition(lambda: self._woken, timeout=patience)
        except TimeoutError:
            return
