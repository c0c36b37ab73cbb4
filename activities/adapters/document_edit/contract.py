"""What a proposed change to a document says, and what its preparation keeps."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from counterfoil.models.common import Contract, Digest, Identifier, Stored
from counterfoil.models.documents.anchoring import Quote
from counterfoil.models.documents.targets import DocumentTarget

ROUTE_ID = "local.document.edit.v1"
CAPABILITY = "document.edit"
DOCUMENT_SYSTEM = "counterfoil.documents"
REPLACEMENT_LIMIT = 64 * 1024

Replacement = Annotated[str, StringConstraints(max_length=REPLACEMENT_LIMIT, pattern=r"^[^\x00]*$")]


class ProposedChange(Contract):
    """A passage of the canonical Markdown, quoted as it stands there, and the Markdown that takes its place."""

    quote: Quote
    replacement: Replacement


class EditDocument(Contract):
    """`document.edit`: the changes of one proposal, made all together or not at all.

    `snapshot_id` names the action snapshot the proposal was drafted from: its allowed ranges are the bounds. A snapshot
    that was captured for a message needs `receipt_id` too: of the fetch that showed it to whoever proposes.
    """

    document_id: Identifier
    snapshot_id: Identifier
    receipt_id: Identifier | None = None
    changes: Annotated[tuple[ProposedChange, ...], Field(min_length=1, max_length=50)]


class BoundChange(Stored):
    """A change whose passage was found: where it is, by positions that survive edits, and what it said."""

    start: str
    """The encoded relative position of the passage's first character, in base64."""
    end: str
    lead: str
    """The Markdown of the passage before that first character, such as `## ` or `**`."""
    trail: str
    """The Markdown of the passage after its last character."""
    passage_digest: Digest
    """Of the passage's Markdown. Typing inside the passage changes it; typing elsewhere does not."""
    replacement: str


class BoundProposal(Stored):
    """A proposal as it was approved: its passages, and the target that bounds it; without one, the whole document."""

    document_id: Identifier
    generation: int
    snapshot_id: Identifier
    within: DocumentTarget | None
    changes: tuple[BoundChange, ...]
