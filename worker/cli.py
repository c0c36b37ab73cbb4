"""The command line, `counterfoil`: everything a person runs. Nothing heavy is imported before a command needs it.

A command's status is the process's, every time: see `ending` for why it ends the way it does.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import Annotated, NoReturn

import typer

from counterfoil.models.errors import CounterfoilError, ErrorCode, Refusal
from counterfoil.worker import cli_deployment, cli_operation, cli_session
from counterfoil.worker.ending import ReaderGone, end, heard
from counterfoil.worker.exit_codes import ExitCode, of_error
from counterfoil.worker.output import Output

app = typer.Typer(
    name="counterfoil",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Durable execution for supervised AI agents: effects at most once, never claimed without evidence.",
)
app.add_typer(cli_operation.app, name="operation")
app.add_typer(cli_session.app, name="session")
cli_deployment.add_to(app)


def main() -> NoReturn:
    """Run the command line and end the process with the command's status."""
    sys.stdout, sys.stderr = heard(sys.stdout), heard(sys.stderr)
    end(status_of(sys.argv[1:]))


def status_of(arguments: list[str]) -> int:
    """Run one command; its exit status. What went wrong is told on stderr."""
    output = Output(as_json="--json" in arguments)
    try:
        status = app(arguments, prog_name="counterfoil", standalone_mode=False)
    except CounterfoilError as error:
        output.error(error)
        return of_error(error.code)
    except (KeyboardInterrupt, typer.Abort):
        return ExitCode.INTERRUPTED
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else ExitCode.INTERNAL
    except ReaderGone:
        return ExitCode.OK
    except Exception as error:
        return _unforeseen(error, output)
    return status if isinstance(status, int) else ExitCode.OK


def _unforeseen(error: Exception, output: Output) -> int:
    if hasattr(error, "format_message"):
        return _misused(error, error.format_message(), output)
    if os.environ.get("COUNTERFOIL_LOG_LEVEL", "").lower() == "debug":
        traceback.print_exception(error)
    output.error(
        CounterfoilError(
            ErrorCode.INTERNAL,
            f"{type(error).__name__}: {error}"[:1000],
            remedy="run it again with COUNTERFOIL_LOG_LEVEL=debug to see where it comes from, and report it",
        )
    )
    return ExitCode.INTERNAL


def _misused(error: Exception, told: str, output: Output) -> int:
    """A wrong command line: typer's own error, whose type depends on its version."""
    context = getattr(error, "ctx", None)
    if not told:
        return ExitCode.USAGE  # the help was shown, because nothing was asked
    if not output.as_json and context is not None:
        sys.stderr.write(f"{context.get_usage()}\n")
    command = "counterfoil" if context is None else context.command_path
    output.error(Refusal(ErrorCode.BAD_COMMAND, told, subject=command, remedy=f"see: {command} --help"))
    return ExitCode.USAGE


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        sys.stdout.write(f"counterfoil {version('counterfoil')}\n")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


if __name__ == "__main__":
    main()
