"""`application_operation`: the one tool by which an agent makes and follows operations.

The host fixes whose operations they are; a model can name no other owner, and reaches those of its own session only.
Nothing here decides or attests: `review` shows what a person is asked, so that the host can ask them.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from counterfoil.activities.adapters import cowork_tool
from counterfoil.activities.adapters.base import ApplicationAdapter, DescribesInput
from counterfoil.activities.operations.creation import RAW_LIMIT_BYTES
from counterfoil.control_plane import agent_answers as answers
from counterfoil.control_plane.client import ControlPlane
from counterfoil.models.common import Contract, Identifier, Text
from counterfoil.models.errors import CounterfoilError, ErrorCode, Refusal, what_is_wrong
from counterfoil.models.operations.contract import OnCreate, Owner, ResourceKind
from counterfoil.models.operations.lifecycle import State
from counterfoil.models.operations.record import Operation

NAME = "application_operation"
MOST_LISTED = 50


class _Capabilities(Contract):
    action: Literal["capabilities"]
    route_id: Identifier | None = None


class _Create(Contract):
    action: Literal["create"]
    request: dict[str, Any]


class _OnOne(Contract):
    action: Literal["prepare", "execute", "get", "reconcile", "review"]
    operation_id: Identifier


class _List(Contract):
    action: Literal["list"]
    states: tuple[State, ...] = ()
    limit: Annotated[int, Field(ge=1, le=MOST_LISTED)] = 20


class _Cancel(Contract):
    action: Literal["cancel"]
    operation_id: Identifier
    reason: Annotated[Text, Field(min_length=1)]


_Asked = _Capabilities | _Create | _OnOne | _List | _Cancel
_ASKED: TypeAdapter[_Asked] = TypeAdapter(Annotated[_Asked, Field(discriminator="action")])

ACTIONS = ("capabilities", "create", "prepare", "execute", "get", "list", "reconcile", "cancel", "review")
HOSTS_WORDS = frozenset({"owner", "workspace", "session", "turn", "task"})
"""What only the host says."""

DESCRIPTION = """\
Make a change in an application outside the conversation as a durable operation, and follow it. Actions:
capabilities (which routes there are; with route_id, the schema of their input), create (request), prepare, execute,
get, list, reconcile (look at the target again), cancel (reason), review (what a person is asked, and what is proposed).
The same idempotency_key with the same request is the same operation, and is never done twice; use a new key for a new
change. 'completed' is what the application said; only verification 'verified' is proof. 'unknown' means that nobody can
tell whether it happened: never repeat it under a new key. A person decides; you cannot answer for them."""

_TEXT = {"type": "string"}
INPUT_SCHEMA: dict[str, Any] = {
    # Flat on purpose: several providers take no oneOf, anyOf or allOf at the top of a tool's schema.
    "type": "object",
    "properties": {
        "action": {"type": "string", "enum": list(ACTIONS)},
        "operation_id": _TEXT | {"description": "Of prepare, execute, get, reconcile, cancel, review."},
        "reason": _TEXT | {"description": "Of cancel: why."},
        "route_id": _TEXT | {"description": "Of capabilities: this route in full."},
        "states": {
            "type": "array",
            "items": {"type": "string", "enum": [state.value for state in State]},
            "description": "Of list: only operations in these states.",
        },
        "limit": {"type": "integer", "minimum": 1, "maximum": MOST_LISTED, "description": "Of list."},
        "request": {
            "type": "object",
            "description": "Of create.",
            "properties": {
                "idempotency_key": _TEXT,
                "capability": _TEXT,
                "route_id": _TEXT,
                "objective": _TEXT | {"description": "One sentence for people."},
                "input": {"type": "object"},
                "resources": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "kind": {"type": "string", "enum": [kind.value for kind in ResourceKind]},
                            **dict.fromkeys(("system", "identity", "account_id", "tenant_id", "version"), _TEXT),
                        },
                        "required": ["kind", "system", "identity"],
                        "additionalProperties": False,
                    },
                    "description": "Everything it touches. Without any, it has the whole workspace to itself.",
                },
                "decision": {
                    "type": "object",
                    "properties": {"reason": _TEXT, "question": _TEXT, "expires_after_seconds": {"type": "number"}},
                    "required": ["reason", "question"],
                    "additionalProperties": False,
                    "description": "What to ask a person before anything is done.",
                },
                "on_create": {"type": "string", "enum": [one.value for one in OnCreate]},
                "constraints": {"type": "object"},
                "plan_revision": {"type": "integer", "minimum": 0},
                "depends_on": {"type": "array", "items": _TEXT},
                "supersedes": _TEXT,
                "assumptions": {"type": "array", "items": {"type": "object"}},
            },
            "required": ["idempotency_key", "capability", "route_id", "objective", "input"],
            "additionalProperties": False,
        },
    },
    "required": ["action"],
    "additionalProperties": False,
}


class ApplicationOperationTool:
    """The tool as a host offers it to one session's model: `name`, `description`, `input_schema` and `call`."""

    name = NAME
    description = DESCRIPTION
    input_schema = INPUT_SCHEMA

    def __init__(self, control_plane: ControlPlane, owner: Owner) -> None:
        """`owner` is whose operations these are: everything is made in its name, and nothing else can be reached."""
        self._control_plane = control_plane
        self._owner = owner

    async def call(self, arguments: Any) -> dict[str, Any]:
        """The answer to a model, small enough to be read: what was asked for, or `{"error": {…}}` with a remedy."""
        try:
            return await self._answer(_asked(arguments))
        except CounterfoilError as error:
            return answers.refused(error)

    async def _answer(self, asked: _Asked) -> dict[str, Any]:
        match asked:
            case _Capabilities():
                return await self._capabilities(asked.route_id)
            case _Create():
                return answers.one(await self._create(asked.request))
            case _List():
                return await self._list(asked)
            case _Cancel():
                await self._mine(asked.operation_id)
                await self._control_plane.cancel(asked.operation_id, asked.reason)
            case _OnOne(action="review"):
                return answers.review(await self._mine(asked.operation_id))
            case _OnOne():
                await self._mine(asked.operation_id)
                await self._push(asked)
        return answers.one(await self._mine(asked.operation_id))

    async def _push(self, asked: _OnOne) -> None:
        match asked.action:
            case "prepare":
                await self._control_plane.prepare(asked.operation_id)
            case "execute":
                await self._control_plane.execute(asked.operation_id)
            case "reconcile":
                await self._control_plane.reconcile(asked.operation_id)

    async def _create(self, request: dict[str, Any]) -> Operation:
        said = sorted(HOSTS_WORDS & request.keys())
        if said:
            raise Refusal(
                ErrorCode.BAD_REQUEST,
                f"whose operation it is, the host says; the request named {', '.join(said)}",
                subject=NAME,
                remedy="leave it out",
            )
        return await self._control_plane.create(request | {"owner": self._owner.model_dump(mode="json")})

    async def _list(self, asked: _List) -> dict[str, Any]:
        found = await self._control_plane.operations(
            workspace=self._owner.workspace, session=self._owner.session, states=asked.states, limit=asked.limit
        )
        return {"operations": [answers.line(one) for one in found]}

    async def _mine(self, operation_id: str) -> Operation:
        """An operation of this session. Of any other it is not even said that it exists."""
        absent = Refusal(
            ErrorCode.NOT_FOUND,
            "this session has no such operation",
            subject=operation_id,
            remedy="the action 'list' shows those there are",
        )
        try:
            operation = await self._control_plane.get(operation_id)
        except Refusal as refusal:
            raise (absent if refusal.code == ErrorCode.NOT_FOUND else refusal) from None
        if (operation.workspace, operation.session) != (self._owner.workspace, self._owner.session):
            raise absent
        return operation

    async def _capabilities(self, route_id: str | None) -> dict[str, Any]:
        catalog = self._control_plane.catalog
        if catalog is None:
            raise Refusal(
                ErrorCode.ADAPTER_UNAVAILABLE,
                "the host's client knows no adapters",
                subject=NAME,
                remedy="the host connects with creating=True, and with the adapters of its workers",
            )
        if route_id is None:
            return {"routes": [answers.route(one) for one in catalog.routes()]}
        adapter = catalog.find(route_id)
        if adapter is None:
            raise Refusal(
                ErrorCode.UNKNOWN_ROUTE,
                f"there is no route '{route_id}'",
                subject=route_id,
                remedy="the action 'capabilities' without route_id lists the routes",
            )
        told = answers.route(adapter.route) | {"inputs": _inputs(adapter)}
        if route_id == cowork_tool.ROUTE_ID:
            tools = await self._control_plane.tools(self._owner.session)
            told["tools"] = [answers.tool(one) for one in tools]
        return {"route": told}


def _inputs(adapter: ApplicationAdapter) -> dict[str, Any]:
    if not isinstance(adapter, DescribesInput):
        return {}
    return {capability: adapter.input_schema(capability) for capability in adapter.route.capabilities}


def _asked(arguments: Any) -> _Asked:
    """What a model asks for. Raises `Refusal` (`BAD_REQUEST`, `INPUT_TOO_LARGE`)."""
    how = f"one JSON object with action: one of {', '.join(ACTIONS)}"
    try:
        text = json.dumps(arguments, allow_nan=False)
        if len(text) > RAW_LIMIT_BYTES:
            detail = f"the arguments have {len(text)} bytes"
            remedy = "put the content into a file, and name the file"
            raise Refusal(ErrorCode.INPUT_TOO_LARGE, detail, subject=NAME, remedy=remedy)
        return _ASKED.validate_json(text)
    except ValidationError as error:
        raise Refusal(ErrorCode.BAD_REQUEST, what_is_wrong(error, "arguments"), subject=NAME, remedy=how) from None
    except (TypeError, ValueError, RecursionError) as error:
        raise Refusal(
            ErrorCode.BAD_REQUEST, f"the arguments are no JSON: {error}"[:300], subject=NAME, remedy=how
        ) from None
