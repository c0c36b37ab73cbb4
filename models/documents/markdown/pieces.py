"""A textblock's content as pieces, and those as tokens: marks opened and closed around characters and inline nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from counterfoil.models.documents.markdown.losses import Loss, LossKind
from counterfoil.models.documents.markdown.schema import Block, Style, block_of, style_of
from counterfoil.models.documents.nodes import Element, ItemId, Mark, Node, utf16_length

ORDER: tuple[Style, ...] = (Style.LINK, Style.STRONG, Style.EM, Style.STRIKE)
"""Marks that open together open in this order. Code is always the innermost."""


@dataclass(slots=True)
class Setting:
    """Where a textblock stands, as far as that changes how it is written."""

    heading: bool = False
    cell: bool = False
    parent: ItemId | None = None
    first: int = 0
    """The index of the first child among its siblings."""


@dataclass(slots=True)
class Piece:
    """Characters with the same marks, or one inline node."""

    styles: dict[Style, Mark]
    branch: ItemId | None
    offset: int
    text: str = ""
    node: Element | None = None


Token = tuple[str, Any]
"""`open` or `close` with a mark, `piece` with a piece."""


def without_last_breaks(pieces: list[Piece], setting: Setting, losses: list[Loss]) -> list[Piece]:
    """Without breaks at the end, where they would be none."""
    while pieces and is_break(pieces[-1]):
        pieces.pop()
        losses.append(Loss(LossKind.NODE, setting.parent, "a break at the end of a block"))
    return pieces


def joined(pieces: list[Piece]) -> list[Piece]:
    """The pieces, with neighbours of one text that are written alike put together."""
    found: list[Piece] = []
    for piece in pieces:
        last = found[-1] if found else None
        alike = last is not None and (last.branch, last.styles) == (piece.branch, piece.styles)
        if last is not None and alike and last.node is None and piece.node is None:
            last.text += piece.text
        else:
            found.append(piece)
    return found


def pieces_of(children: Sequence[Node], setting: Setting, losses: list[Loss]) -> list[Piece]:
    """The content, with what no mark can say declared."""
    pieces: list[Piece] = []
    for index, child in enumerate(children, setting.first):
        if isinstance(child, Element):
            pieces.append(Piece({}, setting.parent, index, node=child))
            continue
        at = 0
        for run in child.runs:
            styles: dict[Style, Mark] = {}
            for mark in run.marks:
                style = style_of(mark)
                if style is None:
                    losses.append(Loss(LossKind.MARK, child.id, f"the mark '{mark.name}' has no spelling"))
                else:
                    styles[style] = mark
            pieces.append(Piece(styles, child.id, at, text=run.text))
            at += utf16_length(run.text)
    return joined(pieces)


def tokens_of(pieces: list[Piece]) -> list[Token]:
    """The pieces with marks opened and closed around them, those that last longest outermost."""
    tokens: list[Token] = []
    standing: list[tuple[Style, Mark]] = []
    for index, piece in enumerate(pieces):
        wanted = dict(piece.styles)
        wanted.pop(Style.CODE, None)
        keep = 0
        while keep < len(standing) and wanted.get(standing[keep][0]) == standing[keep][1]:
            keep += 1
        while len(standing) > keep:
            tokens.append(("close", standing.pop()))
        opening = [
            (style, wanted[style]) for style in ORDER if style in wanted and (style, wanted[style]) not in standing
        ]
        opening.sort(key=lambda one: (-_lasts(pieces, index, one), ORDER.index(one[0])))
        for one in opening:
            standing.append(one)
            tokens.append(("open", one))
        tokens.append(("piece", piece))
    while standing:
        tokens.append(("close", standing.pop()))
    return tokens


def _lasts(pieces: list[Piece], index: int, mark: tuple[Style, Mark]) -> int:
    length = 0
    for piece in pieces[index:]:
        if piece.styles.get(mark[0]) != mark[1]:
            break
        length += 1
    return length


def is_break(piece: Piece) -> bool:
    """Whether a piece is a hard break."""
    return piece.node is not None and block_of(piece.node) is Block.HARD_BREAK
