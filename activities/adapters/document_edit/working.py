"""What the adapter works out: a rehearsal, the edit itself, and what speaks against it afterwards.

Apart from the adapter, because it needs the Yjs runtime, which most processes never load.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pycrdt import Doc

from counterfoil.activities.adapters.document_edit.contract import BoundProposal, EditDocument
from counterfoil.activities.adapters.document_edit.desk import Applied, Edit, Frozen, LiveDocument
from counterfoil.activities.adapters.document_edit.placing import Passage, bind, located, quoted, spliced, work_out
from counterfoil.models.documents.heads import Head
from counterfoil.models.documents.markdown.parsing import parse
from counterfoil.models.documents.markdown.projection import Projection, project
from counterfoil.models.documents.snapshots import ActionSnapshot
from counterfoil.models.documents.targets import DocumentTarget
from counterfoil.models.documents.text import DocumentText
from counterfoil.models.documents.yjs.index import DocumentIndex
from counterfoil.models.documents.yjs.update import covers, decode_state_vector
from counterfoil.models.errors import Refusal
from counterfoil.models.operations.outcomes import PREVIEW_ROWS, Preview

SHOWN_LENGTH = 2000


@dataclass(frozen=True)
class Now:
    """What a verification needs of the live document."""

    head: Head
    state_vector: dict[int, int]
    digest: str


def now_of(live: LiveDocument) -> Now:
    """The document as it is while it is looked at."""
    return Now(live.head, live.index.state_vector, live.projection.digest)


def rehearsed(live: LiveDocument, frozen: Frozen, asked: EditDocument) -> tuple[BoundProposal, Preview]:
    """The proposal bound to its passages, after it was seen that the edit can be made.

    Raises `Refusal` as `bind` and `work_out` do.
    """
    for change in asked.changes:
        # What was quoted must have meant one passage of what was read: else its twin could be taken for it.
        quoted(frozen.markdown, change, live.document_id)
    proposal = bind(live, frozen.snapshot.snapshot_id, _bounds(frozen.snapshot), asked.changes)
    passages = located(live, proposal)
    work_out(live, passages)
    return proposal, _preview(live.projection, passages)


def edit_of(live: LiveDocument, proposal: BoundProposal, operation_id: str, attempt: int) -> Edit:
    """The edit that makes an approved proposal, on the document as it is now. Raises `Refusal` as `located` does."""
    worked_out = work_out(live, located(live, proposal))
    return Edit(
        operation_id=operation_id,
        generation=attempt,
        document_id=live.document_id,
        expected=live.head,
        update=worked_out.update,
        before=live.update,
        before_digest=live.projection.digest,
        after_digest=worked_out.projection.digest,
    )


def doubt_of(applied: Applied, proposal: BoundProposal, now: Now) -> str | None:
    """What speaks against the edit's having been made as approved, derived from the stored bytes alone."""
    index = DocumentIndex.build(applied.before)
    before = project(index.document())
    at_the_time = LiveDocument(
        document_id=applied.document_id,
        head=Head(generation=applied.document_generation, sequence=applied.sequence - 1),
        update=applied.before,
        index=index,
        text=DocumentText.of(index.document()),
        projection=before,
    )
    try:
        passages = located(at_the_time, proposal)
    except Refusal as refusal:
        return f"the document before the edit is not what was approved: {refusal.detail}"
    doc: Doc[Any] = Doc()
    doc.apply_update(applied.before)
    doc.apply_update(applied.update)
    after = project(DocumentIndex.build(doc.get_update()).document())
    if after.markdown != project(parse(spliced(before.markdown, passages))).markdown:
        return "the document after the edit does not read as the approved change says"
    edited = decode_state_vector(doc.get_state())
    if now.head.generation == applied.document_generation and not covers(now.state_vector, edited):
        return "the document has lost the edit"
    return None


def _bounds(snapshot: ActionSnapshot) -> DocumentTarget | None:
    return None if snapshot.target is None or snapshot.allowed.whole else snapshot.target.target


def _preview(projection: Projection, passages: list[Passage]) -> Preview:
    rows = [
        (_shortened(projection.markdown[one.start : one.end]), _shortened(one.replacement))
        for one in sorted(passages, key=lambda passage: passage.start)
    ]
    return Preview(
        columns=("passage", "becomes"),
        rows=tuple(rows[:PREVIEW_ROWS]),
        omitted_rows=max(len(rows) - PREVIEW_ROWS, 0),
    )


def _shortened(text: str) -> str:
    return text if len(text) <= SHOWN_LENGTH else f"{text[: SHOWN_LENGTH // 2]} … {text[-SHOWN_LENGTH // 2 :]}"
