"""What the adapter needs of the documents: a look, an edit under compare-and-set, and what became of an edit.

Blocking calls, made from the adapter's own thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from counterfoil.models.documents.heads import Head
from counterfoil.models.documents.markdown.projection import Projection
from counterfoil.models.documents.snapshots import ActionSnapshot
from counterfoil.models.documents.text import DocumentText
from counterfoil.models.documents.yjs.index import DocumentIndex

T = TypeVar("T")


@dataclass(frozen=True)
class LiveDocument:
    """A document as it is at `head`, checked against its checksums. Valid only while it is being looked at."""

    document_id: str
    head: Head
    update: bytes
    """The whole document, as one Yjs update."""
    index: DocumentIndex
    text: DocumentText
    projection: Projection


@dataclass(frozen=True)
class Frozen:
    """An action snapshot, and the Markdown that was captured."""

    snapshot: ActionSnapshot
    markdown: str


@dataclass(frozen=True)
class Edit:
    """One edit, to be appended while `expected` is the head, and at most once an operation."""

    operation_id: str
    generation: int
    """The attempt, not the document's generation."""
    document_id: str
    expected: Head
    update: bytes
    before: bytes
    """The whole document before the edit: what its verification starts from."""
    before_digest: str
    after_digest: str
    """The digests of the projections around the edit."""


@dataclass(frozen=True)
class Applied:
    """An edit that was made, as it is recorded. `sequence` is its place in the document's log."""

    document_id: str
    document_generation: int
    sequence: int
    before: bytes
    update: bytes
    before_digest: str
    after_digest: str
    at: datetime


class DocumentDesk(Protocol):
    """The documents, as far as the edit adapter sees them. Every method may raise `Unavailable`."""

    def look(self, document_id: str, reading: Callable[[LiveDocument], T]) -> T:
        """What `reading` makes of the document now; the document changes for nobody meanwhile, and for all afterwards.

        Raises what `reading` raises, and `Refusal`: `NOT_FOUND`, `DOCUMENT_QUARANTINED`.
        """
        ...

    def snapshot(self, operation_id: str, snapshot_id: str, receipt_id: str | None) -> Frozen:
        """The snapshot a proposal is drafted from, its frozen view checked; from now on it is kept for the proposal.

        Raises `Refusal`: `SNAPSHOT_UNAVAILABLE`, and `RECEIPT_MISMATCH` where the receipt does not show that whoever
        proposes has seen it.
        """
        ...

    def edit(self, edit: Edit) -> Applied:
        """Append the edit; the same operation's edit again is given back, not made again.

        Raises `Refusal`, with nothing changed: `HEAD_MOVED`, `FENCED`, `DOCUMENT_QUARANTINED`.
        """
        ...

    def settle(self, operation_id: str, document_id: str, generation: int) -> Applied | None:
        """The operation's edit; where there is none, its attempts up to `generation` can no longer make it."""
        ...
