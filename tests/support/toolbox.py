"""Tools that keep a log of what they did: the oracle of tests of the gateway."""

from __future__ import annotations

from typing import Any

from counterfoil.activities.adapters.catalog import Catalog
from counterfoil.activities.adapters.tools import ToolContext
from counterfoil.models.operations.tools import Permission, Tool

TEXT = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}


class Toolbox:
    """Registers tools that answer what a test says, and remembers every call that reached one."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.calls: list[tuple[str, Any]] = []
        """(tool, arguments) of every call that reached its function: what really happened."""
        self.contexts: list[ToolContext] = []

    def add(
        self,
        name: str,
        answer: Any = "done",
        *,
        read_only: bool = False,
        permission: str = "allow",
        schema: dict[str, Any] = TEXT,
        **changes: Any,
    ) -> Tool:
        """A tool that gives `answer`, raises it where it is an exception, or calls it with its arguments."""
        tool = Tool(
            name=name,
            description=f"{name}, for tests",
            input_schema=schema,
            read_only=read_only,
            permission=Permission(permission),
            **changes,
        )

        def function(context: ToolContext, arguments: dict[str, Any]) -> Any:
            self.calls.append((name, arguments))
            self.contexts.append(context)
            if isinstance(answer, BaseException):
                raise answer
            return answer(arguments) if callable(answer) else answer

        self._catalog.register_tool(tool, function)
        return tool


def tool_request(key: str, session: str, name: str, arguments: Any, **changes: Any) -> dict[str, Any]:
    """A request for `cowork.tool`."""
    return {
        "owner": {"workspace": "w", "session": session},
        "idempotency_key": key,
        "capability": "tool.call",
        "route_id": "cowork.tool",
        "objective": f"call {name}",
        "input": {"name": name, "arguments": arguments},
    } | changes
