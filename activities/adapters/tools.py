"""The tool registry: what sessions may be let call, registered by the host in code, never by a model.

A tool is a plain or async function of (`ToolContext`, arguments) that returns JSON. It raises `Refusal` where certainly
nothing changed; whatever else it raises leaves the effect of a tool that changes something in doubt.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from itertools import islice
from typing import Any

from counterfoil.activities.adapters.mcp_tool import schemas
from counterfoil.activities.adapters.runner import told
from counterfoil.models.common import canonical_json
from counterfoil.models.errors import CounterfoilError, ErrorCode, Refusal
from counterfoil.models.operations.contract import INPUT_LIMIT_BYTES, Owner
from counterfoil.models.operations.tools import Tool

MOST_PROBLEMS = 5
_UNBOUNDED = frozenset({"pattern", "patternProperties", "uniqueItems"})
"""What an argument can make take for ever: a schema with these is checked in a process that can be ended."""
_RESTING_ON_PATTERNS = frozenset({"additionalProperties", "unevaluatedProperties"})


@dataclass(frozen=True)
class ToolContext:
    """What a tool's function is given beside its arguments."""

    owner: Owner
    account_id: str | None
    operation_id: str | None
    """The operation that calls; the idempotency key to send downstream. None for a direct call."""
    timeout_seconds: float


ToolFunction = Callable[[ToolContext, dict[str, Any]], Any | Awaitable[Any]]


class ToolFailed(CounterfoilError):
    """The tool was called and gave no result. Whether it changed something before, nobody can tell."""


class RegisteredTool:
    """A tool with the function that does its work."""

    def __init__(self, tool: Tool, function: ToolFunction) -> None:
        from jsonschema import SchemaError
        from jsonschema.validators import Draft202012Validator, extend, validator_for
        from referencing import Registry

        self.tool = tool
        self._function = function
        kind = validator_for(tool.input_schema, default=Draft202012Validator)
        try:
            kind.check_schema(tool.input_schema)
        except SchemaError as error:
            raise ValueError(f"the input schema of '{tool.name}' is none: {error.message[:200]}") from None
        if tool.input_schema.get("type") != "object":
            raise ValueError(f"the input schema of '{tool.name}' is not one of an object")
        self._is_unbounded = _mentions(tool.input_schema, _UNBOUNDED)
        if self._is_unbounded:
            kind = extend(kind, dict.fromkeys(_UNBOUNDED | _RESTING_ON_PATTERNS, _anything))
        self._quick = kind(tool.input_schema, registry=Registry())

    def require_fitting(self, arguments: Any) -> dict[str, Any]:
        """The arguments as plain JSON of their own, where they fit the schema. Pure.

        Patterns and uniqueness are left to `require_fitting_fully`. Raises `Refusal` (`INVALID_INPUT`,
        `INPUT_TOO_LARGE`).
        """
        plain = _plain(self.tool, arguments)
        try:
            wrong = [_told(error) for error in islice(self._quick.iter_errors(plain), MOST_PROBLEMS)]
        except RecursionError:
            wrong = ["they are nested too deeply"]
        self._refuse_misfits(wrong)
        return plain

    async def require_fitting_fully(self, arguments: Any) -> dict[str, Any]:
        """The same, with patterns and uniqueness checked too, for a bounded time."""
        plain = await asyncio.to_thread(self.require_fitting, arguments)
        if self._is_unbounded:
            self._refuse_misfits(await schemas.problems(self.tool.input_schema, plain))
        return plain

    def _refuse_misfits(self, wrong: list[str]) -> None:
        if wrong:
            raise Refusal(
                ErrorCode.INVALID_INPUT,
                f"the arguments do not fit the schema of '{self.tool.name}': {'; '.join(wrong)}"[:1500],
                subject=self.tool.name,
                remedy="correct the arguments",
            )

    def run(self, context: ToolContext, arguments: dict[str, Any]) -> Any:
        """Call the function in this thread, to its end. Raises the tool's own `Refusal`, or `ToolFailed`."""
        try:
            value = self._function(context, arguments)
            if inspect.isawaitable(value):
                value = asyncio.run(_awaited(value))
        except Refusal:
            raise
        except Exception as error:
            raise self._failed(told(error)) from error
        return self._answer(value)

    async def run_async(self, context: ToolContext, arguments: dict[str, Any]) -> Any:
        """The same on a running loop; a plain function gets a thread."""
        if not inspect.iscoroutinefunction(self._function):
            return await asyncio.to_thread(self.run, context, arguments)
        try:
            value = await self._function(context, arguments)
        except Refusal:
            raise
        except Exception as error:
            raise self._failed(told(error)) from error
        return self._answer(value)

    def _answer(self, value: Any) -> Any:
        try:
            return json.loads(canonical_json(value))
        except (TypeError, ValueError, RecursionError) as error:
            raise self._failed(f"its answer is no JSON: {told(error)}") from error

    def _failed(self, detail: str) -> ToolFailed:
        return ToolFailed(
            ErrorCode.TOOL_FAILED,
            f"'{self.tool.name}' failed: {detail}"[:1000],
            subject=self.tool.name,
            remedy="correct what it names, and call it again"
            if self.tool.read_only
            else "it may have changed something all the same: look before calling it again",
        )


class ToolRegistry:
    """The tools of this process, by name and account."""

    def __init__(self) -> None:
        self._tools: dict[tuple[str, str | None], RegisteredTool] = {}

    def register(self, tool: Tool, function: ToolFunction) -> None:
        """Add a tool. Raises ValueError for a second one of this name and account, or a schema that is none."""
        key = (tool.name, tool.account_id)
        if key in self._tools:
            raise ValueError(f"a tool named '{tool.name}' is registered already for account {tool.account_id}")
        self._tools[key] = RegisteredTool(tool, function)

    def tools(self) -> list[Tool]:
        """All tools, by name and account."""
        return [self._tools[key].tool for key in sorted(self._tools, key=lambda key: (key[0], key[1] or ""))]

    def find(self, name: str, accounts: Collection[str] = ()) -> RegisteredTool:
        """The tool of this name that acts for one of `accounts`, or for whom it acts where none is named.

        Raises `Refusal`: `TOOL_UNKNOWN`, or `ACCOUNT_MISMATCH` where it acts for others, or for several of them.
        """
        named = self._named(name)
        fitting = [one for one in named if one.tool.account_id in accounts]
        fitting = fitting or [one for one in named if one.tool.account_id is None]
        if not fitting and not accounts:
            fitting = named
        if len(fitting) == 1:
            return fitting[0]
        known = ", ".join(f"'{one.tool.account_id}'" for one in named)
        raise Refusal(
            ErrorCode.ACCOUNT_MISMATCH,
            f"'{name}' acts for {known}, and {_told_accounts(accounts)}",
            subject=name,
            remedy="name one account that it acts for",
        )

    def require_known(self, name: str, account_id: str | None) -> None:
        """Refuse a tool that is not registered (`TOOL_UNKNOWN`), or not for this account (`ACCOUNT_MISMATCH`)."""
        if account_id is None:
            self._named(name)
        else:
            self.find(name, (account_id,))

    def _named(self, name: str) -> list[RegisteredTool]:
        named = [one for (known, _), one in self._tools.items() if known == name]
        if not named:
            raise Refusal(
                ErrorCode.TOOL_UNKNOWN,
                f"there is no tool '{name[:200]}'",
                subject=name[:200],
                remedy=f"registered tools: {', '.join(sorted({known for known, _ in self._tools})) or 'none'}"[:1000],
            )
        return named


def _told_accounts(accounts: Collection[str]) -> str:
    return f"this work is for {', '.join(sorted(accounts))}" if accounts else "this work names no account"


def _plain(tool: Tool, arguments: Any) -> dict[str, Any]:
    try:
        text = canonical_json(arguments)
        plain = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise _no_arguments(tool, ErrorCode.INVALID_INPUT, f"are no JSON: {told(error)}"[:300]) from None
    if not isinstance(plain, dict):
        raise _no_arguments(tool, ErrorCode.INVALID_INPUT, "are not one JSON object")
    if len(text) > INPUT_LIMIT_BYTES:
        limit = f"have {len(text)} bytes, the limit is {INPUT_LIMIT_BYTES}"
        raise _no_arguments(tool, ErrorCode.INPUT_TOO_LARGE, limit)
    return plain


def _no_arguments(tool: Tool, code: ErrorCode, detail: str) -> Refusal:
    return Refusal(code, f"the arguments {detail}", subject=tool.name, remedy="give one JSON object that fits")


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value


def _anything(*_: Any) -> tuple[()]:
    return ()


def _mentions(schema: Any, words: frozenset[str]) -> bool:
    if isinstance(schema, dict):
        return not words.isdisjoint(schema) or any(_mentions(part, words) for part in schema.values())
    return isinstance(schema, list) and any(_mentions(part, words) for part in schema)


def _told(error: Any) -> str:
    return f"{'.'.join(str(part) for part in error.absolute_path)[:100] or 'the whole'}: {error.message[:200]}"
