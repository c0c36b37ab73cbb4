"""The fault matrix: every row a fault, what must come of it, and how it is played.

Rows run beside each other, each on a deployment of its own; those that end a server have that for themselves too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from counterfoil.worker.faults import rows_commands, rows_dispatch, rows_engine
from counterfoil.worker.faults.builtin import DeskProcess, Files, Parcels, Records
from counterfoil.worker.faults.judge import Verdict
from counterfoil.worker.faults.scene import NotAsExpected, Scene
from counterfoil.worker.faults.stage import Stage, TemporalHost, opened
from counterfoil.worker.faults.stores import PostgresServer, SqliteStore, Store
from counterfoil.worker.faults.target import Target, needs_of

AT_ONCE = 4
ROW_SECONDS = 240


@dataclass(frozen=True)
class Row:
    """One fault and its expected outcome."""

    number: int
    fault: str
    expected: str
    play: Callable[[Scene], Awaitable[None]]
    ends_temporal: bool = False
    ends_store: bool = False


ROWS = (
    Row(
        1,
        "kill -9 before the dispatch journal commits",
        "0 effects; dispatched again safely",
        rows_dispatch.killed_before_the_journal,
    ),
    Row(
        2,
        "kill -9 after the journal, before sending",
        "unknown; proved absent, retried once",
        rows_dispatch.killed_after_the_journal,
    ),
    Row(
        3,
        "target commits, connection drops",
        "unknown, 1 effect, locks held; observed → completed",
        rows_dispatch.connection_drops_after_the_effect,
    ),
    Row(
        4,
        "202 sent, Location lost",
        "unknown; observed by client key, else attested",
        rows_dispatch.location_lost,
    ),
    Row(
        5,
        "reply arrives, database down when recording",
        "unknown, 1 effect; observed",
        rows_dispatch.database_down_when_recording,
        ends_store=True,
    ),
    Row(
        6,
        "store executes, then reports a time-out, at each write",
        "read again; no second dispatch",
        rows_dispatch.every_write_times_out,
    ),
    Row(
        7,
        "SIGSTOP past the lease, then resumed",
        "stale write refused, late reply recorded",
        rows_dispatch.stopped_past_the_lease,
    ),
    Row(8, "clock ±1 h", "generations decide; only deadlines move", rows_dispatch.clock_moved),
    Row(9, "same key, changed body or route", "refused, 0 effects", rows_commands.same_key_another_request),
    Row(
        10,
        "key past the target's retention",
        "replay guarantee void: never sent again",
        rows_dispatch.key_past_its_retention,
    ),
    Row(
        11,
        "arguments, plan, ETag or file change after approval",
        "decision void, 0 effects",
        rows_dispatch.changed_after_approval,
    ),
    Row(
        12,
        "the same approval twice, concurrently",
        "1 dispatch; the second gets the stored decision",
        rows_commands.approved_twice_at_once,
    ),
    Row(
        13,
        "cancel before, during, after completion; answer lost",
        "cancelled, 0 effects; or stays completed; told once",
        rows_commands.cancelled_at_each_time,
    ),
    Row(
        14,
        "late, duplicate, reordered signals",
        "no-op or refused, always recorded",
        rows_commands.late_duplicate_reordered_signals,
    ),
    Row(
        15,
        "two attestations of one revision",
        "one wins; same key repeats; other content refused",
        rows_commands.two_attestations,
    ),
    Row(16, "poll always 500, or running", "stops at max polls, unknown", rows_dispatch.polls_tell_nothing),
    Row(
        17,
        "own write lost its reply; or somebody else wrote",
        "read back: ours → completed; foreign → never claimed",
        rows_dispatch.own_write_or_somebody_elses,
    ),
    Row(18, "look-up lags behind", "absence unproven, not not_applied", rows_dispatch.look_up_lags),
    Row(19, "worker upgraded mid-operation", "replays identically", rows_engine.upgraded_on_the_way),
    Row(20, "3 of 5 fields written", "partial, never success", rows_dispatch.three_of_five),
    Row(
        21,
        "Temporal killed and restarted on its file, mid-approval",
        "continues",
        rows_engine.temporal_killed_mid_approval,
        ends_temporal=True,
    ),
    Row(
        22,
        "database down at any step",
        "continues, nothing lost",
        rows_engine.database_away,
        ends_store=True,
    ),
    Row(
        23,
        "Temporal's file restored from before",
        "the step finds its record; no second effect",
        rows_engine.temporal_restored_from_before,
        ends_temporal=True,
    ),
    Row(
        24,
        "the store restored from before",
        "noticed, nothing dispatched; repaired",
        rows_engine.store_restored_from_before,
    ),
    Row(
        25,
        "signals with no, too many, undecodable arguments",
        "recorded as refused; goes on",
        rows_commands.malformed_signals,
    ),
    Row(
        26,
        "Terminate, Reset, Cancel from the Temporal UI",
        "resumed from the row; Cancel is cooperative",
        rows_engine.touched_in_the_temporal_ui,
    ),
    Row(
        27,
        "owner paused or cancelled, approval expired, deadline passed, assumption changed before dispatch",
        "not granted, 0 effects",
        rows_dispatch.late_before_dispatch,
    ),
    Row(
        28,
        "observation offered to another environment or version",
        "never given to it",
        rows_engine.looked_at_elsewhere,
    ),
    Row(
        29,
        "Temporal's file lost whole, store intact",
        "every open operation restarted from its row",
        rows_engine.temporal_lost_whole,
        ends_temporal=True,
    ),
    Row(30, "an unsealed or forged decision", "refused, or recorded as such", rows_commands.unsealed_or_forged),
)


@dataclass
class RowPlayed:
    """What came of a row."""

    row: Row
    problem: str | None = None
    """What was not as expected."""
    operations: int = 0
    effects: int = 0
    seconds: float = 0
    verdict: Verdict = field(default_factory=Verdict)

    @property
    def passed(self) -> bool:
        return self.problem is None and not self.verdict.findings


class Matrix:
    """The rows, on one kind of database."""

    def __init__(self, folder: Path, database: str, *, outage_seconds: float) -> None:
        self._folder = folder
        self._database = database
        self._outage_seconds = outage_seconds
        self._desk = DeskProcess()
        self._temporal = TemporalHost(folder / "temporal.db")
        self._postgres: PostgresServer | None = None
        self._shared = AsyncExitStack()

    async def __aenter__(self) -> Matrix:
        await asyncio.to_thread(self._folder.mkdir, parents=True, exist_ok=True)
        await asyncio.to_thread(self._desk.start, self._folder)
        self._shared.callback(self._desk.stop)
        self._shared.push_async_callback(self._temporal.close)
        await self._temporal.start()
        if self._database == "postgresql":
            self._postgres = await self._server(self._shared, self._folder)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._shared.aclose()

    async def play(self, rows: Sequence[Row]) -> list[RowPlayed]:
        """Play rows, a few at once; first those that end a server, which take longest."""
        places = asyncio.Semaphore(AT_ONCE)

        async def one(row: Row) -> RowPlayed:
            async with places:
                return await self.row(row)

        first = sorted(rows, key=lambda row: not (row.ends_temporal or row.ends_store))
        played = await asyncio.gather(*map(one, first))
        return sorted(played, key=lambda one: one.row.number)

    async def row(self, row: Row) -> RowPlayed:
        """Play one row on a deployment of its own, and judge what it leaves behind."""
        played, began = RowPlayed(row), time.monotonic()
        try:
            async with asyncio.timeout(ROW_SECONDS), AsyncExitStack() as own:
                scene = await self._scene(row, own)
                try:
                    await row.play(scene)
                except NotAsExpected as problem:
                    played.problem = str(problem)
                played.operations, played.effects = scene.asked, scene.all_effects
                played.verdict = await scene.judged()
        except Exception as error:  # a row that cannot be played is a row that failed
            played.problem = f"{type(error).__name__}: {error}"
        played.seconds = time.monotonic() - began
        return played

    async def _scene(self, row: Row, own: AsyncExitStack) -> Scene:
        name = f"row-{row.number}"
        folder = self._folder / name
        await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
        temporal = self._temporal
        if row.ends_temporal:
            temporal = TemporalHost(folder / "temporal.db")
            own.push_async_callback(temporal.close)
            await temporal.start()
        files = Files()
        targets: list[Target] = [Records(self._desk), Parcels(self._desk), files]
        needs = await asyncio.to_thread(needs_of, targets, folder)
        for target in targets:
            own.callback(target.stop)
        stage = Stage(folder, await self._store(row, own, folder), temporal, needs, queue=name)
        await own.enter_async_context(opened(stage))
        return Scene(name, stage, self._desk, files, outage_seconds=self._outage_seconds)

    async def _store(self, row: Row, own: AsyncExitStack, folder: Path) -> Store:
        if self._postgres is None:
            return SqliteStore(folder / "counterfoil.db")
        server = await self._server(own, folder) if row.ends_store else self._postgres
        return await asyncio.to_thread(server.database, f"row-{row.number}")

    @staticmethod
    async def _server(ending: AsyncExitStack, folder: Path) -> PostgresServer:
        server = await asyncio.to_thread(PostgresServer, folder / "postgres")
        ending.callback(server.close)
        return server
