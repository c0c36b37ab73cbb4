"""Empty databases, quickly: copied or emptied instead of migrated for every test."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import psycopg
import pytest

from counterfoil.activities.store.migration import migrate

EVERYTHING = (
    "claims",
    "resources",
    "commands",
    "attempts",
    "permissions",
    "tool_calls",
    "ledger",
    "operations",
    "sessions",
)


@pytest.fixture(scope="session")
def empty_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file, to copy."""
    path = tmp_path_factory.mktemp("empty") / "store.db"
    migrate(f"sqlite:///{path}")
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
    return path


@pytest.fixture(scope="session")
def postgres_url(postgres: str) -> str:
    """One migrated PostgreSQL database."""
    migrate(postgres)
    return postgres


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database, SQLite and PostgreSQL in turn."""
    if request.param == "sqlite":
        shutil.copy(request.getfixturevalue("empty_sqlite"), tmp_path / "store.db")
        return f"sqlite:///{tmp_path / 'store.db'}"
    url: str = request.getfixturevalue("postgres_url")
    with psycopg.connect(url, autocommit=True) as connection:
        for table in EVERYTHING:
            connection.execute(f"DELETE FROM {table}")
    return url
