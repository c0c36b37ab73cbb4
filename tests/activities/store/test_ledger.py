"""The ledger has no gaps: not in a subject's versions, not in a session's timeline, however many write at once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from sqlalchemy import select

from counterfoil.activities.store import ledger
from counterfoil.activities.store.database import Database
from counterfoil.activities.store.ledger import Entry, HistoryGap
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.common import Actor
from counterfoil.models.errors import ErrorCode, Refusal
from counterfoil.models.operations.outcomes import Evidence
from counterfoil.models.tables import LEDGER, LedgerRow, OperationRow

MakeRow = Callable[..., OperationRow]


async def put(database: Database, *rows: OperationRow) -> None:
    async def work(unit: UnitOfWork) -> None:
        for row in rows:
            unit.session.add(row)

    await database.run(work)


async def append(database: Database, operation_id: str, *entries: Entry) -> list[int]:
    async def work(unit: UnitOfWork) -> list[int]:
        row = await unit.session.get(OperationRow, operation_id, lock=True)
        assert row is not None
        return [ledger.append(unit, row, entry) for entry in entries]

    return await database.run(work)


async def everything(database: Database) -> list[LedgerRow]:
    async def read(unit: UnitOfWork) -> list[LedgerRow]:
        return await unit.session.all(LedgerRow, select(LEDGER).order_by(LEDGER.c.session, LEDGER.c.timeline))

    return await database.read(read)


async def history(database: Database, operation_id: str = "op-1", **options: Any) -> Any:
    async def read(unit: UnitOfWork) -> Any:
        row = await unit.session.get(OperationRow, operation_id)
        assert row is not None
        return await ledger.history(unit, row, **options)

    found = await database.read(read)
    return found if isinstance(found, HistoryGap) else [entry.version for entry in found]


NOTE = Entry(kind="note", summary="something happened")


async def test_an_entry_is_kept_as_it_was_given(database: Database, operation_row: MakeRow) -> None:
    evidence = Evidence(source="target", observed_at=datetime.fromisoformat("2026-07-01T12:00:00+00:00"), version="7")
    actor = Actor(principal="ann", authenticated=True, scope="review")
    await put(database, operation_row())

    await append(
        database,
        "op-1",
        Entry("approve", "approved", actor, material=False, evidence=evidence, data={"b": 1, "a": "é"}),
    )

    (row,) = await everything(database)
    assert (row.subject_kind, row.subject_id, row.version, row.session, row.timeline) == (
        "operation",
        "op-1",
        1,
        "s",
        1,
    )
    assert (row.kind, row.summary, row.material, row.scope, row.data) == ("approve", "approved", False, "review", '{"a":"é","b":1}')  # fmt: skip # noqa: E501
    assert Actor.model_validate_json(row.actor) == actor
    assert Evidence.model_validate_json(row.evidence or "") == evidence


async def test_several_entries_of_one_transaction_are_numbered_in_their_order(
    database: Database, operation_row: MakeRow
) -> None:
    await put(database, operation_row())

    assert await append(database, "op-1", NOTE, NOTE, NOTE) == [1, 2, 3]
    assert await append(database, "op-1", NOTE) == [4]
    assert [row.timeline for row in await everything(database)] == [1, 2, 3, 4]


async def test_versions_and_timelines_have_no_gaps_under_many_concurrent_writers(
    database: Database, operation_row: MakeRow
) -> None:
    """24 writers, 6 operations, 2 sessions; a third of the transactions fail half-way."""
    sessions = {f"op-{number}": f"s{number % 2}" for number in range(6)}
    await put(database, *[operation_row(name, session) for name, session in sessions.items()])
    dice = random.Random(20260701)

    async def writer(number: int) -> int:
        fails = dice.random() < 1 / 3

        async def work(unit: UnitOfWork) -> None:
            row = await unit.session.get(OperationRow, f"op-{number % 6}", lock=True)
            assert row is not None
            ledger.append(unit, row, NOTE)
            await asyncio.sleep(0)
            ledger.append(unit, row, NOTE)
            if fails:
                await unit.write()
                raise KeyError(number)

        try:
            await database.run(work)
        except KeyError:
            return 0
        return 2

    written = sum(await asyncio.gather(*[writer(number) for number in range(24)]))
    written += sum(await asyncio.gather(*[writer(number) for number in range(24)]))

    rows = await everything(database)
    assert len(rows) == written > 40
    for session in ("s0", "s1"):
        timeline = [row.timeline for row in rows if row.session == session]
        assert timeline == list(range(1, len(timeline) + 1))
    for operation_id in sessions:
        versions = [row.version for row in rows if row.subject_id == operation_id]
        assert versions == list(range(1, len(versions) + 1))


async def test_writers_who_meet_in_a_session_nobody_has_seen_make_it_once(
    database: Database, operation_row: MakeRow
) -> None:
    names = [f"op-{number}" for number in range(20)]
    await put(database, *[operation_row(name) for name in names])

    await asyncio.gather(*[append(database, name, NOTE) for name in names])

    assert [row.timeline for row in await everything(database)] == list(range(1, 21))


async def test_a_change_whose_entry_cannot_be_written_does_not_happen(
    database: Database, operation_row: MakeRow
) -> None:
    await put(database, operation_row())

    async def work(unit: UnitOfWork) -> None:
        row = await unit.session.get(OperationRow, "op-1", lock=True)
        assert row is not None
        row.state = "completed"
        ledger.append(unit, row, Entry(kind="note", summary="too much", data={"x": "a" * 5000}))

    with pytest.raises(ValueError, match="4096"):
        await database.run(work)

    async def read(unit: UnitOfWork) -> tuple[str, int]:
        row = await unit.session.get(OperationRow, "op-1")
        assert row is not None
        return row.state, row.ledger_version

    assert await database.read(read) == ("queued", 0)
    assert await everything(database) == []


async def test_data_of_four_kilobytes_fits(database: Database, operation_row: MakeRow) -> None:
    await put(database, operation_row())
    frame = len('{"x":""}')

    await append(database, "op-1", Entry(kind="note", summary="s", data={"x": "a" * (4096 - frame)}))

    assert len(await everything(database)) == 1


async def test_a_summary_is_kept_readable_whatever_it_was_made_from(database: Database, operation_row: MakeRow) -> None:
    await put(database, operation_row())

    await append(database, "op-1", Entry(kind="note", summary="a\x00b \ud800 é" + "x" * 2000))

    (row,) = await everything(database)
    assert row.summary.startswith("a\ufffdb ? é")
    assert len(row.summary) == 1000


async def test_history_is_what_came_after_a_version(database: Database, operation_row: MakeRow) -> None:
    await put(database, operation_row())
    await append(database, "op-1", *[NOTE] * 5)

    assert await history(database) == [1, 2, 3, 4, 5]
    assert await history(database, after=3) == [4, 5]
    assert await history(database, after=5) == []
    assert await history(database, after=1, limit=2) == [2, 3]


async def test_a_version_that_was_never_reached_is_refused(database: Database, operation_row: MakeRow) -> None:
    await put(database, operation_row())
    await append(database, "op-1", NOTE)

    with pytest.raises(Refusal) as caught:
        await history(database, after=2)
    assert (caught.value.code, caught.value.subject) == (ErrorCode.BAD_REQUEST, "op-1")


async def test_below_the_floor_there_is_a_gap_and_never_an_empty_success(
    database: Database, operation_row: MakeRow
) -> None:
    row = operation_row()
    row.ledger_version, row.ledger_floor = 4, 4
    await put(database, row)
    await append(database, "op-1", NOTE, NOTE)

    assert await history(database, after=3) == HistoryGap(requested=3, floor=4, head=6)
    assert await history(database) == HistoryGap(requested=0, floor=4, head=6)
    assert await history(database, after=4) == [5, 6]


async def test_the_history_of_one_operation_has_nothing_of_another(database: Database, operation_row: MakeRow) -> None:
    await put(database, operation_row("op-1"), operation_row("op-2"))
    await append(database, "op-1", NOTE)
    await append(database, "op-2", NOTE, NOTE)

    assert await history(database, "op-1") == [1]
    assert await history(database, "op-2") == [1, 2]
