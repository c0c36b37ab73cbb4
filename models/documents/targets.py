"""Selections, document targets and action targets: three things that never turn into one another in silence.

A selection is what is highlighted now. A document target is the reusable Working on passage; it permits nothing. An
action target is the exact passage of one captured version, for one action, and is never changed.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, StringConstraints, field_validator

from counterfoil.models.common import SCHEMA_VERSION, Digest, Identifier, Stored, Text
from counterfoil.models.documents.anchoring import Found, How, Quote, anchor, quote_of
from counterfoil.models.documents.positions import Nowhere, Place
from counterfoil.models.documents.text import DocumentText, TextBlock, digest_text
from counterfoil.models.documents.yjs.index import DocumentIndex, decode_position
from counterfoil.models.errors import ErrorCode, Refusal

START_ASSOC = 0
END_ASSOC = -1
"""An end belongs to the character before it: a target does not grow when somebody types at its end."""
POSITION_LIMIT = 400

EncodedPosition = Annotated[str, StringConstraints(max_length=POSITION_LIMIT)]
"""A Yjs relative position as Yjs encodes it, in base64."""


class Granularity(StrEnum):
    """Whether a target's edges are characters or whole blocks."""

    CHARACTER = "character"
    BLOCK = "block"


class BlockHint(Stored):
    """Which block an edge was in."""

    id: Annotated[str, StringConstraints(max_length=60)] | None
    """Its identity in the document, `client:clock`."""
    name: Annotated[str, StringConstraints(max_length=200)]
    path: Annotated[tuple[int, ...], Field(max_length=64)]
    text_digest: Digest
    offset: Annotated[int, Field(ge=0)] = 0
    """The edge, in code points from the block's beginning."""
    unique: bool = False
    """Whether no other block had the same text when the target was made."""


class DocumentTarget(Stored):
    """A passage of a document that survives edits: where it is, and what is needed to find it again.

    References without a granularity are older ones, and mean blocks.
    """

    schema_version: Literal[1] = SCHEMA_VERSION
    document_id: Identifier
    start: EncodedPosition
    end: EncodedPosition
    quote: Quote
    distinct: bool = False
    """Whether the quote, with what stands around it, meant one place when the target was made. Where it did not, a
    place that it means later may be its twin's: then it repairs nothing.
    """
    heading_path: Annotated[tuple[Text, ...], Field(max_length=16)] = ()
    start_block: BlockHint | None = None
    end_block: BlockHint | None = None
    granularity: Granularity = Granularity.BLOCK
    text_digest: Digest

    @field_validator("start", "end")
    @classmethod
    def _is_a_position(cls, encoded: str) -> str:
        try:
            decode_position(base64.b64decode(encoded, validate=True))
        except (binascii.Error, Refusal) as error:
            raise ValueError(f"not an encoded Yjs relative position: {error}") from error
        return encoded


@dataclass(frozen=True, slots=True)
class Range:
    """From one place to another, not before it."""

    start: Place
    end: Place


@dataclass(frozen=True, slots=True)
class Selection:
    """What is highlighted in an editor now. It becomes a target only by `target_of`."""

    document_id: str
    anchor: Place
    head: Place
    """Where the selection ends; it may lie before `anchor`."""


class ActionTarget(Stored):
    """The passage that one action is about, in one captured version of the document."""

    schema_version: Literal[1] = SCHEMA_VERSION
    document_id: Identifier
    target: DocumentTarget
    generation: int
    snapshot_digest: Digest
    text_digest: Digest
    resolution: Identifier
    """How it was found in that version: `relative`, or by which repair."""
    markdown_start: Annotated[int, Field(ge=0)]
    markdown_end: Annotated[int, Field(ge=0)]
    """In code points of the captured Markdown."""


class Repair(StrEnum):
    """How a target was found again whose positions no longer do."""

    QUOTE_EXACT = "quote_exact"
    QUOTE_WHITESPACE = "quote_whitespace"
    BLOCK = "block"


class Reason(StrEnum):
    """Why a target cannot be resolved."""

    MALFORMED = "malformed"
    MISSING = "missing"
    AMBIGUOUS = "ambiguous"


@dataclass(frozen=True, slots=True)
class Resolved:
    """The positions still hold, and the text between them is the target's."""

    range: Range
    text: str


@dataclass(frozen=True, slots=True)
class Repaired:
    """The positions do not hold any more; the passage was found otherwise, and its text is the target's."""

    range: Range
    text: str
    how: Repair


@dataclass(frozen=True, slots=True)
class Unresolved:
    """The target is not in the document, or not certainly: the action is blocked, and a person chooses again."""

    reason: Reason


Resolution: TypeAlias = Resolved | Repaired | Unresolved


def target_of(index: DocumentIndex, text: DocumentText, selection: Selection) -> DocumentTarget:
    """A target with exact character endpoints. Raises `Refusal` (`TARGET_UNRESOLVED`) for an empty selection."""
    anchor_at, head_at = text.offset_of(selection.anchor), text.offset_of(selection.head)
    if anchor_at is None or head_at is None or anchor_at == head_at:
        raise _no_target(selection.document_id, "nothing is selected")
    start, end = min(anchor_at, head_at), max(anchor_at, head_at)
    return _target(index, text, selection.document_id, start, end, Granularity.CHARACTER)


def block_target_of(
    index: DocumentIndex, text: DocumentText, document_id: str, blocks: Sequence[TextBlock]
) -> DocumentTarget:
    """A target of whole consecutive blocks. Raises `Refusal` (`TARGET_UNRESOLVED`) where they hold no text."""
    if not blocks or blocks[0].start == blocks[-1].end:
        raise _no_target(document_id, "the blocks hold no text")
    return _target(index, text, document_id, blocks[0].start, blocks[-1].end, Granularity.BLOCK)


def resolve_target(index: DocumentIndex, text: DocumentText, target: DocumentTarget) -> Resolution:
    """Where the target is now, or why that is not certain. Its text is always the target's: it is never widened."""
    try:
        found = _by_position(index, text, target)
    except (binascii.Error, Refusal):
        return Unresolved(Reason.MALFORMED)
    if found is not None:
        return Resolved(*found)
    anchored = anchor(text.text, target.quote)
    if isinstance(anchored, Found) and target.distinct:
        repaired = _checked(text, target, anchored.start, anchored.end, tolerant=anchored.how is How.WHITESPACE)
        if repaired is not None:
            how = Repair.QUOTE_EXACT if anchored.how is How.EXACT else Repair.QUOTE_WHITESPACE
            return Repaired(*repaired, how)
    by_block = _by_block(text, target)
    if by_block is not None:
        return Repaired(*by_block, Repair.BLOCK)
    return Unresolved(Reason.MISSING if not _is_ambiguous(text, target) else Reason.AMBIGUOUS)


def _target(
    index: DocumentIndex, text: DocumentText, document_id: str, start: int, end: int, granularity: Granularity
) -> DocumentTarget:
    first, last = text.place_of(start), text.place_of(end, forward=False)
    quote = quote_of(text.text, start, end)
    return DocumentTarget(
        document_id=document_id,
        start=base64.b64encode(index.encode(first, START_ASSOC)).decode(),
        end=base64.b64encode(index.encode(last, END_ASSOC)).decode(),
        quote=quote,
        distinct=anchor(text.text, quote) == Found(start, end, How.EXACT),
        heading_path=text.headings_of(start),
        start_block=_hint(text, start),
        end_block=_hint(text, end),
        granularity=granularity,
        text_digest=digest_text(text.text[start:end]),
    )


def _by_position(index: DocumentIndex, text: DocumentText, target: DocumentTarget) -> tuple[Range, str] | None:
    start = index.resolve(base64.b64decode(target.start))
    end = index.resolve(base64.b64decode(target.end))
    if isinstance(start, Nowhere) or isinstance(end, Nowhere):
        return None
    first, last = text.offset_of(start), text.offset_of(end)
    if first is None or last is None or not first < last:
        return None
    if first == 0 and target.granularity is Granularity.CHARACTER and not _is_proved(text, target, first, last):
        # A stale reference can end up at the first text position after blocks were reordered.
        return None
    if target.granularity is Granularity.BLOCK and not _is_whole(text, first, last):
        return None
    return _checked(text, target, first, last)


def _is_proved(text: DocumentText, target: DocumentTarget, start: int, end: int) -> bool:
    """Whether the blocks at both edges are the very ones that the target was made in."""
    if target.start_block is None or target.end_block is None:
        return False
    here = (_identity(text, start), _identity(text, end))
    return None not in here and here == (target.start_block.id, target.end_block.id)


def _identity(text: DocumentText, offset: int) -> str | None:
    block = text.block_at(offset)
    return None if block.id is None else str(block.id)


def _is_whole(text: DocumentText, start: int, end: int) -> bool:
    blocks = text.blocks_between(start, end)
    return bool(blocks) and (blocks[0].start, blocks[-1].end) == (start, end)


def _checked(
    text: DocumentText, target: DocumentTarget, start: int, end: int, *, tolerant: bool = False
) -> tuple[Range, str] | None:
    """The range, if its text is the target's; white space aside where it was found so."""
    found = text.text[start:end]
    same = _reads_alike(found, target.quote.exact) if tolerant else digest_text(found) == target.text_digest
    if not same or (target.granularity is Granularity.BLOCK and not _is_whole(text, start, end)):
        return None
    try:
        return Range(text.place_of(start), text.place_of(end, forward=False)), found
    except ValueError:
        return None


def _reads_alike(found: str, quoted: str) -> bool:
    """The same words, white space aside; but a line end is a block's end, and no white space."""
    return found.split() == quoted.split() and found.count("\n") == quoted.count("\n")


def _by_block(text: DocumentText, target: DocumentTarget) -> tuple[Range, str] | None:
    """The passage in its own block, moved as a whole, if the block's text is in the document once."""
    hint, last = target.start_block, target.end_block
    if hint is None or last is None or not hint.unique:
        return None
    same = _reading(text, hint.text_digest)
    if len(same) != 1:
        return None
    start = same[0].start + hint.offset
    return _checked(text, target, start, start + len(target.quote.exact))


def _is_ambiguous(text: DocumentText, target: DocumentTarget) -> bool:
    return text.text.count(target.quote.exact) > 1


def _hint(text: DocumentText, offset: int) -> BlockHint:
    block = text.block_at(offset)
    digest = digest_text(text.text[block.start : block.end])
    return BlockHint(
        id=_identity(text, offset),
        name=block.element.name,
        path=block.path,
        text_digest=digest,
        offset=offset - block.start,
        unique=len(_reading(text, digest)) == 1,
    )


def _reading(text: DocumentText, digest: str) -> list[TextBlock]:
    """The blocks whose text this is the digest of."""
    return [text.blocks[index] for index in text.blocks_by_digest.get(digest, ())]


def _no_target(document_id: str, detail: str) -> Refusal:
    return Refusal(
        ErrorCode.TARGET_UNRESOLVED, detail, subject=document_id, remedy="select the passage, and set it again"
    )
