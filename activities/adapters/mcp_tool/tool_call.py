"""What is asked of `mcp.tool.v1`, and whether it names what its profile and its resources name. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, ValidationError

from counterfoil.activities.adapters.mcp_tool.profile import ServerProfile
from counterfoil.activities.adapters.mcp_tool.questions import ApprovedAnswer
from counterfoil.activities.adapters.text_preview import visible
from counterfoil.models.common import Contract, Identifier, canonical_json
from counterfoil.models.errors import ErrorCode, Refusal
from counterfoil.models.operations.contract import OperationRequest, ResourceKind
from counterfoil.models.operations.outcomes import PREVIEW_ROWS, Preview

ROUTE_ID = "mcp.tool.v1"
CAPABILITY = "tool.call"
COLUMNS = ("What", "Name", "Value")


class ToolCall(Contract):
    """`tool.call`: one call of one tool of a server that this deployment has a profile of."""

    server: Identifier
    tool: Identifier
    arguments: dict[str, Any] = Field(default_factory=dict)
    elicitation: Annotated[tuple[ApprovedAnswer, ...], Field(max_length=16)] = ()
    """Answers to what the server may ask during the call. They need a decision: they are approved with the call."""


def validated(request: OperationRequest, profiles: Mapping[str, ServerProfile]) -> ToolCall:
    """The typed input. Raises `Refusal` (`INVALID_INPUT`, `RESOURCE_MISMATCH`, `ACCOUNT_MISMATCH`)."""
    try:
        call = ToolCall.model_validate(request.input)
    except ValidationError as error:
        problems = [
            f"{'.'.join(visible(str(part)) for part in problem['loc']) or 'input'}: {problem['msg']}"
            for problem in error.errors(include_input=False, include_url=False)
        ]
        raise _refuse(ErrorCode.INVALID_INPUT, "; ".join(problems)[:1000], "correct the input") from None
    profile = profiles.get(call.server)
    if profile is None:
        raise _refuse(
            ErrorCode.INVALID_INPUT,
            f"there is no profile of a server '{visible(call.server)}'",
            f"this deployment has: {', '.join(sorted(profiles)) or 'none'}",
        )
    key = profile.declaration(call.tool).key_argument
    if key is not None and key in call.arguments:
        raise _refuse(ErrorCode.INVALID_INPUT, f"'{key}' is given the operation's id", f"leave '{key}' out")
    if call.elicitation and request.decision is None:
        raise _refuse(
            ErrorCode.INVALID_INPUT,
            "answers for the server are given only where a person approves them, and no decision is asked for",
            "ask for a decision, or leave the answers out",
        )
    _check_resources(request, call, profile)
    return call


def _check_resources(request: OperationRequest, call: ToolCall, profile: ServerProfile) -> None:
    for resource in request.resources:
        if resource.account_id != profile.account_id:
            raise _refuse(
                ErrorCode.ACCOUNT_MISMATCH,
                f"'{visible(resource.identity)}' is of account '{resource.account_id}', "
                f"the server '{profile.name}' acts for '{profile.account_id}'",
                "name the server's account on every resource",
            )
    reads = all(resource.kind is ResourceKind.QUERY for resource in request.resources)
    if request.resources and reads and not profile.declaration(call.tool).read_only:
        raise _refuse(
            ErrorCode.RESOURCE_MISMATCH,
            "only queries are named, and the tool is not declared read-only",
            "name what it changes, or nothing at all: then it has the workspace to itself",
        )


def preview_of(call: ToolCall, profile: ServerProfile, arguments: dict[str, Any], hints: dict[str, Any]) -> Preview:
    """The call as a table a person can decide on: every argument and every answer, nothing in them hidden."""
    account = visible(profile.account_id or "no account named")
    rows = [("server", profile.name, account), ("tool", visible(call.tool), "")]
    rows += [("argument", visible(name), _cell(value)) for name, value in sorted(arguments.items())]
    for answer in call.elicitation:
        to = visible(answer.message) if answer.message is not None else "any question for these fields"
        told = sorted(answer.model_dump(mode="json")["fields"].items())
        rows += [("answer", to, f"{visible(name)} = {_cell(value)}") for name, value in told] or [("answer", to, "yes")]
    rows += [("server's hint", visible(name), _cell(value)) for name, value in sorted(hints.items()) if name != "title"]
    return Preview(columns=COLUMNS, rows=tuple(rows[:PREVIEW_ROWS]), omitted_rows=max(0, len(rows) - PREVIEW_ROWS))


def _cell(value: Any) -> str:
    return visible(value if isinstance(value, str) else canonical_json(value).decode())


def _refuse(code: ErrorCode, detail: str, remedy: str) -> Refusal:
    return Refusal(code, detail, subject=ROUTE_ID, remedy=remedy)
