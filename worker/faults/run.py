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
from counterfoil.worker.faults.play import Play, Played
from counterfoil.worker.faults.report import Line, summary
from counterfoil.worker.faults.schedules import Hurt, drawn
from counterfoil.worker.faults.stage import Stage, TemporalHost, opened
from counterfoil.worker.faults.stores import PostgresServer, SqliteStore, Store
from counterfoil.worker.faults.target import Target, load_targets, needs_of
from counterfoil.worker.output import Output


@dataclass(frozen=True)
class Wanted:
    """What to run."""

    folder: Path
    seed: int | None
    operations: int
    batch: int
    databases: tuple[str, ...]
    targets: tuple[str, ...]
    hurts: tuple[Hurt, ...] = tuple(Hurt)


async def run(wanted: Wanted, output: Output) -> bool:
    """Run it all and print the table; whether nothing was found wrong."""
    quiet_temporal()
    asyncio.get_running_loop().set_exception_handler(_told)
    began = time.monotonic()
    seed = SystemRandom().randrange(1_000_000) if wanted.seed is None else wanted.seed
    output.show(f"seed {seed}")
    lines: list[Line] = []
    each = wanted.operations // len(wanted.databases)
    for database in wanted.databases:
        targets = [target for name in wanted.targets for target in load_targets(name)]
        async with random_stage(wanted.folder / database, database, targets) as stage:
            played = await _random(stage, seed, each, wanted, targets, output)
        lines.append(Line("random schedules", database, played))
    output.show(summary(lines, time.monotonic() - began))
    findings = [finding for line in lines for finding in line.played.verdict.findings]
    for finding in findings[:40]:
        output.show(finding)
    if findings:
        output.show(f"Run it again with SEED={seed}.")
    return not findings


async def _random(
    stage: Stage, seed: int, operations: int, wanted: Wanted, targets: list[Target], output: Output
) -> Played:
    total = Played()
    for number, size in enumerate(_batches(operations, wanted.batch)):
        began = time.monotonic()
        schedule = drawn(seed, number, size, targets, hurts=wanted.hurts)
        played = await Play(stage, schedule).run()
        output.say(
            f"{schedule.name}: {played.operations} operations, {played.effects} effects, "
            f"{len(played.verdict.findings)} findings, {time.monotonic() - began:.0f} s; {dict(played.states)}"
        )
        total += played
    return total


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
    if not isinstance(context.get("exception"), RPCError | WorkflowAlreadyStartedError):
        loop.default_exception_handler(context)
