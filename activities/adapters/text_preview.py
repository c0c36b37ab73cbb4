"""A change of text as a table a person can decide on: only the lines that change, nothing in them hidden."""

from __future__ import annotations

from difflib import SequenceMatcher
from itertools import zip_longest

from counterfoil.models.operations.outcomes import PREVIEW_ROWS, Preview

COLUMNS = ("Line", "Change", "Before", "After")

_CELL_CHARACTERS = 160
_ALIGNED_LINES = 2000
"""Above so many changed lines, before and after are set side by side without looking for what moved."""


def preview_of(before: str, after: str) -> Preview:
    """The lines that differ, numbered as they stand afterwards (removed ones as they stood before)."""
    rows = _changed_rows(_lines(before), _lines(after))
    return Preview(columns=COLUMNS, rows=tuple(rows[:PREVIEW_ROWS]), omitted_rows=max(0, len(rows) - PREVIEW_ROWS))


def visible(line: str) -> str:
    """The line with everything unprintable written out as an escape, and cut where it is too long for a cell."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line[: _CELL_CHARACTERS + 1])
    cut = len(line) - _CELL_CHARACTERS
    return shown if cut <= 0 else f"{shown[:_CELL_CHARACTERS]}… ({cut} more characters)"


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    last = lines.pop()
    return [*lines, last + " ⟨no line end⟩"] if last else lines


def _changed_rows(before: list[str], after: list[str]) -> list[tuple[str, str, str, str]]:
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    rows: list[tuple[str, str, str, str]] = []
    for old_from, old_to, new_from, new_to in _differences(old, new):
        pairs = zip_longest(old[old_from:old_to], new[new_from:new_to])
        for offset, (was, becomes) in enumerate(pairs):
            rows.append(_row(start, old_from + offset, new_from + offset, was, becomes))
    return rows


def _differences(old: list[str], new: list[str]) -> list[tuple[int, int, int, int]]:
    if len(old) > _ALIGNED_LINES or len(new) > _ALIGNED_LINES:
        return [(0, len(old), 0, len(new))]
    codes = SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes()
    return [(a, b, c, d) for tag, a, b, c, d in codes if tag != "equal"]


def _row(start: int, old: int, new: int, was: str | None, becomes: str | None) -> tuple[str, str, str, str]:
    if becomes is None:
        return str(start + old + 1), "removed", visible(was or ""), ""
    if was is None:
        return str(start + new + 1), "added", "", visible(becomes)
    return str(start + new + 1), "changed", visible(was), visible(becomes)
