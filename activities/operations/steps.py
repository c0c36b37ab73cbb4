"""What every step of an operation shares: loading its row, calling its adapter, committing, waking, typed failures."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pydantic import BaseModel
from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from counterfoil.activities.adapters.base import AdapterContext, ApplicationAdapter, Order, Phase
from counterfoil.activities.adapters.catalog import Catalog
from counterfoil.activities.adapters.runner import AdapterRunner, Slot, checked, told
from counterfoil.activities.fault_points import Checkpoint, FaultPoint, no_fault
from counterfoil.activities.operations import commands
from counterfoil.activities.operations.creation import Creator
from counterfoil.activities.operations.engine import Engine
from counterfoil.activities.operations.gateway import Gateway
from counterfoil.activities.operations.inputs import restored
from counterfoil.activities.operations.rows import (
    StoreBehind,
    load,
    move,
    prepared_of,
    problem_json,
    request_of,
    resources_of,
    route_of,
)
from counterfoil.activities.operations.views import Timing, view_of
from counterfoil.activities.store.blobs import BlobStore
from counterfoil.activities.store.database import Database
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.common import BlobRef
from counterfoil.models.errors import CounterfoilError, ErrorCode, Refusal
from counterfoil.models.operations.contract import OperationRequest
from counterfoil.models.operations.lifecycle import Event, State
from counterfoil.models.operations.outcomes import TypedResult
from counterfoil.models.operations.route import Route
from counterfoil.models.operations.view import (
    Blocked,
    OperationView,
    StepInput,
)
from counterfoil.models.tables import OperationRow

log = logging.getLogger(__name__)

QUEUED_LIMIT = 1000
SLOW_POLL_SECONDS = 5.0
LONGEST_POLL_SECONDS = 3600.0


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
    gateway: Gateway
    checkpoint: Checkpoint = no_fault


@dataclass(frozen=True)
class Work:
    """A loaded row, ready for its adapter to be called."""

    row: OperationRow
    route: Route
    adapter: ApplicationAdapter
    order: Order


class Steps:
    """The base of the activity classes."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._database = parts.database
        self._checkpoint = parts.checkpoint
        self._queued: dict[str, OperationRow] = {}
        """Rows that this process queued lately: its dispatch, most likely the next step, need not read them again.

        They may be out of date. A grant reads the row, and is refused where it was prepared from another one.
        """

    async def ready(self, step: StepInput, *states: State) -> Work | OperationView:
        """The row with its pinned adapter and order, or its view where it is not in one of `states` any more."""

        async def read(unit: UnitOfWork) -> OperationRow:
            return await load(unit, step.operation_id, seen_revision=step.seen_revision)

        row = self._queued.pop(step.operation_id, None) if State.QUEUED in states else None
        if row is None or row.revision < step.seen_revision:
            row = await self._database.read(read)
        if row.state not in states:
            return view_of(row, self._parts.timing)
        route = route_of(row)
        adapter = self._parts.catalog.pinned(route)
        request = await self._whole_request(row)
        return Work(row, route, adapter, self.order(row, adapter, request))

    async def _whole_request(self, row: OperationRow) -> OperationRequest:
        request = request_of(row)
        if row.input_blob is None:
            return request
        blob = BlobRef.model_validate_json(row.input_blob)
        return await asyncio.to_thread(restored, request, blob, self._parts.blobs)

    def order(self, row: OperationRow, adapter: ApplicationAdapter, request: OperationRequest) -> Order:
        return Order(
            request=request,
            resources=resources_of(row),
            typed_input=_typed_input(adapter, request),
            prepared=prepared_of(row),
            generation=row.generation,
            dispatched_at=row.dispatched_at,
            external_id=row.external_id,
            result=None if row.result is None else TypedResult.model_validate_json(row.result),
            approved=row.approved_digest is not None and row.approved_digest == row.proposal_digest,
        )

    async def call(self, slot: Slot, work: Work, phase: Phase, allowed: Any) -> Any:
        timeout = work.route.call_timeout_seconds
        context = AdapterContext(
            phase=phase,
            operation_id=work.row.id,
            blobs=self._parts.blobs,
            now=self._database.clock(),
            timeout_seconds=timeout,
            checkpoint=self._checkpoint,
            tools=self._parts.gateway.of_operation(work.row, work.route, phase, generation=work.order.generation),
        )
        method = getattr(work.adapter, phase.value)
        arguments = (context,) if phase is Phase.READINESS else (context, work.order)
        put = self._parts.blobs.put
        return await slot.call(
            method, *arguments, timeout_seconds=timeout, check=lambda value: checked(value, allowed, put)
        )

    async def commit(self, change: Callable[[UnitOfWork], Awaitable[OperationRow]]) -> OperationView:
        """Run a change to a row, and wake whoever it names."""
        wakes: list[str] = []

        async def run(unit: UnitOfWork) -> OperationRow:
            wakes.clear()
            row = await change(unit)
            wakes.extend(unit.wakes)
            return row

        row = await self._database.run(run)
        await self.wake(wakes)
        if row.state == State.QUEUED:
            self._queued[row.id] = row
            if len(self._queued) > QUEUED_LIMIT:
                self._queued.pop(next(iter(self._queued)))
        return view_of(row, self._parts.timing)

    async def view(self, step: StepInput) -> OperationView:
        async def read(unit: UnitOfWork) -> OperationView:
            row = await load(unit, step.operation_id, seen_revision=step.seen_revision)
            return view_of(row, self._parts.timing).model_copy(update={"blocked": None})

        return await self._database.read(read)

    async def _refuse(self, step: StepInput, refusal: Refusal) -> OperationView:
        """End an operation whose step cannot be taken, where certainly nothing was dispatched."""

        async def fail(unit: UnitOfWork) -> OperationRow:
            row = await load(unit, step.operation_id, seen_revision=step.seen_revision)
            if row.state in (State.PREPARING, State.QUEUED) and not row.attempt_open:
                row.problem = problem_json(refusal.code, refusal.detail)
                await move(unit, row, Event.REPORT_FAILED, refusal.detail, data={"code": refusal.code})
            self._checkpoint(FaultPoint.REFUSE_BEFORE_COMMIT)
            return row

        view = await self.commit(fail)
        self._checkpoint(FaultPoint.REFUSE_COMMITTED)
        return view

    async def _block(self, step: StepInput, refusal: CounterfoilError) -> OperationView:
        async def note(unit: UnitOfWork) -> OperationRow:
            row = await load(unit, step.operation_id, seen_revision=step.seen_revision)
            if row.state == State.QUEUED:
                row.blocked = Blocked(code=refusal.code, detail=refusal.detail).model_dump_json()
            self._checkpoint(FaultPoint.BLOCK_BEFORE_COMMIT)
            return row

        view = await self.commit(note)
        self._checkpoint(FaultPoint.BLOCK_COMMITTED)
        return view

    async def wake(self, operation_ids: list[str]) -> None:
        for operation_id in operation_ids:
            self._checkpoint(FaultPoint.WAKE_BEFORE_SIGNAL)
            try:
                await self._parts.engine.wake(operation_id)
            except Exception as error:
                # The sweep is the net for lost wake-ups; what was committed stays committed.
                log.warning("could not wake %s, the sweep will: %s", operation_id, error)

    @asynccontextmanager
    async def heart(self) -> AsyncIterator[None]:
        """Heartbeats while the block runs, so that a killed worker is noticed."""

        async def beat() -> None:
            # A step that is done before its first beat costs the server none.
            while True:
                await asyncio.sleep(self._parts.timing.heartbeat_seconds / 3)
                activity.heartbeat()

        beating = asyncio.create_task(beat())
        try:
            yield
        finally:
            beating.cancel()


def _typed_input(adapter: ApplicationAdapter, request: OperationRequest) -> BaseModel:
    try:
        return adapter.validate_input(request)
    except CounterfoilError:
        raise
    except BaseException as error:  # a panic or an exit in here would end the worker
        raise Refusal(
            ErrorCode.INVALID_INPUT,
            f"the adapter does not take the input any more: {told(error)}"[:1000],
            subject=request.route_id,
            remedy="mend the adapter, or ask again under a new key",
        ) from error


WAITABLE = frozenset(
    {
        ErrorCode.NOT_READY,
        ErrorCode.ROUTE_BUSY,
        ErrorCode.ADAPTER_UNAVAILABLE,
        ErrorCode.ADAPTER_VERSION_CHANGED,
    }
)
"""Refusals that pass by themselves: nothing was dispatched, and the step is asked for again."""


def behind(row: OperationRow, detail: str) -> StoreBehind:
    """The store was restored from before what this step has done."""
    return StoreBehind(ErrorCode.STORE_BEHIND, detail, subject=row.id, remedy="run `counterfoil repair`")


def later(detail: str, code: ErrorCode, seconds: float) -> ApplicationError:
    return ApplicationError(
        detail,
        type=code,
        next_retry_delay=timedelta(seconds=min(seconds, LONGEST_POLL_SECONDS)),
        category=ApplicationErrorCategory.BENIGN,
    )


@contextmanager
def typed() -> Iterator[None]:
    """Let our own errors leave an activity as typed application errors: refusals for good, the rest to be retried."""
    try:
        yield
    except Refusal as error:
        if error.code in WAITABLE:
            raise later(error.detail, error.code, SLOW_POLL_SECONDS) from error
        raise ApplicationError(error.detail, error.as_details(), type=error.code, non_retryable=True) from error
    except StoreBehind as error:
        raise ApplicationError(error.detail, error.as_details(), type=error.code, non_retryable=True) from error
    except CounterfoilError as error:
        raise ApplicationError(error.detail, error.as_details(), type=error.code) from error
