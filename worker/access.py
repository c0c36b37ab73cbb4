"""What every short command needs: a client of the deployment, failures as errors with a remedy, an exit status."""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import typer

from counterfoil.models.errors import CounterfoilError, ErrorCode, Refusal, Unavailable
from counterfoil.worker.exit_codes import ExitCode

if TYPE_CHECKING:
    from temporalio.service import RPCError

    from counterfoil.control_plane.client import ControlPlane
    from counterfoil.control_plane.reader import OperationReader


def run(command: Coroutine[Any, Any, ExitCode]) -> None:
    """Run a command to its end, and end the process with its status."""
    raise typer.Exit(asyncio.run(command))


@asynccontextmanager
async def reached(*, creating: bool = False, timeout_seconds: float = 60) -> AsyncIterator[ControlPlane]:
    """A client of the deployment the environment names, for one command."""
    from counterfoil.control_plane.connection import connect

    quiet_temporal()
    async with (
        errors_told(),
        await connect(creating=creating, timeout_seconds=timeout_seconds) as control_plane,
    ):
        yield control_plane


@asynccontextmanager
async def read() -> AsyncIterator[OperationReader]:
    """What can be looked at without Temporal, for one command."""
    from counterfoil.control_plane.reader import open_reader

    async with errors_told(), open_reader() as reader:
        yield reader


@asynccontextmanager
async def errors_told() -> AsyncIterator[None]:
    """Turn what libraries raise when the deployment is not there, or not set up, into errors with a remedy."""
    try:
        yield
    except CounterfoilError:
        raise
    except Exception as error:
        known = _known(error)
        if known is None:
            raise
        raise known from error


def _known(error: Exception) -> CounterfoilError | None:
    from sqlalchemy.exc import DBAPIError

    if isinstance(error, DBAPIError):
        return _store_error(error)
    # Only what was imported can have been raised: reading does without Temporal, and its errors do too.
    service = sys.modules.get("temporalio.service")
    if service is not None and isinstance(error, service.RPCError):
        return _temporal_error(error)
    if isinstance(error, ModuleNotFoundError) and error.name == "psycopg":
        return Refusal(
            ErrorCode.SETTINGS_INVALID,
            "PostgreSQL needs the driver psycopg, which is not installed",
            subject="settings",
            remedy="install it with: pip install 'counterfoil[postgres]'",
        )
    return None


def _temporal_error(error: RPCError) -> CounterfoilError:
    from temporalio.service import RPCStatusCode

    if error.status is RPCStatusCode.NOT_FOUND:
        return Refusal(
            ErrorCode.SETTINGS_INVALID,
            f"Temporal says: {error.message}",
            subject="temporal",
            remedy="check TEMPORAL_NAMESPACE; the namespace must exist",
        )
    return Unavailable(
        ErrorCode.TEMPORAL_UNAVAILABLE,
        f"Temporal did not take the call: {error.message}",
        subject="temporal",
        remedy="check that the Temporal server runs, and that these credentials may use it",
    )


def _store_error(error: Exception) -> CounterfoilError:
    told = str(getattr(error, "orig", None) or error).splitlines()[0][:300]
    if "no such table" in told or "does not exist" in told or "no such column" in told:
        return Refusal(
            ErrorCode.STORE_SCHEMA,
            f"the database is not set up for this version: {told}",
            subject="database",
            remedy="bring it up to date with: counterfoil migrate",
        )
    return Unavailable(
        ErrorCode.STORE_UNAVAILABLE,
        f"the database does not answer: {told}",
        subject="database",
        remedy="check that it runs, and that COUNTERFOIL_DATABASE_URL names it",
    )


@functools.cache
def quiet_temporal() -> None:
    """Keep the Temporal core's own log to errors: what it warns of, this process says in words of its own."""
    from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter

    quiet = TelemetryFilter(core_level="ERROR", other_level="ERROR")
    telemetry = TelemetryConfig(logging=LoggingConfig(filter=quiet))
    Runtime.set_default(Runtime(telemetry=telemetry), error_if_already_set=False)
