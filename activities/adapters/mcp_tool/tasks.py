"""Calls that a server runs as a task: looking at one, taking its result, and cancelling it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from counterfoil.activities.adapters.mcp_tool.calling import poll_seconds
from counterfoil.activities.adapters.mcp_tool.connection import Connection, NoAnswer, ServerError, Unreachable
from counterfoil.activities.adapters.mcp_tool.profile import HttpTransport, ServerProfile
from counterfoil.activities.adapters.mcp_tool.questions import Questions
from counterfoil.activities.adapters.mcp_tool.schemas import ToolDescription
from counterfoil.activities.adapters.mcp_tool.station import Line, Station

ASKING_SECONDS = 3.0
"""How long a task that needs input may take, in one look, to ask for it and be answered."""


@dataclass(frozen=True)
class TaskState:
    """What the server says of a task; `result` is the tool's, where the task has ended and has one."""

    status: str
    message: str
    poll_after_seconds: float | None
    result: dict[str, Any] | None
    connection: Connection
    tool: ToolDescription | None = None


@dataclass(frozen=True)
class TaskUnseen:
    """The task cannot be looked at."""

    detail: str


async def look(
    profile: ServerProfile, task_id: str, tool: str, questions: Questions, deadline_seconds: float, station: Station
) -> TaskState | TaskUnseen:
    """Look at a task, on the connection that began it or, over HTTP, on a new one. Runs on the station's loop."""

    async def state(connection: Connection, task_id: str) -> TaskState:
        seen = await _state(connection, task_id)
        return seen if seen.result is None else replace(seen, tool=await connection.tool(tool))

    async with _Reached(profile, task_id, questions, deadline_seconds, station) as reached:
        return await reached.asked(state)


async def cancel(
    profile: ServerProfile, task_id: str, questions: Questions, deadline_seconds: float, station: Station
) -> TaskState | TaskUnseen:
    """Ask the server to cancel a task; how the task stands then. Runs on the station's loop."""

    async def cancelled(connection: Connection, task_id: str) -> TaskState:
        if not connection.cancels_tasks:
            raise NoAnswer("the server cannot cancel tasks")
        try:
            told = await connection.request("tasks/cancel", {"taskId": task_id})
        except ServerError:
            return await _state(connection, task_id)  # refused: perhaps it had ended already
        return _read(told, connection, None)

    async with _Reached(profile, task_id, questions, deadline_seconds, station) as reached:
        return await reached.asked(cancelled)


async def _state(connection: Connection, task_id: str) -> TaskState:
    told = await connection.request("tasks/get", {"taskId": task_id})
    result: dict[str, Any] | None = None
    match told.get("status"):
        case "input_required":
            # What the server needs it asks while its result is waited for. The result itself is taken later.
            with contextlib.suppress(TimeoutError, ServerError):
                async with asyncio.timeout(ASKING_SECONDS):
                    await connection.request("tasks/result", {"taskId": task_id})
        case "completed":
            result = await connection.request("tasks/result", {"taskId": task_id})
        case "failed":
            with contextlib.suppress(ServerError):  # some servers answer with the error itself
                result = await connection.request("tasks/result", {"taskId": task_id})
    return _read(told, connection, result)


def _read(told: dict[str, Any], connection: Connection, result: dict[str, Any] | None) -> TaskState:
    message = connection.secrets.scrub(str(told.get("statusMessage") or ""))[:300]
    return TaskState(str(told.get("status")), message, poll_seconds(told), result, connection)


class _Reached:
    """The connection to ask about a task: the one that is kept, or a new one where the server can be reached anew."""

    def __init__(
        self, profile: ServerProfile, task_id: str, questions: Questions, deadline_seconds: float, station: Station
    ) -> None:
        self._profile, self._task_id, self._questions = profile, task_id, questions
        self._deadline_seconds, self._station = deadline_seconds, station
        self._line: Line | None = None
        self._own = False

    async def __aenter__(self) -> _Reached:
        self._line = await self._station.kept(self._task_id)
        if self._line is None and isinstance(self._profile.transport, HttpTransport):
            self._line, self._own = Line(self._profile, self._questions), True
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._own and self._line is not None:
            await self._line.close()

    async def asked(self, ask: Callable[[Connection, str], Awaitable[TaskState]]) -> TaskState | TaskUnseen:
        if self._line is None:
            return TaskUnseen("the server's process that ran the task has ended, and no other knows it")
        try:
            async with asyncio.timeout(self._deadline_seconds):
                return await ask(await self._line.connection(), self._task_id)
        except TimeoutError:
            return TaskUnseen(f"the server did not answer within {self._deadline_seconds:g} s")
        except ServerError as error:
            return TaskUnseen(f"the server does not tell ({error.code}): {error.detail}")
        except (NoAnswer, Unreachable) as error:
            await self._station.let_go(self._task_id)  # what is kept is no connection any more
            return TaskUnseen(str(error))
