"""`counterfoil operation …`: create, read, watch and command operations, over the typed client.

Commands exit with the statuses of `exit_codes`. With `--json`, stdout is one JSON document and nothing else (`watch`
writes one JSON object a line), and an error is one JSON object on stderr.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from counterfoil.models.errors import ErrorCode, Refusal
from counterfoil.models.operations.lifecycle import State
from counterfoil.worker.access import reached, read, run
from counterfoil.worker.exit_codes import ExitCode, of_operation
from counterfoil.worker.options import (
    AsJson,
    Key,
    Limit,
    OperationId,
    Status,
    TimeoutSeconds,
    Verdict,
    WaitSeconds,
)
from counterfoil.worker.output import Output

if TYPE_CHECKING:
    from counterfoil.control_plane.client import ControlPlane
    from counterfoil.models.operations.commands import Answer
    from counterfoil.models.operations.record import Operation

app = typer.Typer(no_args_is_help=True, help="Create, read, watch and command operations.")


@app.command()
def create(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="One OperationRequest as JSON; '-' reads stdin.")],
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is settled or a person is asked.")] = False,
    timeout_seconds: WaitSeconds = None,
    as_json: AsJson = False,
) -> None:
    """Create an operation, or get the one the same request created before."""
    run(_create(file, wait, timeout_seconds, Output(as_json)))


async def _create(file: str, wait: bool, timeout_seconds: float | None, output: Output) -> ExitCode:
    request = _read_request(file)
    async with reached(creating=True) as control_plane:
        operation = await control_plane.create(request)
        if wait:
            operation = await control_plane.wait(operation.operation_id, timeout_seconds=timeout_seconds)
    _show(operation, output)
    return of_operation(operation) if wait else ExitCode.OK


@app.command()
def show(operation_id: OperationId, as_json: AsJson = False) -> None:
    """Everything there is to know of an operation; where a person is asked, how to answer."""
    run(_read_one(operation_id, Output(as_json)))


async def _read_one(operation_id: str, output: Output) -> ExitCode:
    async with read() as reader:
        _show(await reader.get(operation_id), output)
    return ExitCode.OK


@app.command("list")
def list_(
    session: Annotated[str | None, typer.Option(help="Only this session's.")] = None,
    workspace: Annotated[str | None, typer.Option(help="Only this workspace's.")] = None,
    state: Annotated[list[State] | None, typer.Option(help="Only those in this state; may be repeated.")] = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """The newest operations, newest first."""
    run(_list(session, workspace, state or [], limit, Output(as_json)))


async def _list(
    session: str | None, workspace: str | None, states: list[State], limit: int, output: Output
) -> ExitCode:
    from counterfoil.worker import presentation

    async with read() as reader:
        found = await reader.operations(session=session, workspace=workspace, states=states, limit=limit)
    if output.as_json:
        output.document({"operations": [one.model_dump(mode="json") for one in found]})
    else:
        output.show(presentation.listed(found))
    return ExitCode.OK


@app.command()
def watch(
    operation_id: OperationId,
    after: Annotated[int, typer.Option(min=0, help="Only what happened after this version.")] = 0,
    follow: Annotated[bool, typer.Option("--follow", help="Go on while a person is asked.")] = False,
    timeout_seconds: WaitSeconds = None,
    as_json: AsJson = False,
) -> None:
    """What happened, and what happens, until the operation is settled or a person is asked."""
    run(_watch(operation_id, after, follow, timeout_seconds, Output(as_json)))


async def _watch(
    operation_id: str, after: int, follow: bool, timeout_seconds: float | None, output: Output
) -> ExitCode:
    import asyncio

    from counterfoil.worker import presentation

    async with read() as reader:
        try:
            async with asyncio.timeout(timeout_seconds):
                async for entry in reader.watch(operation_id, after=after, until_person=not follow):
                    if output.as_json:
                        output.line({"entry": entry.model_dump(mode="json")})
                    else:
                        output.show(presentation.happened(entry))
        except TimeoutError:
            raise _still_going(operation_id, timeout_seconds) from None
        operation = await reader.get(operation_id)
    if output.as_json:
        output.line({"operation": operation.model_dump(mode="json")})
    else:
        output.show("", *presentation.shown(operation))
    return of_operation(operation)


@app.command()
def decide(
    operation_id: OperationId,
    verdict: Annotated[Verdict, typer.Argument(help="The answer.")],
    digest: Annotated[str | None, typer.Option(help="The proposal that is answered: sha256:…")] = None,
    notes: Annotated[str, typer.Option(help="What should be different, or why.")] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Answer the proposal as it stands now, without asking.")] = False,
    key: Key = None,
    timeout_seconds: TimeoutSeconds = 60,
    as_json: AsJson = False,
) -> None:
    """Answer the question of exactly one proposal. Without --digest it is shown, and you are asked."""
    run(_decide(operation_id, verdict, digest, notes, yes, key, timeout_seconds, Output(as_json)))


async def _decide(
    operation_id: str,
    verdict: Verdict,
    digest: str | None,
    notes: str,
    yes: bool,
    key: str | None,
    timeout_seconds: float,
    output: Output,
) -> ExitCode:
    async with reached(timeout_seconds=timeout_seconds) as control_plane:
        chosen = digest or await _digest_that_stands(control_plane, operation_id, verdict, yes, output)
        answer = await control_plane.decide(operation_id, verdict, proposal_digest=chosen, notes=notes, key=key)
    return _tell(answer, output)


async def _digest_that_stands(
    control_plane: ControlPlane, operation_id: str, verdict: Verdict, yes: bool, output: Output
) -> str:
    """The digest of the proposal as it stands, once it was shown and (unless `yes`) confirmed."""
    from counterfoil.worker import presentation

    operation = await control_plane.get(operation_id)
    if operation.proposal_digest is None:
        raise Refusal(
            ErrorCode.NOT_POSSIBLE,
            f"the operation is '{operation.state}' and has no proposal",
            subject=operation_id,
            remedy="`counterfoil operation watch` tells when it asks for a decision",
        )
    if not output.as_json:
        output.show(*presentation.proposal(operation))
    if yes:
        return operation.proposal_digest
    if output.as_json or not sys.stdin.isatty():
        raise Refusal(
            ErrorCode.BAD_COMMAND,
            "nobody can be asked here, and no proposal is named",
            subject=operation_id,
            remedy=f"name it with --digest {operation.proposal_digest}, or say --yes to the one that stands",
        )
    if not typer.confirm(f"{verdict.capitalize()} this proposal?", err=True):
        raise Refusal(ErrorCode.NOT_POSSIBLE, "you did not confirm: nothing was sent", subject=operation_id)
    return operation.proposal_digest


@app.command()
def cancel(
    operation_id: OperationId,
    reason: Annotated[str, typer.Option(help="Why; it is recorded.")],
    key: Key = None,
    timeout_seconds: TimeoutSeconds = 60,
    as_json: AsJson = False,
) -> None:
    """Ask that the operation end without further effect. Never an undo."""
    run(_command("cancel", operation_id, timeout_seconds, Output(as_json), reason=reason, key=key))


@app.command()
def prepare(
    operation_id: OperationId, key: Key = None, timeout_seconds: TimeoutSeconds = 60, as_json: AsJson = False
) -> None:
    """Let a held operation prepare its proposal."""
    run(_command("prepare", operation_id, timeout_seconds, Output(as_json), key=key))


@app.command()
def execute(
    operation_id: OperationId, key: Key = None, timeout_seconds: TimeoutSeconds = 60, as_json: AsJson = False
) -> None:
    """Let a held or prepared operation go on to its effect."""
    run(_command("execute", operation_id, timeout_seconds, Output(as_json), key=key))


@app.command()
def reconcile(
    operation_id: OperationId, key: Key = None, timeout_seconds: TimeoutSeconds = 60, as_json: AsJson = False
) -> None:
    """Observe an unknown effect once more, or refresh a completed operation's verification."""
    run(_command("reconcile", operation_id, timeout_seconds, Output(as_json), key=key))


@app.command()
def resolve(
    operation_id: OperationId,
    status: Annotated[Status, typer.Argument(help="What you found at the target.")],
    revision: Annotated[int, typer.Option(min=0, help="The revision you looked at; `show` tells it.")],
    summary: Annotated[str, typer.Option(help="What you saw, and where; it is kept as the attestation.")],
    key: Annotated[str | None, typer.Option(help="Makes repetitions one attestation; by default its content.")] = None,
    timeout_seconds: TimeoutSeconds = 60,
    as_json: AsJson = False,
) -> None:
    """Attest what became of an unknown effect that nobody can observe."""
    attestation = {
        "expected_revision": revision,
        "status": status,
        "summary": summary,
        "resolution_key": key or _content_key(operation_id, revision, status, summary),
    }
    run(_command("resolve_unknown", operation_id, timeout_seconds, Output(as_json), **attestation))


async def _command(name: str, operation_id: str, timeout_seconds: float, output: Output, **arguments: Any) -> ExitCode:
    async with reached(timeout_seconds=timeout_seconds) as control_plane:
        answer: Answer = await getattr(control_plane, name)(operation_id, **arguments)
    return _tell(answer, output)


def _content_key(*parts: object) -> str:
    from counterfoil.models.common import digest_of

    return digest_of([str(part) for part in parts])


def _tell(answer: Answer, output: Output) -> ExitCode:
    from counterfoil.worker import presentation

    if output.as_json:
        output.document(answer.model_dump(mode="json"))
    else:
        output.show(presentation.answered(answer))
    return ExitCode.OK


def _show(operation: Operation, output: Output) -> None:
    from counterfoil.worker import presentation

    if output.as_json:
        output.document(operation.model_dump(mode="json"))
    else:
        output.show(*presentation.shown(operation))


def _read_request(file: str) -> dict[str, Any]:
    """The JSON object in a file or on stdin. Raises `Refusal` (`BAD_REQUEST`)."""
    try:
        text = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        request = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise Refusal(
            ErrorCode.BAD_REQUEST,
            f"no request can be read: {error}",
            subject=file,
            remedy="give a file that holds one OperationRequest as JSON",
        ) from None
    if not isinstance(request, dict):
        raise Refusal(
            ErrorCode.BAD_REQUEST,
            f"a request is a JSON object, this is {type(request).__name__}",
            subject=file,
            remedy="give a file that holds one OperationRequest as JSON",
        )
    return request


def _still_going(operation_id: str, timeout_seconds: float | None) -> Exception:
    from counterfoil.models.errors import Unavailable

    return Unavailable(
        ErrorCode.TIMED_OUT,
        f"the operation is not settled after {timeout_seconds:g} s",
        subject=operation_id,
        remedy="it goes on by itself; watch it again",
    )
