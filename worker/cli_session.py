"""`counterfoil session …`: what a session may do with tools, over the typed client."""

from __future__ import annotations

from typing import Annotated

import typer

from counterfoil.worker.access import reached, read, run
from counterfoil.worker.exit_codes import ExitCode
from counterfoil.worker.options import AsJson, Permission
from counterfoil.worker.output import Output

app = typer.Typer(no_args_is_help=True, help="Say what a session may do with tools.")

Session = Annotated[str, typer.Argument(metavar="SESSION", help="The session's name.")]


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
