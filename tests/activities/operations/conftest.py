"""The engine of operations on a real database, without workflows: one method a transaction, and a clock to set."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from sqlalchemy import select

from counterfoil.activities.adapters.catalog import Catalog
from counterfoil.activities.fault_points import no_fault
from counterfoil.activities.operations import claims, commands, journal, records, settlement
from counterfoil.activities.operations.commands import SealPolicy
from counterfoil.activities.operations.creation import Creator
from counterfoil.activities.operations.journal import Attempt, AttemptKind
from counterfoil.activities.operations.rows import load, move, resources_of
from counterfoil.activities.store.blobs import BlobStore
from counterfoil.activities.store.database import Database
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.errors import ErrorCode, Refusal
from counterfoil.models.operations.commands import Answer
from counterfoil.models.operations.contract import OperationRequest
from counterfoil.models.operations.lifecycle import UNDISPATCHED, Event
from counterfoil.models.operations.outcomes import CancelOutcome, Observation, VerificationOutcome
from counterfoil.models.operations.record import LedgerEntry, Operation
from counterfoil.models.operations.sealing import Received
from counterfoil.models.tables import CLAIMS, ClaimRow, OperationRow
from support.scripted import request, scripted

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
KEY = b"the sealing key of these tests"


class SetClock:
    """Shows what the test says."""

    def __init__(self, now: datetime = NOON) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def forward(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


class Bench:
    """Operations on one database, moved by hand."""

    def __init__(self, database: Database, folder: Path, clock: SetClock, *, allow_unsealed: bool = True) -> None:
        self.database = database
        self.clock = clock
        database.clock = clock
        self.catalog = Catalog()
        self.blobs = BlobStore(f"file://{folder / 'blobs'}")
        self.creator = Creator(self.catalog, self.blobs, lambda route: f"queue-{route.id}", no_fault)
        self.policy = SealPolicy(key=KEY, allow_unsealed=allow_unsealed)
        self.woken: list[str] = []
        """Everyone whom a committed transaction named, in order."""

    def route(self, route_id: str = "scripted.v1", **changes: Any) -> None:
        scripted(self.catalog, route_id, **changes)

    async def run(self, work: Callable[[UnitOfWork], Awaitable[Any]]) -> Any:
        async def noting(unit: UnitOfWork) -> Any:
            result = await work(unit)
            named[:] = unit.wakes
            return result

        named: list[str] = []
        result = await self.database.run(noting)
        self.woken += named
        return result

    async def create(self, wanted: OperationRequest | None = None, **changes: Any) -> OperationRow:
        """Claim an operation; registers the plain scripted route where the test registered none."""
        if not self.catalog.routes():
            self.route()
        asked = wanted or request(**changes)
        kept = self.creator.offload(asked)
        return await self.run(lambda work: self.creator.claim(work, asked, kept))

    async def _on(self, operation_id: str, step: Callable[[UnitOfWork, OperationRow], Awaitable[Any]]) -> Any:
        async def work(unit: UnitOfWork) -> Any:
            return await step(unit, await load(unit, operation_id))

        return await self.run(work)

    async def tell(
        self, operation_id: str, name: str, payload: Any = None, *, problem: str | None = None, channel: str = "signal"
    ) -> Answer:
        """Send a command as it might arrive."""
        received = Received(name=name, payload=payload, problem=problem, channel=channel)
        return await self._on(operation_id, lambda work, row: commands.apply(work, row, received, self.policy))

    async def grant(
        self, operation_id: str, generation: int = 1, token: str = "t", kind: AttemptKind = AttemptKind.EXECUTE
    ) -> bool:
        attempt = Attempt(AttemptKind(kind), generation, token)
        return await self._on(operation_id, lambda work, row: journal.grant(work, row, attempt))

    async def fence(self, operation_id: str, generation: int = 1) -> None:
        await self._on(operation_id, lambda work, row: journal.fence(work, row, generation))

    async def reply(self, operation_id: str, outcome: Observation, generation: int = 1) -> None:
        """An attempt's reply arrives."""
        await self._on(operation_id, lambda work, row: settlement.settle_attempt(work, row, generation, outcome))

    async def prepared(self, operation_id: str, outcome: Observation) -> None:
        """A pure preparation ended."""
        await self._on(operation_id, lambda work, row: settlement.settle_preparation(work, row, outcome))

    async def look(self, operation_id: str, seen: Observation, generation: int | None = None) -> None:
        """One observation of the newest attempt, or of the one named."""

        async def settle(work: UnitOfWork, row: OperationRow) -> None:
            await settlement.settle_observation(work, row, generation or row.generation, seen)

        await self._on(operation_id, settle)

    async def stop_exhausted(self, operation_id: str) -> None:
        await self._on(operation_id, settlement.stop_exhausted)

    async def send_cancel(self, operation_id: str) -> bool:
        return await self._on(operation_id, settlement.journal_cancel)

    async def cancel_answer(self, operation_id: str, answer: CancelOutcome) -> None:
        await self._on(operation_id, lambda work, row: settlement.settle_cancel(work, row, answer))

    async def verify(self, operation_id: str, seen: VerificationOutcome) -> None:
        await self._on(operation_id, lambda work, row: settlement.settle_verification(work, row, seen))

    async def expire(self, operation_id: str) -> None:
        """The workflow's timer rings."""

        async def end(work: UnitOfWork, row: OperationRow) -> None:
            if row.state in UNDISPATCHED and not row.attempt_open:
                await move(work, row, Event.EXPIRE, "time is up")

        await self._on(operation_id, end)

    async def read(self, operation_id: str) -> Operation:
        return await self.database.read(lambda work: records.whole(work, operation_id))

    async def row(self, operation_id: str) -> OperationRow:
        return await self.database.read(lambda work: load(work, operation_id))

    async def ledger(self, operation_id: str) -> list[LedgerEntry]:
        entries = await self.database.read(lambda work: records.entries(work, operation_id, limit=10_000))
        assert isinstance(entries, list)
        return entries

    async def kinds(self, operation_id: str) -> list[str]:
        return [entry.kind for entry in await self.ledger(operation_id)]

    async def held(self, operation_id: str) -> int:
        """How many claims an operation holds."""
        return len([claim for claim in await self.claims(operation_id) if claim.held])

    async def claims(self, operation_id: str | None = None) -> list[ClaimRow]:
        query = select(CLAIMS) if operation_id is None else select(CLAIMS).where(CLAIMS.c.operation_id == operation_id)

        async def read(work: UnitOfWork) -> list[ClaimRow]:
            return await work.session.all(ClaimRow, query)

        return await self.database.read(read)

    async def free(self, operation_id: str) -> bool:
        async def read(work: UnitOfWork) -> bool:
            row = await load(work, operation_id)
            return await claims.are_free(work, row, claims.wanted(row.workspace, resources_of(row)))

        return await self.database.read(read)


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest_asyncio.fixture
async def bench(database: Database, tmp_path: Path, clock: SetClock) -> AsyncIterator[Bench]:
    """The engine on SQLite and on PostgreSQL in turn."""
    yield Bench(database, tmp_path, clock)


@pytest.fixture(scope="session")
def bench_class() -> type[Bench]:
    """For tests that make their own, on a database of their own."""
    return Bench


@pytest.fixture(scope="session")
def clock_class() -> type[SetClock]:
    return SetClock


@pytest.fixture
def refused() -> Callable[[ErrorCode], Any]:
    """Expect a refusal with a code."""

    @contextmanager
    def expect(code: ErrorCode) -> Iterator[Any]:
        with pytest.raises(Refusal) as caught:
            yield caught
        assert caught.value.code == code

    return expect
