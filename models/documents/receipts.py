"""The proof that a document's snapshot and its Markdown were admitted together, and whether it still holds."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime

from counterfoil.models.common import SCHEMA_VERSION, BlobRef, Digest, Identifier, Stored
from counterfoil.models.documents.heads import Head


class ProjectionReceipt(Stored):
    """One snapshot and the Markdown that was derived from it, published in one transaction."""

    schema_version: Literal[1] = SCHEMA_VERSION
    document_id: Identifier
    generation: int
    snapshot_digest: Digest
    head: Head
    projection_digest: Digest
    projection: BlobRef
    at: AwareDatetime


def is_current(receipt: ProjectionReceipt, document_id: str, live: Head, projection_digest: str) -> bool:
    """Whether a receipt is of the live state: all five must match. A later update or compaction ends it."""
    return (
        receipt.document_id == document_id
        and receipt.generation == live.generation
        and receipt.snapshot_digest == live.snapshot_digest
        and receipt.head == live
        and receipt.projection_digest == projection_digest
    )
