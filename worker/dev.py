"""`counterfoil dev`: the embedded stack in one command. A real Temporal server with its UI, and a worker beside it.

The order of stopping matters: first the worker, which drains, then the server it talks to.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counterfoil.control_plane.keys import resolve_key
from counterfoil.control_plane.settings import STACK_FILE
from counterfoil.models.errors import CounterfoilError, ErrorCode, Refusal, Unavailable
from counterfoil.worker.access import errors_told, quiet_temporal
from counterfoil.worker.embedded import (
    USUAL_PORT,
    USUAL_UI_PORT,
    TemporalServer,
    free_port,
    last_words,
    temporal_server,
)
from counterfoil.worker.ending import Stop, end, until_stopped
from counterfoil.worker.exit_codes import ExitCode, of_error

if TYPE_CHECKING:
    from counterfoil.worker.build import Unit
    from counterfoil.worker.output import Output
    from counterfoil.worker.settings import WorkerSettings

LOCK_FILE = "dev.lock"
LOG_FILE = "dev.log"
TEMPORAL_FILE = "temporal.db"
GIVE_UP_SECONDS = 5
CONNECT_TRIES = 20


class DevStack:
    """One embedded stack on one state directory."""

    def __init__(self, settings: WorkerSettings, output: Output, *, port: int | None, ui_port: int | None) -> None:
        self._settings = settings
        self._output = output
        self._port = port
        self._ui_port = ui_port
        self._began = time.monotonic()
        self._server: TemporalServer | None = None

    async def run(self) -> ExitCode:
        """Start, say where everything is, serve until told to stop, stop in order."""
        self._refuse_taken(self._port)
        self._refuse_taken(self._ui_port)
        with exclusive(self._settings.state_dir):
            self._log_to_file()
            async with errors_told():
                return await until_stopped(self._story, told=self._told, at_once=self._at_once)

    async def _story(self, stop: Stop) -> ExitCode:
        settings = self._settings
        self._progress("starting the Temporal server")
        # Most of a start is importing: it is done while the server comes up.
        importing = asyncio.create_task(asyncio.to_thread(import_module, "counterfoil.worker.process"))
        async with (
            temporal_server(
                settings.state_dir / TEMPORAL_FILE,
                port=self._port or USUAL_PORT,
                ui_port=self._ui_port or USUAL_UI_PORT,
            ) as server,
        ):
            self._server = server
            await importing
            from counterfoil.control_plane.temporal import connect
            from counterfoil.worker.process import serve

            quiet_temporal()
            client = await connect(
                address=server.address,
                payload_key=resolve_key(settings.payload_key),
                tries=CONNECT_TRIES,
                identity=f"counterfoil-dev@{os.getpid()}",
            )
            self._progress("preparing the database and starting the worker")
            ready: asyncio.Future[Unit] = asyncio.get_running_loop().create_future()
            serving = asyncio.create_task(serve(settings, stop.asked, client=client, ready=ready.set_result))
            server_ended = asyncio.create_task(server.process.wait())
            try:
                await _first_of(ready, serving, server_ended)
                if ready.done():
                    stop.ready = True
                    with self._announced(server):
                        self._summary(server, ready.result())
                        await _first_of(serving, server_ended)
                return await self._ended(stop, serving, server_ended)
            finally:
                server_ended.cancel()
                serving.cancel()
                with contextlib.suppress(asyncio.CancelledError, CounterfoilError):
                    await serving

    async def _ended(self, stop: Stop, serving: asyncio.Task[None], server_ended: asyncio.Task[int]) -> ExitCode:
        if server_ended.done():
            await self._server_died(serving, server_ended.result())
        error = None if serving.cancelled() else serving.exception()
        if error is not None:
            raise error
        if not stop.asked.is_set():
            raise CounterfoilError(
                ErrorCode.INTERNAL, "the worker ended by itself", remedy=f"read {self._settings.state_dir / LOG_FILE}"
            )
        self._output.say("The worker has drained; stopping the Temporal server.")
        return ExitCode.OK

    async def _server_died(self, serving: asyncio.Task[None], status: int) -> None:
        log_file = self._settings.state_dir / f"{Path(TEMPORAL_FILE).stem}.log"
        error = Unavailable(
            ErrorCode.TEMPORAL_UNAVAILABLE,
            f"the Temporal server ended by itself (status {status}): {last_words(log_file)}",
            subject=str(log_file),
            remedy="start again: operations go on from where the database says they are",
        )
        self._output.error(error)
        # A worker cannot drain towards a server that is gone: it is given a moment, and then left.
        serving.cancel()
        await asyncio.wait({serving}, timeout=GIVE_UP_SECONDS)
        end(of_error(error.code))

    # what people see

    def _progress(self, text: str) -> None:
        self._output.say(f"[{time.monotonic() - self._began:4.1f} s] {text} …", style="dim")

    def _summary(self, server: TemporalServer, unit: Unit) -> None:
        from sqlalchemy.engine import make_url

        settings = self._settings
        database = make_url(settings.database).render_as_string(hide_password=True)
        routes = ", ".join(route.id for route in unit.catalog.routes())
        lines = {
            "Temporal UI": server.ui,
            "Temporal": f"{server.address}, namespace default, task queue {settings.task_queue}",
            "Workspace": f"{settings.workspace_root} (file adapters act below it)",
            "Database": database,
            "Routes": routes,
            "Logs": f"{settings.state_dir / LOG_FILE}, {settings.state_dir / 'temporal.log'}",
        }
        self._output.show(f"Counterfoil is ready after {time.monotonic() - self._began:.1f} s. Ctrl-C stops it.", "")
        self._output.show(*(f"  {name:<12} {value}" for name, value in lines.items()), "")
        self._output.show("Try it in another terminal:", "", *(f"  {line}" for line in self._try_it()), "")
        if "TEMPORAL_ADDRESS" in os.environ:
            self._output.say("TEMPORAL_ADDRESS is set: commands in such a shell talk to that server, not to this one.")

    def _try_it(self) -> list[str]:
        request = {
            "owner": {"workspace": "demo", "session": "first"},
            "idempotency_key": "hello",
            "capability": "file.create",
            "route_id": "local.files.v1",
            "objective": "say hello",
            "input": {"path": "hello.txt", "text": "hello\n"},
            "resources": [{"kind": "file", "system": "file", "identity": "hello.txt"}],
            "decision": {"reason": "to see how it works", "question": "Create hello.txt?"},
        }
        lines = [f"export COUNTERFOIL_STATE_DIR={self._settings.state_dir}"]
        lines.append(f"printf %s '{json.dumps(request)}' | counterfoil operation create - --wait")
        return [*lines, "counterfoil operation decide ID approve", "counterfoil operation watch ID"]

    def _told(self, stop: Stop) -> None:
        if stop.ready:
            self._output.say(
                f"Stopping: running activities have {self._settings.drain_seconds:g} s. Again to end at once."
            )
        else:
            self._output.say("Stopping before it was ready.")

    def _at_once(self) -> None:
        (self._settings.state_dir / STACK_FILE).unlink(missing_ok=True)
        if self._server is not None:
            with contextlib.suppress(ProcessLookupError):
                self._server.process.kill()

    # what others find

    @contextmanager
    def _announced(self, server: TemporalServer) -> Iterator[None]:
        """Say in the state directory where this stack is, as long as it serves."""
        settings = self._settings
        place = settings.state_dir / STACK_FILE
        staged = place.with_suffix(".new")
        stack = {
            "temporal": server.address,
            "ui": server.ui,
            "workspace_root": str(settings.workspace_root),
            "task_queue": settings.task_queue,
            "adapters": list(settings.adapters),
            "http_profiles": [str(path.absolute()) for path in settings.http_profiles],
            "mcp_servers": [str(path.absolute()) for path in settings.mcp_servers],
            "pid": os.getpid(),
        }
        staged.write_text(json.dumps(stack, indent=2))
        staged.replace(place)
        try:
            yield
        finally:
            place.unlink(missing_ok=True)

    def _log_to_file(self) -> None:
        logging.basicConfig(
            filename=self._settings.state_dir / LOG_FILE,
            level=logging.INFO,
            format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        )

    def _refuse_taken(self, port: int | None) -> None:
        if port is not None and free_port(port) != port:
            raise Refusal(
                ErrorCode.SETTINGS_INVALID,
                f"the port {port} is taken",
                subject="port",
                remedy="name another port, or none: then the usual one is used, or a free one",
            )


async def _first_of(*futures: asyncio.Future[Any]) -> None:
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)


@contextmanager
def exclusive(state_dir: Path) -> Iterator[None]:
    """Hold a state directory for one stack. Raises `Refusal` (`NOT_POSSIBLE`) where another one has it."""
    try:
        state_dir.mkdir(parents=True, exist_ok=True)
        lock = (state_dir / LOCK_FILE).open("a+")
    except OSError as error:
        raise Refusal(
            ErrorCode.SETTINGS_INVALID,
            f"the state directory cannot be used: {error}",
            subject=str(state_dir),
            remedy="give a directory you may write to with --state-dir",
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise Refusal(
                ErrorCode.NOT_POSSIBLE,
                f"a stack runs on this state directory already (process {lock.read().strip() or 'unknown'})",
                subject=str(state_dir),
                remedy="use that one, stop it with Ctrl-C, or give another directory with --state-dir",
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield
