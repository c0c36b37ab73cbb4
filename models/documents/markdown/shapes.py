"""What a reader of the Markdown can tell of nodes: two that have the same shape read the same."""

from __future__ import annotations

from collections.abc import Hashable

from counterfoil.models.documents.markdown.blocks import alignment_of
from counterfoil.models.documents.markdown.reading import flat
from counterfoil.models.documents.markdown.schema import (
    Block,
    Style,
    attribute,
    block_of,
    checked_of,
    level_of,
    order_of,
    style_of,
)
from counterfoil.models.documents.nodes import Element, Mark, Node, TextNode


def shape(node: Node) -> Hashable:
    """What can be told of a node, in a form that compares."""
    if isinstance(node, TextNode):
        return ("text", _flat(node))
    block = block_of(node)
    said: Hashable = None
    match block:
        case Block.HEADING:
            said = level_of(node)
        case Block.ORDERED_LIST:
            said = order_of(node)
        case Block.LIST_ITEM | Block.TASK_ITEM:
            said = checked_of(node)
        case Block.CODE_BLOCK:
            said = str(attribute(node, "params", "language") or "")
        case Block.IMAGE:
            said = tuple(str(attribute(node, name) or "") for name in ("src", "alt", "title"))
        case Block.TABLE_CELL | Block.TABLE_HEADER:
            said = alignment_of(node)
    return (_SAME.get(block, block) if block is not None else node.name, said, tuple(map(shape, node.children)))


def reads_alike(one: Node, other: Node) -> bool:
    """Whether two nodes read the same."""
    return one is other or shape(one) == shape(other)


def is_same_kind(one: Element, other: Element) -> bool:
    """Whether two nodes are the same but for their content."""
    return shape(Element(one.name, (), one.attrs)) == shape(Element(other.name, (), other.attrs))


_SAME = {Block.TASK_LIST: Block.BULLET_LIST, Block.TASK_ITEM: Block.LIST_ITEM}


def _flat(node: TextNode) -> tuple[Hashable, ...]:
    pieces = []
    for run in node.runs:
        styles: dict[Style, Mark] = {}
        for mark in run.marks:
            style = style_of(mark)
            if style is not None:
                styles[style] = mark
        pieces.append((run.text, None, styles))
    return tuple(flat(pieces))
