"""The canonical Markdown of a document, with a position map both ways.

The same document gives the same bytes in every process. Offsets in the Markdown count code points; `Unit` converts.
A block is written by itself, so that after a small edit only the blocks that changed are written again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from enum import StrEnum
from functools import cached_property

from counterfoil.models.common import digest_bytes
from counterfoil.models.documents.markdown.blocks import Chunk, write_block
from counterfoil.models.documents.markdown.escaping import offsets
from counterfoil.models.documents.markdown.inline import Span
from counterfoil.models.documents.markdown.layout import Group, groups, is_empty
from counterfoil.models.documents.markdown.losses import Loss, LossKind
from counterfoil.models.documents.nodes import Element, ItemId, Node, utf16_length
from counterfoil.models.documents.positions import Branch, Place

BETWEEN = "\n\n"


class Unit(StrEnum):
    """What an offset counts."""

    CODE_POINTS = "code_points"
    UTF16 = "utf16"
    BYTES = "bytes"


class Projection:
    """A document as Markdown. Made by `project`."""

    def __init__(self, document: Element, chunks: list[tuple[Group, bool, Chunk | None]]) -> None:
        self.document = document
        self._chunks = chunks
        written = [chunk for _, _, chunk in chunks if chunk is not None]
        self.markdown = BETWEEN.join(chunk.text for chunk in written) + ("\n" if written else "")
        self._starts: list[int] = []
        self._written = written
        at = 0
        for chunk in written:
            self._starts.append(at)
            at += len(chunk.text) + len(BETWEEN)

    @cached_property
    def encoded(self) -> bytes:
        """The Markdown in UTF-8."""
        return self.markdown.encode()

    @cached_property
    def digest(self) -> str:
        """Of the Markdown in UTF-8."""
        return digest_bytes(self.encoded)

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What the Markdown does not say."""
        skipped = [
            Loss(LossKind.STRUCTURE, group.nodes[0].id, "an empty paragraph")
            for group, _, chunk in self._chunks
            if chunk is None
        ]
        return tuple(skipped + [loss for chunk in self._written for loss in chunk.losses])

    def offset_of(self, place: Place, *, forward: bool = True) -> int | None:
        """Where a place is in the Markdown; None for a place that the document does not have.

        Between two differently marked characters there are delimiters: `forward` is after them, else before.
        """
        node = self._nodes.get(place.branch)
        if node is None:
            return None
        if isinstance(node, Element):
            return self._among_children(node, place.offset, forward)
        assert place.branch is not None
        index, (start, _) = self._extents.get(place.branch, (-1, (0, 0)))
        if index < 0:
            return start
        base, spans = self._starts[index], [span for span in self._written[index].spans if span.branch == node.id]
        return base + (_offset_in(spans, place.offset, forward) if spans else start)

    def place_of(self, offset: int, *, forward: bool = True) -> Place:
        """The place at an offset: inside the text there, else at the nearest text that follows (or comes before)."""
        return self._place(offset, forward)

    def markdown_range(self, start: Place, end: Place) -> tuple[int, int] | None:
        """The narrowest stretch of Markdown with all that is between two places; None where one is not there."""
        first, last = self.offset_of(start), self.offset_of(end, forward=False)
        if first is None or last is None:
            return None
        return (first, max(first, last))

    def places(self, start: int, end: int) -> tuple[Place, Place]:
        """The places around what a stretch of Markdown stands for."""
        first = self._place(start, True)
        last = self._place(end, False)
        return (first, first) if start >= end else (first, last)

    def converted(self, offset: int, unit: Unit) -> int:
        """A code-point offset in another unit."""
        return _length(self.markdown[:offset], unit)

    def code_points(self, offset: int, unit: Unit) -> int:
        """An offset of another unit in code points. Raises ValueError for one inside a character."""
        if unit is Unit.CODE_POINTS:
            return offset
        encoding, width = ("utf-16-le", 2) if unit is Unit.UTF16 else ("utf-8", 1)
        encoded = self.markdown.encode(encoding)[: offset * width]
        text = encoded.decode(encoding, "ignore")
        if _length(text, unit) != offset:
            raise ValueError(f"{offset} is inside a character, or beyond the end")
        return len(text)

    @cached_property
    def _extents(self) -> dict[ItemId, tuple[int, tuple[int, int]]]:
        """Each node's chunk, and where in it it is; -1 for one that is not written at all."""
        found: dict[ItemId, tuple[int, tuple[int, int]]] = {}
        index, at = 0, 0
        for group, _, chunk in self._chunks:
            if chunk is None:
                here = (-1, (at, at))
                for node in group.nodes:
                    if node.id is not None:
                        found[node.id] = here
                    if isinstance(node, Element):
                        found |= {child.id: here for child in node.descendants() if child.id is not None}
                continue
            for branch, extent in chunk.extents.items():
                found[branch] = (index, extent)
            index += 1
            at = self._starts[index] if index < len(self._starts) else len(self.markdown)
        return found

    @cached_property
    def _nodes(self) -> dict[Branch, Node]:
        """All nodes, by their branch."""
        nodes: dict[Branch, Node] = {node.id: node for node in self.document.descendants() if node.id is not None}
        nodes[None] = self.document
        return nodes

    def _among_children(self, element: Element, child: int, forward: bool) -> int | None:
        """The place before a child, or (not `forward`) after the one before it."""
        children = element.children
        if not 0 <= child <= len(children):
            return None
        if child < len(children) and (forward or child == 0):
            return self._edge_of(children[child].id, 0)
        if child > 0:
            return self._edge_of(children[child - 1].id, 1)
        return 0 if element.id is None else self._edge_of(element.id, 1)

    def _edge_of(self, branch: Branch, which: int) -> int | None:
        if branch is None:
            return None
        index, extent = self._extents.get(branch, (-1, (0, 0)))
        return extent[which] if index < 0 else self._starts[index] + extent[which]

    def _place(self, offset: int, forward: bool) -> Place:
        if not self._written:
            return Place(None, 0)
        index = max(bisect_right(self._starts, offset) - 1, 0)
        while True:
            chunk, base = self._written[index], self._starts[index]
            found = _span_at(chunk.spans, offset - base, forward)
            if found is not None:
                return _place_in(found, offset - base)
            index += 1 if forward else -1
            if not 0 <= index < len(self._written):
                break
        if forward:
            return Place(None, len(self.document.children))
        return Place(None, 0)


def project(document: Element, previous: Projection | None = None) -> Projection:
    """The document's Markdown; with a `previous` projection, what has not changed since is taken from it."""
    known: dict[tuple[int, bool], tuple[Group, Chunk]] = {}
    if previous is not None:
        known = {
            (id(group.block), other): (group, chunk)
            for group, other, chunk in previous._chunks
            if chunk is not None and group.block is not None
        }
    chunks: list[tuple[Group, bool, Chunk | None]] = []
    after_list = False
    for group in groups(document.children):
        is_list = after_list and group.block is not None and group.block.name in _LIST_NAMES
        kept = known.get((id(group.block), is_list)) if group.block is not None else None
        if kept is not None:
            chunk: Chunk | None = kept[1]
        elif is_empty(group.nodes):
            chunks.append((group, False, None))
            continue
        else:
            chunk = write_block(group, document.id, after_list=is_list)
        assert chunk is not None
        chunks.append((group, is_list, chunk))
        after_list = chunk.is_list and not is_list
    return Projection(document, chunks)


_LIST_NAMES = frozenset({"bullet_list", "bulletList", "ordered_list", "orderedList", "task_list", "taskList"})


def _offset_in(spans: list[Span], offset: int, forward: bool) -> int:
    """Where an offset of a branch is, by the branch's own spans."""
    before = spans[0].start
    for span in spans:
        length = utf16_length(span.raw)
        if forward and span.offset == offset:
            return span.start
        if span.offset > offset:
            return span.start if forward else before
        if offset < span.offset + length or (offset == span.offset + length and not forward):
            return span.start + _written_at(span, offset - span.offset)
        before = span.end
    return before


def _written_at(span: Span, offset_utf16: int) -> int:
    if span.raw == span.written and span.raw.isascii():
        return offset_utf16
    characters = len(span.raw.encode("utf-16-le", "surrogatepass")[: 2 * offset_utf16].decode("utf-16-le", "ignore"))
    return characters if span.raw == span.written else offsets(span.raw, span.written)[characters]


def _span_at(spans: list[Span], offset: int, forward: bool) -> Span | None:
    """The span that holds an offset, or the nearest one after it (before it, where not `forward`)."""
    if forward:
        for span in spans[bisect_right([one.end for one in spans], offset) :]:
            if span.end > span.start:
                return span
        return None
    for span in reversed(spans[: bisect_left([one.start for one in spans], offset)]):
        if span.end > span.start:
            return span
    return None


def _place_in(span: Span, offset: int) -> Place:
    if not span.raw:
        return Place(span.branch, span.offset + (0 if offset <= span.start else 1))
    within = min(max(offset - span.start, 0), span.end - span.start)
    if span.raw == span.written:
        raw = span.raw[:within]
    else:
        raw = (
            span.raw[: bisect_right(offsets(span.raw, span.written)[:-1], within) - 1]
            if within < span.end - span.start
            else span.raw
        )
    return Place(span.branch, span.offset + utf16_length(raw))


def _length(text: str, unit: Unit) -> int:
    match unit:
        case Unit.CODE_POINTS:
            return len(text)
        case Unit.UTF16:
            return utf16_length(text)
        case Unit.BYTES:
            return len(text.encode())
