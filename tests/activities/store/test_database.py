"""The database promises what the journal needs: durability, one writer at a time, retries only where they are safe."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import Connection, select, text
from sqlalchemy.exc import DBAPIError, IntegrityError

from counterfoil.activities.store.database import Database
from counterfoil.activities.store.migration import migrate
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.errors import ErrorCode, Unavailable
from counterfoil.models.tables import LEDGER, RESOURCES, SESSIONS, LedgerRow, ResourceRow, SessionRow

AT = datetime(2026, 7, 1, 12, 30, tzinfo=UTC)


@pytest.fixture
def sqlite_file(tmp_path: Path) -> Path:
    path = tmp_path / "store.db"
    migrate(f"sqlite:///{path}")
    return path


async def scalar(work: UnitOfWork, sql: str) -> object:
    return (await work.session.execute(text(sql))).scalar()


def adding(name: str):
    async def work(unit: UnitOfWork) -> None:
        unit.session.add(ResourceRow(digest=name, name=name))

    return work


async def names(database: Database) -> list[str]:
    async def read(unit: UnitOfWork) -> list[str]:
        return sorted((await unit.session.execute(select(RESOURCES.c.name))).scalars())

    return await database.read(read)


async def test_sqlite_runs_with_a_write_ahead_log_and_full_synchronisation(sqlite_file: Path) -> None:
    database = Database(f"sqlite:///{sqlite_file}")
    told = {}
    for pragma in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout"):
        told[pragma] = await database.run(lambda work, name=pragma: scalar(work, f"PRAGMA {name}"))
    await database.close()

    assert told == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 10_000}


async def test_a_sqlite_transaction_takes_the_write_lock_when_it_begins(sqlite_file: Path) -> None:
    database = Database(f"sqlite:///{sqlite_file}")
    other = sqlite3.connect(sqlite_file, timeout=0, isolation_level=None)

    async with database.transaction() as work:
        await scalar(work, "SELECT 1")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
    other.execute("BEGIN IMMEDIATE")
    other.close()
    await database.close()


async def test_readers_of_sqlite_neither_wait_for_a_writer_nor_see_its_half_done_work(sqlite_file: Path) -> None:
    database = Database(f"sqlite:///{sqlite_file}")

    async with database.transaction() as work:
        work.session.add(ResourceRow(digest="d", name="half done"))
        await work.session.flush()
        seen_during = await asyncio.wait_for(names(database), timeout=2)
    seen_after = await names(database)
    await database.close()

    assert (seen_during, seen_after) == ([], ["half done"])


async def test_an_instant_comes_back_in_utc_as_it_went_in(database: Database) -> None:
    async def write(work: UnitOfWork) -> None:
        work.session.add(
            LedgerRow(
                subject_kind="k",
                subject_id="s",
                version=1,
                session="s",
                timeline=1,
                kind="k",
                material=True,
                actor="{}",
                summary="",
                at=datetime.fromisoformat("2026-07-01T14:30:00.000001+02:00"),
            )
        )

    await database.run(write)

    async def read(work: UnitOfWork) -> datetime:
        return (await work.session.execute(select(LEDGER.c.at))).scalar()

    assert (await database.read(read)).isoformat() == "2026-07-01T12:30:00.000001+00:00"


async def test_a_transaction_that_raises_leaves_nothing_behind(database: Database) -> None:
    async def work(unit: UnitOfWork) -> None:
        unit.session.add(ResourceRow(digest="d", name="half done"))
        await unit.session.flush()
        raise KeyError("a mistake")

    with pytest.raises(KeyError):
        await database.run(work)
    assert await names(database) == []


async def test_concurrent_writers_lose_no_update(database: Database) -> None:
    await database.run(lambda work: _put_session(work))

    async def increment(work: UnitOfWork) -> None:
        row = await work.session.get(SessionRow, "s", lock=True)
        assert row is not None
        row.timeline += 1

    await asyncio.gather(*[database.run(increment) for _ in range(30)])

    async def read(work: UnitOfWork) -> int:
        return (await work.session.execute(select(SESSIONS.c.timeline))).scalar()

    assert await database.read(read) == 30


async def _put_session(work: UnitOfWork) -> None:
    work.session.add(SessionRow(id="s", workspace="w"))


async def test_two_engines_share_one_sqlite_file_without_losing_a_write(sqlite_file: Path) -> None:
    first, second = Database(f"sqlite:///{sqlite_file}"), Database(f"sqlite:///{sqlite_file}")

    await asyncio.gather(
        *[
            database.run(adding(f"{name}{number:02}"))
            for number in range(15)
            for name, database in (("a", first), ("b", second))
        ]
    )
    found = await names(first)
    await first.close()
    await second.close()

    assert found == [f"a{number:02}" for number in range(15)] + [f"b{number:02}" for number in range(15)]


async def test_work_is_run_again_when_the_file_was_locked(sqlite_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counterfoil.activities.store.database.BUSY_TIMEOUT_SECONDS", 0)
    database = Database(f"sqlite:///{sqlite_file}")
    other = sqlite3.connect(sqlite_file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    writing = asyncio.create_task(database.run(adding("patient")))
    await asyncio.sleep(0.02)
    assert not writing.done()
    other.execute("COMMIT")
    other.close()
    await writing
    found = await names(database)
    await database.close()

    assert found == ["patient"]


async def test_a_database_that_stays_away_is_unavailable_and_says_which(
    sqlite_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counterfoil.activities.store.database.BUSY_TIMEOUT_SECONDS", 0)
    monkeypatch.setattr("counterfoil.activities.store.database.RETRY_DELAYS_SECONDS", (0.01, 0.01))
    database = Database(f"sqlite:///{sqlite_file}")
    other = sqlite3.connect(sqlite_file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(Unavailable) as caught:
        await database.run(adding("never"))
    other.close()
    await database.close()

    assert caught.value.code == ErrorCode.STORE_UNAVAILABLE
    assert "database is locked" in caught.value.detail
    assert str(sqlite_file) in caught.value.subject


async def test_a_password_is_never_shown_when_the_database_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counterfoil.activities.store.database.RETRY_DELAYS_SECONDS", ())
    database = Database("postgresql://someone:secret@127.0.0.1:1/nowhere")

    with pytest.raises(Unavailable) as caught:
        await database.run(adding("never"))
    await database.close()

    assert "secret" not in str(caught.value.as_details())
    assert "127.0.0.1" in caught.value.detail


@pytest.mark.parametrize("error", [OSError(), TimeoutError(), ConnectionResetError("gone")])
async def test_work_is_tried_four_times_when_the_network_fails(
    sqlite_file: Path, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    monkeypatch.setattr("counterfoil.activities.store.database.RETRY_DELAYS_SECONDS", (0, 0, 0))
    database = Database(f"sqlite:///{sqlite_file}")
    tries = 0

    async def work(unit: UnitOfWork) -> None:
        nonlocal tries
        tries += 1
        raise error

    with pytest.raises(Unavailable):
        await database.run(work)
    await database.close()

    assert tries == 4


async def test_a_mistake_in_the_work_is_not_tried_again(database: Database) -> None:
    tries = 0

    async def work(unit: UnitOfWork) -> None:
        nonlocal tries
        tries += 1
        await scalar(unit, "SELECT nonsense FROM nowhere")

    with pytest.raises(DBAPIError):
        await database.run(work)
    assert tries == 1


async def test_work_whose_commit_was_done_but_doubted_is_run_again_and_finds_it(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store executes, then reports that the connection was lost: fault 6."""
    tries = 0
    commit = Connection.commit

    def commit_and_lose_the_reply(connection: Connection) -> None:
        commit(connection)
        if tries == 1:
            raise ConnectionResetError("the reply to the commit was lost")

    monkeypatch.setattr(Connection, "commit", commit_and_lose_the_reply)

    async def once(unit: UnitOfWork) -> str:
        nonlocal tries
        tries += 1
        found = await unit.session.get(ResourceRow, "d")
        if found is None:
            unit.session.add(ResourceRow(digest="d", name=f"written at try {tries}"))
            return "new"
        return found.name

    assert await database.run(once) == "written at try 1"
    assert tries == 2


async def test_units_that_gather_while_a_commit_is_on_its_way_share_the_next_one(
    sqlite_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(f"sqlite:///{sqlite_file}")
    commits = 0
    commit = Connection.commit

    def slow_commit(connection: Connection) -> None:
        nonlocal commits
        commits += 1
        time.sleep(0.05)
        commit(connection)

    monkeypatch.setattr(Connection, "commit", slow_commit)
    await asyncio.gather(*[database.run(adding(f"{number}")) for number in range(20)])

    assert len(await names(database)) == 20
    assert commits <= 3
    await database.close()


async def test_of_units_that_share_a_commit_one_that_fails_takes_none_along(sqlite_file: Path) -> None:
    database = Database(f"sqlite:///{sqlite_file}")

    async def fails(unit: UnitOfWork) -> None:
        unit.session.add(ResourceRow(digest="bad", name="bad"))
        await unit.session.flush()
        raise KeyError("a mistake")

    outcomes = await asyncio.gather(
        *[database.run(work) for work in (adding("a"), fails, adding("b"))], return_exceptions=True
    )

    assert [type(outcome) for outcome in outcomes] == [type(None), KeyError, type(None)]
    assert await names(database) == ["a", "b"]
    await database.close()


async def test_a_unit_whose_caller_is_gone_before_its_turn_is_not_run(sqlite_file: Path) -> None:
    database = Database(f"sqlite:///{sqlite_file}")
    tasks = [asyncio.create_task(database.run(adding(f"{number}"))) for number in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    assert await names(database) == ["0", "2"]
    await database.close()


async def test_a_row_that_another_transaction_made_first_is_found_by_the_second(database: Database) -> None:
    gate = asyncio.Barrier(2) if not database.on_sqlite else None
    made = []

    async def claim(unit: UnitOfWork) -> str:
        found = await unit.session.get(ResourceRow, "d")
        if gate is not None and len(made) < 2:
            made.append(1)
            await gate.wait()
        if found is None:
            found = ResourceRow(digest="d", name="the one")
            unit.session.add(found)
            await unit.session.flush()
        return found.name

    assert await asyncio.gather(database.run(claim), database.run(claim)) == ["the one", "the one"]


async def test_a_row_that_can_never_be_made_is_reported_as_what_it_is(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counterfoil.activities.store.database.RETRY_DELAYS_SECONDS", (0,))
    await database.run(adding("d"))

    with pytest.raises(IntegrityError):
        await database.run(adding("d"))


async def test_a_lost_postgresql_connection_is_replaced_and_the_work_done(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(postgres)
    tries = 0

    async def work(unit: UnitOfWork) -> object:
        nonlocal tries
        tries += 1
        if tries == 1:
            await scalar(unit, "SELECT pg_terminate_backend(pg_backend_pid())")
        return await scalar(unit, "SELECT 7")

    assert await database.run(work) == 7
    assert tries == 2
    await database.close()


async def test_a_snapshot_sees_one_state_of_the_database_throughout(database: Database) -> None:
    await database.run(adding("before"))

    async def twice(unit: UnitOfWork) -> tuple[int, int]:
        first = len((await unit.session.execute(select(RESOURCES.c.name))).scalars())
        await database.run(adding("in between"))
        second = len((await unit.session.execute(select(RESOURCES.c.name))).scalars())
        return first, second

    assert await database.read(twice) == (1, 1)
    assert await names(database) == ["before", "in between"]


async def test_a_snapshot_that_begins_with_a_row_by_its_key_sees_one_state_too(database: Database) -> None:
    await database.run(adding("before"))

    async def look(unit: UnitOfWork) -> tuple[ResourceRow | None, list[str]]:
        first = await unit.session.get(ResourceRow, "in between")
        await database.run(adding("in between"))
        return first, (await unit.session.execute(select(RESOURCES.c.name))).scalars()

    assert await database.read(look) == (None, ["before"])


def test_other_databases_are_refused() -> None:
    with pytest.raises(ValueError, match="mysql"):
        Database("mysql://h/d")


WRITER = """
import asyncio, os, signal, sys
from counterfoil.activities.store.database import Database
from counterfoil.models.tables import ResourceRow

async def main():
    database = Database(sys.argv[1])
    for number in range(1000):
        async def work(unit):
            unit.session.add(ResourceRow(digest=str(number), name="n"))
        await database.run(work)
        print(number, flush=True)

asyncio.run(main())
"""


def test_what_was_committed_outlives_a_kill(sqlite_file: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, f"sqlite:///{sqlite_file}"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    told = [process.stdout.readline() for _ in range(5)]
    os.kill(process.pid, signal.SIGKILL)
    told += process.stdout.readlines()
    process.wait()

    kept = {row[0] for row in sqlite3.connect(sqlite_file).execute("SELECT digest FROM resources")}
    assert {line.strip() for line in told if line.endswith("\n")} <= kept


async def test_a_sqlite_file_that_cannot_be_opened_is_reported_to_everybody_who_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counterfoil.activities.store.database.RETRY_DELAYS_SECONDS", (0,))
    database = Database(f"sqlite:///{tmp_path / 'nowhere' / 'store.db'}")

    outcomes = await asyncio.gather(*[database.run(adding(f"{number}")) for number in range(3)], return_exceptions=True)

    assert [getattr(outcome, "code", outcome) for outcome in outcomes] == ["STORE_UNAVAILABLE"] * 3
    await database.close()


async def test_the_writer_goes_on_after_a_file_that_could_not_be_opened(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'later' / 'store.db'}")
    waiting = asyncio.create_task(database.run(adding("d")))
    await asyncio.sleep(0.1)
    migrate(f"sqlite:///{tmp_path / 'later' / 'store.db'}")

    await waiting

    assert await names(database) == ["d"]
    await database.close()
