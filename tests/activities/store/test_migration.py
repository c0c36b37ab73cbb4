"""Databases of older versions are brought up without loss; those of newer versions are left alone."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, make_url
from sqlmodel import SQLModel

import counterfoil.models.tables  # noqa: F401  (fills the metadata)
from counterfoil.activities.operations import records
from counterfoil.activities.store.database import Database
from counterfoil.activities.store.migration import head, migrate
from counterfoil.models.errors import ErrorCode, Refusal, Unavailable

OLD = Path(__file__).parents[2] / "data" / "store-0001.sql"
TABLES = ("attempts", "claims", "commands", "ledger", "operations", "resources", "sessions")


@pytest.fixture
def old_store(tmp_path: Path) -> Path:
    """A database as revision 0001 left it, with operations in several states."""
    path = tmp_path / "old.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(OLD.read_text())
    return path


@pytest.fixture(params=["sqlite", "postgresql"])
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database that nobody has migrated yet."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'new.db'}"
    maintenance: str = request.getfixturevalue("postgres")
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(maintenance, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    return make_url(maintenance).set(database=name).render_as_string(hide_password=False)


def rows_of(path: Path) -> dict[str, list[dict[str, object]]]:
    with sqlite3.connect(path) as connection:
        connection.row_factory = sqlite3.Row
        return {table: [dict(row) for row in connection.execute(f"SELECT * FROM {table}")] for table in TABLES}


def revision_of(url: str) -> str | None:
    parsed = make_url(url)
    engine = create_engine(parsed.set(drivername="sqlite" if "sqlite" in url else "postgresql+psycopg"))
    with engine.connect() as connection:
        found = MigrationContext.configure(connection).get_current_revision()
    engine.dispose()
    return found


def test_a_new_database_gets_the_newest_schema_and_migrating_again_changes_nothing(new_url: str) -> None:
    migrate(new_url)
    assert revision_of(new_url) == head()

    migrate(new_url)
    assert revision_of(new_url) == head()


def test_the_migrated_schema_is_the_one_the_code_is_written_against(new_url: str) -> None:
    migrate(new_url)
    parsed = make_url(new_url)
    engine = create_engine(parsed.set(drivername="sqlite" if "sqlite" in new_url else "postgresql+psycopg"))

    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        differences = compare_metadata(context, SQLModel.metadata)
    engine.dispose()

    assert differences == []


def test_an_old_database_is_upgraded_and_every_row_is_kept(old_store: Path) -> None:
    before = rows_of(old_store)

    migrate(f"sqlite:///{old_store}")

    after = rows_of(old_store)
    assert {table: len(rows) for table, rows in before.items()} == {
        "attempts": 3,
        "claims": 4,
        "commands": 5,
        "ledger": 35,
        "operations": 7,
        "resources": 4,
        "sessions": 2,
    }
    for table in TABLES:
        assert len(after[table]) == len(before[table])
        for old, new in zip(before[table], after[table], strict=True):
            assert {name: new[name] for name in old if name in new} == {name: old[name] for name in old if name in new}
    assert revision_of(f"sqlite:///{old_store}") == head()


async def test_the_operations_of_an_old_database_can_be_read_whole(old_store: Path) -> None:
    migrate(f"sqlite:///{old_store}")
    database = Database(f"sqlite:///{old_store}")
    found = await database.read(lambda work: records.summaries(work))
    whole = {
        operation.request.idempotency_key: operation
        for operation in [
            await database.read(lambda work, one=summary: records.whole(work, one.operation_id)) for summary in found
        ]
    }
    entries = await database.read(lambda work: records.entries(work, whole["unknown"].operation_id))
    await database.close()

    assert {key: operation.state.value for key, operation in whole.items()} == {
        "asks": "awaiting_decision",
        "attested": "completed",
        "declined": "declined",
        "held": "held",
        "unknown": "unknown",
        "verified": "completed",
        "waits": "queued",
    }
    verified, attested, unknown, waits = (whole[key] for key in ("verified", "attested", "unknown", "waits"))
    assert (verified.verification, verified.evidence.version) == ("verified", "2")
    assert (verified.decision.verdict, verified.decision.notes) == ("approve", "fine")
    assert verified.prepared.preview.rows == (("A1", "1", "2"),)
    assert (attested.attested, attested.problem.code, len(attested.late_replies)) == (True, "ATTESTED", 1)
    assert (unknown.external_id, unknown.observation_exhausted) == ("job-7", True)
    assert unknown.deadline.isoformat() == "2030-01-01T00:00:00+00:00"
    assert [attempt.generation for attempt in unknown.attempts] == [1]
    assert waits.blocked.detail == f"scripted:unknown is held by {unknown.operation_id}, whose effect is unknown"
    assert isinstance(entries, list)
    assert [entry.version for entry in entries] == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_database_of_a_newer_version_is_refused_and_left_as_it_is(
    kind: str, old_store: Path, request: pytest.FixtureRequest
) -> None:
    if kind == "sqlite":
        url = f"sqlite:///{old_store}"
        with sqlite3.connect(old_store) as connection:
            connection.execute("UPDATE alembic_version SET version_num = '9999'")
    else:
        maintenance: str = request.getfixturevalue("postgres")
        name = f"test_{uuid.uuid4().hex}"
        with psycopg.connect(maintenance, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        url = make_url(maintenance).set(database=name).render_as_string(hide_password=False)
        migrate(url)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("UPDATE alembic_version SET version_num = '9999'")

    with pytest.raises(Refusal) as caught:
        migrate(url)

    assert caught.value.code == ErrorCode.STORE_SCHEMA
    assert caught.value.remedy == "run the version that wrote it, or a newer one"
    assert revision_of(url) == "9999"


def test_processes_that_start_at_once_migrate_once(new_url: str) -> None:
    script = "import sys; from counterfoil.activities.store.migration import migrate; migrate(sys.argv[1])"
    with ThreadPoolExecutor() as pool:
        ended = list(
            pool.map(
                lambda _: subprocess.run([sys.executable, "-c", script, new_url], capture_output=True, text=True),
                range(3),
            )
        )

    assert [process.returncode for process in ended] == [0, 0, 0], [process.stderr[-500:] for process in ended]
    assert revision_of(new_url) == head()


def test_threads_that_start_at_once_migrate_once(new_url: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: migrate(new_url), range(4)))

    assert revision_of(new_url) == head()


def test_a_file_that_is_no_database_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"not a database, but long enough to be looked at as one" * 100)

    with pytest.raises(Unavailable) as caught:
        migrate(f"sqlite:///{tmp_path / 'store.db'}")
    assert (caught.value.code, str(tmp_path) in caught.value.subject) == (ErrorCode.STORE_UNAVAILABLE, True)


def test_a_server_that_is_away_is_unavailable_and_its_password_is_not_shown() -> None:
    with pytest.raises(Unavailable) as caught:
        migrate("postgresql://someone:secret@127.0.0.1:1/nowhere")

    assert caught.value.code == ErrorCode.STORE_UNAVAILABLE
    assert "secret" not in str(caught.value.as_details())


def test_the_folder_of_a_new_file_is_made(tmp_path: Path) -> None:
    migrate(f"sqlite:///{tmp_path / 'a' / 'b' / 'store.db'}")

    assert (tmp_path / "a" / "b" / "store.db").exists()
