"""What people and hosts may tell an operation, how it is sealed, and what they are answered.

A command travels as a Temporal signal or update named after it. It is either bare (`{"verdict": "approve", …}`) or
sealed by the control plane (`{"command": {…}, "seal": {…}}`). Nothing is decided before the transaction that
applies it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from counterfoil.models.common import (
    Actor,
    Contract,
    Digest,
    Identifier,
    Instant,
    Scope,
    Stored,
    Text,
    digest_of,
)
from counterfoil.models.operations import sealing
from counterfoil.models.operations.sealing import Received, Vocabulary

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

OPERATION_COMMANDS = Vocabulary[Command](kind=CommandName, contracts=CONTRACTS, scopes=REQUIRED_SCOPE)


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


def seal(
    key: bytes, *, operation_id: str, name: CommandName, command: Command, principal: str, scope: Scope, at: Instant
) -> dict[str, Any]:
    """The sealed form of a command, ready to be sent as a signal's or an update's argument."""
    return sealing.seal(key, subject=operation_id, name=name, command=command, principal=principal, scope=scope, at=at)


def unseal(received: Received, *, operation_id: str, key: bytes | None, allow_unsealed: bool) -> tuple[Command, Actor]:
    """The command inside, and who gave it. Refuses as `sealing.unseal` does."""
    return sealing.unseal(received, OPERATION_COMMANDS, subject=operation_id, key=key, allow_unsealed=allow_unsealed)


def parsed(body: Any, name: CommandName, operation_id: str) -> Command:
    """A command of what a sender gave. Raises `Refusal` (`BAD_COMMAND`)."""
    return OPERATION_COMMANDS.parsed(body, name, operation_id)


def command_key(name: CommandName, command: Command) -> str:
    """What makes two commands the same command: the key its sender gave it, or its content.

    A key names one command of one kind; the same content without a key is the same command again.
    """
    key = command.resolution_key if isinstance(command, ResolveUnknown) else command.key
    return f"{name}:{key}" if key is not None else f"{name}:{digest_of(command)}"
