"""How far a captured document may be read, changed, and let out: three types, each enforced where it is used.

A boundary is a set of byte ranges of the frozen Markdown. What goes into a model request or an export is made by
`shown` alone, which takes nothing that is outside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Self

from pydantic import Field, model_validator

from counterfoil.models.common import Stored
from counterfoil.models.errors import ErrorCode, Refusal

Bytes = tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=0)]]


class Boundary(Stored):
    """The whole, or byte ranges: sorted, apart from each other, none of them empty."""

    whole: bool = False
    ranges: Annotated[tuple[Bytes, ...], Field(max_length=1000)] = ()

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        at = -1
        for start, end in self.ranges:
            if not at < start < end:
                raise ValueError("ranges are sorted, apart from each other, and not empty")
            at = end
        if self.whole and self.ranges:
            raise ValueError("the whole has no ranges")
        return self

    @classmethod
    def everything(cls) -> Self:
        return cls(whole=True)

    @classmethod
    def nothing(cls) -> Self:
        return cls()

    @classmethod
    def of(cls, start: int, end: int) -> Self:
        """One range; nothing where it is empty."""
        return cls(ranges=((start, end),)) if start < end else cls.nothing()

    def within(self, size: int) -> tuple[Bytes, ...]:
        """The ranges of a text of so many bytes. Raises `Refusal` (`EGRESS_REFUSED`) for one beyond its end."""
        if self.whole:
            return ((0, size),) if size else ()
        if self.ranges and self.ranges[-1][1] > size:
            raise _refused("a boundary reaches beyond the text's end")
        return self.ranges


class ContextBoundary(Boundary):
    """What may be read as context."""


class AllowedRanges(Boundary):
    """Where a proposal may change the document."""


class EgressBoundary(Boundary):
    """What may leave: in a model request or an export."""


@dataclass(frozen=True, slots=True)
class Shown:
    """Text that may leave, and where it was. Made by `shown` alone."""

    text: str
    omitted: bool
    """Whether parts were left out."""
    pieces: tuple[tuple[int, int, int], ...]
    """Each piece: from where to where in the frozen text, and where in `text`, in code points."""

    def placed(self, start: int, end: int) -> tuple[int, int] | None:
        """Where a passage of the frozen text is in `text`; None where it is not shown whole."""
        for first, last, at in self.pieces:
            if first <= start and end <= last:
                return at + start - first, at + end - first
        return None


GAP = "\n\n[…]\n\n"
"""Stands for what is left out."""


def shown(markdown: str, context: ContextBoundary, egress: EgressBoundary) -> Shown:
    """What of a frozen text is inside both boundaries. Raises `Refusal` (`EGRESS_REFUSED`) for a boundary that cuts a
    character, or lies beyond the end: it is of another text.
    """
    if not isinstance(context, ContextBoundary) or not isinstance(egress, EgressBoundary):
        raise TypeError("a context boundary and an egress boundary, in this order")
    encoded = markdown.encode()
    ranges = _common(context.within(len(encoded)), egress.within(len(encoded)))
    parts: list[str] = []
    pieces: list[tuple[int, int, int]] = []
    at = 0
    for start, end in ranges:
        piece = _decoded(encoded[start:end])
        if parts or start:
            parts.append(GAP)
            at += len(GAP)
        first = len(_decoded(encoded[:start]))
        pieces.append((first, first + len(piece), at))
        parts.append(piece)
        at += len(piece)
    omitted = ranges != (((0, len(encoded)),) if encoded else ())
    if ranges and ranges[-1][1] < len(encoded):
        parts.append(GAP)
    return Shown("".join(parts), omitted, tuple(pieces))


def _common(ones: tuple[Bytes, ...], others: tuple[Bytes, ...]) -> tuple[Bytes, ...]:
    found = []
    for start, end in ones:
        for first, last in others:
            if max(start, first) < min(end, last):
                found.append((max(start, first), min(end, last)))
    return tuple(sorted(found))


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise _refused("a boundary cuts a character in two") from None


def _refused(detail: str) -> Refusal:
    return Refusal(
        ErrorCode.EGRESS_REFUSED, detail, subject="boundary", remedy="capture the document again; nothing was let out"
    )
