"""Who gave a command: how the control plane seals one, and how the transaction that takes it looks inside.

A seal covers the whole command, its name and its subject, so it cannot be moved to another. What a subject may be told
is its vocabulary: names, what each holds, and the scope each needs.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import Field, ValidationError

from counterfoil.models.common import (
    UNAUTHENTICATED,
    Actor,
    Contract,
    Identifier,
    Instant,
    Scope,
    Stored,
    canonical_json,
)
from counterfoil.models.errors import ErrorCode, Refusal

C = TypeVar("C", bound=Contract)


class Seal(Stored):
    """Who gave a command, under which scope, when: signed with the control plane's key over the whole command."""

    principal: Identifier
    scope: Scope
    at: Instant
    mac: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Received(Stored):
    """A command as it arrived, before anyone looked inside: what the workflow hands to the transaction.

    `problem` says why nothing could be read from it (undecodable, no or too many arguments, too large).
    """

    name: Identifier
    payload: Any = None
    problem: str | None = None
    channel: Literal["signal", "update", "temporal_cancel"] = "signal"


@dataclass(frozen=True)
class Vocabulary(Generic[C]):
    """The commands that one kind of subject understands."""

    kind: type[StrEnum]
    contracts: Mapping[Any, type[C]]
    scopes: Mapping[Any, Scope]

    def named(self, name: str, subject: str) -> StrEnum:
        """The command of a name. Raises `Refusal` (`BAD_COMMAND`)."""
        try:
            return self.kind(name)
        except ValueError:
            raise Refusal(
                ErrorCode.BAD_COMMAND,
                f"there is no command named '{name[:80]}'",
                subject=subject,
                remedy=f"use one of: {', '.join(self.kind)}",
            ) from None

    def parsed(self, body: Any, name: StrEnum, subject: str) -> C:
        """A command of what a sender gave. Raises `Refusal` (`BAD_COMMAND`)."""
        try:
            return self.contracts[name].model_validate_json(json.dumps(body))
        except (ValidationError, TypeError, ValueError, RecursionError) as error:
            problem, remedy = _first_problem(error), self.shape(name)
            raise Refusal(ErrorCode.BAD_COMMAND, problem, subject=subject, remedy=remedy) from None

    def shape(self, name: StrEnum) -> str:
        """What a command holds, for whoever got it wrong."""
        described = self.contracts[name].model_fields.items()
        fields = ", ".join(field if info.is_required() else f"{field}?" for field, info in described)
        return f"'{name}' takes one JSON object with: {fields}"


def seal(
    key: bytes, *, subject: str, name: StrEnum, command: Contract, principal: str, scope: Scope, at: Instant
) -> dict[str, Any]:
    """The sealed form of a command, ready to be sent."""
    body = command.model_dump(mode="json")
    stamp = at.isoformat()
    mac = _mac(key, subject, name, body, principal, scope, stamp)
    return {"command": body, "seal": {"principal": principal, "scope": scope, "at": stamp, "mac": mac}}


def unseal(
    received: Received, vocabulary: Vocabulary[C], *, subject: str, key: bytes | None, allow_unsealed: bool
) -> tuple[C, Actor]:
    """The command inside, and who gave it.

    Refuses with `BAD_COMMAND` (unreadable), `FORGED_SEAL`, `SCOPE_MISSING`, or `UNAUTHENTICATED` (no seal where the
    settings ask for one).
    """
    name = vocabulary.named(received.name, subject)
    if received.problem is not None:
        raise Refusal(ErrorCode.BAD_COMMAND, received.problem, subject=subject, remedy=vocabulary.shape(name))
    payload = received.payload
    if isinstance(payload, dict) and "seal" in payload:
        actor = _sealed_by(payload, name, vocabulary.scopes[name], subject, key)
        return vocabulary.parsed(payload.get("command"), name, subject), actor
    command = vocabulary.parsed(payload, name, subject)
    if not allow_unsealed and received.channel != "temporal_cancel":
        raise Refusal(
            ErrorCode.UNAUTHENTICATED,
            "the command carries no seal, and this deployment honours only sealed ones",
            subject=subject,
            remedy="send it through the control plane client or the counterfoil command",
        )
    return command, UNAUTHENTICATED.model_copy(update={"scope": vocabulary.scopes[name]})


def _sealed_by(payload: dict[str, Any], name: StrEnum, needed: Scope, subject: str, key: bytes | None) -> Actor:
    forged = Refusal(
        ErrorCode.FORGED_SEAL,
        "the seal does not fit the command",
        subject=subject,
        remedy="seal the command with the deployment's key; a seal cannot be moved to another command or operation",
    )
    try:
        mark = Seal.model_validate(payload["seal"])
        stamp = str(payload["seal"]["at"])
    except (ValidationError, KeyError, TypeError):
        raise forged from None
    if key is None:
        raise Refusal(
            ErrorCode.FORGED_SEAL,
            "this worker has no sealing key, so no seal can be checked",
            subject=subject,
            remedy="set COUNTERFOIL_SEAL_KEY to the same reference on workers and control plane",
        )
    try:
        expected = _mac(key, subject, name, payload.get("command"), mark.principal, mark.scope, stamp)
    except (TypeError, ValueError, RecursionError):
        # Not JSON (NaN, a lone surrogate, endless nesting): nobody can have sealed it.
        raise forged from None
    if not hmac.compare_digest(expected, mark.mac):
        raise forged
    if mark.scope not in (needed, Scope.ADMIN):
        raise Refusal(
            ErrorCode.SCOPE_MISSING,
            f"'{name}' needs the scope '{needed}', the seal grants '{mark.scope}'",
            subject=subject,
            remedy=f"ask someone with the scope '{needed}'",
        )
    return Actor(principal=mark.principal, authenticated=True, scope=mark.scope)


def _mac(key: bytes, subject: str, name: str, command: Any, principal: str, scope: str, at: str) -> str:
    message = canonical_json([subject, name, command, principal, scope, at])
    return hmac.new(key, message, hashlib.sha256).hexdigest()


def _first_problem(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return f"the argument is not JSON: {error}"[:300]
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"]) or "the argument"
    return f"{place}: {first['msg']}"
