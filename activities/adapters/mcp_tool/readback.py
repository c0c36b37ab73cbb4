"""Looking at the target by a read-only tool: what the profile says must be there, and what is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from counterfoil.activities.adapters.mcp_tool.calling import Answered, Call, call_once
from counterfoil.activities.adapters.mcp_tool.profile import Readback, ServerProfile
from counterfoil.activities.adapters.mcp_tool.questions import Questions
from counterfoil.activities.adapters.mcp_tool.results import error_text, structured_of
from counterfoil.activities.adapters.mcp_tool.station import Station
from counterfoil.models.common import digest_of
from counterfoil.models.operations.outcomes import Evidence

_MISSING = object()
_SHOWN_CHARACTERS = 100


@dataclass(frozen=True)
class Seen:
    """What a readback showed, compared with what was expected."""

    evidence: Evidence
    matching: tuple[str, ...]
    differing: tuple[str, ...]
    ruled_out: bool

    @property
    def differences(self) -> str:
        return f"the readback differs in {', '.join(self.differing)}"


@dataclass(frozen=True)
class NotSeen:
    """The readback could not be made, or told nothing."""

    detail: str


async def read_back(
    profile: ServerProfile,
    readback: Readback,
    *,
    operation_id: str,
    arguments: dict[str, Any],
    deadline_seconds: float,
    station: Station,
) -> Seen | NotSeen:
    """Call the read-only tool, and compare its answer with what the profile expects. Runs on the station's loop."""

    def filled(value: Any) -> Any:
        return _filled(value, operation_id, arguments)

    observed_at = datetime.now(UTC)
    call = Call(readback.tool, filled(readback.arguments))
    reply = await call_once(profile, call, Questions((), approved=False), deadline_seconds, station)
    if not isinstance(reply, Answered):
        return NotSeen(f"'{readback.tool}' gave no answer: {getattr(reply, 'detail', 'it runs as a task')}")
    if reply.result.get("isError"):
        return NotSeen(f"'{readback.tool}' reports an error: {error_text(reply.result, reply.secrets)}")
    told = structured_of(reply.result)
    if told is None:
        return NotSeen(f"'{readback.tool}' answered without JSON")
    expected = {path: filled(value) for path, value in readback.expected.items()}
    matching = tuple(path for path, value in expected.items() if _same(_at(told, path), value))
    fences = {path: filled(value) for path, value in readback.ruled_out.items()}
    found = {path: _at(told, path) for path in expected | fences}
    facts = {path: _shown(value, reply) for path, value in found.items() if value is not _MISSING}
    return Seen(
        evidence=Evidence(
            source=f"mcp:{profile.name}/{readback.tool}"[:200],
            observed_at=observed_at,
            digest=digest_of({"answer": told}),
            facts={"found": facts, "matching": sorted(matching), "expected": sorted(expected)},
        ),
        matching=matching,
        differing=tuple(path for path in expected if path not in matching),
        ruled_out=bool(fences) and all(_same(found[path], value) for path, value in fences.items()),
    )


def _filled(value: Any, operation_id: str, arguments: dict[str, Any]) -> Any:
    """A value of a profile with its references replaced."""
    if isinstance(value, dict):
        return {name: _filled(one, operation_id, arguments) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_filled(one, operation_id, arguments) for one in value]
    if value == "$operation_id":
        return operation_id
    if isinstance(value, str) and (named := re.fullmatch(r"\$arguments\.(.+)", value)):
        found = _at(arguments, named[1])
        return None if found is _MISSING else found
    return value


def _at(value: Any, path: str) -> Any:
    """What stands at a dotted path; numbers are places in lists."""
    for part in path.split("."):
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return _MISSING
    return value


def _same(found: Any, expected: Any) -> bool:
    """Equality of JSON: `true` is not `1`, and `1` is `1.0`."""
    return found is not _MISSING and isinstance(found, bool) == isinstance(expected, bool) and bool(found == expected)


def _shown(value: Any, reply: Answered) -> Any:
    if isinstance(value, bool | int | float) or value is None:
        return value
    return reply.secrets.scrub(str(value))[:_SHOWN_CHARACTERS]
