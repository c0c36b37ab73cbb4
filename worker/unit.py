"""`counterfoil worker`: one worker process, from waiting for what it needs to the last drained activity."""

from __future__ import annotations

import logging
import sys

from counterfoil.worker.access import errors_told, quiet_temporal
from counterfoil.worker.build import Unit
from counterfoil.worker.ending import Stop, until_stopped
from counterfoil.worker.exit_codes import ExitCode
from counterfoil.worker.process import serve
from counterfoil.worker.settings import WorkerSettings


async def run_unit(settings: WorkerSettings) -> ExitCode:
    """Serve until told to stop, then let running activities finish. Raises what `serve` raises."""
    quiet_temporal()
    log_to_stderr(settings)

    def told(stop: Stop) -> None:
        if stop.ready:
            tell(f"draining: running activities have {settings.drain_seconds:g} s; a second signal ends them at once")
        else:
            tell("stopping before it was ready")

    async def story(stop: Stop) -> ExitCode:
        def ready(unit: Unit) -> None:
            stop.ready = True
            routes = ", ".join(route.id for route in unit.catalog.routes() if route.environment == settings.environment)
            tell(f"ready: task queue '{settings.task_queue}', environment '{settings.environment}', routes {routes}")

        async with errors_told():
            await serve(settings, stop.asked, ready=ready)
        return ExitCode.OK

    status = await until_stopped(story, told=told, at_once=lambda: tell("ended at once"))
    tell("stopped")
    return status


def log_to_stderr(settings: WorkerSettings) -> None:
    """Log at the settings' level, but the Temporal SDK's stacks of every failed try only where asked for."""
    level = settings.log_level.upper()
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    if settings.log_level != "debug":
        logging.getLogger("temporalio").setLevel(logging.ERROR)


def tell(text: str) -> None:
    """One line for whoever runs the process."""
    sys.stdout.write(f"counterfoil worker: {text}\n")
    sys.stdout.flush()
