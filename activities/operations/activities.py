"""The activities of an operation's workflow, one a step. Each ends in one transaction and returns the row's new view.

Transitions are idempotent and are retried for ever. A dispatch is never retried: what became of a lost one is decided
by `fence_dispatch`. Refusals are returned in the answer or raised as typed, non-retryable application errors.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pydantic import TypeAdapter
from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from counterfoil.activities.adapters.base import AdapterContext, ApplicationAdapter, Order, Phase
from counterfoil.activities.adapters.catalog import Catalog
from counterfoil.activities.adapters.runner import AdapterRaised, AdapterRunner, Slot, checked
from counterfoil.activities.fault_points import Checkpoint, FaultPoint, no_fault
from counterfoil.activities.operations import commands, journal, settlement, sweeping
from counterfoil.activities.operations.creation import Creator, parse_request
from counterfoil.activities.operations.engine import Engine
from counterfoil.activities.operations.journal import Attempt, AttemptKind
from counterfoil.activities.operations.repair import repair
from counterfoil.activities.operations.rows import (
    StoreBehind,
    load,
    move,
    prepared_of,
    request_of,
    resources_of,
    route_of,
)
from counterfoil.activities.operations.views import Timing, view_of
from counterfoil.activities.store.blobs import BlobStore
from counterfoil.activities.store.database import Database, UnitOfWork
from counterfoil.models.common import BlobRef
from counterfoil.models.errors import CounterfoilError, ErrorCode, Refusal, Unavailable
from counterfoil.models.operations.commands import CommandName, Received
from counterfoil.models.operations.contract import OperationRequest
from counterfoil.models.operations.lifecycle import UNDISPATCHED, Event, State, Verification
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
from counterfoil.models.operations.route import PreparationSupport, Route
from counterfoil.models.operations.view import (
    Applied,
    ApplyInput,
    Blocked,
    OpenInput,
    OperationView,
    StepInput,
)
from counterfoil.models.tables import OperationRow

log = logging.getLogger(__name__)

PREPARE_TRIES = 3
VERIFY_TRIES = 5
QUICK_POLL_SECONDS = 0.2
QUICK_WINDOW_SECONDS = 3.0
SLOW_POLL_SECONDS = 5.0
RECORD_PATIENCE_SECONDS = 60.0
_INPUT: TypeAdapter[dict[str, object]] = TypeAdapter(dict[str, object])


@dataclass(frozen=True)
class Parts:
    """What the activities are made of. Built in the composition root."""

    database: Database
    blobs: BlobStore
    catalog: Catalog
    creator: Creator
    runner: AdapterRunner
    engine: Engine
    policy: commands.SealPolicy
    timing: Timing
    checkpoint: Checkpoint = no_fault


@dataclass(frozen=True)
class Work:
    """A loaded row, ready for its adapter to be called."""

    row: OperationRow
    route: Route
    adapter: ApplicationAdapter
    order: Order


class OperationActivities:
    """Everything an operation's workflow asks to have done."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._database = parts.database
        self._checkpoint = parts.checkpoint

    # transitions

    @activity.defn
    async def open_operation(self, given: OpenInput) -> OperationView:
        """Claim the operation of a request, or load one to resume."""
        with _typed():
            if given.problem is not None:
                raise Refusal(ErrorCode.BAD_REQUEST, given.problem, remedy="start it with one OperationRequest")
            if isinstance(given.argument, dict) and "resume" in given.argument:
                return await self._view(StepInput(operation_id=given.workflow_id, seen_revision=given.seen_revision))
            request = parse_request(given.argument)
            if request.operation_id != given.workflow_id:
                raise Refusal(
                    ErrorCode.WORKFLOW_ID_MISMATCH,
                    f"this request's operation is {request.operation_id}, the workflow is {given.workflow_id}",
                    subject=given.workflow_id,
                    remedy="start the workflow under the id that operation_id(session, idempotency_key) gives",
                )
            view = await self._create(request)
            self._checkpoint(FaultPoint.OPEN_COMMITTED)
            return view

    async def _create(self, request: OperationRequest) -> OperationView:
        kept = await asyncio.to_thread(self._parts.creator.offload, request)
        return await self._commit(lambda work: self._parts.creator.claim(work, request, kept))

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
        with _typed():
            applied = await self._database.run(take)
        self._checkpoint(FaultPoint.COMMAND_COMMITTED)
        await self._wake(wakes)
        return applied

    @activity.defn
    async def reload(self, step: StepInput) -> OperationView:
        """Look at the row again; a blocked one may ask for its dispatch once more."""
        with _typed():
            return await self._view(step)

    @activity.defn
    async def expire(self, step: StepInput) -> OperationView:
        """A decision or a deadline ran out, by the workflow's clock."""

        async def end(work: UnitOfWork) -> OperationRow:
            row = await load(work, step.operation_id, seen_revision=step.seen_revision)
            if row.state in UNDISPATCHED and not row.attempt_open:
                await move(work, row, Event.EXPIRE, "nobody decided, or it was not dispatched, in time")
            return row

        with _typed():
            return await self._commit(end)

    @activity.defn
    async def fence_dispatch(self, step: StepInput) -> OperationView:
        """A dispatch was reported lost: decide what it is."""

        async def decide(work: UnitOfWork) -> OperationRow:
            row = await load(work, step.operation_id, seen_revision=step.seen_revision)
            await journal.fence(work, row, step.generation)
            return row

        with _typed():
            return await self._commit(decide)

    # adapter steps

    @activity.defn
    async def prepare(self, step: StepInput) -> OperationView:
        """Work out the proposal. A pure preparation may be tried again; an effectful one is journaled."""
        with _typed():
            work = await self._ready(step, State.PREPARING)
            if isinstance(work, OperationView):
                return work
            if work.route.preparation is PreparationSupport.EFFECTFUL:
                return await self._attempt(step, work, AttemptKind.PREPARE)
            async with self._heart(), self._parts.runner.slot(work.route) as slot:
                self._checkpoint(FaultPoint.PREPARE_BEFORE_ADAPTER)
                try:
                    outcome = await self._call(slot, work, Phase.PREPARE, PreparationOutcome)
                except AdapterRaised as error:
                    if activity.info().attempt < PREPARE_TRIES:
                        raise ApplicationError(error.detail, type=error.code) from error
                    outcome = Failed(code=error.code, detail=error.detail)
            view = await self._commit(lambda unit: self._settle_preparation(unit, step, outcome))
            self._checkpoint(FaultPoint.PREPARE_COMMITTED)
            return view

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
        with _typed():
            try:
                work = await self._ready(step, State.QUEUED)
                if isinstance(work, OperationView):
                    return work
                return await self._attempt(step, work, AttemptKind.EXECUTE)
            except Refusal as refusal:
                if refusal.code not in WAITABLE:
                    raise
                return await self._block(step, refusal)

    async def _attempt(self, step: StepInput, work: Work, kind: AttemptKind) -> OperationView:
        async with self._heart(), self._parts.runner.slot(work.route) as slot:
            await self._require_readiness(slot, work)
            granted = await self._granted(step, Attempt(kind, step.generation, activity.info().task_token.hex()[-48:]))
            if isinstance(granted, OperationView):
                return granted
            self._checkpoint(FaultPoint.JOURNAL_COMMITTED)
            phase = Phase.EXECUTE if kind is AttemptKind.EXECUTE else Phase.PREPARE
            allowed = Outcome if kind is AttemptKind.EXECUTE else PreparationOutcome
            work = Work(granted, work.route, work.adapter, self._order(granted, work.adapter, work.order.request))
            try:
                outcome: Observation = await self._call(slot, work, phase, allowed)
            except AdapterRaised as error:
                outcome = UnknownEffect(code=error.code, detail=error.detail)
            self._checkpoint(FaultPoint.ADAPTER_RETURNED)
            view = await asyncio.shield(self._record_outcome(step, outcome))
            self._checkpoint(FaultPoint.OUTCOME_COMMITTED)
            if view.state is State.COMPLETED and view.verification is Verification.PENDING:
                return await self._verify_now(slot, step, work, view)
            return view

    async def _granted(self, step: StepInput, attempt: Attempt) -> OperationRow | OperationView:
        granted = False

        async def grant(unit: UnitOfWork) -> OperationRow:
            nonlocal granted
            row = await load(unit, step.operation_id, seen_revision=step.seen_revision)
            granted = await journal.grant(unit, row, attempt)
            self._checkpoint(FaultPoint.JOURNAL_BEFORE_COMMIT)
            wakes.extend(unit.wakes)
            return row

        wakes: list[str] = []
        row = await self._database.run(grant)
        await self._wake(wakes)
        return row if granted else view_of(row, self._parts.timing)

    async def _record_outcome(self, step: StepInput, outcome: Observation) -> OperationView:
        """Store what the adapter said, with patience: this is the evidence of something that happened."""

        async def settle(unit: UnitOfWork) -> OperationRow:
            row = await load(unit, step.operation_id)
            await settlement.settle_attempt(unit, row, step.generation, outcome)
            self._checkpoint(FaultPoint.OUTCOME_BEFORE_COMMIT)
            return row

        until = asyncio.get_running_loop().time() + RECORD_PATIENCE_SECONDS
        while True:
            try:
                return await self._commit(settle)
            except Unavailable:
                if asyncio.get_running_loop().time() > until:
                    raise
                await asyncio.sleep(1)

    async def _require_readiness(self, slot: Slot, work: Work) -> None:
        if not work.route.readiness:
            return
        try:
            readiness = await self._call(slot, work, Phase.READINESS, Readiness)
        except AdapterRaised as error:
            readiness = NotReady(detail=error.detail)
        if isinstance(readiness, NotReady):
            raise NotReadyYet(readiness, work.route.id)

    @activity.defn
    async def await_readiness(self, step: StepInput) -> OperationView:
        """Return when the route can be used; until then fail, to be tried again without a trace in the history."""
        with _typed():
            work = await self._ready(step, State.QUEUED)
            if isinstance(work, OperationView):
                return work
            try:
                async with self._heart(), self._parts.runner.slot(work.route) as slot:
                    await self._require_readiness(slot, work)
            except NotReadyYet as error:
                raise _later(error.readiness.detail, ErrorCode.NOT_READY, error.readiness.retry_after_seconds) from None
            except Refusal as refusal:
                raise _later(refusal.detail, refusal.code, SLOW_POLL_SECONDS) from None
            return await self._view(step)

    @activity.defn
    async def observe(self, step: StepInput) -> OperationView:
        """Look at a dispatched effect until something is final, or it is exhausted.

        Quickly and heartbeating at first, then by failing with the time of the next look.
        """
        with _typed():
            opened = asyncio.get_running_loop().time()
            async with self._heart():
                while True:
                    work = await self._ready(step, State.RUNNING, State.UNKNOWN)
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
                        raise _later(
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
            return row

        if work.row.polls >= work.row.polls_limit or work.row.deadline is not None:
            view = await self._commit(spend)
            if spent:
                return view, None
        async with self._parts.runner.slot(work.route) as slot:
            self._checkpoint(FaultPoint.OBSERVE_BEFORE_ADAPTER)
            try:
                seen: Observation = await self._call(slot, work, Phase.OBSERVE, Observation)
            except AdapterRaised as error:
                seen = UnknownEffect(code=error.code, detail=error.detail)

        async def settle(unit: UnitOfWork) -> OperationRow:
            row = await load(unit, step.operation_id, seen_revision=step.seen_revision)
            await settlement.settle_observation(unit, row, generation, seen)
            self._checkpoint(FaultPoint.OBSERVE_BEFORE_COMMIT)
            return row

        view = await self._commit(settle)
        self._checkpoint(FaultPoint.OBSERVE_COMMITTED)
        return view, seen.poll_after_seconds if isinstance(seen, Running) else None

    @activity.defn
    async def cancel_at_target(self, step: StepInput) -> OperationView:
        """Ask the target to stop, once. A lost answer is reconciled by observation, never sent again."""
        with _typed():
            work = await self._ready(step, State.RUNNING)
            if isinstance(work, OperationView):
                return work
            async with self._heart(), self._parts.runner.slot(work.route) as slot:
                if not await self._journaled_cancel(step):
                    return await self._view(step)
                try:
                    answer: CancelOutcome = await self._call(slot, work, Phase.CANCEL, CancelOutcome)
                except AdapterRaised as error:
                    answer = UnknownEffect(code=error.code, detail=error.detail)

            async def settle(unit: UnitOfWork) -> OperationRow:
                row = await load(unit, step.operation_id)
                await settlement.settle_cancel(unit, row, answer)
                return row

            return await asyncio.shield(self._commit(settle))

    async def _journaled_cancel(self, step: StepInput) -> bool:
        async def note(unit: UnitOfWork) -> bool:
            row = await load(unit, step.operation_id, seen_revision=step.seen_revision)
            return await settlement.journal_cancel(unit, row)

        return await self._database.run(note)

    @activity.defn
    async def verify(self, step: StepInput) -> OperationView:
        """Read the target back, freshly. Tried a few times before it is called unavailable."""
        with _typed():
            work = await self._ready(step, State.COMPLETED)
            if isinstance(work, OperationView):
                return work
            async with self._heart(), self._parts.runner.slot(work.route) as slot:
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
        seen: VerificationOutcome = await self._call(slot, work, Phase.VERIFY, VerificationOutcome)
        return seen

    async def _settle_verification(self, step: StepInput, seen: VerificationOutcome) -> OperationView:
        async def settle(unit: UnitOfWork) -> OperationRow:
            row = await load(unit, step.operation_id, seen_revision=step.seen_revision)
            await settlement.settle_verification(unit, row, seen)
            self._checkpoint(FaultPoint.VERIFY_BEFORE_COMMIT)
            return row

        view = await self._commit(settle)
        self._checkpoint(FaultPoint.VERIFY_COMMITTED)
        return view

    @activity.defn
    async def sweep(self) -> sweeping.Swept:
        """Wake every open operation whose workflow does not run, or whose turn it is."""
        with _typed():
            return await sweeping.sweep(self._database, self._parts.engine)

    # what they share

    async def _ready(self, step: StepInput, *states: State) -> Work | OperationView:
        """The row with its pinned adapter and order, or its view where it is not in one of `states` any more."""

        async def read(unit: UnitOfWork) -> OperationRow:
            return await load(unit, step.operation_id, seen_revision=step.seen_revision)

        row = await self._database.read(read)
        if row.state not in states:
            return view_of(row, self._parts.timing)
        route = route_of(row)
        adapter = self._parts.catalog.pinned(route)
        request = await self._whole_request(row)
        return Work(row, route, adapter, self._order(row, adapter, request))

    async def _whole_request(self, row: OperationRow) -> OperationRequest:
        request = request_of(row)
        if row.input_blob is None:
            return request
        content = await asyncio.to_thread(self._parts.blobs.get, BlobRef.model_validate_json(row.input_blob))
        return request.model_copy(update={"input": _INPUT.validate_json(content)})

    def _order(self, row: OperationRow, adapter: ApplicationAdapter, request: OperationRequest) -> Order:
        return Order(
            request=request,
            resources=resources_of(row),
            typed_input=adapter.validate_input(request),
            prepared=prepared_of(row),
            generation=row.generation,
            dispatched_at=row.dispatched_at,
            external_id=row.external_id,
        )

    async def _call(self, slot: Slot, work: Work, phase: Phase, allowed: Any) -> Any:
        timeout = work.route.call_timeout_seconds
        context = AdapterContext(
            phase=phase,
            operation_id=work.row.id,
            blobs=self._parts.blobs,
            now=self._database.clock(),
            timeout_seconds=timeout,
            checkpoint=self._checkpoint,
        )
        method = getattr(work.adapter, phase.value)
        arguments = (context,) if phase is Phase.READINESS else (context, work.order)
        value = await slot.call(method, *arguments, timeout_seconds=timeout)
        return await asyncio.to_thread(checked, value, allowed, self._parts.blobs.put)

    async def _commit(self, change: Callable[[UnitOfWork], Awaitable[OperationRow]]) -> OperationView:
        """Run a change to a row, and wake whoever it names."""
        wakes: list[str] = []

        async def run(unit: UnitOfWork) -> OperationRow:
            wakes.clear()
            row = await change(unit)
            wakes.extend(unit.wakes)
            return row

        row = await self._database.run(run)
        await self._wake(wakes)
        return view_of(row, self._parts.timing)

    async def _view(self, step: StepInput) -> OperationView:
        async def read(unit: UnitOfWork) -> OperationView:
            row = await load(unit, step.operation_id, seen_revision=step.seen_revision)
            return view_of(row, self._parts.timing).model_copy(update={"blocked": None})

        return await self._database.read(read)

    async def _block(self, step: StepInput, refusal: Refusal) -> OperationView:
        async def note(unit: UnitOfWork) -> OperationRow:
            row = await load(unit, step.operation_id, seen_revision=step.seen_revision)
            if row.state == State.QUEUED:
                row.blocked = Blocked(code=refusal.code, detail=refusal.detail).model_dump_json()
                unit.session.add(row)
            return row

        return await self._commit(note)

    async def _wake(self, operation_ids: list[str]) -> None:
        for operation_id in operation_ids:
            try:
                await self._parts.engine.wake(operation_id)
            except Exception as error:
                # The sweep is the net for lost wake-ups; what was committed stays committed.
                log.warning("could not wake %s, the sweep will: %s", operation_id, error)

    @asynccontextmanager
    async def _heart(self) -> AsyncIterator[None]:
        """Heartbeats while the block runs, so that a killed worker is noticed."""

        async def beat() -> None:
            while True:
                activity.heartbeat()
                await asyncio.sleep(self._parts.timing.heartbeat_seconds / 3)

        beating = asyncio.create_task(beat())
        try:
            yield
        finally:
            beating.cancel()


class NotReadyYet(Refusal):
    """A route that says it cannot be used now."""

    def __init__(self, readiness: NotReady, route_id: str) -> None:
        super().__init__(ErrorCode.NOT_READY, readiness.detail, subject=route_id, remedy="it is asked again by itself")
        self.readiness = readiness


WAITABLE = frozenset(
    {
        ErrorCode.NOT_READY,
        ErrorCode.ROUTE_BUSY,
        ErrorCode.ADAPTER_UNAVAILABLE,
        ErrorCode.ADAPTER_VERSION_CHANGED,
    }
)
"""Refusals that pass by themselves: nothing was dispatched, and the step is asked for again."""


def _later(detail: str, code: ErrorCode, seconds: float) -> ApplicationError:
    return ApplicationError(
        detail,
        type=code,
        next_retry_delay=timedelta(seconds=seconds),
        category=ApplicationErrorCategory.BENIGN,
    )


@contextmanager
def _typed() -> Iterator[None]:
    """Let our own errors leave an activity as typed application errors: refusals for good, the rest to be retried."""
    try:
        yield
    except Refusal as error:
        if error.code in WAITABLE:
            raise _later(error.detail, error.code, SLOW_POLL_SECONDS) from error
        raise ApplicationError(error.detail, error.as_details(), type=error.code, non_retryable=True) from error
    except StoreBehind as error:
        raise ApplicationError(error.detail, error.as_details(), type=error.code, non_retryable=True) from error
    except CounterfoilError as error:
        raise ApplicationError(error.detail, error.as_details(), type=error.code) from error
