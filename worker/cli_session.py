"""`counterfoil session …`: a session's work as a whole, and what it may do with tools.

Exit statuses and `--json` as for `counterfoil operation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from counterfoil.worker.access import reached, read, run
from counterfoil.worker.exit_codes import ExitCode
from counterfoil.worker.options import AsJson, Permission, TimeoutSeconds
from counterfoil.worker.output import Output

if TYPE_CHECKING:
    from counterfoil.models.operations.sessions import SessionAnswer

app = typer.Typer(no_args_is_help=True, help="Cancel, pause and resume a session's work as a whole; permit it tools.")

Session = Annotated[str, typer.Argument(metavar="SESSION", help="The session, as its requests name it.")]
Reason = Annotated[str, typer.Option(help="Why; it is recorded.")]


@app.command()
def show(session: Session, as_json: AsJson = False) -> None:
    """How a session stands: its epoch, and whether it is paused."""
    run(_show(session, Output(as_json)))


async def _show(session: str, output: Output) -> ExitCode:
    from counterfoil.worker import presentation

    async with read() as reader:
        found = await reader.session(session)
    if output.as_json:
        output.document(found.model_dump(mode="json"))
    else:
        output.show(presentation.session_shown(found))
    return ExitCode.OK


@app.command()
def cancel(
    session: Session,
    reason: Reason,
    epoch: Annotated[
        int | None, typer.Option(min=0, help="The epoch to end; by default the present one. Repetitions do nothing.")
    ] = None,
    timeout_seconds: TimeoutSeconds = 60,
    as_json: AsJson = False,
) -> None:
    """Stop all work the session asked for. Nothing of it is begun any more; what was issued is observed."""
    run(_cancel(session, reason, epoch, timeout_seconds, Output(as_json)))


async def _cancel(session: str, reason: str, epoch: int | None, timeout_seconds: float, output: Output) -> ExitCode:
    async with reached(timeout_seconds=timeout_seconds) as control_plane:
        return _tell(await control_plane.cancel_session(session, reason, epoch=epoch), output)


@app.command()
def pause(session: Session, reason: Reason, timeout_seconds: TimeoutSeconds = 60, as_json: AsJson = False) -> None:
    """Dispatch nothing new of the session. What was issued goes on, and is observed to its end."""
    run(_pause(session, reason, timeout_seconds, Output(as_json)))


async def _pause(session: str, reason: str, timeout_seconds: float, output: Output) -> ExitCode:
    async with reached(timeout_seconds=timeout_seconds) as control_plane:
        return _tell(await control_plane.pause_session(session, reason), output)


@app.command()
def resume(
    session: Session, reason: Reason = "", timeout_seconds: TimeoutSeconds = 60, as_json: AsJson = False
) -> None:
    """Dispatch the session's operations again."""
    run(_resume(session, reason, timeout_seconds, Output(as_json)))


async def _resume(session: str, reason: str, timeout_seconds: float, output: Output) -> ExitCode:
    async with reached(timeout_seconds=timeout_seconds) as control_plane:
        return _tell(await control_plane.resume_session(session, reason), output)


def _tell(answer: SessionAnswer, output: Output) -> ExitCode:
    from counterfoil.worker import presentation

    if output.as_json:
        output.document(answer.model_dump(mode="json"))
    else:
        output.show(presentation.session_answered(answer))
    return ExitCode.OK


@app.command()
def permit(
    session: Session,
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="The tool's name.")],
    permission: Annotated[Permission, typer.Argument(help="From its next call on.")],
    account: Annotated[str | None, typer.Option(help="Only where it acts for this account.")] = None,
    workspace: Annotated[str | None, typer.Option(help="Of a session that has done nothing yet.")] = None,
    as_json: AsJson = False,
) -> None:
    """Allow a tool, have a person asked first, or deny it. Needs the scope 'admin'; it is recorded."""
    run(_permit(session, tool, permission, account, workspace, Output(as_json)))


async def _permit(
    session: str, tool: str, permission: str, account: str | None, workspace: str | None, output: Output
) -> ExitCode:
    from counterfoil.worker import presentation

    async with reached(creating=True) as control_plane:
        said = await control_plane.permit(session, tool, permission, account_id=account, workspace=workspace)
    if output.as_json:
        output.document(said.model_dump(mode="json"))
    else:
        output.show(presentation.permitted([said]))
    return ExitCode.OK


@app.command()
def permissions(session: Session, as_json: AsJson = False) -> None:
    """Everything that was said of tools in a session. A tool that is not listed stands at its own default."""
    run(_permissions(session, Output(as_json)))


async def _permissions(session: str, output: Output) -> ExitCode:
    from counterfoil.worker import presentation

    async with read() as reader:
        said = await reader.permissions(session)
    if output.as_json:
        output.document({"permissions": [one.model_dump(mode="json") for one in said]})
    else:
        output.show(presentation.permitted(said))
    return ExitCode.OK
