"""The commands that run a deployment: `dev`, `worker`, `register`, `migrate`, `repair`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from counterfoil.models.errors import Refusal
from counterfoil.worker.access import errors_told, quiet_temporal, reached, run
from counterfoil.worker.exit_codes import ExitCode
from counterfoil.worker.options import AsJson, TimeoutSeconds
from counterfoil.worker.output import Output

if TYPE_CHECKING:
    from counterfoil.control_plane.client import ControlPlane

DEFAULT_REASON = "the store was restored from before"

Adapters = Annotated[list[str] | None, typer.Option(help="package.module:register; may be repeated.")]


def add_to(app: typer.Typer) -> None:
    """Give the command line these commands."""
    for command in (dev, worker, register, migrate, repair):
        app.command()(command)


def dev(
    state_dir: Annotated[Path | None, typer.Option(help="Where the stack keeps its files.")] = None,
    workspace: Annotated[Path | None, typer.Option(help="The folder file adapters may act in.")] = None,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Temporal's port, by default 7233.")] = None,
    ui_port: Annotated[int | None, typer.Option(min=1, max=65535, help="The UI's port, by default 8233.")] = None,
    adapters: Adapters = None,
) -> None:
    """Run the embedded stack: a Temporal server with its UI, and a worker. For one machine."""
    from counterfoil.control_plane.settings import load_settings
    from counterfoil.worker.dev import DevStack
    from counterfoil.worker.settings import WorkerSettings

    given = load_settings(WorkerSettings, state_dir=state_dir, workspace_root=workspace)
    settings = given.model_copy(
        update={
            "state_dir": given.state_dir.absolute(),
            "workspace_root": given.workspace_root.absolute(),
            "adapters": (*given.adapters, *(adapters or ())),
            "adapter_queues": "shared",
            "allow_unsealed": True,
        }
    )
    settings.workspace_root.mkdir(parents=True, exist_ok=True)
    run(DevStack(settings, Output(), port=port, ui_port=ui_port).run())


def worker(adapters: Adapters = None) -> None:
    """Run one worker by the COUNTERFOIL_… settings, until SIGTERM; then running activities may finish."""
    from counterfoil.control_plane.settings import load_settings
    from counterfoil.worker.settings import WorkerSettings
    from counterfoil.worker.unit import run_unit

    given = load_settings(WorkerSettings)
    run(run_unit(given.model_copy(update={"adapters": (*given.adapters, *(adapters or ()))})))


def register(as_json: AsJson = False) -> None:
    """Register Counterfoil's search attributes in the Temporal namespace. Safe to repeat."""
    run(_register(Output(as_json)))


async def _register(output: Output) -> ExitCode:
    from counterfoil.control_plane.keys import resolve_key
    from counterfoil.control_plane.settings import ConnectionSettings, load_settings
    from counterfoil.control_plane.temporal import connect
    from counterfoil.worker.registration import register_search_attributes

    settings = load_settings(ConnectionSettings)
    quiet_temporal()
    async with errors_told():
        client = await connect(
            address=settings.temporal_address(),
            payload_key=resolve_key(settings.payload_key),
            usual_place=settings.usual_temporal,
        )
        added = await register_search_attributes(client)
    if output.as_json:
        output.document({"namespace": client.namespace, "added": added})
    else:
        told = f"registered {', '.join(added)}" if added else "everything is registered already"
        output.show(f"Namespace '{client.namespace}': {told}.")
    return ExitCode.OK


def migrate(as_json: AsJson = False) -> None:
    """Bring the database to this version's tables, without loss. Workers do it too when they start."""
    run(_migrate(Output(as_json)))


async def _migrate(output: Output) -> ExitCode:
    from sqlalchemy.engine import make_url

    from counterfoil.activities.store import migration
    from counterfoil.control_plane.settings import ConnectionSettings, load_settings

    settings = load_settings(ConnectionSettings)
    async with errors_told():
        migration.migrate(settings.database)
    database = make_url(settings.database).render_as_string(hide_password=True)
    if output.as_json:
        output.document({"database": database, "revision": migration.head()})
    else:
        output.show(f"{database} is at revision {migration.head()}.")
    return ExitCode.OK


def repair(
    operation_id: Annotated[str | None, typer.Argument(metavar="[ID]", help="Without: list what waits.")] = None,
    reason: Annotated[str, typer.Option(help="What happened; it is recorded.")] = DEFAULT_REASON,
    timeout_seconds: TimeoutSeconds = 60,
    as_json: AsJson = False,
) -> None:
    """Deal with operations whose store was restored from before what their workflows remember (STORE_BEHIND)."""
    output = Output(as_json)
    if operation_id is None:
        run(_behind(output))
    run(_repair(str(operation_id), reason, timeout_seconds, output))


async def _behind(output: Output) -> ExitCode:
    async with reached() as control_plane:
        waiting = await control_plane.behind()
        stored = {one: await _stored_state(control_plane, one) for one in waiting}
    if output.as_json:
        output.document({"operations": [{"operation_id": one, "stored_state": stored[one]} for one in waiting]})
    elif not waiting:
        output.show("The store is behind no operation.")
    else:
        output.show("The store says less of these operations than their workflows remember; they dispatch nothing:", "")
        output.show(*(f"  {one}  in the store: {stored[one] or 'nothing'}" for one in waiting))
        output.show("", *(f"counterfoil repair {one} --reason '…'" for one in waiting))
    return ExitCode.OK


async def _stored_state(control_plane: ControlPlane, operation_id: str) -> str | None:
    try:
        return (await control_plane.get(operation_id)).state
    except Refusal:
        return None


async def _repair(operation_id: str, reason: str, timeout_seconds: float, output: Output) -> ExitCode:
    from counterfoil.models.operations.lifecycle import CLOSED, State
    from counterfoil.worker import presentation

    async with reached(timeout_seconds=timeout_seconds) as control_plane:
        answer = await control_plane.repair(operation_id, reason)
        operation = await control_plane.get(operation_id)
    if output.as_json:
        output.document(answer.model_dump(mode="json"))
        return ExitCode.OK
    output.show(presentation.answered(answer), "")
    if operation.state is not State.UNKNOWN:
        settled = operation.state in CLOSED
        output.show("It is settled." if settled else "Nothing had been dispatched: it goes on by itself.")
        return ExitCode.OK
    if operation.route.observation and not operation.observation_exhausted:
        output.show("It is being observed again, by itself. If observation cannot tell:")
    else:
        output.show("Look at the target, then say what you found:")
    for status in ("applied", "not_applied"):
        output.show(f"  attest    {presentation.resolve_command(operation, status)}")
    output.show(f"  abandon   {presentation.resolve_command(operation, 'stopped')}")
    return ExitCode.OK
