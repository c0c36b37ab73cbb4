"""Reads inline Markdown back: as nodes, and as a flat list of characters and their marks for comparison."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from counterfoil.models.common import canonical_json
from counterfoil.models.documents.markdown.schema import Block, Names, Style, attribute
from counterfoil.models.documents.nodes import Element, Mark, Node, Run, TextNode
from counterfoil.models.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

Flat = list[tuple[str, frozenset[Any]]]

_OPENING = {"strong_open": Style.STRONG, "em_open": Style.EM, "s_open": Style.STRIKE, "link_open": Style.LINK}
_CLOSING = {"strong_close": Style.STRONG, "em_close": Style.EM, "s_close": Style.STRIKE, "link_close": Style.LINK}


@cache
def parser() -> MarkdownIt:
    """CommonMark with tables and strike-through; links are taken as they are written."""
    # Most processes never read Markdown: they need not import how to.
    from markdown_it import MarkdownIt

    made = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    made.normalizeLink = _as_it_is  # type: ignore[method-assign]
    made.validateLink = _any_link  # type: ignore[method-assign]
    return made


def _as_it_is(url: str) -> str:
    return url


def _any_link(url: str) -> bool:
    return True


def inline_nodes(tokens: Sequence[Token], names: Names) -> tuple[Node, ...]:
    """Inline tokens as text and inline nodes. Raises `Refusal` (`MARKDOWN_UNSUPPORTED`)."""
    nodes: list[Node] = []
    runs: list[Run] = []
    marks: list[Mark] = []

    def add(text: str, more: tuple[Mark, ...] = ()) -> None:
        standing = tuple(sorted([*marks, *more], key=lambda mark: mark.name))
        if runs and runs[-1].marks == standing:
            runs[-1] = Run(runs[-1].text + text, standing)
        elif text:
            runs.append(Run(text, standing))

    def end_text() -> None:
        if runs:
            nodes.append(TextNode(tuple(runs)))
            runs.clear()

    for token in tokens:
        if token.type in _OPENING:
            marks.append(_mark(token, names))
        elif token.type in _CLOSING:
            marks.pop()
        elif token.type in ("text", "text_special"):
            add(token.content)
        elif token.type == "code_inline":
            add(token.content, (Mark(names.style(Style.CODE)),))
        elif token.type == "softbreak":
            add(" ")
        elif token.type == "hardbreak":
            end_text()
            nodes.append(Element(names.block(Block.HARD_BREAK)))
        elif token.type == "image":
            end_text()
            nodes.append(_image(token, names))
        else:
            raise unsupported(token.type)
    end_text()
    return tuple(nodes)


def unsupported(what: str) -> Refusal:
    """The refusal of Markdown that no node can hold."""
    return Refusal(
        ErrorCode.MARKDOWN_UNSUPPORTED,
        f"the document has no node for '{what}'",
        subject="markdown",
        remedy="leave it out",
    )


def flat(pieces: Iterable[tuple[str, Element | None, Mapping[Style, Mark]]]) -> Flat:
    """Pieces of a textblock as characters with their marks."""
    found: Flat = []
    for text, node, styles in pieces:
        if node is not None:
            found.append((f"<{_inline_name(node)}>", frozenset()))
            continue
        marks = frozenset((style, _significant(style, mark)) for style, mark in styles.items())
        shown = re.sub(r"[\r\n]", " ", text) if Style.CODE in styles else text
        shown = shown.replace("\x00", "\ufffd")
        if found and found[-1][1] == marks and not found[-1][0].startswith("<"):
            found[-1] = (found[-1][0] + shown, marks)
        elif shown:
            found.append((shown, marks))
    return found


def flat_of(markdown: str, *, cell: bool) -> Flat:
    """What a reader makes of a textblock's Markdown."""
    source = markdown.replace("\\|", "|") if cell else markdown
    tokens = parser().parseInline(source)[0].children or []
    names = Names()
    pieces: list[tuple[str, Element | None, Mapping[Style, Mark]]] = []
    for node in inline_nodes(tokens, names):
        if isinstance(node, Element):
            pieces.append(("", node, {}))
            continue
        for run in node.runs:
            pieces.append((run.text, None, {Style(mark.name): mark for mark in run.marks}))
    return flat(pieces)


def _inline_name(node: Element) -> str:
    if node.name == "image":
        return f"image {canonical_json([attribute(node, name) or None for name in ('src', 'alt', 'title')]).decode()}"
    return "hard_break" if node.name == "hardBreak" else node.name


def _significant(style: Style, mark: Mark) -> str:
    if style is not Style.LINK:
        return ""
    return canonical_json([mark.attrs.get("href") or "", mark.attrs.get("title") or ""]).decode()


def _mark(token: Token, names: Names) -> Mark:
    style = _OPENING[token.type]
    if style is not Style.LINK:
        return Mark(names.style(style))
    attrs: dict[str, Any] = {"href": str(token.attrGet("href") or "")}
    if token.attrGet("title") is not None:
        attrs["title"] = str(token.attrGet("title"))
    return Mark(names.style(style), attrs)


def _image(token: Token, names: Names) -> Element:
    attrs: dict[str, Any] = {"src": str(token.attrGet("src") or "")}
    alt = "".join(child.content if child.type != "softbreak" else " " for child in token.children or [])
    if alt:
        attrs["alt"] = alt
    if token.attrGet("title") is not None:
        attrs["title"] = str(token.attrGet("title"))
    return Element(names.block(Block.IMAGE), (), attrs)
