"""Whether the agent that answers has really seen the frozen view that a message is about.

Fetching the view leaves a receipt, bound to the attempt that fetched it: its consumer generation. The reply and the
acknowledgement echo the receipt. That tells "the message named a target" from "whoever answered it has seen it".
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from counterfoil.models.common import SCHEMA_VERSION, Contract, Digest, Identifier, Stored, Text, digest_of
from counterfoil.models.errors import ErrorCode, Refusal


class FetchOutcome(StrEnum):
    """What a fetch came to. Either way there is a receipt, so that a turn never waits for ever for a lost view."""

    AVAILABLE = "available"
    UNAVAILABLE = "unavailable"
    """Missing, or not what its checksum says: the receipt supports a reply that says so, and nothing else."""


class ConsumptionReceipt(Stored):
    """One fetch of one snapshot for one message, by one consumer generation. Never changed, only bound to a reply."""

    schema_version: Literal[1] = SCHEMA_VERSION
    receipt_id: Identifier
    conversation: Identifier | None
    message_id: Identifier
    snapshot_id: Identifier
    consumer_generation: Annotated[int, Field(ge=1)]
    fetch_outcome: FetchOutcome
    reason: Text = ""
    """Why it was unavailable."""
    binding: Digest
    """Over the target and the context as the transcript shows them."""
    at: AwareDatetime
    reply_id: Identifier | None = None
    acknowledged_at: AwareDatetime | None = None

    @property
    def bound_to(self) -> str:
        """What two receipts must have in common for one to stand behind the other's reply."""
        return digest_of(
            {
                "conversation": self.conversation,
                "message": self.message_id,
                "snapshot": self.snapshot_id,
                "binding": self.binding,
            }
        )


class FrozenView(Stored):
    """What the agent is shown: the text inside both the context and the egress boundary, and where the target is.

    `target_start` and `target_end` count the code points of `text`; both are None where there is no target, or where it
    lies outside what may be shown.
    """

    document_id: Identifier
    label: Text
    text: str
    omitted: bool
    """Whether parts of the document are left out."""
    target_start: int | None = None
    target_end: int | None = None
    losses: int = 0


class Fetched(Stored):
    """The answer to `action_snapshot_get`: always a receipt, and the view where it can be had."""

    receipt: ConsumptionReceipt
    view: FrozenView | None


class Reply(Contract):
    """An answer to a message, as it is committed. `reply_id` is stable: the same in every attempt at the turn."""

    reply_id: Identifier
    message_id: Identifier
    receipt_id: Identifier
    content_digest: Digest
    proposes: bool = False
    """Whether it carries a proposal or a comment on the document, which an unavailable view cannot support."""


class CommittedReply(Stored):
    """The reply that stands for a message."""

    reply_id: Identifier
    message_id: Identifier
    receipt_id: Identifier
    """The receipt it was written under."""
    content_digest: Digest
    bound_to: Digest
    at: AwareDatetime


def require_echo(receipt: ConsumptionReceipt | None, message_id: str, newest_generation: int) -> ConsumptionReceipt:
    """The receipt, if it is one of this message and of its newest generation. Raises `Refusal` (`RECEIPT_MISMATCH`)."""
    if receipt is None:
        raise _mismatch(message_id, "there is no such receipt")
    if receipt.message_id != message_id:
        raise _mismatch(message_id, "the receipt is of another message")
    if receipt.consumer_generation < newest_generation:
        raise _mismatch(
            message_id,
            f"the receipt is of generation {receipt.consumer_generation}; {newest_generation} has taken over",
        )
    return receipt


def require_supported(receipt: ConsumptionReceipt, subject: str) -> None:
    """An unavailable view supports no proposal and no comment. Raises `Refusal` (`SNAPSHOT_UNAVAILABLE`)."""
    if receipt.fetch_outcome is FetchOutcome.UNAVAILABLE:
        raise Refusal(
            ErrorCode.SNAPSHOT_UNAVAILABLE,
            f"the frozen view could not be opened: {receipt.reason}",
            subject=subject,
            remedy="reply that it could not be opened; propose nothing from it",
        )


def require_same_reply(standing: CommittedReply, reply: Reply, receipt: ConsumptionReceipt) -> None:
    """A stable reply is used again only for what it was written for. Raises `Refusal` (`REPLY_CONFLICT`)."""
    if standing.message_id != reply.message_id:
        raise _conflict(reply, "a reply of this id answers another message")
    if standing.reply_id != reply.reply_id:
        raise _conflict(reply, f"the message is answered by the reply '{standing.reply_id}' already")
    if standing.content_digest != reply.content_digest:
        raise _conflict(reply, "the reply of this id says something else")
    if standing.bound_to != receipt.bound_to:
        raise _conflict(reply, "the reply was written about another target, snapshot or context")


def _mismatch(message_id: str, detail: str) -> Refusal:
    return Refusal(
        ErrorCode.RECEIPT_MISMATCH,
        detail,
        subject=message_id,
        remedy="open the snapshot in this generation, and echo its receipt",
    )


def _conflict(reply: Reply, detail: str) -> Refusal:
    return Refusal(
        ErrorCode.REPLY_CONFLICT,
        detail,
        subject=reply.reply_id,
        remedy="use the standing reply, or give a new one a new id",
    )
