"""Bringing a database to this version's tables, with alembic. An older database is upgraded without loss."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError

import counterfoil.migrations
from counterfoil.models.errors import ErrorCode, Refusal, Unavailable

MIGRATION_LOCK = 0x0C0F01
"""Advisory lock (PostgreSQL) that keeps two starting workers from migrating together."""


def migrate(url: str) -> None:
    """Upgrade the database at `url` to the newest schema. Blocking; safe to run from several processes at once.

    Raises `Unavailable` (`STORE_UNAVAILABLE`), or `Refusal` (`STORE_SCHEMA`) for a database newer than this version.
    """
    parsed = make_url(url)
    sqlite = parsed.get_backend_name() == "sqlite"
    if sqlite and parsed.database:
        Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(parsed.set(drivername="sqlite" if sqlite else "postgresql+psycopg"))
    try:
        with engine.connect() as connection:
            if sqlite:
                # Take the write lock first: another starting process waits here, and then finds the work done.
                connection.connection.driver_connection.isolation_level = None  # type: ignore[union-attr]
                connection.exec_driver_sql("PRAGMA busy_timeout=30000")
                connection.exec_driver_sql("PRAGMA journal_mode=WAL")
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            else:
                connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": MIGRATION_LOCK})
            config = _config()
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
            if sqlite:
                connection.exec_driver_sql("COMMIT")
            connection.commit()
    except CommandError as error:
        raise Refusal(
            ErrorCode.STORE_SCHEMA,
            f"the database was written by another version: {error}",
            subject=parsed.render_as_string(hide_password=True),
            remedy="run the version that wrote it, or a newer one",
        ) from error
    except (DBAPIError, OSError) as error:
        raise Unavailable(
            ErrorCode.STORE_UNAVAILABLE,
            f"the database does not answer: {str(error).splitlines()[0][:300]}",
            subject=parsed.render_as_string(hide_password=True),
            remedy="check that it runs and can be reached",
        ) from error
    finally:
        engine.dispose()


def head() -> str | None:
    """The newest schema revision this version knows."""
    return ScriptDirectory.from_config(_config()).get_current_head()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(counterfoil.migrations.__path__[0])))
    return config
