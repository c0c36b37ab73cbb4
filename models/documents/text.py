"""A document's plain text, with a map to its places both ways: what targets quote, and what their digests are of.

Textblocks are lines. A hard break is a line end too; an image or any other inline node without text is U+FFFC.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

from counterfoil.models.common import digest_bytes
from counterfoil.models.documents.markdown.schema import BLOCKS, INLINE, Block, level_of
from counterfoil.models.documents.nodes import Element, ItemId, Node, TextNode, utf16_length
from counterfoil.models.documents.positions import Place

OBJECT = "\ufffc"


@dataclass(slots=True)
class TextBlock:
    """A node that holds text: where its line is, in code points, and where it stands in the document."""

    element: Element
    path: tuple[int, ...]
    start: int
    end: int
    ancestors: tuple[Element, ...]
    """From the document's child down to the block's parent."""

    @property
    def id(self) -> ItemId | None:
        return self.element.id


@dataclass(slots=True)
class _Piece:
    """A stretch of the text: a text node, or one inline node among its siblings."""

    start: int
    text: str
    branch: ItemId | None
    index: int | None


class DocumentText:
    """The text of one state of a document."""

    def __init__(self, document: Element) -> None:
        self._parts: list[str] = []
        self._at = 0
        self._pieces: list[_Piece] = []
        self.blocks: list[TextBlock] = []
        self._walk(document, (), ())
        self.text = "".join(self._parts)
        self._starts = [piece.start for piece in self._pieces]
        self._block_starts = [block.start for block in self.blocks]

    @classmethod
    def of(cls, document: Element) -> DocumentText:
        """The text of a document."""
        return cls(document)

    def offset_of(self, place: Place) -> int | None:
        """Where a place is, in code points; None for one that is not in the text."""
        known = self._of_branch.get(place.branch) if place.branch is not None else None
        if known is not None:
            piece = self._pieces[known]
            return piece.start + _code_points(piece.text, place.offset)
        return self._child_offsets.get((place.branch, place.offset))

    def place_of(self, offset: int, *, forward: bool = True) -> Place:
        """The place at an offset; between two pieces, the beginning of the next or (not `forward`) the end of the last.

        Raises ValueError for an offset that is in no block.
        """
        index = bisect_right(self._starts, offset) - 1
        if not forward and index > 0 and self._starts[index] == offset and self._ends_at(index - 1) == offset:
            index -= 1
        if index < 0 or offset > self._ends_at(index):
            raise ValueError(f"there is no text at {offset}")
        piece = self._pieces[index]
        if piece.index is None:
            return Place(piece.branch, utf16_length(piece.text[: offset - piece.start]))
        return Place(piece.branch, piece.index + offset - piece.start)

    def block_at(self, offset: int) -> TextBlock:
        """The textblock at an offset. Raises ValueError where there is none."""
        index = bisect_right(self._block_starts, offset) - 1
        if index < 0:
            raise ValueError("the document has no text")
        return self.blocks[index]

    def blocks_between(self, start: int, end: int) -> list[TextBlock]:
        """The textblocks that a range touches."""
        first = bisect_right(self._block_starts, start) - 1
        last = bisect_right(self._block_starts, max(start, end - 1) if end > start else start) - 1
        return self.blocks[max(first, 0) : last + 1]

    def headings_of(self, offset: int) -> tuple[str, ...]:
        """The headings above a place, outermost first."""
        standing: list[tuple[int, str]] = []
        for block in self.blocks[: bisect_right(self._block_starts, offset)]:
            if BLOCKS.get(block.element.name) is not Block.HEADING:
                continue
            level = level_of(block.element)
            while standing and standing[-1][0] >= level:
                standing.pop()
            standing.append((level, self.text[block.start : block.end]))
        return tuple(text[:200] for _, text in standing)

    @cached_property
    def blocks_by_digest(self) -> dict[str, list[int]]:
        """The indexes of blocks, by the digest of their text."""
        found: dict[str, list[int]] = {}
        for index, block in enumerate(self.blocks):
            found.setdefault(digest_text(self.text[block.start : block.end]), []).append(index)
        return found

    @cached_property
    def _of_branch(self) -> dict[ItemId, int]:
        return {
            piece.branch: index
            for index, piece in enumerate(self._pieces)
            if piece.index is None and piece.branch is not None
        }

    @cached_property
    def _child_offsets(self) -> dict[tuple[ItemId | None, int], int]:
        """Places among children: before each child of each block, and at its end."""
        found: dict[tuple[ItemId | None, int], int] = {}
        for block in self.blocks:
            at = block.start
            for index, child in enumerate(block.element.children):
                found[block.id, index] = at
                at += len(child.text) if isinstance(child, TextNode) else 1
            found[block.id, len(block.element.children)] = at
            for parent, child in zip(block.ancestors, (*block.ancestors[1:], block.element), strict=True):
                index = parent.children.index(child)
                found.setdefault((parent.id, index), block.start)
                found[parent.id, index + 1] = block.end
        return found

    def _ends_at(self, index: int) -> int:
        piece = self._pieces[index]
        return piece.start + len(piece.text)

    def _walk(self, element: Element, path: tuple[int, ...], ancestors: tuple[Element, ...]) -> None:
        if (element.children and all(_is_inline(child) for child in element.children)) or _is_textblock(element):
            self._block(element, path, ancestors)
            return
        for index, child in enumerate(element.children):
            if isinstance(child, TextNode) or _is_inline(child):
                # Text that stands among blocks is a block by itself.
                self._block(Element(element.name, (child,), {}, element.id), (*path, index), ancestors)
            else:
                self._walk(child, (*path, index), (*ancestors, element))

    def _block(self, element: Element, path: tuple[int, ...], ancestors: tuple[Element, ...]) -> None:
        if self.blocks:
            self._put("\n")
        start = self._at
        for index, child in enumerate(element.children):
            if isinstance(child, TextNode):
                self._pieces.append(_Piece(self._at, child.text, child.id, None))
                self._put(child.text)
            else:
                mark = "\n" if BLOCKS.get(child.name) is Block.HARD_BREAK else OBJECT
                self._pieces.append(_Piece(self._at, mark, element.id, index))
                self._put(mark)
        if not element.children:
            self._pieces.append(_Piece(self._at, "", element.id, 0))
        self.blocks.append(TextBlock(element, path, start, self._at, ancestors))

    def _put(self, text: str) -> None:
        self._parts.append(text)
        self._at += len(text)


def digest_text(text: str) -> str:
    """The digest of a text, half characters and all."""
    return digest_bytes(text.encode("utf-8", "surrogatepass"))


def _is_inline(node: Node) -> bool:
    return isinstance(node, TextNode) or BLOCKS.get(node.name) in INLINE


def _is_textblock(element: Element) -> bool:
    return BLOCKS.get(element.name) in (Block.PARAGRAPH, Block.HEADING, Block.CODE_BLOCK)


def _code_points(text: str, offset_utf16: int) -> int:
    if text.isascii():
        return min(offset_utf16, len(text))
    return len(text.encode("utf-16-le", "surrogatepass")[: 2 * offset_utf16].decode("utf-16-le", "ignore"))
