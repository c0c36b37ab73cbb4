"""Cell addresses and areas, one-based, within the limits of the file format (A1 to XFD1048576)."""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_ROW = 1_048_576
MAX_COLUMN = 16_384

_ADDRESS = re.compile(r"\$?([A-Za-z]{1,3})\$?([1-9][0-9]{0,6})")


class Position(NamedTuple):
    """Row and column, both from 1."""

    row: int
    column: int


class Area(NamedTuple):
    """A rectangle of cells, both corners included."""

    top: int
    left: int
    bottom: int
    right: int

    def holds(self, position: Position) -> bool:
        """Whether a cell lies in it."""
        return self.top <= position.row <= self.bottom and self.left <= position.column <= self.right

    @property
    def is_single(self) -> bool:
        """Whether it is one cell."""
        return self.top == self.bottom and self.left == self.right


def column_number(letters: str) -> int:
    """`A` is 1, `XFD` is 16384."""
    number = 0
    for letter in letters.upper():
        number = number * 26 + ord(letter) - 64
    return number


def column_letters(number: int) -> str:
    """1 is `A`, 16384 is `XFD`."""
    letters = ""
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


def parse_address(text: str) -> Position | None:
    """The position an address names, or None if it names none."""
    match = _ADDRESS.fullmatch(text)
    if match is None:
        return None
    position = Position(int(match[2]), column_number(match[1]))
    return position if position.row <= MAX_ROW and position.column <= MAX_COLUMN else None


def parse_area(text: str) -> Area | None:
    """The area `B2` or `B2:C9` names, or None if it names none."""
    first, _, second = text.partition(":")
    start = parse_address(first)
    end = parse_address(second) if second else start
    if start is None or end is None:
        return None
    return Area(
        min(start.row, end.row), min(start.column, end.column), max(start.row, end.row), max(start.column, end.column)
    )


def parse_areas(text: str) -> list[Area]:
    """The areas of a space-separated list, leaving out what names none."""
    return [area for part in text.split() if (area := parse_area(part)) is not None]


def address(position: Position) -> str:
    """The position's plain address, such as `B7`."""
    return f"{column_letters(position.column)}{position.row}"


def area_text(area: Area) -> str:
    """The area's plain spelling, such as `B2:C9`."""
    first = address(Position(area.top, area.left))
    return first if area.is_single else f"{first}:{address(Position(area.bottom, area.right))}"
