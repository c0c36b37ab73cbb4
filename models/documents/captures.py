"""What is asked of a capture: which document, about which passage, for which message, and how far it may be used.

The passage is chosen in one of five ways, and none turns into another in silence. How far the snapshot may be used has
three answers that are given separately and have no default: a Working on range by itself permits nothing.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, TypeAlias

from pydantic import Base64Bytes, Field

from counterfoil.models.common import SCHEMA_VERSION, Contract, Digest, Identifier, Text, digest_of
from counterfoil.models.documents.targets import DocumentTarget
from counterfoil.models.errors import ErrorCode, Refusal

STATE_VECTOR_LIMIT_BYTES = 256 * 1024


class Purpose(StrEnum):
    """What kind of action the snapshot is for."""

    CHAT = "chat"
    VERIFY = "verify"
    COTHINK = "cothink"
    OTHER = "other"


class Reach(StrEnum):
    """How far one of the three boundaries goes."""

    WHOLE = "whole"
    """The whole document as it was captured."""
    TARGET = "target"
    """The target's passage; without a target, the whole document."""
    NOTHING = "nothing"


class WholeDocument(Contract):
    """No passage is singled out."""

    by: Literal["whole_document"] = "whole_document"


class WorkingOn(Contract):
    """The reusable default of this device, as it was when the action was taken."""

    by: Literal["working_on"] = "working_on"
    target: DocumentTarget


class Recapture(Contract):
    """The message's first snapshot was overtaken before it was sent: the same durable target again, once."""

    by: Literal["recapture"] = "recapture"
    snapshot_id: Identifier


class Recheck(Contract):
    """A proposal is checked again: the target that it was made for, whatever Working on is now."""

    by: Literal["recheck"] = "recheck"
    snapshot_id: Identifier


class AffirmedRecheck(Contract):
    """The target of a proposal cannot be found any more: a person set another passage, and affirmed it separately."""

    by: Literal["affirmed_recheck"] = "affirmed_recheck"
    snapshot_id: Identifier
    target: DocumentTarget
    affirmed: Literal[True]


Choice: TypeAlias = Annotated[
    WholeDocument | WorkingOn | Recapture | Recheck | AffirmedRecheck, Field(discriminator="by")
]


class CaptureRequest(Contract):
    """One capture. `capture_id` is fresh for each: the same id with the same request gives the same snapshot."""

    schema_version: Literal[1] = SCHEMA_VERSION
    capture_id: Identifier
    document_id: Identifier
    purpose: Purpose
    choice: Choice
    context: Reach
    """What may be read as context."""
    changes: Reach
    """Where a proposal may change the document."""
    egress: Reach
    """What may leave: in a model request or an export."""
    conversation: Identifier | None = None
    message_id: Identifier | None = None
    """The authored message this is for. An answer to a question is bound to the question's snapshot, and captures none.
    """
    label: Text = ""
    """How the target is shown to people, such as in an "About:" chip."""
    generation: Annotated[int, Field(ge=1)] | None = None
    """The generation of the document that the editor has."""
    state_vector: Annotated[Base64Bytes, Field(max_length=STATE_VECTOR_LIMIT_BYTES)] | None = None
    """The editor's Yjs state vector: the capture waits until the log covers it."""
    projection_digest: Digest | None = None
    """The digest of the Markdown that the editor derived itself, to be compared."""

    @property
    def digest(self) -> str:
        """What a repetition must equal."""
        return digest_of(self)


def require_recapturable(request: CaptureRequest, *, first_choice: str, first_message: str | None) -> None:
    """A message is recaptured once, and only its own snapshot. Raises `Refusal` (`NOT_POSSIBLE`)."""
    if first_choice == "recapture":
        raise Refusal(
            ErrorCode.NOT_POSSIBLE,
            "this message was captured again already; a second conflict is for the author to see",
            subject=request.document_id,
            remedy="keep the draft, and let its author send it again",
        )
    if request.message_id is None or first_message not in (None, request.message_id):
        raise Refusal(
            ErrorCode.NOT_POSSIBLE,
            "only the message that a snapshot was captured for can have it captured again",
            subject=request.document_id,
            remedy="capture for this message by itself",
        )
