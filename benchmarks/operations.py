"""What an operation costs beside a bare workflow with the same two activities, in one run on one server.

Both go created → verified: the operation with its rows, ledger, claims, evidence and search attributes; the bare
workflow with nothing but the two calls. Measurements alternate, so both see the same machine. The last lines are JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from rich.console import Console
from rich.table import Table
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import Worker

import bare
from counterfoil.activities.adapters.base import AdapterContext, Order
from counterfoil.activities.adapters.catalog import Catalog
from counterfoil.activities.store.database import Database
from counterfoil.control_plane.temporal import data_converter
from counterfoil.models.operations.contract import OperationRequest, Owner, Resource, operation_id
from counterfoil.models.operations.outcomes import Completed, Verified
from counterfoil.models.operations.route import Route
from counterfoil.worker.embedded import temporal_server
from counterfoil.worker.process import serve
from counterfoil.worker.settings import WorkerSettings
from waiting import handing_on

BATCHES = 5
UNDER_WAY = (1, 5, 20, 50, 200)
WAITING = (1, 10, 1000)
console = Console(highlight=False, width=None if sys.stdout.isatty() else 110)
ROUTE = Route(
    id="bench.quick.v1",
    adapter="bench.quick",
    adapter_version="1",
    capabilities=("record.update",),
    protocol="memory",
    control="call",
    verification=True,
)


class QuickInput(BaseModel):
    """A record and its new value."""

    record: str
    value: int


class QuickAdapter:
    """Does nothing, at once: what remains is what the system costs."""

    route = ROUTE

    def validate_input(self, request: OperationRequest) -> QuickInput:
        return QuickInput.model_validate(request.input)

    def execute(self, context: AdapterContext, order: Order) -> Completed:
        return bare.completed()

    def verify(self, context: AdapterContext, order: Order) -> Verified:
        return bare.verified()


@dataclass
class Bench:
    """Two ways to do the same thing, on one server."""

    client: Client
    queue: str
    prefix: str = "record"
    count: int = 0
    handles: dict[str, WorkflowHandle[Any, Any]] = field(default_factory=dict)

    def request(self) -> OperationRequest:
        self.count += 1
        record = f"{self.prefix}-{self.count}"
        return OperationRequest(
            owner=Owner(workspace="bench", session=f"session-{self.count % 8}"),
            idempotency_key=record,
            capability="record.update",
            route_id=ROUTE.id,
            objective="Set the value to seven",
            input={"record": record, "value": 7},
            resources=(Resource(kind="remote_entity", system="bench", identity=record),),
        )

    async def handing_on(self, waiting: int) -> float:
        """Seconds to hand one resource on in the store, with so many who wait."""
        catalog = Catalog()
        catalog.register(QuickAdapter())
        one = Resource(kind="remote_entity", system="bench", identity="the one")

        def for_the_same() -> OperationRequest:
            return self.request().model_copy(update={"resources": (one,)})

        with tempfile.TemporaryDirectory(prefix="counterfoil-bench-") as folder:
            return await handing_on(Path(folder), catalog, for_the_same, waiting)

    async def operation(self) -> None:
        request = self.request()
        handle = await self.client.start_workflow(
            "ApplicationOperation",
            request.model_dump(mode="json"),
            id=operation_id(request.owner.session, request.idempotency_key),
            task_queue=self.queue,
        )
        result = await handle.result()
        assert (result["state"], result["verification"]) == ("completed", "verified"), result
        self.handles["operation"] = handle

    async def floor(self) -> None:
        request = self.request()
        handle = await self.client.start_workflow(
            bare.BareWorkflow.run,
            request.model_dump(mode="json"),
            id=f"bare-{self.prefix}-{self.count}",
            task_queue=f"{self.queue}-bare",
        )
        await handle.result()
        self.handles["bare"] = handle


async def timed(work: Callable[[], Awaitable[None]]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


async def latencies(bench: Bench, rounds: int) -> tuple[list[float], list[float]]:
    """Alternating single runs, in seconds: (operation, bare)."""
    ours, floor = [], []
    for index in range(rounds):
        pair = [(bench.operation, ours), (bench.floor, floor)]
        for work, times in pair if index % 2 else reversed(pair):
            times.append(await timed(work))
    return ours, floor


async def throughput(work: Callable[[], Awaitable[None]], total: int, concurrent: int) -> float:
    """Runs a second with `concurrent` under way at a time."""
    places = asyncio.Semaphore(concurrent)

    async def one() -> None:
        async with places:
            await work()

    began = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(total)))
    return total / (time.perf_counter() - began)


@asynccontextmanager
async def host_process(address: str) -> AsyncIterator[Callable[[str, int, int], Awaitable[float]]]:
    """A host is a process of its own: it starts `total` of a kind, `concurrent` at a time, and tells the rate."""
    async with process("--host", address) as (stdin, stdout):

        async def rate(kind: str, total: int, concurrent: int) -> float:
            stdin.write(f"{kind} {total} {concurrent}\n".encode())
            return float(await stdout.readline())

        yield rate


@asynccontextmanager
async def process(role: str, address: str) -> AsyncIterator[tuple[asyncio.StreamWriter, asyncio.StreamReader]]:
    """This program in another role, until its input ends."""
    other = await asyncio.create_subprocess_exec(
        sys.executable, __file__, role, address, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert other.stdin is not None
    assert other.stdout is not None
    try:
        yield other.stdin, other.stdout
    finally:
        other.stdin.close()
        await other.wait()


async def be_a_bare_worker(address: str) -> None:
    """The floor's worker: Temporal's, as it comes."""
    client = await Client.connect(address, data_converter=data_converter())
    worker = Worker(
        client, task_queue="bench-bare", workflows=[bare.BareWorkflow], activities=[bare.execute, bare.verify]
    )
    async with worker:
        await asyncio.to_thread(sys.stdin.read)


async def be_a_host(address: str) -> None:
    """The other side of `host_process`."""
    bench = Bench(await Client.connect(address, data_converter=data_converter()), "bench", f"host-{os.getpid()}")
    work = {"operation": bench.operation, "bare": bench.floor}
    while line := await asyncio.to_thread(sys.stdin.readline):
        kind, total, concurrent = line.split()
        print(await throughput(work[kind], int(total), int(concurrent)), flush=True)


async def history_of(handle: WorkflowHandle[Any, Any]) -> list[tuple[str, float, int]]:
    """(event, milliseconds since the start, bytes) of a run."""
    events = (await handle.fetch_history()).events
    began = events[0].event_time.ToDatetime()
    return [
        (
            EventType.Name(event.event_type).removeprefix("EVENT_TYPE_").lower(),
            (event.event_time.ToDatetime() - began) / timedelta(milliseconds=1),
            event.ByteSize(),
        )
        for event in events
    ]


def show_history(events: list[tuple[str, float, int]]) -> None:
    table = Table(
        "event", "at, ms", "bytes", title="Where the time goes: one operation, step by step", title_justify="left"
    )
    for name, at, size in events:
        table.add_row(name, f"{at:.1f}", str(size))
    console.print(table)


class Stopwatch:
    """Adds up the time spent inside the store's transactions."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def watch(self, database: Database) -> None:
        run = database.run

        async def watched(work: Any) -> Any:
            began = time.perf_counter()
            try:
                return await run(work)
            finally:
                self.seconds.append(time.perf_counter() - began)

        database.run = watched  # type: ignore[method-assign]


async def measure(rounds: int) -> list[dict[str, Any]]:
    folder = Path(tempfile.mkdtemp(prefix="counterfoil-bench-"))
    async with temporal_server(folder / "temporal.db") as server:
        client = await Client.connect(server.address, data_converter=data_converter())
        settings = WorkerSettings(
            state_dir=folder / "state",
            task_queue="bench",
            adapter_queues="shared",
            entry_points=False,
            sweep_seconds=3600,
            max_concurrent_activities=200,
        )
        catalog = Catalog()
        catalog.register(QuickAdapter())
        stop, ready = asyncio.Event(), asyncio.Event()
        stopwatch = Stopwatch()

        def became_ready(unit: Any) -> None:
            stopwatch.watch(unit.database)
            ready.set()

        serving = asyncio.create_task(serve(settings, stop, client=client, catalog=catalog, ready=became_ready))
        await asyncio.wait([serving, asyncio.create_task(ready.wait())], return_when=asyncio.FIRST_COMPLETED)
        try:
            async with process("--bare-worker", server.address):
                return await figures(Bench(client, "bench"), stopwatch, rounds)
        finally:
            stop.set()
            await serving


async def figures(bench: Bench, stopwatch: Stopwatch, rounds: int) -> list[dict[str, Any]]:
    console.print("Warming up …")
    await latencies(bench, 10)
    console.print(f"Latency: {rounds} of each, alternating …")
    stopwatch.seconds.clear()
    ours, floor = await latencies(bench, rounds)
    in_store = sum(stopwatch.seconds) / rounds
    our_events = await history_of(bench.handles["operation"])
    bare_events = await history_of(bench.handles["bare"])
    console.print(f"Throughput: {BATCHES} batches of {2 * rounds} each, alternating …")
    rates: dict[str, list[float]] = {"operation": [], "bare": []}
    async with host_process(bench.client.service_client.config.target_host) as rate:
        for kind in ("operation", "bare"):
            await rate(kind, 20, 20)
        for _ in range(BATCHES):
            for kind, found in rates.items():
                found.append(await rate(kind, 2 * rounds, 20))
        console.print("Throughput by how many are under way at a time …")
        spread = {under_way: await rate("operation", max(20, 2 * under_way), under_way) for under_way in UNDER_WAY}
    console.print("Handing one resource on, with few and with many who wait for it …")
    handed_on = {waiting: await bench.handing_on(waiting) for waiting in WAITING}
    show_history(our_events)
    latency = statistics.median(ours) / statistics.median(floor)
    table = Table("", "operation", "bare workflow", "ratio", title="Created → verified", title_justify="left")
    table.add_row("latency, median, ms", ms(ours), ms(floor), f"{latency:.2f}")
    table.add_row("  of which in the store", f"{in_store * 1000:.1f}", "0", "")
    our_rate, bare_rate = (statistics.median(rates[name]) for name in ("operation", "bare"))
    table.add_row("throughput, a second", f"{our_rate:.1f}", f"{bare_rate:.1f}", f"{our_rate / bare_rate:.2f}")
    table.add_row("history events", str(len(our_events)), str(len(bare_events)), "")
    our_bytes, bare_bytes = (sum(size for _, _, size in events) for events in (our_events, bare_events))
    table.add_row("history bytes", str(our_bytes), str(bare_bytes), f"{our_bytes / bare_bytes:.2f}")
    console.print(table)
    show_by_count("Throughput, by how many are under way at a time", "a second", spread)
    by_waiting = {waiting: seconds * 1000 for waiting, seconds in handed_on.items()}
    show_by_count("Handing one resource on, by how many wait for it", "ms", by_waiting)
    flatness = handed_on[WAITING[-1]] / handed_on[WAITING[0]]
    return [
        {"bench": "operation latency", "ratio": round(latency, 3), "budget": 1.10, "better": "lower"},
        {"bench": "operation throughput", "ratio": round(our_rate / bare_rate, 3), "budget": 0.90, "better": "higher"},
        {"bench": "operation history events", "ratio": len(our_events), "budget": 24, "better": "lower"},
        {"bench": "grant with 1,000 waiting", "ratio": round(flatness, 3), "budget": 2.0, "better": "lower"},
    ]


def show_by_count(title: str, unit: str, figures: dict[int, float]) -> None:
    table = Table("", *(f"{count:,}" for count in figures), title=title, title_justify="left")
    table.add_row(unit, *(f"{figure:.1f}" for figure in figures.values()))
    console.print(table)


def ms(seconds: list[float]) -> str:
    return f"{statistics.median(seconds) * 1000:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60, help="how many of each are timed")
    parser.add_argument("--host", help=argparse.SUPPRESS)
    parser.add_argument("--bare-worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.host is not None:
        asyncio.run(be_a_host(given.host))
    elif given.bare_worker is not None:
        sys.dont_write_bytecode = False  # as in our own worker
        asyncio.run(be_a_bare_worker(given.bare_worker))
    else:
        for line in asyncio.run(measure(given.rounds)):
            print(json.dumps(line))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
