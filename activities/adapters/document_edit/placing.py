"""Finds where a proposal's changes belong in a document as it is now, and works out the edit that makes them.

A change is drafted against Markdown. It is placed by its quote when it is prepared, and by positions from then on: what
was approved is that passage, not another one that reads the same. What comes of an edit is proved before it is made:
its document must read, byte for byte, as the old Markdown with the passages replaced.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pycrdt import Doc

from counterfoil.activities.adapters.document_edit.contract import BoundChange, BoundProposal, ProposedChange
from counterfoil.activities.adapters.document_edit.desk import LiveDocument
from counterfoil.activities.adapters.document_edit.editing import apply_change
from counterfoil.models.common import digest_bytes
from counterfoil.models.documents.anchoring import Ambiguous, Found, Missing, anchor
from counterfoil.models.documents.changes import difference
from counterfoil.models.documents.markdown.parsing import parse
from counterfoil.models.documents.markdown.projection import Projection, project
from counterfoil.models.documents.positions import Nowhere
from counterfoil.models.documents.targets import DocumentTarget, Unresolved, resolve_target
from counterfoil.models.documents.yjs.index import DocumentIndex
from counterfoil.models.errors import ErrorCode, Refusal


@dataclass(frozen=True)
class Passage:
    """A part of the Markdown, in code points from `start` to `end`, and what takes its place."""

    start: int
    end: int
    replacement: str


def bind(
    live: LiveDocument, snapshot_id: str, within: DocumentTarget | None, changes: Sequence[ProposedChange]
) -> BoundProposal:
    """The proposal, bound to the passages it quotes.

    Raises `Refusal`: `PLACEMENT_MISSING`, `PLACEMENT_AMBIGUOUS`, `TARGET_UNRESOLVED`, `OUTSIDE_ALLOWED_RANGES`.
    """
    passages = [quoted(live.projection.markdown, change, live.document_id) for change in changes]
    _check_bounds(live, within, passages)
    return BoundProposal(
        document_id=live.document_id,
        generation=live.head.generation,
        snapshot_id=snapshot_id,
        within=within,
        changes=tuple(_bound(live, passage) for passage in passages),
    )


def located(live: LiveDocument, proposal: BoundProposal) -> list[Passage]:
    """Where the bound passages are now. Raises `Refusal` as `bind` does, where one is not what was approved."""
    if live.head.generation != proposal.generation:
        raise Refusal(
            ErrorCode.TARGET_UNRESOLVED,
            "the document was replaced by another since",
            subject=live.document_id,
            remedy="draft the change again from the present text",
        )
    passages = [_now(live, change) for change in proposal.changes]
    _check_bounds(live, proposal.within, passages)
    return passages


@dataclass(frozen=True)
class WorkedOut:
    """The edit: a Yjs update on top of the document it was worked out for, and how the document reads then."""

    update: bytes
    projection: Projection


def work_out(live: LiveDocument, passages: Sequence[Passage], root: str = "prosemirror") -> WorkedOut:
    """The edit that replaces the passages, and nothing else.

    Raises `Refusal`: `MARKDOWN_UNSUPPORTED` for a replacement the document cannot hold, `OUTSIDE_ALLOWED_RANGES` for
    one that would change how the text around it reads.
    """
    doc: Doc[Any] = Doc()
    doc.apply_update(live.update)
    before = doc.get_state()
    index = DocumentIndex.build(live.update)
    document, projection = index.document(), project(index.document(), live.projection)
    for passage in sorted(passages, key=lambda one: one.start, reverse=True):
        wanted = parse(spliced(projection.markdown, [passage]), like=document)
        change = difference(document, wanted)
        if change is None:
            continue
        so_far = doc.get_state()
        apply_change(doc, change, root)
        index.apply(doc.get_update(so_far))
        document = index.document()
        projection = project(document, projection)
    _prove(live, passages, projection)
    return WorkedOut(doc.get_update(before), projection)


def spliced(markdown: str, passages: Sequence[Passage]) -> str:
    """The Markdown with the passages replaced."""
    for passage in sorted(passages, key=lambda one: one.start, reverse=True):
        markdown = markdown[: passage.start] + passage.replacement + markdown[passage.end :]
    return markdown


def _prove(live: LiveDocument, passages: Sequence[Passage], after: Projection) -> None:
    wanted = spliced(live.projection.markdown, passages)
    if after.markdown != project(parse(wanted)).markdown:
        raise Refusal(
            ErrorCode.MARKDOWN_UNSUPPORTED,
            "the document cannot be made to read as the change says, and as before everywhere else",
            subject=live.document_id,
            remedy="quote whole paragraphs, and write their Markdown out in full",
        )
    _check_surroundings(live, passages, after)


def _check_surroundings(live: LiveDocument, passages: Sequence[Passage], after: Projection) -> None:
    """What stands around the passages must be there afterwards, in order and byte for byte."""
    old, new = live.projection.markdown, after.markdown
    first, last = min(one.start for one in passages), max(one.end for one in passages)
    if not new.startswith(old[:first].rstrip()) or not new.rstrip().endswith(old[last:].strip()):
        raise Refusal(
            ErrorCode.OUTSIDE_ALLOWED_RANGES,
            "the change would alter what stands beside the passage, as an unclosed fence or a list mark does",
            subject=live.document_id,
            remedy="write Markdown that is complete in itself",
        )


def quoted(markdown: str, change: ProposedChange, document_id: str) -> Passage:
    """The one passage that a change quotes. Raises `Refusal`: `PLACEMENT_MISSING`, `PLACEMENT_AMBIGUOUS`."""
    match anchor(markdown, change.quote):
        case Found(start=start, end=end):
            return Passage(start, end, change.replacement)
        case Ambiguous(count=count):
            raise Refusal(
                ErrorCode.PLACEMENT_AMBIGUOUS,
                f"the quoted passage is in the document {count} times",
                subject=document_id,
                remedy="quote more of what stands around it",
            )
        case Missing():
            raise _missing(document_id, "the quoted passage is not in the document")


def _bound(live: LiveDocument, passage: Passage) -> BoundChange:
    start, end = live.projection.places(passage.start, passage.end)
    found = live.projection.markdown_range(start, end)
    if found is None or found[0] < passage.start or found[1] > passage.end or found[0] == found[1]:
        raise _missing(live.document_id, "the quote stands for no text, or cuts through the Markdown of a character")
    markdown = live.projection.markdown
    return BoundChange(
        start=base64.b64encode(live.index.encode(start, 0)).decode(),
        end=base64.b64encode(live.index.encode(end, -1)).decode(),
        lead=markdown[passage.start : found[0]],
        trail=markdown[found[1] : passage.end],
        passage_digest=_digest(live, passage),
        replacement=passage.replacement,
    )


def _now(live: LiveDocument, change: BoundChange) -> Passage:
    start = live.index.resolve(base64.b64decode(change.start))
    end = live.index.resolve(base64.b64decode(change.end))
    if isinstance(start, Nowhere) or isinstance(end, Nowhere):
        raise _missing(live.document_id, "the passage that was approved is not in the document any more")
    found = live.projection.markdown_range(start, end)
    passage = None
    if found is not None and found[0] >= len(change.lead):
        passage = Passage(found[0] - len(change.lead), found[1] + len(change.trail), change.replacement)
    if passage is None or _digest(live, passage) != change.passage_digest:
        raise _missing(live.document_id, "somebody has typed in the passage since")
    return passage


def _check_bounds(live: LiveDocument, within: DocumentTarget | None, passages: Sequence[Passage]) -> None:
    for one, other in pairwise(sorted(passages, key=lambda passage: passage.start)):
        if one.end > other.start:
            raise Refusal(
                ErrorCode.INVALID_INPUT,
                "two changes quote overlapping passages",
                subject=live.document_id,
                remedy="make one change of them",
            )
    if within is None:
        return
    target = resolve_target(live.index, live.text, within)
    if isinstance(target, Unresolved):
        raise Refusal(
            ErrorCode.TARGET_UNRESOLVED,
            f"the target that bounds the change is not in the document any more: {target.reason}",
            subject=live.document_id,
            remedy="choose the target again",
        )
    allowed = live.projection.markdown_range(target.range.start, target.range.end)
    if allowed is None or any(one.start < allowed[0] or one.end > allowed[1] for one in passages):
        raise Refusal(
            ErrorCode.OUTSIDE_ALLOWED_RANGES,
            "a quoted passage reaches beyond the allowed ranges",
            subject=live.document_id,
            remedy="keep to the target, or ask for a wider one",
        )


def _digest(live: LiveDocument, passage: Passage) -> str:
    return digest_bytes(live.projection.markdown[passage.start : passage.end].encode())


def _missing(document_id: str, detail: str) -> Refusal:
    return Refusal(
        ErrorCode.PLACEMENT_MISSING,
        detail,
        subject=document_id,
        remedy="draft the change again from the present text",
    )
