"""How blocks lie beside each other: what counts as a block, what would not be written, which lists are tight."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from counterfoil.models.documents.markdown.schema import CELLS, INLINE, LISTS, Block, block_of, order_of
from counterfoil.models.documents.nodes import Element, Node, TextNode


@dataclass(frozen=True, slots=True)
class Group:
    """A block, or a row of inline nodes that stands where a block was expected; `first` is its index."""

    first: int
    nodes: tuple[Node, ...]
    block: Element | None


def groups(children: Sequence[Node]) -> Iterator[Group]:
    """The children as blocks."""
    row: list[Node] = []
    for index, child in enumerate(children):
        if isinstance(child, TextNode) or block_of(child) in INLINE:
            row.append(child)
            continue
        if row:
            yield Group(index - len(row), tuple(row), None)
            row = []
        yield Group(index, (child,), child)
    if row:
        yield Group(len(children) - len(row), tuple(row), None)


def is_empty(nodes: Sequence[Node]) -> bool:
    """Whether nothing of the nodes would be written: paragraphs without content, and nodes of such alone."""
    for node in nodes:
        if isinstance(node, TextNode):
            if any(run.text for run in node.runs):
                return False
            continue
        block = block_of(node)
        if block is Block.HARD_BREAK:
            continue
        if block is Block.PARAGRAPH or (block is None and node.children):
            if not is_empty(node.children):
                return False
            continue
        if block is Block.TABLE and not any(cells_of(row) for row in node.children) and is_empty(node.children):
            continue
        return False
    return True


def is_tight(element: Element) -> bool:
    """Whether a list is written without empty lines between its items."""
    if all(isinstance(item, Element) and is_empty(item.children) for item in element.children):
        return True
    return element.attrs.get("tight") is not False and all(_is_simple(item) for item in element.children)


def _is_simple(item: Node) -> bool:
    """One paragraph, and perhaps lists that may follow it without an empty line."""
    if isinstance(item, TextNode):
        return False
    blocks = [group for group in groups(item.children) if not is_empty(group.nodes)]
    if not blocks:
        return True
    first = blocks[0].block
    if first is not None and block_of(first) is not Block.PARAGRAPH:
        return False
    lists = [group.block for group in blocks[1:]]
    return len(lists) <= 1 and all(one is not None and _may_follow(one) for one in lists)


def _may_follow(element: Element) -> bool:
    block = block_of(element)
    if block not in LISTS or not element.children or not is_tight(element):
        return False
    first = element.children[0]
    if isinstance(first, TextNode) or is_empty(first.children):
        return False
    return block is not Block.ORDERED_LIST or order_of(element) == 1


def cells_of(row: Node) -> list[Element]:
    """The cells of a table's row."""
    if isinstance(row, TextNode):
        return []
    return [cell for cell in row.children if isinstance(cell, Element) and block_of(cell) in CELLS]
