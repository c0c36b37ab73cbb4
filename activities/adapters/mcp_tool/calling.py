"""One call of one tool, and what became of it: answered, running as a task, certainly not sent, or lost."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from counterfoil.activities.adapters.mcp_tool.connection import Connection, NoAnswer, ServerError, Unreachable
from counterfoil.activities.adapters.mcp_tool.profile import ServerProfile
from counterfoil.activities.adapters.mcp_tool.questions import Question, Questions
from counterfoil.activities.adapters.mcp_tool.references import Secrets
from counterfoil.activities.adapters.mcp_tool.schemas import ToolDescription
from counterfoil.activities.adapters.mcp_tool.station import Line, Station
from counterfoil.models.common import Identifier
from counterfoil.models.errors import ErrorCode

MOST_ROUNDS = 10
"""How often a server of the newer protocol may come back with questions before it answers."""

MOST_INPUTS = 16
"""How much it may ask for at a time."""

_METHOD_NOT_FOUND = -32601
_INVALID_PARAMS = -32602
_REQUEST_TIMEOUT = -32001
_URL_NEEDED = -32042


@dataclass(frozen=True)
class Answered:
    """The tool's own result, as the protocol carries it, and how to take secrets out of it."""

    result: dict[str, Any]
    tool: ToolDescription
    secrets: Secrets


@dataclass(frozen=True)
class Begun:
    """The server runs the call as a task."""

    external_id: str
    summary: str
    poll_after_seconds: float | None


@dataclass(frozen=True)
class NotSent:
    """The tool certainly did not run."""

    code: str
    detail: str


@dataclass(frozen=True)
class Lost:
    """Nobody here can know whether the tool ran."""

    code: str
    detail: str


Reply = Answered | Begun | NotSent | Lost


@dataclass(frozen=True)
class Call:
    """What is sent, and the description of the tool it was prepared for (any, where it is None)."""

    tool: str
    arguments: dict[str, Any]
    tool_digest: str | None = None
    as_task: bool = False


async def call_once(
    profile: ServerProfile, call: Call, questions: Questions, deadline_seconds: float, station: Station
) -> Reply:
    """Reach the server, look at the tool once more, and call it: exactly once, or not at all.

    Runs on the station's loop. A connection on which a task was begun is left with the station.
    """
    if call.as_task and station.full:
        return NotSent(ErrorCode.TARGET_UNREACHABLE, "too many tasks run on this worker already")
    line = Line(profile, questions)
    connection: Connection | None = None
    reply: Reply
    try:
        async with asyncio.timeout(deadline_seconds):
            connection = await line.connection()
            reply = await _checked_call(connection, call)
    except Unreachable as error:
        reply = NotSent(ErrorCode.TARGET_UNREACHABLE, str(error))
    except TimeoutError:
        reply = Lost(ErrorCode.ADAPTER_TIMED_OUT, f"the tool did not answer within {deadline_seconds:g} s")
    except BaseException:
        await line.close()
        raise
    if isinstance(reply, Begun):
        station.keep(reply.external_id, line)
        return reply
    await line.close()
    # Only now, with nothing left that could still send it, is it certain that the call was not sent.
    if isinstance(reply, Lost) and (connection is None or not connection.traffic.call_sent):
        return NotSent(ErrorCode.TARGET_UNREACHABLE, f"the call was not sent: {reply.detail}")
    return reply


async def _checked_call(connection: Connection, call: Call) -> Reply:
    tool = await connection.tool(call.tool)
    if tool is None:
        return NotSent(ErrorCode.TOOL_CHANGED, f"the server has no tool '{call.tool}'")
    if call.tool_digest not in (None, tool.digest):
        return NotSent(
            ErrorCode.TOOL_CHANGED,
            f"the server describes '{call.tool}' otherwise than when the call was prepared; ask again under a new key",
        )
    params: dict[str, Any] = {"name": call.tool, "arguments": call.arguments}
    if call.as_task:
        params["task"] = {}
    try:
        result = await _result(connection, params)
    except ServerError as error:
        return refused(error, connection)
    except NoAnswer as error:
        return Lost(ErrorCode.REPLY_LOST, f"no answer to the call: {error}")
    if call.as_task:
        return _begun(result, connection.secrets)
    if not is_tool_result(result):
        return Lost(ErrorCode.REPLY_UNCLEAR, "what the server answered is no tool result")
    return Answered(result, tool, connection.secrets)


async def _result(connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
    """The result of the call. A server of the newer protocol asks by answering; its call is then continued."""
    from mcp_types import InputRequiredResult
    from pydantic import ValidationError

    result = await connection.request("tools/call", params)
    for _ in range(MOST_ROUNDS):
        if result.get("resultType") != "input_required":
            return result
        try:
            needed = InputRequiredResult.model_validate(result, by_name=False)
        except ValidationError:
            raise NoAnswer("what it needs cannot be read") from None
        declined_before = connection.questions.declined_count
        responses = await _responses(connection.questions, needed.input_requests or {})
        if responses is None or connection.questions.declined_count > declined_before:
            raise NoAnswer("it asked for what nobody approved, and was not answered")
        again = params | {"inputResponses": responses}
        if needed.request_state is not None:
            again["requestState"] = needed.request_state
        try:
            result = await connection.request("tools/call", again)
        except ServerError as error:
            # The tool had begun, so no code says any more that it did not run.
            raise NoAnswer(f"it did not go on ({error.code}): {error.detail}") from None
    raise NoAnswer(f"it asked {MOST_ROUNDS} times and never answered")


async def _responses(questions: Questions, asked: dict[str, Any]) -> dict[str, Any] | None:
    """The approved answers to what a server needs; None where it needs what no answer is ever given to."""
    from mcp_types import ElicitRequest

    if len(asked) > MOST_INPUTS:
        return None
    responses: dict[str, Any] = {}
    for key, request in asked.items():
        if not isinstance(request, ElicitRequest):
            return None
        answer = await questions.answer(None, request.params)
        responses[key] = answer.model_dump(by_alias=True, mode="json", exclude_none=True)
    return responses


def refused(error: ServerError, connection: Connection) -> Reply:
    """What a JSON-RPC error says of the call: two codes say that the tool did not run, unless it asked something."""
    if not connection.questions.asked_count and error.code in (_METHOD_NOT_FOUND, _INVALID_PARAMS):
        return NotSent(ErrorCode.INVALID_INPUT, f"the server refused the call ({error.code}): {error.detail}")
    if error.code == _URL_NEEDED:
        connection.questions.declined_count += 1
        connection.questions.declined.append(Question(error.detail, "url", None, "a person would have to visit it"))
    if error.code == _REQUEST_TIMEOUT:
        return Lost(ErrorCode.ADAPTER_TIMED_OUT, f"the server reports a time-out: {error.detail}")
    return Lost(ErrorCode.TOOL_FAILED, f"the server reports an error ({error.code}): {error.detail}")


def _begun(result: dict[str, Any], secrets: Secrets) -> Reply:
    from pydantic import TypeAdapter, ValidationError

    told = result.get("task")
    try:
        task = told if isinstance(told, dict) else {}
        external_id = TypeAdapter(Identifier).validate_python(task.get("taskId"))
    except ValidationError:
        return Lost(ErrorCode.REPLY_UNCLEAR, "the server was asked for a task, and named none")
    return Begun(external_id, secrets.scrub(str(task.get("statusMessage") or ""))[:300], poll_seconds(task))


def poll_seconds(task: dict[str, Any]) -> float | None:
    """When the server suggests to look at a task again."""
    interval = task.get("pollInterval")
    return max(0.2, interval / 1000) if isinstance(interval, int | float) and interval >= 0 else None


def is_tool_result(result: dict[str, Any]) -> bool:
    """Whether an answer has the shape of a tool's result."""
    content = result.get("content")
    return isinstance(content, list) and all(isinstance(block, dict) for block in content)
