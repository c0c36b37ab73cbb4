"""What it costs to hand a resource on while many wait for it: settle one operation, wake and grant the next."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import bare
from counterfoil.activities.adapters.catalog import Catalog
from counterfoil.activities.fault_points import no_fault
from counterfoil.activities.operations import journal, settlement
from counterfoil.activities.operations.creation import Creator
from counterfoil.activities.operations.journal import Attempt, AttemptKind
from counterfoil.activities.operations.rows import load
from counterfoil.activities.store.blobs import BlobStore
from counterfoil.activities.store.database import Database
from counterfoil.activities.store.migration import migrate
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.operations.contract import OperationRequest

HANDED_ON = 30


async def handing_on(folder: Path, catalog: Catalog, make: Callable[[], OperationRequest], waiting: int) -> float:
    """Seconds (median) from one holder's outcome to the next holder's grant, with `waiting` behind them.

    `make` gives requests for one and the same resource. Raises AssertionError where anybody but the next was woken.
    """
    url = f"sqlite:///{folder / f'waiting-{waiting}.db'}"
    migrate(url)
    database = Database(url)
    creator = Creator(catalog, BlobStore((folder / "blobs").as_uri()), lambda route: "bench", no_fault)
    line = [await _queued(database, creator, make()) for _ in range(waiting + HANDED_ON)]
    for operation_id in line:
        await _granted(database, operation_id)
    times = []
    for holder, heir in pairwise(line[: HANDED_ON + 1]):
        began = time.perf_counter()
        woken = await _settled(database, holder)
        granted = await _granted(database, heir)
        times.append(time.perf_counter() - began)
        assert woken == [heir]
        assert granted
    await database.close()
    return statistics.median(times)


async def _queued(database: Database, creator: Creator, request: OperationRequest) -> str:
    kept = creator.offload(request)
    row = await database.run(lambda work: creator.claim(work, request, kept))
    return row.id


async def _granted(database: Database, operation_id: str) -> bool:
    async def grant(work: UnitOfWork) -> bool:
        row = await load(work, operation_id)
        return await journal.grant(work, row, Attempt(AttemptKind.EXECUTE, row.generation + 1, "bench"))

    return await database.run(grant)


async def _settled(database: Database, operation_id: str) -> list[str]:
    async def settle(work: UnitOfWork) -> list[str]:
        row = await load(work, operation_id)
        await settlement.settle_attempt(work, row, row.generation, bare.completed())
        evidence = bare.verified().evidence.model_copy(update={"observed_at": datetime.now(UTC)})
        await settlement.settle_verification(work, row, bare.verified().model_copy(update={"evidence": evidence}))
        return list(work.wakes)

    return await database.run(settle)
