"""An action snapshot: the exact version of a document that one action is about. Immutable once committed."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime

from counterfoil.models.common import SCHEMA_VERSION, BlobRef, Digest, Identifier, Stored, Text, digest_of
from counterfoil.models.documents.boundaries import AllowedRanges, ContextBoundary, EgressBoundary
from counterfoil.models.documents.captures import Purpose
from counterfoil.models.documents.heads import Head
from counterfoil.models.documents.receipts import ProjectionReceipt
from counterfoil.models.documents.targets import ActionTarget


class ActionSnapshot(Stored):
    """What was captured, and how far it may be used. Later selections and edits change nothing in it."""

    schema_version: Literal[1] = SCHEMA_VERSION
    snapshot_id: Identifier
    capture_id: Identifier
    document_id: Identifier
    workspace: Identifier
    purpose: Purpose
    chosen_by: Identifier
    """Which of the choices named the target."""
    chosen_from: Identifier | None = None
    """The snapshot whose target was taken up again, by a recapture or a recheck."""
    conversation: Identifier | None = None
    message_id: Identifier | None = None
    label: Text = ""
    head: Head
    snapshot: BlobRef
    """The Yjs update that holds the whole document."""
    state_vector_digest: Digest
    projection: BlobRef
    """Its canonical Markdown, UTF-8."""
    losses: int
    """How many things the Markdown does not say; they are listed with a projection."""
    target: ActionTarget | None
    context: ContextBoundary
    allowed: AllowedRanges
    egress: EgressBoundary
    receipt: ProjectionReceipt
    created_at: AwareDatetime

    @property
    def reference(self) -> SnapshotReference:
        """What a transcript may keep of it."""
        return SnapshotReference(
            snapshot_id=self.snapshot_id,
            document_id=self.document_id,
            label=self.label,
            binding=digest_of({"target": _target_of(self), "label": self.label, "purpose": self.purpose}),
        )


class SnapshotReference(Stored):
    """A safe reference to a snapshot: it says what the message is about, and holds none of the text."""

    snapshot_id: Identifier
    document_id: Identifier
    label: Text
    binding: Digest
    """Over the target and context as the transcript shows them: a stable reply is reused only where it is the same."""


def _target_of(snapshot: ActionSnapshot) -> dict[str, object]:
    if snapshot.target is None:
        return {"document": snapshot.document_id}
    return {"document": snapshot.document_id, "target": snapshot.target.model_dump(mode="json")}
