"""Writes blocks: paragraphs, headings, quotations, lists, code, tables; each line with what stands before it.

One block at a time: what a block reads as depends on its own content, and on which mark a list needs to be told from
the list before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from counterfoil.models.documents.markdown.inline import Inline, Span, inline
from counterfoil.models.documents.markdown.layout import Group, cells_of, groups, is_empty, is_tight
from counterfoil.models.documents.markdown.losses import Loss, LossKind
from counterfoil.models.documents.markdown.pieces import Setting
from counterfoil.models.documents.markdown.schema import (
    LISTS,
    TEXTBLOCKS,
    Block,
    attribute,
    block_of,
    checked_of,
    level_of,
    order_of,
    unspelled,
)
from counterfoil.models.documents.nodes import Element, ItemId, Node, TextNode, utf16_length

RULE = "___"
LAST_NUMBER = 999_999_999


@dataclass(slots=True)
class Chunk:
    """One block of the document as it is written. Offsets count from its own beginning."""

    text: str = ""
    spans: list[Span] = field(default_factory=list)
    extents: dict[ItemId, tuple[int, int]] = field(default_factory=dict)
    """Where each node in it begins and ends."""
    losses: list[Loss] = field(default_factory=list)
    is_list: bool = False


def write_block(group: Group, parent: ItemId | None, *, after_list: bool) -> Chunk:
    """One block of the document; `after_list`: it must be told from a list just before it."""
    writer = _Writer()
    writer.block(group, parent, "", other_mark=after_list)
    return writer.finished(group)


class _Writer:
    def __init__(self) -> None:
        self._parts: list[str] = []
        self._at = 0
        self._chunk = Chunk()

    def finished(self, group: Group) -> Chunk:
        self._chunk.text = "".join(self._parts)
        self._chunk.is_list = group.block is not None and block_of(group.block) in LISTS
        return self._chunk

    def block(self, group: Group, parent: ItemId | None, prefix: str, *, other_mark: bool = False) -> None:
        """Write a block. The line it begins on has been begun; its other lines begin with `prefix`."""
        start = self._at
        if group.block is None:
            self._inline(inline(group.nodes, Setting(parent=parent, first=group.first)), prefix)
        else:
            self._element(group.block, prefix, other_mark)
            if group.block.id is not None:
                self._chunk.extents[group.block.id] = (start, self._at)
            if block_of(group.block) is Block.HORIZONTAL_RULE:
                self._chunk.spans.append(Span(start, self._at, parent, group.first, node=group.block.id))
        for node in group.nodes:
            if isinstance(node, TextNode) and node.id is not None:
                self._chunk.extents[node.id] = (start, self._at)

    def _element(self, element: Element, prefix: str, other_mark: bool) -> None:
        block = block_of(element)
        if block is not None:
            self._lose(element, *unspelled(element, block))
        match block:
            case Block.PARAGRAPH:
                self._textblock(element, prefix)
            case Block.HEADING:
                self._put("#" * level_of(element))
                written = inline(element.children, Setting(heading=True, parent=element.id))
                self._put(" " if written.text else "")
                self._inline(written, prefix)
                self._note_texts(element)
            case Block.BLOCKQUOTE:
                self._container(element, "> ", prefix + "> ", prefix)
            case Block.BULLET_LIST | Block.TASK_LIST | Block.ORDERED_LIST:
                self._list(element, block, prefix, other_mark)
            case Block.CODE_BLOCK:
                self._code(element, prefix)
            case Block.HORIZONTAL_RULE:
                self._put(RULE)
            case Block.TABLE if any(cells_of(row) for row in element.children):
                self._table(element, prefix)
            case _:
                self._unknown(element, prefix)

    def _unknown(self, element: Element, prefix: str) -> None:
        """A node that Markdown has no word for, or that stands where it cannot: its content is kept."""
        self._chunk.losses.append(Loss(LossKind.NODE, element.id, f"the node '{element.name}' has no spelling here"))
        self._children(element, prefix)

    def _textblock(self, element: Element, prefix: str) -> None:
        self._inline(inline(element.children, Setting(parent=element.id)), prefix)
        self._note_texts(element)

    def _note_texts(self, element: Element) -> None:
        for child in element.children:
            if child.id is not None and child.id not in self._chunk.extents:
                self._chunk.extents[child.id] = (self._at, self._at)

    def _container(self, element: Element, mark: str, inner: str, prefix: str) -> None:
        if is_empty(element.children):
            self._put(mark.rstrip())
            self._skip(element.children, implied=True)
            return
        self._put(mark)
        self._children(element, inner)

    def _children(self, element: Element, prefix: str, *, tight: bool = False) -> None:
        """The blocks in an element, with an empty line between each two, or without."""
        begun, after_list = False, False
        for group in groups(element.children):
            if is_empty(group.nodes):
                self._skip(group.nodes)
                continue
            if begun:
                self._line(prefix, spaced=not tight)
            is_list = group.block is not None and block_of(group.block) in LISTS
            self.block(group, element.id, prefix, other_mark=is_list and after_list)
            begun = True
            after_list = is_list and not after_list

    def _skip(self, nodes: Sequence[Node], *, implied: bool = False) -> None:
        """Nodes without anything to say. One that is `implied` a reader supplies."""
        for node in nodes:
            if node.id is not None:
                self._chunk.extents[node.id] = (self._at, self._at)
            if isinstance(node, Element) and not (implied and len(nodes) == 1 and not node.children):
                self._chunk.losses.append(Loss(LossKind.STRUCTURE, node.id, f"an empty {node.name}"))
                for child in node.descendants():
                    if child.id is not None:
                        self._chunk.extents[child.id] = (self._at, self._at)

    def _list(self, element: Element, block: Block, prefix: str, other_mark: bool) -> None:
        tight = is_tight(element)
        number = order_of(element)
        if number + len(element.children) > LAST_NUMBER:
            number = 1
            self._lose(element, "order")
        begun = False
        for item in element.children:
            if begun:
                self._line(prefix, spaced=not tight)
            begun = True
            if block is Block.ORDERED_LIST:
                mark = f"{number}{')' if other_mark else '.'} "
                number += 1
            else:
                mark = "* " if other_mark else "- "
            self._item(item, mark, prefix, tight)

    def _item(self, item: Node, mark: str, prefix: str, tight: bool) -> None:
        start = self._at
        if isinstance(item, TextNode) or block_of(item) not in (Block.LIST_ITEM, Block.TASK_ITEM):
            self._chunk.losses.append(Loss(LossKind.STRUCTURE, item.id, "a list holds something that is no item"))
            item = Element("list_item", (item,), {}, None)
        else:
            self._lose(item, *unspelled(item, block_of(item) or Block.LIST_ITEM))
        checked = checked_of(item)
        inner = prefix + " " * len(mark)
        if checked is not None:
            self._task(item, checked, mark, inner, tight)
        elif is_empty(item.children):
            self._put(mark.rstrip())
            self._skip(item.children, implied=True)
        else:
            self._put(mark)
            self._children(item, inner, tight=tight)
        if item.id is not None:
            self._chunk.extents[item.id] = (start, self._at)

    def _task(self, item: Element, checked: bool, mark: str, inner: str, tight: bool) -> None:
        """A task's sign belongs to its first paragraph; where there is none, a reader makes one."""
        self._put(f"{mark}[{'x' if checked else ' '}]")
        first = next(groups(item.children), None)
        if first is None or is_empty(item.children):
            self._skip(item.children, implied=True)
            return
        opens = first.block is None or block_of(first.block) is Block.PARAGRAPH
        if opens and not is_empty(first.nodes):
            self._put(" ")
            self._children(item, inner, tight=tight)
            return
        if opens:
            for node in first.nodes:
                if node.id is not None:
                    self._chunk.extents[node.id] = (self._at, self._at)
        else:
            self._chunk.losses.append(Loss(LossKind.STRUCTURE, item.id, "a task that begins with no paragraph"))
        self._line(inner, spaced=True)
        rest = item.children[1:] if opens else item.children
        self._children(Element(item.name, rest, item.attrs, item.id), inner)

    def _code(self, element: Element, prefix: str) -> None:
        info = str(attribute(element, "params", "language") or "")
        text = "".join(child.text for child in element.children if isinstance(child, TextNode))
        if any(isinstance(child, Element) or any(run.marks for run in child.runs) for child in element.children):
            self._chunk.losses.append(Loss(LossKind.MARK, element.id, "marks and nodes in code"))
        if "\r" in text or "\x00" in text or re.search(r"[\r\n\x00]", info) or info != info.strip():
            self._chunk.losses.append(Loss(LossKind.CHARACTER, element.id, "a carriage return, NUL, or blank in code"))
        info = re.sub(r"\s+", " ", info.replace("\x00", "\ufffd")).strip()
        tick = "~" if "`" in info else "`"
        longest = max((len(run) for run in re.findall(f"{tick}+", text)), default=0)
        fence = tick * max(3, longest + 1)
        self._put(fence + re.sub(r"([\\&])", r"\\\1", info))
        start = self._at
        if text:
            self._code_lines(element, prefix)
        self._line(prefix)
        if element.children and element.children[0].id is not None:
            self._chunk.extents[element.children[0].id] = (start, self._at)
        self._put(fence)

    def _code_lines(self, element: Element, prefix: str) -> None:
        at_start = True
        for child in element.children:
            if not isinstance(child, TextNode):
                continue
            offset = 0
            for index, raw in enumerate(re.split(r"(\r\n|\r|\n)", child.text)):
                if index % 2:
                    self._chunk.spans.append(Span(self._at, self._at + 1, child.id, offset, raw, "\n"))
                    self._line(prefix)
                elif raw or at_start:
                    if at_start:
                        self._line(prefix)
                    at_start = False
                    self._code_line(child.id, offset, raw, prefix)
                offset += utf16_length(raw)

    def _code_line(self, branch: ItemId | None, offset: int, raw: str, prefix: str) -> None:
        written = raw.replace("\x00", "\ufffd")
        if raw and not raw.strip(" \t") and prefix.replace("> ", ""):
            # In a list, readers differ over lines of white space only.
            self._chunk.losses.append(Loss(LossKind.CHARACTER, branch, "white space on an empty line of code"))
            written = ""
        start = self._at
        self._put(written)
        if written:
            self._chunk.spans.append(Span(start, self._at, branch, offset, raw, written))

    def _table(self, element: Element, prefix: str) -> None:
        rows = [(row, cells_of(row)) for row in element.children if cells_of(row)]
        columns = max(len(cells) for _, cells in rows)
        aligned = [alignment_of(cell) for cell in rows[0][1]] + [""] * (columns - len(rows[0][1]))
        if any(len(cells) != columns for _, cells in rows) or len(rows) != len(element.children):
            self._chunk.losses.append(Loss(LossKind.STRUCTURE, element.id, "rows of different lengths"))
        for index, (row, cells) in enumerate(rows):
            if index:
                self._line(prefix)
            self._row(row, cells, columns, aligned, is_header=index == 0)
            if index == 0:
                self._line(prefix)
                self._put("| " + " | ".join(_RULES.get(align, "---") for align in aligned) + " |")

    def _row(self, row: Node, cells: list[Element], columns: int, aligned: list[str], *, is_header: bool) -> None:
        start = self._at
        self._put("|")
        for index in range(columns):
            self._put(" ")
            if index < len(cells):
                self._cell(cells[index], aligned[index], is_header=is_header)
            self._put(" |")
        if row.id is not None:
            self._chunk.extents[row.id] = (start, self._at)

    def _cell(self, cell: Element, align: str, *, is_header: bool) -> None:
        start = self._at
        block = block_of(cell)
        spanned = [name for name in ("colspan", "rowspan") if cell.attrs.get(name) not in (None, 1, "1")]
        self._lose(cell, *unspelled(cell, block or Block.TABLE_CELL), *spanned)
        if (block is Block.TABLE_HEADER) is not is_header or alignment_of(cell) != align:
            self._chunk.losses.append(Loss(LossKind.STRUCTURE, cell.id, "a cell unlike its row or column"))
        for index, group in enumerate(_leaves(cell)):
            if index:
                self._put(" ")
                self._chunk.losses.append(Loss(LossKind.STRUCTURE, cell.id, "several blocks in a cell"))
            holder = group.block if group.block is not None else cell
            if group.block is not None and block_of(group.block) is not Block.PARAGRAPH:
                self._chunk.losses.append(Loss(LossKind.NODE, group.block.id, f"a {group.block.name} in a cell"))
            begun = self._at
            nodes = group.nodes if group.block is None else group.block.children
            self._inline(
                inline(nodes, Setting(cell=True, parent=holder.id, first=0 if group.block else group.first)), ""
            )
            for node in (*group.nodes, *nodes):
                if node.id is not None:
                    self._chunk.extents.setdefault(node.id, (begun, self._at))
        if cell.id is not None:
            self._chunk.extents[cell.id] = (start, self._at)

    def _inline(self, written: Inline, prefix: str) -> None:
        base, shift, text = self._at, 0, written.text
        self._chunk.losses += written.losses
        starts: dict[ItemId, tuple[int, int]] = {}
        for span in written.spans:
            begins = base + shift + span.start
            if text[span.start : span.end].endswith("\n"):
                shift += len(prefix)
            span.start, span.end = begins, base + shift + span.end
            self._chunk.spans.append(span)
            if span.node is not None:
                starts[span.node] = (span.start, span.end)
            elif span.raw and span.branch is not None:
                first, last = starts.get(span.branch, (span.start, span.end))
                starts[span.branch] = (min(first, span.start), max(last, span.end))
        self._put(text.replace("\n", "\n" + prefix) if prefix else text)
        self._chunk.extents.update(starts)

    def _lose(self, element: Element, *attributes: str) -> None:
        self._chunk.losses += [
            Loss(LossKind.ATTRIBUTE, element.id, f"'{name}' of a {element.name}") for name in attributes
        ]

    def _line(self, prefix: str, *, spaced: bool = False) -> None:
        """A new line, after an empty one where it is `spaced`."""
        if spaced:
            self._put("\n" + prefix.rstrip(" "))
        self._put("\n" + prefix)

    def _put(self, text: str) -> None:
        self._parts.append(text)
        self._at += len(text)


_RULES = {"left": ":--", "right": "--:", "center": ":-:"}


def alignment_of(cell: Element) -> str:
    """How a cell is aligned; empty where it is not."""
    align = attribute(cell, "alignment", "align")
    return align if isinstance(align, str) and align in _RULES else ""


def _leaves(cell: Element) -> Iterator[Group]:
    """What of a cell can stand on its one line."""
    for group in groups(cell.children):
        if group.block is None or block_of(group.block) in TEXTBLOCKS or block_of(group.block) is Block.CODE_BLOCK:
            yield group
        else:
            yield from _leaves(group.block)
