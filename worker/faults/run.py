"""One run of the harness: the matrix, then random schedules, on each database; then the table."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom
from typing import Any

from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from counterfoil.worker.access import quiet_temporal
from counterfoil.worker.faults.matrix import ROWS, Matrix
from counterfoil.worker.faults.play import Play, Played
from counterfoil.worker.faults.report import Line, matrix_table, summary
from counterfoil.worker.faults.schedules import Hurt, Schedule, crowd, drawn
from counterfoil.worker.faults.stage import Stage, TemporalHost, opened
from counterfoil.worker.faults.stores import PostgresServer, SqliteStore, Store
from counterfoil.worker.faults.target import Target, load_targets, needs_of
from counterfoil.worker.output import Output

FULL_OUTAGE_SECONDS = 60.0
FINDINGS_SHOWN = 40
CROWD = 200


@dataclass(frozen=True)
class Wanted:
    """What to run."""

    folder: Path
    seed: int | None
    operations: int
    batch: int
    databases: tuple[str, ...]
    targets: tuple[str, ...]
    rows: tuple[int, ...] | None = None
    """The numbers of rows of the matrix; all where it is None."""
    outage_seconds: float = FULL_OUTAGE_SECONDS


async def run(wanted: Wanted, output: Output) -> bool:
    """Run it all and print the tables; whether nothing was found wrong."""
    quiet_temporal()
    asyncio.get_running_loop().set_exception_handler(_told)
    began = time.monotonic()
    seed = SystemRandom().randrange(1_000_000) if wanted.seed is None else wanted.seed
    output.show(f"seed {seed}")
    lines: list[Line] = []
    for database in wanted.databases:
        lines += await _rows(wanted, database, output)
        lines += await _random(wanted, database, seed, output)
    output.show(summary(lines, time.monotonic() - began))
    findings = [f"{line.database}: {finding}" for line in lines for finding in line.findings]
    output.show(*findings[:FINDINGS_SHOWN])
    if findings and wanted.operations:
        output.show(f"To see the random schedules again: make faults SEED={seed}")
    return not findings


async def _rows(wanted: Wanted, database: str, output: Output) -> list[Line]:
    rows = [row for row in ROWS if wanted.rows is None or row.number in wanted.rows]
    if not rows:
        return []
    async with Matrix(wanted.folder / f"matrix-{database}", database, outage_seconds=wanted.outage_seconds) as matrix:
        played = await matrix.play(rows)
    output.show(matrix_table(played, database))
    return [Line.of_rows(database, played)]


async def _random(wanted: Wanted, database: str, seed: int, output: Output) -> list[Line]:
    sizes = _batches(wanted.operations // len(wanted.databases), wanted.batch)
    if not sizes:
        return []
    targets = [target for name in wanted.targets for target in load_targets(name)]
    async with random_stage(wanted.folder / f"random-{database}", database, targets) as stage:
        crowded = await _played(stage, crowd(seed, min(CROWD, sizes[0]), targets), output)
        total = Played()
        for number, size in enumerate(sizes):
            schedule = drawn(seed, number, size, targets, hurts=tuple(Hurt))
            total += await _played(stage, schedule, output)
    return [
        Line.of_play(f"{crowded.operations} in flight, each worker killed", database, crowded),
        Line.of_play(f"random schedules, {len(sizes)} times {sizes[0]}", database, total),
    ]


async def _played(stage: Stage, schedule: Schedule, output: Output) -> Played:
    began = time.monotonic()
    played = await Play(stage, schedule).run()
    output.say(
        f"{schedule.name}: {played.operations} operations, {played.faults.total()} faults, "
        f"{played.effects} effects, {played.attested} attested, {len(played.verdict.findings)} findings, "
        f"{time.monotonic() - began:.0f} s; "
        + ", ".join(f"{state} {count}" for state, count in played.states.most_common())
    )
    return played


def _batches(operations: int, batch: int) -> list[int]:
    sizes = [batch] * (operations // batch)
    return [*sizes, operations % batch] if operations % batch else sizes


@asynccontextmanager
async def random_stage(folder: Path, database: str, targets: list[Target]) -> AsyncIterator[Stage]:
    """A deployment with its own Temporal server, store and targets; all of it is ended with the block."""
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    postgres: PostgresServer | None = None
    temporal = TemporalHost(folder / "temporal.db")
    try:
        needs = needs_of(targets, folder)
        await temporal.start()
        store: Store
        if database == "postgresql":
            postgres = await asyncio.to_thread(PostgresServer, folder / "postgres")
            store = postgres.database("faults")
        else:
            store = SqliteStore(folder / "counterfoil.db")
        async with opened(Stage(folder, store, temporal, needs)) as stage:
            yield stage
    finally:
        for target in targets:
            target.stop()
        await temporal.close()
        if postgres is not None:
            await asyncio.to_thread(postgres.close)


def _told(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Calls that a fault cut short are what this is for: what the SDK holds of them needs no telling."""
    if not isinstance(context.get("exception"), RPCError | WorkflowAlreadyStartedError | asyncio.CancelledError):
        loop.default_exception_handler(context)
