"""`cowork.tool`: journal a call of any registered tool as an operation, and claim nothing for it.

It is deliberately unqualified: no replay, no work in the background, no observation, no cancellation, no verification.
What a tool answers is kept as its result, and stays unverified. A tool that is read-only fails where another's effect
would be unknown.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from counterfoil.activities.adapters.base import AdapterContext, Order
from counterfoil.activities.adapters.text_preview import visible
from counterfoil.activities.adapters.tools import RegisteredTool, ToolFailed, ToolRegistry
from counterfoil.models.common import Identifier, canonical_json
from counterfoil.models.errors import CounterfoilError, ErrorCode, Refusal, what_is_wrong
from counterfoil.models.operations.contract import OperationRequest, Resource, ResourceKind
from counterfoil.models.operations.outcomes import (
    PREVIEW_ROWS,
    BoundVersion,
    Completed,
    Failed,
    Outcome,
    Prepared,
    Preview,
    TypedResult,
    UnknownEffect,
)
from counterfoil.models.operations.route import PreparationSupport, Route
from counterfoil.models.operations.tools import Tool

ROUTE_ID = "cowork.tool"
CAPABILITY = "tool.call"
CELL_LIMIT_CHARACTERS = 1000


class NamedCall(BaseModel):
    """The input: which tool, with what."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Identifier
    arguments: dict[str, Any]


class BoundCall(NamedCall):
    """The typed input: the call, and which of the registered tools it means."""

    account_id: Identifier | None = None


class CoworkTool:
    """The adapter."""

    def __init__(self, tools: ToolRegistry) -> None:
        self._tools = tools
        self._route = Route(
            id=ROUTE_ID,
            adapter="cowork.tool",
            adapter_version="1",
            capabilities=(CAPABILITY,),
            protocol="in process",
            control="one function call",
            preparation=PreparationSupport.PURE,
            background=False,
        )

    @property
    def route(self) -> Route:
        """The route, as it is for tools that change something."""
        return self._route

    def route_for(self, typed_input: BaseModel) -> Route:
        """The route with what the tool itself says: whether it only reads, and how long it may take."""
        tool = self._registered(typed_input).tool
        limits = {"read_only": tool.read_only, "call_timeout_seconds": tool.call_timeout_seconds}
        return self._route.model_copy(update=limits)

    def tools_for(self, typed_input: BaseModel) -> tuple[Tool, ...]:
        """The one tool this will call."""
        return (self._registered(typed_input).tool,)

    def input_schema(self, capability: str) -> dict[str, Any]:
        """The input's JSON Schema; that of the arguments is the tool's own."""
        described = [{"const": tool.name, "description": tool.description} for tool in self._tools.tools()]
        return {
            "type": "object",
            "properties": {"name": {"oneOf": described}, "arguments": {"type": "object"}},
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }

    def validate_input(self, request: OperationRequest) -> BoundCall:
        """The call, where there is such a tool and its schema takes the arguments."""
        try:
            call = NamedCall.model_validate(request.input)
        except ValidationError as error:
            raise Refusal(
                ErrorCode.INVALID_INPUT,
                what_is_wrong(error, "input"),
                subject=ROUTE_ID,
                remedy='give {"name": "…", "arguments": {…}}',
            ) from None
        accounts = {resource.account_id for resource in request.resources if resource.account_id is not None}
        registered = self._tools.find(call.name, accounts)
        _refuse_queries_only(request, registered.tool)
        arguments = registered.require_fitting(call.arguments)
        return BoundCall(name=call.name, arguments=arguments, account_id=registered.tool.account_id)

    async def prepare(self, context: AdapterContext, order: Order) -> Prepared | Failed:
        """What would be called, bound to what the tool is now. Nothing is called."""
        call, registered = order.typed_input, self._registered(order.typed_input)
        assert isinstance(call, BoundCall)
        try:
            await registered.require_fitting_fully(call.arguments)
        except Refusal as refusal:
            return Failed(code=refusal.code, detail=refusal.detail)
        return Prepared(
            summary=f"call {call.name}",
            preview=_preview(call, registered.tool),
            versions=(BoundVersion(resource=_as_resource(registered.tool), version=registered.tool.digest),),
        )

    def execute(self, context: AdapterContext, order: Order) -> Outcome:
        """Call it, once, while it is what it was when the call was prepared."""
        call, registered = order.typed_input, self._registered(order.typed_input)
        assert isinstance(call, BoundCall)
        prepared = order.prepared
        if prepared is None or [bound.version for bound in prepared.versions] != [registered.tool.digest]:
            detail = f"'{call.name}' is another tool than when the call was prepared; nothing was called"
            return Failed(code=ErrorCode.TOOL_CHANGED, detail=detail)
        try:
            answer = context.tools.call(call.name, call.arguments, account_id=call.account_id)
        except ToolFailed as failure:
            in_doubt = Failed if registered.tool.read_only else UnknownEffect
            return in_doubt(code=failure.code, detail=failure.detail)
        except CounterfoilError as error:
            # It was not called, or says itself that nothing changed.
            return Failed(code=error.code, detail=error.detail)
        return Completed(result=TypedResult(kind="tool", summary=f"{call.name} answered", data={"answer": answer}))

    def _registered(self, typed_input: BaseModel) -> RegisteredTool:
        assert isinstance(typed_input, BoundCall)
        return self._tools.find(typed_input.name, () if typed_input.account_id is None else (typed_input.account_id,))


def _refuse_queries_only(request: OperationRequest, tool: Tool) -> None:
    only_read = all(resource.kind is ResourceKind.QUERY for resource in request.resources)
    if request.resources and only_read and not tool.read_only:
        raise Refusal(
            ErrorCode.RESOURCE_MISMATCH,
            f"only queries are named, and '{tool.name}' changes something",
            subject=tool.name,
            remedy="name what it changes, or nothing at all: then it has the workspace to itself",
        )


def _as_resource(tool: Tool) -> Resource:
    return Resource(
        kind=ResourceKind.APPLICATION_STATE, system=ROUTE_ID, identity=tool.name, account_id=tool.account_id
    )


def _preview(call: BoundCall, tool: Tool) -> Preview:
    """The call as a table a person can decide on; what does not fit is counted, not hidden."""
    rows = [("tool", tool.name, "reads" if tool.read_only else "changes")]
    if tool.account_id is not None:
        rows.append(("account", tool.account_id, ""))
    rows += [("argument", visible(name), _cell(value)) for name, value in sorted(call.arguments.items())]
    shown = tuple(rows[:PREVIEW_ROWS])
    return Preview(columns=("what", "name", "value"), rows=shown, omitted_rows=len(rows) - len(shown))


def _cell(value: Any) -> str:
    text = visible(value if isinstance(value, str) else canonical_json(value).decode())
    if len(text) <= CELL_LIMIT_CHARACTERS:
        return text
    return f"{text[:CELL_LIMIT_CHARACTERS]}… ({len(text)} characters)"
