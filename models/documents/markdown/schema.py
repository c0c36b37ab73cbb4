"""Which nodes and marks Markdown has words for, under the names that ProseMirror's and Tiptap's schemas give them."""

from __future__ import annotations

from enum import StrEnum

from counterfoil.models.documents.nodes import Element, Json, Mark, TextNode


class Block(StrEnum):
    """Nodes, by the names of ProseMirror's own Markdown schema."""

    PARAGRAPH = "paragraph"
    HEADING = "heading"
    BLOCKQUOTE = "blockquote"
    BULLET_LIST = "bullet_list"
    ORDERED_LIST = "ordered_list"
    LIST_ITEM = "list_item"
    TASK_LIST = "task_list"
    TASK_ITEM = "task_item"
    CODE_BLOCK = "code_block"
    HORIZONTAL_RULE = "horizontal_rule"
    IMAGE = "image"
    HARD_BREAK = "hard_break"
    TABLE = "table"
    TABLE_ROW = "table_row"
    TABLE_HEADER = "table_header"
    TABLE_CELL = "table_cell"


class Style(StrEnum):
    """Marks, likewise."""

    LINK = "link"
    STRONG = "strong"
    EM = "em"
    STRIKE = "strike"
    CODE = "code"


BLOCKS: dict[str, Block] = {block.value: block for block in Block} | {
    "bulletList": Block.BULLET_LIST,
    "orderedList": Block.ORDERED_LIST,
    "listItem": Block.LIST_ITEM,
    "taskList": Block.TASK_LIST,
    "taskItem": Block.TASK_ITEM,
    "codeBlock": Block.CODE_BLOCK,
    "horizontalRule": Block.HORIZONTAL_RULE,
    "hardBreak": Block.HARD_BREAK,
    "tableRow": Block.TABLE_ROW,
    "tableHeader": Block.TABLE_HEADER,
    "tableCell": Block.TABLE_CELL,
}
STYLES: dict[str, Style] = {style.value: style for style in Style} | {
    "bold": Style.STRONG,
    "italic": Style.EM,
    "emphasis": Style.EM,
    "strikethrough": Style.STRIKE,
    "s": Style.STRIKE,
}

_CANONICAL = frozenset(block.value for block in Block)
LISTS = frozenset({Block.BULLET_LIST, Block.ORDERED_LIST, Block.TASK_LIST})
INLINE = frozenset({Block.IMAGE, Block.HARD_BREAK})
TEXTBLOCKS = frozenset({Block.PARAGRAPH, Block.HEADING})
CELLS = frozenset({Block.TABLE_HEADER, Block.TABLE_CELL})

_SPELLED: dict[Block, frozenset[str]] = {
    Block.HEADING: frozenset({"level"}),
    Block.BULLET_LIST: frozenset({"tight", "bullet"}),
    Block.ORDERED_LIST: frozenset({"order", "start", "tight", "type"}),
    Block.LIST_ITEM: frozenset({"checked"}),
    Block.TASK_ITEM: frozenset({"checked"}),
    Block.CODE_BLOCK: frozenset({"params", "language"}),
    Block.IMAGE: frozenset({"src", "alt", "title"}),
    Block.TABLE_HEADER: frozenset({"align", "alignment", "colspan", "rowspan"}),
    Block.TABLE_CELL: frozenset({"align", "alignment", "colspan", "rowspan"}),
}


def block_of(element: Element) -> Block | None:
    """What an element is; None for one that Markdown has no word for."""
    return BLOCKS.get(element.name)


def unspelled(element: Element, block: Block) -> list[str]:
    """The attributes that Markdown does not say."""
    spelled = _SPELLED.get(block, frozenset())
    return [
        name for name, value in sorted(element.attrs.items()) if name not in spelled and value not in (None, "", False)
    ]


def attribute(element: Element, *names: str) -> Json:
    """The first of these attributes that has a value."""
    for name in names:
        value = element.attrs.get(name)
        if value is not None:
            return value
    return None


def level_of(element: Element) -> int:
    """A heading's level, from one to six."""
    level = attribute(element, "level")
    return min(max(level, 1), 6) if isinstance(level, int) else 1


def order_of(element: Element) -> int:
    """The number an ordered list begins with."""
    order = attribute(element, "order", "start")
    return order if isinstance(order, int) and 0 <= order <= 999_999_999 else 1


def checked_of(element: Element) -> bool | None:
    """Whether a task is done; None for an item that is no task."""
    checked = element.attrs.get("checked")
    if block_of(element) is Block.TASK_ITEM:
        return checked in (True, "true")
    return checked in (True, "true") if checked is not None else None


class Names:
    """The names that a document's schema gives its nodes and marks."""

    def __init__(self, like: Element | None = None) -> None:
        self._blocks = {block: block.value for block in Block}
        self._styles = {style: style.value for style in Style}
        seen_blocks, seen_styles = _seen(like)
        if seen_blocks - _CANONICAL or seen_styles & {"bold", "italic"}:
            self._blocks |= {block: name for name, block in BLOCKS.items() if name not in _CANONICAL}
            self._styles |= {Style.STRONG: "bold", Style.EM: "italic"}
        self._blocks |= {BLOCKS[name]: name for name in sorted(seen_blocks)}
        self._styles |= {STYLES[name]: name for name in sorted(seen_styles)}
        self.tiptap = self._blocks[Block.BULLET_LIST] == "bulletList"

    def block(self, block: Block) -> str:
        """What the schema calls a node."""
        return self._blocks[block]

    def style(self, style: Style) -> str:
        """What the schema calls a mark."""
        return self._styles[style]


def _seen(like: Element | None) -> tuple[set[str], set[str]]:
    blocks: set[str] = set()
    styles: set[str] = set()
    if like is not None:
        for node in like.descendants():
            if isinstance(node, TextNode):
                styles |= {mark.name for run in node.runs for mark in run.marks}
            else:
                blocks.add(node.name)
    return blocks & BLOCKS.keys(), styles & STYLES.keys()


def style_of(mark: Mark) -> Style | None:
    """What a mark is; None for one that Markdown has no word for."""
    return STYLES.get(mark.name)
