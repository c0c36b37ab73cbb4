"""The transitions: activities that only move rows. Idempotent, and retried for ever."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext

from temporalio import activity

from counterfoil.activities.fault_points import FaultPoint
from counterfoil.activities.operations import commands, journal, sweeping
from counterfoil.activities.operations.repair import repair
from counterfoil.activities.operations.rows import (
    load,
    move,
)
from counterfoil.activities.operations.sessions import SessionSteps
from counterfoil.activities.operations.steps import typed
from counterfoil.activities.operations.views import view_of
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.errors import ErrorCode, Refusal
from counterfoil.models.operations.commands import CommandName
from counterfoil.models.operations.lifecycle import UNDISPATCHED, Event
from counterfoil.models.operations.record import Swept
from counterfoil.models.operations.sealing import Received
from counterfoil.models.operations.view import (
    Applied,
    ApplyInput,
    OpenInput,
    OperationView,
    StepInput,
)
from counterfoil.models.tables import OperationRow


class Transitions(SessionSteps):
    """Opening, commands, time-outs, fencing, sweeping."""

    @activity.defn
    async def open_operation(self, given: OpenInput) -> OperationView:
        """Claim the operation of a request, or load one to resume."""
        with typed():
            if given.problem is not None:
                raise Refusal(ErrorCode.BAD_REQUEST, given.problem, remedy="start it with one OperationRequest")
            if isinstance(given.argument, dict) and "resume" in given.argument:
                return await self.view(StepInput(operation_id=given.workflow_id, seen_revision=given.seen_revision))
            request, kept = await asyncio.to_thread(self._parts.creator.read, given.argument)
            if request.operation_id != given.workflow_id:
                raise Refusal(
                    ErrorCode.WORKFLOW_ID_MISMATCH,
                    f"this request's operation is {request.operation_id}, the workflow is {given.workflow_id}",
                    subject=given.workflow_id,
                    remedy="start the workflow under the id that operation_id(session, idempotency_key) gives",
                )
            view = await self.commit(lambda work: self._parts.creator.claim(work, request, kept))
            self._checkpoint(FaultPoint.OPEN_COMMITTED)
            return view

    @activity.defn
    async def apply_command(self, given: ApplyInput) -> Applied:
        """Take one command; the answer says what became of it."""
        received = Received.model_validate(given.command)

        async def take(work: UnitOfWork) -> Applied:
            if received.name == CommandName.REPAIR:
                row, answer = await repair(work, given, received, self._parts.policy, self._parts.creator)
            else:
                row = await load(work, given.operation_id, seen_revision=given.seen_revision)
                answer = await commands.apply(work, row, received, self._parts.policy)
            self._checkpoint(FaultPoint.COMMAND_BEFORE_COMMIT)
            wakes.extend(work.wakes)
            return Applied(answer=answer, view=view_of(row, self._parts.timing))

        wakes: list[str] = []
        with typed():
            applied = await self._database.run(take)
        self._checkpoint(FaultPoint.COMMAND_COMMITTED)
        await self.wake(wakes)
        return applied

    @activity.defn
    async def reload(self, step: StepInput) -> OperationView:
        """Look at the row again; a blocked one may ask for its dispatch once more."""
        with typed():
            return await self.view(step)

    @activity.defn
    async def expire(self, step: StepInput) -> OperationView:
        """A decision or a deadline ran out, by the workflow's clock."""

        async def end(work: UnitOfWork) -> OperationRow:
            row = await load(work, step.operation_id, seen_revision=step.seen_revision)
            if row.state in UNDISPATCHED and not row.attempt_open:
                await move(work, row, Event.EXPIRE, "nobody decided, or it was not dispatched, in time")
            self._checkpoint(FaultPoint.EXPIRE_BEFORE_COMMIT)
            return row

        with typed():
            view = await self.commit(end)
        self._checkpoint(FaultPoint.EXPIRE_COMMITTED)
        return view

    @activity.defn
    async def fence_dispatch(self, step: StepInput) -> OperationView:
        """A dispatch was reported lost: decide what it is."""

        async def decide(work: UnitOfWork) -> OperationRow:
            row = await load(work, step.operation_id, seen_revision=step.seen_revision)
            await journal.fence(work, row, step.generation)
            self._checkpoint(FaultPoint.FENCE_BEFORE_COMMIT)
            return row

        with typed():
            view = await self.commit(decide)
        self._checkpoint(FaultPoint.FENCE_COMMITTED)
        return view

    @activity.defn
    async def sweep(self) -> Swept:
        """Wake every open operation whose workflow does not run, or whose turn it is."""
        # At a worker's start it is no activity, and nobody waits to hear its heart.
        with typed():
            async with self.heart() if activity.in_activity() else nullcontext():
                return await self._sweep()

    async def _sweep(self) -> Swept:
        ended = await self._parts.gateway.end_lost_calls()
        swept = await sweeping.sweep(self._database, self._parts.engine, self.call_off_forgotten)
        return swept.model_copy(update={"lost_calls": ended})
