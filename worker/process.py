"""A worker process: wait for what it needs, migrate, register, sweep, serve; drain when told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
)
from temporalio.service import RPCError, RPCStatusCode

from counterfoil.activities.adapters.catalog import Catalog
from counterfoil.activities.store.migration import migrate
from counterfoil.control_plane.keys import resolve_key
from counterfoil.control_plane.temporal import connect
from counterfoil.models.errors import ErrorCode, Refusal, Unavailable
from counterfoil.worker.build import Unit, build_unit
from counterfoil.worker.settings import WorkerSettings
from counterfoil.workflows.documents import DocumentUpkeep
from counterfoil.workflows.operation_sweep import OperationSweep
from counterfoil.workflows.search_attributes import REQUIRED

log = logging.getLogger(__name__)

COLLECTION_THRESHOLDS = (20_000, 50, 50)


async def serve(
    settings: WorkerSettings,
    stop: asyncio.Event,
    *,
    client: Client | None = None,
    catalog: Catalog | None = None,
    ready: Callable[[Unit], None] | None = None,
) -> None:
    """Run a worker until `stop` is set, then let running activities finish.

    Raises `Unavailable` where Temporal or the database stay away, `Refusal` (`SEARCH_ATTRIBUTES_MISSING`) where the
    namespace was not set up.
    """
    if client is None:
        client = await connect(
            address=settings.temporal_address(),
            payload_key=resolve_key(settings.payload_key),
            tries=settings.connect_tries,
            usual_place=settings.usual_temporal,
        )
    # Temporal's sandbox loads a workflow's file anew for every workflow: let it find it compiled.
    sys.dont_write_bytecode = False
    await migrate_patiently(settings)
    await namespace_patiently(client, settings)
    unit = build_unit(settings, client, catalog=catalog)
    try:
        async with contextlib.AsyncExitStack() as running:
            for worker in unit.workers:
                await running.enter_async_context(worker)
            await ensure_schedules(client, settings)
            sweeping = asyncio.create_task(_sweep_at_start(unit))
            # What was loaded until now stays: the collector need not look at it again and again.
            gc.collect()
            gc.freeze()
            # A worker makes many short-lived messages and few cycles: looking for those at every 700th costs a tenth.
            gc.set_threshold(*COLLECTION_THRESHOLDS)
            if ready is not None:
                ready(unit)
            await stop.wait()
            sweeping.cancel()
            log.info("draining: running activities have %g s to finish", settings.drain_seconds)
    finally:
        unit.activities.abandon()
        unit.bell.stop()
        await unit.database.close()


async def migrate_patiently(settings: WorkerSettings) -> None:
    """Bring the database up to date, waiting for it to appear. Raises `Unavailable` (`STORE_UNAVAILABLE`)."""
    for attempt in range(1, settings.connect_tries + 1):
        try:
            await asyncio.to_thread(migrate, settings.database)
            return
        except Unavailable as error:
            if attempt == settings.connect_tries:
                raise
            log.warning("the database does not answer yet, trying again: %s", error.detail)
            await asyncio.sleep(min(0.25 * 2**attempt, 5))


async def namespace_patiently(client: Client, settings: WorkerSettings) -> None:
    """Check the namespace, waiting for it to appear: a cluster answers before its namespaces are there."""
    for attempt in range(1, settings.connect_tries + 1):
        try:
            await require_search_attributes(client)
            return
        except RPCError as error:
            passing = error.status in (RPCStatusCode.NOT_FOUND, RPCStatusCode.UNAVAILABLE)
            if not passing or attempt == settings.connect_tries:
                raise
            log.warning("the namespace '%s' cannot be used yet, trying again: %s", client.namespace, error.message)
            await asyncio.sleep(min(0.25 * 2**attempt, 5))


async def require_search_attributes(client: Client) -> None:
    """Refuse to start in a namespace without our search attributes: every workflow would fail for ever there."""
    answer = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace=client.namespace)
    )
    wrong = [name for name, kind in REQUIRED.items() if answer.custom_attributes.get(name) != kind]
    if wrong:
        raise Refusal(
            ErrorCode.SEARCH_ATTRIBUTES_MISSING,
            f"the namespace '{client.namespace}' lacks the search attributes {', '.join(wrong)} (or has another type)",
            subject=client.namespace,
            remedy="register them: `counterfoil register` does, or `temporal operator search-attribute create`",
        )


async def _sweep_at_start(unit: Unit) -> None:
    try:
        await unit.deliveries.resume()
        swept = await unit.activities.sweep()
        log.info("swept: %s", swept)
    except Exception as error:
        log.warning("the sweep at start did not finish; the schedule will make it: %s", error)


async def ensure_schedules(client: Client, settings: WorkerSettings) -> None:
    """Have Temporal start the sweep and the upkeep of documents regularly; one schedule each a deployment."""
    await _ensure_schedule(client, settings, "sweep", OperationSweep.run, settings.sweep_seconds)
    await _ensure_schedule(client, settings, "upkeep", DocumentUpkeep.run, settings.document_upkeep_seconds)


async def _ensure_schedule(
    client: Client, settings: WorkerSettings, name: str, run: Callable[..., Any], every_seconds: float
) -> None:
    schedule_id = f"{settings.task_queue}-{name}"
    schedule = Schedule(
        action=ScheduleActionStartWorkflow(run, id=schedule_id, task_queue=settings.task_queue),
        spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=timedelta(seconds=every_seconds))]),
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP),
    )
    try:
        await client.create_schedule(schedule_id, schedule)
    except ScheduleAlreadyRunningError:
        return
    except RPCError as error:
        log.warning("no schedule for the %s: %s", name, error.message)
