"""Writes a textblock's content: text, marks, images and breaks, each text with the place it came from.

Marks become delimiters, whose meaning depends on the characters around them. The plain spelling is used where it is
plainly right; elsewhere it is read back, and where it reads otherwise the characters beside it are written by number.
A mark that no spelling can carry is a declared loss.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from counterfoil.models.documents.markdown import reading
from counterfoil.models.documents.markdown.escaping import (
    at_heading_end,
    at_line_start,
    can_be_referenced,
    escaped,
    is_strippable,
    kind_of,
    reference,
)
from counterfoil.models.documents.markdown.losses import Loss, LossKind
from counterfoil.models.documents.markdown.pieces import (
    Piece,
    Setting,
    Token,
    is_break,
    joined,
    pieces_of,
    tokens_of,
    without_last_breaks,
)
from counterfoil.models.documents.markdown.schema import Block, Style, attribute, block_of, unspelled
from counterfoil.models.documents.nodes import Element, ItemId, Json, Mark, Node, TextNode


@dataclass(slots=True)
class Span:
    """A stretch of Markdown that stands for characters of a text, or for one node among its siblings.

    `written` is how the characters of `raw` are spelled; where `raw` is empty the stretch stands for the child
    `offset` of `branch`. Offsets in a text count UTF-16 units.
    """

    start: int
    end: int
    branch: ItemId | None
    offset: int
    raw: str = ""
    written: str = ""
    node: ItemId | None = None
    """The child, where the stretch stands for one."""


@dataclass(slots=True)
class Inline:
    """A textblock's content as it is written. `text` may span lines, where there are breaks."""

    text: str = ""
    spans: list[Span] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)


def inline(children: Sequence[Node], setting: Setting) -> Inline:
    """A textblock's content, written."""
    losses: list[Loss] = []
    pieces = without_last_breaks(pieces_of(children, setting, losses), setting, losses)
    if len(pieces) == 1 and not pieces[0].styles and pieces[0].node is None:
        return _Writer(setting, losses).write([("piece", pieces[0])])
    tokens = tokens_of(pieces)
    if all(kind == "piece" for kind, _ in tokens) and not any(Style.CODE in piece.styles for piece in pieces):
        return _Writer(setting, losses).write(tokens)
    wanted: list[tuple[str, frozenset[Any]]] | None = None
    for em, armoured in (("_", False), ("*", False), ("_", True), ("*", True)):
        writer = _Writer(setting, list(losses), em=em, armoured=armoured)
        written = writer.write(tokens)
        if writer.is_plainly_right():
            return written
        if writer.is_doubtful() and not armoured:
            continue
        if wanted is None:
            wanted = reading.flat([(piece.text, piece.node, piece.styles) for piece in pieces])
        if reading.flat_of(written.text, cell=setting.cell) == wanted:
            return written
    return _without_delimiters(pieces, setting, losses)


def _without_delimiters(pieces: list[Piece], setting: Setting, losses: list[Loss]) -> Inline:
    """No spelling carries the emphasis: it is left out, and said so."""
    for piece in pieces:
        for style in (Style.STRONG, Style.EM, Style.STRIKE):
            if piece.styles.pop(style, None) is not None:
                losses.append(Loss(LossKind.MARK, piece.branch, f"{style} cannot be written between these characters"))
    return _Writer(setting, losses).write(tokens_of(joined(pieces)))


class _Writer:
    """Writes tokens once, in one way of spelling."""

    def __init__(self, setting: Setting, losses: list[Loss], *, em: str = "_", armoured: bool = False) -> None:
        self._setting = setting
        self._em = em
        self._armoured = armoured
        self._parts: list[str] = []
        self._at = 0
        self._delimiters: list[tuple[int, str, bool]] = []
        self._has_links = False
        self._written = Inline(losses=losses)

    def write(self, tokens: list[Token]) -> Inline:
        for index, (kind, what) in enumerate(tokens):
            if kind == "piece":
                self._piece(what, tokens, index)
            elif what[0] is Style.LINK:
                self._has_links = True
                self._put("[" if kind == "open" else _destination(what[1], self._setting, self._written.losses))
            else:
                mark = {Style.STRONG: "**", Style.STRIKE: "~~", Style.EM: self._em}[what[0]]
                self._delimiters.append((self._at, mark, kind == "open"))
                self._put(mark)
        self._written.text = "".join(self._parts)
        return self._written

    def is_plainly_right(self) -> bool:
        """Whether every delimiter can only be what it is meant to be, whoever reads."""
        text = self._written.text
        for at, mark, opens in self._delimiters:
            before, after = text[at - 1 : at] if at else "", text[at + len(mark) : at + len(mark) + 1]
            if before == mark[0] or after == mark[0]:
                return False
            outside, inside = (before, after) if opens else (after, before)
            within, without = kind_of(inside), kind_of(outside)
            if within == "space" or not (without == "space" or (without == "punctuation" and within == "letter")):
                return False
        return True

    def is_doubtful(self) -> bool:
        """Whether a delimiter stands beside a character that readers take differently."""
        text = self._written.text
        return any(
            "symbol" in (kind_of(text[at - 1 : at] if at else ""), kind_of(text[at + len(mark) : at + len(mark) + 1]))
            for at, mark, _ in self._delimiters
        )

    def _put(self, text: str) -> None:
        self._parts.append(text)
        self._at += len(text)

    def _piece(self, piece: Piece, tokens: list[Token], index: int) -> None:
        if piece.node is not None:
            self._node(piece, piece.node)
        elif Style.CODE in piece.styles:
            self._code(piece)
        elif piece.text:
            self._text(piece, tokens, index)

    def _text(self, piece: Piece, tokens: list[Token], index: int) -> None:
        raw = piece.text
        if "\x00" in raw:
            self._written.losses.append(Loss(LossKind.CHARACTER, piece.branch, "NUL cannot be written"))
            raw = raw.replace("\x00", "\ufffd")
        before: Token = tokens[index - 1] if index else ("edge", None)
        after: Token = tokens[index + 1] if index + 1 < len(tokens) else ("edge", None)
        lead = self._edge(raw[0], before, "close", "open", piece)
        trail = self._edge(raw[-1], after, "open", "close", piece) if len(raw) > 1 or not lead else ""
        middle = raw[1 if lead else 0 : len(raw) - (1 if trail else 0)]
        letter_before = "" if lead else self._letter(before, -1)
        written = escaped(middle, letter_before, "" if trail else self._letter(after, 0))
        if not lead and self._begins_line():
            written = at_line_start(written)
        if not trail and self._setting.heading and after[0] == "edge":
            written = at_heading_end(written)
        if written.endswith("!") and after[0] == "open" and after[1][0] is Style.LINK:
            written = written[:-1] + "\\!"
        written = lead + written + trail
        if self._setting.cell or self._has_lines():
            written = written.replace("|", "\\|")
        self._span(piece, raw, written)

    def _edge(self, character: str, beside: Token, outer: str, inner: str, piece: Piece) -> str:
        """The first or last character by number, where it would not be read as itself; else nothing."""
        at_end = beside[0] == "edge" or (beside[0] == "piece" and is_break(beside[1]))
        by_delimiter = beside[0] in (outer, inner) and beside[1][0] is not Style.LINK
        number = False
        if is_strippable(character):
            number = at_end or (by_delimiter and beside[0] == inner)
        elif self._armoured and by_delimiter:
            kind = kind_of(character)
            number = kind == "symbol" or (beside[0] == outer and kind == "letter")
        if not number:
            return ""
        if not can_be_referenced(character):
            self._written.losses.append(Loss(LossKind.CHARACTER, piece.branch, "a control character at an edge"))
            return ""
        return reference(character)

    def _letter(self, beside: Token, index: int) -> str:
        if beside[0] != "piece" or beside[1].node is not None or not beside[1].text or Style.CODE in beside[1].styles:
            return ""
        return str(beside[1].text[index])

    def _code(self, piece: Piece) -> None:
        raw = piece.text
        if re.search(r"[\r\n]", raw):
            self._written.losses.append(Loss(LossKind.CHARACTER, piece.branch, "a line end in code becomes a space"))
            raw = re.sub(r"[\r\n]", " ", raw)
        raw = raw.replace("\x00", "\ufffd")
        longest = max((len(ticks) for ticks in re.findall("`+", raw)), default=0)
        fence = "`" * (1 if longest == 0 else longest + 1)
        pad = " " if raw.startswith("`") or raw.endswith("`") or (raw[:1] == raw[-1:] == " " and raw.strip(" ")) else ""
        self._put(fence + pad)
        self._span(piece, raw, raw.replace("|", "\\|") if self._setting.cell else raw)
        self._put(pad + fence)

    def _node(self, piece: Piece, node: Element) -> None:
        block = block_of(node)
        start = self._at
        if block is Block.HARD_BREAK:
            self._break(piece)
        elif block is Block.IMAGE:
            self._image(node)
        else:
            self._written.losses.append(Loss(LossKind.NODE, node.id, f"the node '{node.name}' has no spelling"))
            text = "".join(one.text for one in node.descendants() if isinstance(one, TextNode))
            self._put(escaped(text))
        self._written.spans.append(Span(start, self._at, self._setting.parent, piece.offset, node=node.id))

    def _break(self, piece: Piece) -> None:
        if self._setting.heading or self._setting.cell:
            where = "a heading" if self._setting.heading else "a table's cell"
            self._written.losses.append(
                Loss(LossKind.NODE, self._setting.parent, f"a break in {where} becomes a space")
            )
            self._put(" ")
        else:
            self._put("\\\n")

    def _image(self, node: Element) -> None:
        self._written.losses += [
            Loss(LossKind.ATTRIBUTE, node.id, f"'{name}' of an image") for name in unspelled(node, Block.IMAGE)
        ]
        alt = escaped(str(attribute(node, "alt") or ""))
        if self._setting.cell or self._has_lines():
            alt = alt.replace("|", "\\|")
        mark = Mark("image", {"href": attribute(node, "src"), "title": attribute(node, "title")})
        self._put(f"![{alt}{_destination(mark, self._setting, self._written.losses)}")

    def _begins_line(self) -> bool:
        return self._at == 0 or self._parts[-1].endswith("\n")

    def _has_lines(self) -> bool:
        return any(part.endswith("\n") for part in self._parts)

    def _span(self, piece: Piece, raw: str, written: str) -> None:
        start = self._at
        self._put(written)
        self._written.spans.append(Span(start, self._at, piece.branch, piece.offset, raw, written))


def _destination(mark: Mark, setting: Setting, losses: list[Loss]) -> str:
    """The end of a link or an image: where it goes, and its title."""
    others = [
        name for name, value in mark.attrs.items() if name not in ("href", "title") and value not in (None, "", False)
    ]
    if mark.name == "link" and set(others) - {"target", "rel", "class"}:
        losses.append(Loss(LossKind.ATTRIBUTE, None, f"{', '.join(sorted(others))} of a link"))
    href, title = _line(mark.attrs.get("href"), losses), _line(mark.attrs.get("title"), losses)
    if re.search(r"[\s<>()\\\x00-\x1f\x7f]|^$", href):
        href = "<" + re.sub(r"([<>\\])", r"\\\1", href) + ">"
    href = re.sub(r"&(?=[#A-Za-z])", "&amp;", href)
    quoted = ""
    if title:
        quoted = ' "' + re.sub(r'(["\\])', r"\\\1", re.sub(r"&(?=[#A-Za-z])", "&amp;", title)) + '"'
    whole = f"]({href}{quoted})"
    return whole.replace("|", "\\|") if setting.cell else whole


def _line(value: Json, losses: list[Loss]) -> str:
    text = "" if value is None else str(value)
    if re.search(r"[\r\n\x00]", text):
        losses.append(Loss(LossKind.CHARACTER, None, "a line end in a link or an image"))
        text = re.sub(r"[\r\n\x00]+", " ", text)
    return text
