"""Tools a session may call: what one is, what was permitted, and the one rule that says whether a call may be made.

A permission belongs to a session and a tool, and may be narrowed to an account. The strictest of what was said counts;
where nothing was said, the tool's own default does. It binds whoever asked for the work.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from counterfoil.models.common import Actor, Contract, Identifier, Instant, Stored, Text, digest_of
from counterfoil.models.errors import ErrorCode, Refusal


class Permission(StrEnum):
    """Whether a session may call a tool."""

    ALLOW = "allow"
    ASK = "ask"
    """Only inside an operation whose proposal a person approved."""
    DENY = "deny"


_STRICTNESS = (Permission.ALLOW, Permission.ASK, Permission.DENY)


class Tool(Contract):
    """A tool as the host registers it, in code. One that acts for several accounts is registered once for each."""

    name: Identifier
    description: Text = ""
    input_schema: dict[str, Any]
    """JSON Schema of the arguments, which are one object."""
    read_only: bool
    """It changes nothing, anywhere. Its failure is a failure, never an unknown effect."""
    account_id: Identifier | None = None
    """The account it acts for."""
    permission: Permission = Permission.ASK
    """What a session may do that nobody has said anything about."""
    call_timeout_seconds: Annotated[float, Field(ge=1, le=120)] = 30

    @property
    def digest(self) -> str:
        """Everything a person or a model may have relied on."""
        return digest_of(self)


class PermissionRecord(Stored):
    """What was said of a tool in a session, by whom."""

    session: Identifier
    tool: Identifier
    account_id: Identifier | None = None
    """None: whichever account it acts for."""
    permission: Permission
    actor: Actor
    at: Instant


class CallableTool(Stored):
    """A tool, and what a session may do with it now."""

    tool: Tool
    permission: Permission


class Origin(StrEnum):
    """Where a call comes from, which bounds what it may do."""

    LOOK = "look"
    """A phase of an operation that only looks: readiness, pure preparation, observe, verify."""
    ACT = "act"
    """A journaled phase of an operation: execute, effectful preparation, cancel."""
    DIRECT = "direct"
    """No operation: a turn that calls the tool by itself."""


def standing_permission(tool: Tool, said: Iterable[Permission]) -> Permission:
    """What counts for a tool, of all that was said of it in a session."""
    return max(said, key=_STRICTNESS.index, default=tool.permission)


def refused_call(
    tool: Tool, *, origin: Origin, permission: Permission, approved: bool, unknown_effects: Sequence[str] = ()
) -> Refusal | None:
    """Why this call may not be made; None where it may.

    `approved`: a person approved exactly the operation's proposal. `unknown_effects`: the session's operations that
    nobody knows the effect of; they hold up direct changes, and nothing else.
    """
    if permission is Permission.DENY:
        return Refusal(
            ErrorCode.TOOL_DENIED,
            f"this session may not call '{tool.name}'",
            subject=tool.name,
            remedy="do without it, or have someone with the scope 'admin' permit it",
        )
    if origin is Origin.LOOK and not tool.read_only:
        return Refusal(
            ErrorCode.TOOL_MUTATES,
            f"'{tool.name}' changes things, and this call may only look",
            subject=tool.name,
            remedy="call it in execute, or register a read-only tool for looking",
        )
    if permission is Permission.ASK and not (approved and origin is not Origin.DIRECT):
        return Refusal(
            ErrorCode.TOOL_NEEDS_DECISION,
            f"'{tool.name}' may be called only in an operation that a person approved",
            subject=tool.name,
            remedy="create an operation (route cowork.tool, say) with a decision: its reason and its question",
        )
    if origin is Origin.DIRECT and not tool.read_only and unknown_effects:
        return Refusal(
            ErrorCode.UNKNOWN_EFFECT_OPEN,
            f"nobody knows yet what became of {unknown_effects[0]}, so this session changes nothing directly",
            subject=unknown_effects[0],
            remedy="have it observed or attested; reading, and operations, go on meanwhile",
        )
    return None
