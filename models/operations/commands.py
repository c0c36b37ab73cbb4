"""What people and hosts may tell an operation, how it is sealed, and what they are answered.

A command travels as a Temporal signal or update named after it. It is either bare (`{"verdict": "approve", …}`) or
sealed by the control plane (`{"command": {…}, "seal": {…}}`). Nothing is decided before the transaction that
applies it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from counterfoil.models.common import (
    Actor,
    Contract,
    Digest,
    Identifier,
    Instant,
    Scope,
    Stored,
    Text,
    canonical_json,
    digest_of,
)
from counterfoil.models.errors import ErrorCode, Refusal

COMMAND_LIMIT_BYTES = 16 * 1024


class CommandName(StrEnum):
    """The signals and updates an operation understands."""

    DECIDE = "decide"
    CANCEL = "cancel"
    RESOLVE_UNKNOWN = "resolve_unknown"
    PREPARE = "prepare"
    EXECUTE = "execute"
    RECONCILE = "reconcile"
    REPAIR = "repair"


class Verdict(StrEnum):
    """A person's answer to a proposal."""

    APPROVE = "approve"
    DECLINE = "decline"
    REVISE = "revise"


class Decide(Contract):
    """Answer the question. Binds to exactly the proposal whose digest is named."""

    proposal_digest: Digest
    verdict: Verdict
    notes: Text = ""
    key: Identifier | None = None


class Cancel(Contract):
    """Ask that the operation end without (further) effect. Never an undo."""

    reason: Text
    key: Identifier | None = None


class ResolutionStatus(StrEnum):
    """What an operator attests of an unknown effect."""

    APPLIED = "applied"
    NOT_APPLIED = "not_applied"
    STOPPED = "stopped"


class ResolveUnknown(Contract):
    """An operator's attestation, where observation is unsupported or exhausted."""

    expected_revision: Annotated[int, Field(ge=0)]
    resolution_key: Identifier
    status: ResolutionStatus
    summary: Annotated[Text, Field(min_length=1)]


class Prepare(Contract):
    """Let a held operation prepare its proposal."""

    key: Identifier | None = None


class Execute(Contract):
    """Let a held or prepared operation go on to its effect (through its decision, where it has one)."""

    key: Identifier | None = None


class Reconcile(Contract):
    """Look again: observe an unknown effect once more, or refresh a completed operation's verification."""

    key: Identifier | None = None


class Repair(Contract):
    """Say that this operation's row is older than what was dispatched, and believe nothing it says.

    The workflow adds what it remembers; the row becomes `unknown`, to be observed again or attested.
    """

    reason: Text
    key: Identifier | None = None


Command = Decide | Cancel | ResolveUnknown | Prepare | Execute | Reconcile | Repair

CONTRACTS: dict[CommandName, type[Decide | Cancel | ResolveUnknown | Prepare | Execute | Reconcile | Repair]] = {
    CommandName.DECIDE: Decide,
    CommandName.CANCEL: Cancel,
    CommandName.RESOLVE_UNKNOWN: ResolveUnknown,
    CommandName.PREPARE: Prepare,
    CommandName.EXECUTE: Execute,
    CommandName.RECONCILE: Reconcile,
    CommandName.REPAIR: Repair,
}

REQUIRED_SCOPE: dict[CommandName, Scope] = {
    CommandName.DECIDE: Scope.REVIEW,
    CommandName.CANCEL: Scope.OPERATE,
    CommandName.RESOLVE_UNKNOWN: Scope.ATTEST,
    CommandName.PREPARE: Scope.OPERATE,
    CommandName.EXECUTE: Scope.OPERATE,
    CommandName.RECONCILE: Scope.OPERATE,
    CommandName.REPAIR: Scope.ADMIN,
}


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


class AnswerStatus(StrEnum):
    """What became of a command."""

    APPLIED = "applied"
    REPEATED = "repeated"
    REFUSED = "refused"


class Answer(Stored):
    """What the transaction that took a command said. A repeated command repeats its first answer."""

    status: AnswerStatus
    operation_id: Identifier
    state: str
    revision: int
    code: str | None = None
    detail: str = ""
    remedy: str = ""


def _mac(key: bytes, operation_id: str, name: str, command: Any, principal: str, scope: str, at: str) -> str:
    message = canonical_json([operation_id, name, command, principal, scope, at])
    return hmac.new(key, message, hashlib.sha256).hexdigest()


def seal(
    key: bytes, *, operation_id: str, name: CommandName, command: Command, principal: str, scope: Scope, at: Instant
) -> dict[str, Any]:
    """The sealed form of a command, ready to be sent as a signal's or an update's argument."""
    body = command.model_dump(mode="json")
    stamp = at.isoformat()
    mac = _mac(key, operation_id, name, body, principal, scope, stamp)
    return {"command": body, "seal": {"principal": principal, "scope": scope, "at": stamp, "mac": mac}}


def unseal(received: Received, *, operation_id: str, key: bytes | None, allow_unsealed: bool) -> tuple[Command, Actor]:
    """The command inside, and who gave it.

    Refuses with `BAD_COMMAND` (unreadable), `FORGED_SEAL`, `SCOPE_MISSING`, or `UNAUTHENTICATED` (no seal where the
    settings ask for one).
    """
    try:
        name = CommandName(received.name)
    except ValueError:
        names = ", ".join(CommandName)
        raise Refusal(
            ErrorCode.BAD_COMMAND,
            f"there is no command named '{received.name[:80]}'",
            subject=operation_id,
            remedy=f"use one of: {names}",
        ) from None
    if received.problem is not None:
        raise Refusal(ErrorCode.BAD_COMMAND, received.problem, subject=operation_id, remedy=_shape(name))
    payload = received.payload
    if isinstance(payload, dict) and "seal" in payload:
        return _sealed(payload, name, operation_id, key)
    command = parsed(payload, name, operation_id)
    if not allow_unsealed and received.channel != "temporal_cancel":
        raise Refusal(
            ErrorCode.UNAUTHENTICATED,
            "the command carries no seal, and this deployment honours only sealed ones",
            subject=operation_id,
            remedy="send it through the control plane client or the counterfoil command",
        )
    return command, Actor(principal="unauthenticated", authenticated=False, scope=REQUIRED_SCOPE[name])


def _sealed(payload: dict[str, Any], name: CommandName, operation_id: str, key: bytes | None) -> tuple[Command, Actor]:
    forged = Refusal(
        ErrorCode.FORGED_SEAL,
        "the seal does not fit the command",
        subject=operation_id,
        remedy="seal the command with the deployment's key; a seal cannot be moved to another command or operation",
    )
    body = payload.get("command")
    try:
        mark = Seal.model_validate(payload["seal"])
        stamp = str(payload["seal"]["at"])
    except (ValidationError, KeyError, TypeError):
        raise forged from None
    if key is None:
        raise Refusal(
            ErrorCode.FORGED_SEAL,
            "this worker has no sealing key, so no seal can be checked",
            subject=operation_id,
            remedy="set COUNTERFOIL_SEAL_KEY to the same reference on workers and control plane",
        )
    try:
        expected = _mac(key, operation_id, name, body, mark.principal, mark.scope, stamp)
    except (TypeError, ValueError, RecursionError):
        # Not JSON (NaN, a lone surrogate, endless nesting): nobody can have sealed it.
        raise forged from None
    if not hmac.compare_digest(expected, mark.mac):
        raise forged
    needed = REQUIRED_SCOPE[name]
    if mark.scope not in (needed, Scope.ADMIN):
        raise Refusal(
            ErrorCode.SCOPE_MISSING,
            f"'{name}' needs the scope '{needed}', the seal grants '{mark.scope}'",
            subject=operation_id,
            remedy=f"ask someone with the scope '{needed}'",
        )
    return parsed(body, name, operation_id), Actor(principal=mark.principal, authenticated=True, scope=mark.scope)


def parsed(body: Any, name: CommandName, operation_id: str) -> Command:
    """A command of what a sender gave. Raises `Refusal` (`BAD_COMMAND`)."""
    try:
        return CONTRACTS[name].model_validate_json(json.dumps(body))
    except (ValidationError, TypeError, ValueError, RecursionError) as error:
        raise Refusal(ErrorCode.BAD_COMMAND, _first_problem(error), subject=operation_id, remedy=_shape(name)) from None


def _shape(name: CommandName) -> str:
    fields = ", ".join(
        field if info.is_required() else f"{field}?" for field, info in CONTRACTS[name].model_fields.items()
    )
    return f"'{name}' takes one JSON object with: {fields}"


def _first_problem(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return f"the argument is not JSON: {error}"[:300]
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"]) or "the argument"
    return f"{place}: {first['msg']}"


def command_key(name: CommandName, command: Command) -> str:
    """What makes two commands the same command: the key its sender gave it, or its content.

    A key names one command of one kind; the same content without a key is the same command again.
    """
    key = command.resolution_key if isinstance(command, ResolveUnknown) else command.key
    return f"{name}:{key}" if key is not None else f"{name}:{digest_of(command)}"
