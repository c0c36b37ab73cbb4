"""Markdown as nodes: how the Markdown of a proposed change becomes part of a document."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from counterfoil.models.documents.markdown.reading import inline_nodes, parser, unsupported
from counterfoil.models.documents.markdown.schema import Block, Names
from counterfoil.models.documents.nodes import Element, Json, Node, Run, TextNode

if TYPE_CHECKING:
    from markdown_it.token import Token

_TASK = re.compile(r"\[([ xX])\](?:[ \t]+|$)")


def parse(markdown: str, like: Element | None = None) -> Element:
    """The Markdown as a document, without identities; `like` is a document whose schema's names are used.

    Raises `Refusal` (`MARKDOWN_UNSUPPORTED`) for raw HTML, which no node can hold.
    """
    names = Names(like)
    return Element("doc", _blocks(_Tokens(parser().parse(markdown)), names, ""))


class _Tokens:
    """Block tokens, taken one after the other."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._at = 0

    def take(self) -> Token | None:
        if self._at >= len(self._tokens):
            return None
        self._at += 1
        return self._tokens[self._at - 1]


def _blocks(tokens: _Tokens, names: Names, until: str) -> tuple[Node, ...]:
    found: list[Node] = []
    while (token := tokens.take()) is not None and token.type != until:
        found.append(_block(token, tokens, names))
    return tuple(found)


def _block(token: Token, tokens: _Tokens, names: Names) -> Element:
    match token.type:
        case "paragraph_open":
            return Element(names.block(Block.PARAGRAPH), _content(tokens, names, "paragraph_close"))
        case "heading_open":
            level = int(token.tag[1:])
            return Element(names.block(Block.HEADING), _content(tokens, names, "heading_close"), {"level": level})
        case "blockquote_open":
            children = _blocks(tokens, names, "blockquote_close")
            return Element(names.block(Block.BLOCKQUOTE), children or _nothing(names))
        case "bullet_list_open" | "ordered_list_open":
            return _list(token, tokens, names)
        case "fence" | "code_block":
            return _code(token, names)
        case "hr":
            return Element(names.block(Block.HORIZONTAL_RULE))
        case "table_open":
            return Element(names.block(Block.TABLE), tuple(_rows(tokens, names)))
        case _:
            raise unsupported(token.type)


def _nothing(names: Names) -> tuple[Node, ...]:
    return (Element(names.block(Block.PARAGRAPH)),)


def _content(tokens: _Tokens, names: Names, until: str) -> tuple[Node, ...]:
    found: tuple[Node, ...] = ()
    while (token := tokens.take()) is not None and token.type != until:
        found += inline_nodes(token.children or [], names)
    return found


def _code(token: Token, names: Names) -> Element:
    text = token.content.removesuffix("\n")
    from markdown_it.common.utils import unescapeAll

    info = unescapeAll(token.info).strip()
    attrs: dict[str, Json] = {("language" if names.tiptap else "params"): info} if info else {}
    return Element(names.block(Block.CODE_BLOCK), (TextNode((Run(text),)),) if text else (), attrs)


def _list(token: Token, tokens: _Tokens, names: Names) -> Element:
    ordered = token.type == "ordered_list_open"
    items: list[tuple[bool | None, tuple[Node, ...]]] = []
    tight = True
    while (opened := tokens.take()) is not None and opened.type == "list_item_open":
        checked, children, is_tight = _item(tokens, names)
        tight = tight and is_tight
        items.append((checked, children))
    attrs: dict[str, Json] = {} if tight else {"tight": False}
    if ordered:
        start = token.attrGet("start")
        attrs |= {("start" if names.tiptap else "order"): int(start) if start is not None else 1}
    if not ordered and items and all(checked is not None for checked, _ in items):
        made = tuple(
            Element(names.block(Block.TASK_ITEM), children, {"checked": checked}) for checked, children in items
        )
        return Element(names.block(Block.TASK_LIST), made, attrs)
    listed = tuple(
        Element(names.block(Block.LIST_ITEM), children, {} if checked is None else {"checked": checked})
        for checked, children in items
    )
    return Element(names.block(Block.ORDERED_LIST if ordered else Block.BULLET_LIST), listed, attrs)


def _item(tokens: _Tokens, names: Names) -> tuple[bool | None, tuple[Node, ...], bool]:
    children: list[Node] = []
    checked: bool | None = None
    tight = True
    while (token := tokens.take()) is not None and token.type != "list_item_close":
        if token.type == "paragraph_open":
            tight = tight and token.hidden
            inner = tokens.take()
            assert inner is not None
            task = _TASK.match(inner.content) if not children else None
            if task is not None:
                checked = task[1] != " "
                inner = parser().parseInline(inner.content[task.end() :])[0]
            children.append(Element(names.block(Block.PARAGRAPH), inline_nodes(inner.children or [], names)))
            tokens.take()
        else:
            children.append(_block(token, tokens, names))
    return checked, tuple(children) or _nothing(names), tight


def _rows(tokens: _Tokens, names: Names) -> list[Node]:
    rows: list[Node] = []
    cells: list[Node] = []
    while (token := tokens.take()) is not None and token.type != "table_close":
        if token.type == "tr_open":
            cells = []
        elif token.type == "tr_close":
            rows.append(Element(names.block(Block.TABLE_ROW), tuple(cells)))
        elif token.type in ("th_open", "td_open"):
            block = Block.TABLE_HEADER if token.type == "th_open" else Block.TABLE_CELL
            align = str(token.attrGet("style") or "").removeprefix("text-align:")
            paragraph = Element(
                names.block(Block.PARAGRAPH), _content(tokens, names, token.type.replace("open", "close"))
            )
            cells.append(Element(names.block(block), (paragraph,), {"alignment": align} if align else {}))
    return rows
