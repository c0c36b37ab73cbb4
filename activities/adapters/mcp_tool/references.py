"""Secrets by reference: read from the worker's environment when a server is reached, and scrubbed from all it says."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from counterfoil.activities.adapters.mcp_tool.profile import HttpTransport, ServerProfile, StdioTransport
from counterfoil.models.errors import ErrorCode, Refusal, Unavailable

ORDINARY = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ", "USER", "LOGNAME", "SHELL", "TERM")
"""What every started server gets of the worker's environment."""

SCRUBBED = "[secret]"
SHORTEST_SECRET = 4
"""A shorter value is no secret, and scrubbing it would make nonsense of ordinary text."""


class Secrets:
    """The values one connection was given. Never printed; only used to take them out of what a server says."""

    def __init__(self, values: Mapping[str, str]) -> None:
        given = {value for value in values.values() if len(value) >= SHORTEST_SECRET}
        given |= {part for value in given for part in value.split() if len(part) >= SHORTEST_SECRET}
        self._given = sorted(given, key=len, reverse=True)

    def __repr__(self) -> str:
        return f"Secrets({len(self._given)})"

    def scrub(self, text: str) -> str:
        """The text without any of the values."""
        for value in self._given:
            text = text.replace(value, SCRUBBED)
        return text

    def scrub_bytes(self, data: bytes) -> bytes:
        """The bytes without any of the values in UTF-8."""
        for value in self._given:
            data = data.replace(value.encode(), SCRUBBED.encode())
        return data

    def scrub_json(self, value: Any) -> Any:
        """A JSON value without any of the values in its texts and names."""
        if isinstance(value, str):
            return self.scrub(value)
        if isinstance(value, list):
            return [self.scrub_json(one) for one in value]
        if isinstance(value, dict):
            return {self.scrub(str(name)): self.scrub_json(one) for name, one in value.items()}
        return value


def environment_of(transport: StdioTransport) -> tuple[dict[str, str], Secrets]:
    """The environment a server is started with. Raises `Unavailable` (`NOT_READY`) where a variable is not set."""
    passed = {name: _value(name) for name in transport.environment}
    ordinary = {name: os.environ[name] for name in ORDINARY if name in os.environ}
    return ordinary | passed, Secrets(passed)


def headers_of(transport: HttpTransport) -> tuple[dict[str, str], Secrets]:
    """The headers a server is sent. Raises `Unavailable` (`NOT_READY`) where a variable is not set."""
    used: dict[str, str] = {}

    def resolve(found: re.Match[str]) -> str:
        used[found[1]] = _value(found[1])
        return used[found[1]]

    headers = {name: re.sub(r"\$\{(\w+)\}", resolve, value) for name, value in transport.headers.items()}
    return headers, Secrets(used)


def require_variables(profiles: Iterable[ServerProfile]) -> None:
    """Refuse to start without the variables that profiles refer to. Raises `Refusal` (`SETTINGS_INVALID`)."""
    for profile in profiles:
        missing = [name for name in _variables(profile) if not os.environ.get(name)]
        if missing:
            raise Refusal(
                ErrorCode.SETTINGS_INVALID,
                f"the profile of the MCP server '{profile.name}' refers to {', '.join(missing)}, which is not set",
                subject=profile.name,
                remedy="set it in the worker's environment",
            )


def _variables(profile: ServerProfile) -> list[str]:
    if isinstance(profile.transport, StdioTransport):
        return list(profile.transport.environment)
    return [name for value in profile.transport.headers.values() for name in re.findall(r"\$\{(\w+)\}", value)]


def _value(name: str) -> str:
    value = os.environ.get(name)
    if not value or any(ord(character) < 32 for character in value):
        raise Unavailable(
            ErrorCode.NOT_READY,
            f"the variable {name} is not set on this worker, or holds control characters",
            subject=name,
            remedy="set it in the worker's environment",
        )
    return value
