"""The steps that call an adapter: prepare, dispatch, observe, cancel at the target, verify.

A dispatch is never retried by Temporal: what became of a lost one is decided by `fence_dispatch`. What an adapter
reported is stored inside the activity, shielded from cancellation, before it returns.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, TypeVar

from temporalio import activity
from temporalio.exceptions import ApplicationError

from counterfoil.activities.adapters.base import Phase
from counterfoil.activities.adapters.catalog import tools_needed
from counterfoil.activities.adapters.runner import AdapterRaised, AdapterTimedOut, Slot
from counterfoil.activities.fault_points import FaultPoint
from counterfoil.activities.operations import guards, journal, permissions, settlement
from counterfoil.activities.operations.journal import Attempt, AttemptKind
from counterfoil.activities.operations.rows import StoreBehind, load
from counterfoil.activities.operations.steps import (
    SLOW_POLL_SECONDS,
    WAITABLE,
    Parts,
    Steps,
    Work,
    behind,
    later,
    typed,
)
from counterfoil.activities.operations.views import view_of
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.errors import CounterfoilError, ErrorCode, Refusal, Unavailable
from counterfoil.models.operations.lifecycle import State, Verification
from counterfoil.models.operations.outcomes import (
    CancelOutcome,
    Failed,
    NotReady,
    Observation,
    Outcome,
    PreparationOutcome,
    Readiness,
    Running,
    UnknownEffect,
    VerificationOutcome,
    VerificationUnavailable,
)
from counterfoil.models.operations.route import PreparationSupport
from counterfoil.models.operations.view import (
    OperationView,
    StepInput,
)
from counterfoil.models.tables import OperationRow

T = TypeVar("T")

log = logging.getLogger(__name__)

PREPARE_TRIES = 3
VERIFY_TRIES = 5
QUICK_POLL_SECONDS = 0.2
QUICK_WINDOW_SECONDS = 3.0
RECORD_PATIENCE_SECONDS = 60.0


class AdapterSteps(Steps):
    """Everything that touches the world."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._issued: set[asyncio.Task[OperationView]] = set()
        """Attempts whose adapter was called and whose answer is not recorded yet."""

    def abandon(self) -> None:
        """The process is ending: give up on what adapters may still answer."""
        for task in self._issued:
            task.cancel()

    @activity.defn
    async def prepare(self, step: StepInput) -> OperationView:
        """Work out the proposal. A pure preparation may be tried again; an effectful one is journaled."""
        with typed():
            try:
                work = await self.ready(step, State.PREPARING)
                if isinstance(work, OperationView):
                    return work
                if work.route.preparation is PreparationSupport.EFFECTFUL:
                    return await self._attempted(step, State.PREPARING, AttemptKind.PREPARE)
                return await self._prepare(step, work)
            except Refusal as refusal:
                if refusal.code in WAITABLE:
                    raise
                return await self._refuse(step, refusal)

    async def _prepare(self, step: StepInput, work: Work) -> OperationView:
        if work.order.request.depends_on:
            view = await self.commit(lambda unit: self._gate(unit, step))
            self._checkpoint(FaultPoint.GATE_COMMITTED)
            if view.state is not State.PREPARING or view.blocked is not None:
                return view
        async with self.heart(), self._parts.runner.slot(work.route) as slot:
            self._checkpoint(FaultPoint.PREPARE_BEFORE_ADAPTER)
            try:
                outcome = await self.call(slot, work, Phase.PREPARE, PreparationOutcome)
            except AdapterRaised as error:
                if activity.info().attempt < PREPARE_TRIES:
                    raise ApplicationError(error.detail, type=error.code) from error
                outcome = Failed(code=error.code, detail=error.detail)
        view = await self.commit(lambda unit: self._settle_preparation(unit, step, outcome))
        self._checkpoint(FaultPoint.PREPARE_COMMITTED)
        return view

    async def _gate(self, unit: UnitOfWork, step: StepInput) -> OperationRow:
        row = await load(unit, step.operation_id, seen_revision=step.seen_revision)
        if row.state == State.PREPARING:
            await guards.may_prepare(unit, row)
        self._checkpoint(FaultPoint.GATE_BEFORE_COMMIT)
        return row

    async def _settle_preparation(self, unit: UnitOfWork, step: StepInput, outcome: Observation) -> OperationRow:
        row = await load(unit, step.operation_id, seen_revision=step.seen_revision)
        if row.state == State.PREPARING:
            row.adapter_calls += 1
            await settlement.settle_preparation(unit, row, outcome)
            self._checkpoint(FaultPoint.PREPARE_BEFORE_COMMIT)
        return row

    @activity.defn
    async def dispatch(self, step: StepInput) -> OperationView:
        """Grant, journal, call the adapter once, record the outcome; and verify at once where it completed."""
        with typed():
            try:
                return await self._attempted(step, State.QUEUED, AttemptKind.EXECUTE)
            except StoreBehind:
                raise
            except CounterfoilError as error:
                if isinstance(error, Refusal) and error.code not in WAITABLE:
                    return await self._refuse(step, error)
                return await self._block(step, error)

    async def _attempted(self, step: StepInput, state: State, kind: AttemptKind) -> OperationView:
        while True:
            work = await self.ready(step, state)
            if isinstance(work, OperationView):
                return work
            try:
                return await self._attempt(step, work, kind)
            except OutOfDate:
                continue

    async def _attempt(self, step: StepInput, work: Work, kind: AttemptKind) -> OperationView:
        async with self.heart(), AsyncExitStack() as held:
            slot = await held.enter_async_context(self._parts.runner.slot(work.route))
            await self._require_readiness(slot, work)
            attempt = Attempt(kind, step.generation, activity.info().task_token.hex()[-48:])
            granted, cancelled = await _to_its_end(self._granted(step, work, attempt))
            if isinstance(granted, OperationView):
                return granted
            self._checkpoint(FaultPoint.JOURNAL_COMMITTED)
            order = replace(work.order, generation=granted.generation, dispatched_at=granted.dispatched_at)
            issued = Work(granted, work.route, work.adapter, order)
            # From here on an effect may happen. A cancelled activity (a terminated workflow cancels it) must not
            # lose the adapter's answer, which is the best evidence there will ever be.
            issuing = self._keep(self._issue(held.pop_all(), slot, step, issued, kind))
            if cancelled:
                raise asyncio.CancelledError
            return await asyncio.shield(issuing)

    def _keep(self, attempt: Coroutine[Any, Any, OperationView]) -> asyncio.Task[OperationView]:
        task = asyncio.create_task(attempt)
        self._issued.add(task)

        def ended(task: asyncio.Task[OperationView]) -> None:
            self._issued.discard(task)
            if not task.cancelled() and (error := task.exception()) is not None:
                log.warning("an attempt's answer was not recorded: %s", error)

        task.add_done_callback(ended)
        return task

    async def _issue(
        self, held: AsyncExitStack, slot: Slot, step: StepInput, work: Work, kind: AttemptKind
    ) -> OperationView:
        executes = kind is AttemptKind.EXECUTE
        phase, allowed = (Phase.EXECUTE, Outcome) if executes else (Phase.PREPARE, PreparationOutcome)
        async with held:
            try:
                outcome: Observation = await self.call(slot, work, phase, allowed)
            except AdapterTimedOut as error:
                outcome = UnknownEffect(code=error.code, detail=error.detail)
                self._keep(self._record_late(step, error.late))
            except AdapterRaised as error:
                outcome = UnknownEffect(code=error.code, detail=error.detail)
            self._checkpoint(FaultPoint.ADAPTER_RETURNED)
            view = await self._record_outcome(step, outcome)
            self._checkpoint(FaultPoint.OUTCOME_COMMITTED)
            if view.state is State.COMPLETED and view.verification is Verification.PENDING:
                return await self._verify_now(slot, step, work, view)
            return view

    async def _record_late(self, step: StepInput, late: asyncio.Future[Any]) -> OperationView:
        """What an adapter says after its time-out is evidence still."""
        try:
            answer = await late
        except AdapterRaised:
            return await self.view(StepInput(operation_id=step.operation_id))
        return await self._record_outcome(step, answer)

    async def _granted(self, step: StepInput, known: Work, attempt: Attempt) -> OperationRow | OperationView:
        granted = False

        async def grant(unit: UnitOfWork) -> OperationRow:
            nonlocal granted
            row = await load(unit, step.operation_id, seen_revision=step.seen_revision)
            # Where it is this attempt's own journal that moved the row on, an earlier commit was only doubted.
            if row.generation < attempt.generation:
                if row.revision != known.row.revision:
                    raise OutOfDate
                needed = tools_needed(known.adapter, known.order.typed_input)
                await permissions.require_dispatchable(unit, row, known.route, needed)
            granted = await journal.grant(unit, row, attempt)
            self._checkpoint(FaultPoint.JOURNAL_BEFORE_COMMIT)
            wakes.extend(unit.wakes)
            return row

        wakes: list[str] = []
        row = await self._database.run(grant)
        await self.wake(wakes)
        return row if granted else view_of(row, self._parts.timing)

    async def _record_outcome(self, step: StepInput, outcome: Observation) -> OperationView:
        """Store what the adapter said, with patience: this is the evidence of something that happened."""

        async def settle(unit: UnitOfWork) -> OperationRow:
            row = await load(unit, step.operation_id, seen_revision=max(1, step.seen_revision))
            if row.generation < step.generation:
                raise behind(row, f"attempt {step.generation} was made, the store knows of {row.generation}")
            await settlement.settle_attempt(unit, row, step.generation, outcome)
            self._checkpoint(FaultPoint.OUTCOME_BEFORE_COMMIT)
            return row

        until = asyncio.get_running_loop().time() + RECORD_PATIENCE_SECONDS
        while True:
            try:
                return await self.commit(settle)
            except Unavailable:
                if asyncio.get_running_loop().time() > until:
                    raise
                await asyncio.sleep(1)

    async def _require_readiness(self, slot: Slot, work: Work) -> None:
        if not work.route.readiness:
            return
        try:
            readiness = await self.call(slot, work, Phase.READINESS, Readiness)
        except AdapterRaised as error:
            readiness = NotReady(detail=error.detail)
        if isinstance(readiness, NotReady):
            raise NotReadyYet(readiness, work.route.id)

    @activity.defn
    async def await_readiness(self, step: StepInput) -> OperationView:
        """Return when the route can be used; until then fail, to be tried again without a trace in the history."""
        with typed():
            work = await self.ready(step, State.QUEUED)
            if isinstance(work, OperationView):
                return work
            try:
                async with self.heart(), self._parts.runner.slot(work.route) as slot:
                    await self._require_readiness(slot, work)
            except NotReadyYet as error:
                raise later(error.readiness.detail, ErrorCode.NOT_READY, error.readiness.retry_after_seconds) from None
            except Refusal as refusal:
                raise later(refusal.detail, refusal.code, SLOW_POLL_SECONDS) from None
            return await self.view(step)

    @activity.defn
    async def observe(self, step: StepInput) -> OperationView:
        """Look at a dispatched effect until something is final, or it is exhausted.

        Quickly and heartbeating at first, then by failing with the time of the next look.
        """
        with typed():
            opened = asyncio.get_running_loop().time()
            async with self.heart():
                while True:
                    try:
                        work = await self.ready(step, State.RUNNING, State.UNKNOWN)
                    except Refusal as refusal:
                        if refusal.code != ErrorCode.INVALID_INPUT:
                            raise
                        blind = UnknownEffect(code=refusal.code, detail=refusal.detail)
                        view, wait_seconds = await self._saw(step, None, blind), None
                    else:
                        if isinstance(work, OperationView):
                            return work
                        view, wait_seconds = await self._look(step, work)
                    if view.state not in (State.RUNNING, State.UNKNOWN) or view.observation_exhausted:
                        return view
                    if view.state is State.RUNNING and view.cancellation == "requested" and not view.cancel_sent:
                        return view
                    elapsed = asyncio.get_running_loop().time() - opened
                    first = activity.info().attempt == 1
                    if not first or elapsed + (wait_seconds or 0) > QUICK_WINDOW_SECONDS:
                        raise later(
                            "nothing final yet", ErrorCode.OBSERVATION_PENDING, wait_seconds or SLOW_POLL_SECONDS
                        )
                    await asyncio.sleep(wait_seconds or QUICK_POLL_SECONDS)

    async def _look(self, step: StepInput, work: Work) -> tuple[OperationView, float | None]:
        generation, spent = work.order.generation, False

        async def spend(unit: UnitOfWork) -> OperationRow:
            nonlocal spent
            row = await load(unit, step.operation_id, seen_revision=step.seen_revision)
            await settlement.stop_exhausted(unit, row)
            spent = row.observation_exhausted
            self._checkpoint(FaultPoint.EXHAUST_BEFORE_COMMIT)
            return row

        most_calls = work.order.request.constraints.max_adapter_calls
        used_up = work.row.polls >= work.row.polls_limit or work.row.adapter_calls >= most_calls
        if used_up or work.row.deadline is not None:
            view = await self.commit(spend)
            self._checkpoint(FaultPoint.EXHAUST_COMMITTED)
            if spent:
                return view, None
        async with self._parts.runner.slot(work.route) as slot:
            self._checkpoint(FaultPoint.OBSERVE_BEFORE_ADAPTER)
            try:
                seen: Observation = await self.call(slot, work, Phase.OBSERVE, Observation)
            except AdapterRaised as error:
                seen = UnknownEffect(code=error.code, detail=error.detail)
        view = await self._saw(step, generation, seen)
        return view, seen.poll_after_seconds if isinstance(seen, Running) else None

    async def _saw(self, step: StepInput, generation: int | None, seen: Observation) -> OperationView:
        async def settle(unit: UnitOfWork) -> OperationRow:
            row = await load(unit, step.operation_id, seen_revision=step.seen_revision)
            looked_at = row.generation if generation is None else generation
            await settlement.settle_observation(unit, row, looked_at, seen)
            self._checkpoint(FaultPoint.OBSERVE_BEFORE_COMMIT)
            return row

        view = await self.commit(settle)
        self._checkpoint(FaultPoint.OBSERVE_COMMITTED)
        return view

    @activity.defn
    async def cancel_at_target(self, step: StepInput) -> OperationView:
        """Ask the target to stop, once. A lost answer is reconciled by observation, never sent again."""
        with typed():
            work = await self.ready(step, State.RUNNING)
            if isinstance(work, OperationView):
                return work
            async with self.heart(), self._parts.runner.slot(work.route) as slot:
                if not await self._journaled_cancel(step):
                    return await self.view(step)
                self._checkpoint(FaultPoint.CANCEL_JOURNALED)
                try:
                    answer: CancelOutcome = await self.call(slot, work, Phase.CANCEL, CancelOutcome)
                except AdapterRaised as error:
                    answer = UnknownEffect(code=error.code, detail=error.detail)
                self._checkpoint(FaultPoint.CANCEL_RETURNED)

            async def settle(unit: UnitOfWork) -> OperationRow:
                row = await load(unit, step.operation_id)
                await settlement.settle_cancel(unit, row, answer)
                self._checkpoint(FaultPoint.CANCEL_BEFORE_COMMIT)
                return row

            view = await asyncio.shield(self.commit(settle))
            self._checkpoint(FaultPoint.CANCEL_COMMITTED)
            return view

    async def _journaled_cancel(self, step: StepInput) -> bool:
        async def note(unit: UnitOfWork) -> bool:
            row = await load(unit, step.operation_id, seen_revision=step.seen_revision)
            journaled = await settlement.journal_cancel(unit, row)
            self._checkpoint(FaultPoint.CANCEL_JOURNAL_BEFORE_COMMIT)
            return journaled

        return await self._database.run(note)

    @activity.defn
    async def verify(self, step: StepInput) -> OperationView:
        """Read the target back, freshly. Tried a few times before it is called unavailable."""
        with typed():
            try:
                work = await self.ready(step, State.COMPLETED)
            except Refusal as refusal:
                if refusal.code != ErrorCode.INVALID_INPUT:
                    raise
                return await self._settle_verification(step, VerificationUnavailable(detail=str(refusal)))
            if isinstance(work, OperationView):
                return work
            async with self.heart(), self._parts.runner.slot(work.route) as slot:
                try:
                    seen = await self._verification(slot, work)
                except AdapterRaised as error:
                    if activity.info().attempt < VERIFY_TRIES:
                        raise ApplicationError(error.detail, type=error.code) from error
                    seen = VerificationUnavailable(detail=f"{error.code}: {error.detail}")
            return await self._settle_verification(step, seen)

    async def _verify_now(self, slot: Slot, step: StepInput, work: Work, view: OperationView) -> OperationView:
        """Verify in the dispatch's own activity: a round trip saved. Whatever goes wrong is left to `verify`."""
        try:
            seen = await self._verification(slot, work)
            return await self._settle_verification(step.model_copy(update={"seen_revision": view.revision}), seen)
        except (AdapterRaised, CounterfoilError) as error:
            log.info("verification of %s is left to its own activity: %s", step.operation_id, error)
            return view

    async def _verification(self, slot: Slot, work: Work) -> VerificationOutcome:
        self._checkpoint(FaultPoint.VERIFY_BEFORE_ADAPTER)
        seen: VerificationOutcome = await self.call(slot, work, Phase.VERIFY, VerificationOutcome)
        return seen

    async def _settle_verification(self, step: StepInput, seen: VerificationOutcome) -> OperationView:
        async def settle(unit: UnitOfWork) -> OperationRow:
            row = await load(unit, step.operation_id, seen_revision=step.seen_revision)
            await settlement.settle_verification(unit, row, seen)
            self._checkpoint(FaultPoint.VERIFY_BEFORE_COMMIT)
            return row

        view = await self.commit(settle)
        self._checkpoint(FaultPoint.VERIFY_COMMITTED)
        return view


async def _to_its_end(deciding: Coroutine[Any, Any, T]) -> tuple[T, bool]:
    """What a transaction decided, even where this task is cancelled while it commits; and whether it was.

    A journal entry that nobody acts on would be an effect that nobody can account for.
    """
    task = asyncio.create_task(deciding)
    try:
        return await asyncio.shield(task), False
    except asyncio.CancelledError:
        return await task, True


class OutOfDate(Exception):
    """The row has moved on since the order was made from it."""


class NotReadyYet(Refusal):
    """A route that says it cannot be used now."""

    def __init__(self, readiness: NotReady, route_id: str) -> None:
        super().__init__(ErrorCode.NOT_READY, readiness.detail, subject=route_id, remedy="it is asked again by itself")
        self.readiness = readiness
