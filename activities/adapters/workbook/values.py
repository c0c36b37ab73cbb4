"""Typed values as cells hold them, and cells as people read them in a preview."""

from __future__ import annotations

import datetime as dt
import re

from counterfoil.activities.adapters.workbook.contract import (
    Boolean,
    CellValue,
    Date,
    DateTime,
    Empty,
    Formula,
    Number,
    Text,
)
from counterfoil.activities.adapters.workbook.sheet import RawCell
from counterfoil.activities.adapters.workbook.sheet_writing import CellContent

SHOWN_CHARACTERS = 100
_ESCAPE_LOOKALIKE = re.compile(r"_(?=x[0-9A-Fa-f]{4}_)")
_ESCAPE = re.compile(r"_x([0-9A-Fa-f]{4})_")


def content_of(value: CellValue, *, from_1904: bool, style: int | None) -> CellContent:
    """What a cell is to hold. `style` is the date style for dates; formats of other cells stay."""
    match value:
        case Text():
            # The format reads _x0041_ as a character's number; text that looks so is escaped once more.
            return CellContent(kind="inlineStr", text=_ESCAPE_LOOKALIKE.sub("_x005F_", value.text))
        case Number():
            return CellContent(value="0" if value.number == 0 else repr(value.number))
        case Boolean():
            return CellContent(kind="b", value="1" if value.boolean else "0")
        case Date():
            return CellContent(value=repr(serial(dt.datetime.combine(value.date, dt.time()), from_1904)), style=style)
        case DateTime():
            return CellContent(value=repr(serial(value.datetime, from_1904)), style=style)
        case Formula():
            return CellContent(formula=value.formula[1:])
        case Empty():
            return CellContent()


def serial(moment: dt.datetime, from_1904: bool) -> int | float:
    """The day number a workbook keeps for a moment; a whole one for midnight."""
    since = moment - (dt.datetime(1904, 1, 1) if from_1904 else dt.datetime(1899, 12, 30))
    milliseconds = since // dt.timedelta(milliseconds=1)
    days, rest = divmod(milliseconds, 86_400_000)
    return milliseconds / 86_400_000 if rest else days


def shown(value: CellValue) -> str:
    """A value with its type, for people."""
    match value:
        case Text():
            return "text " + _quoted(value.text)
        case Number():
            return f"number {value.number}"
        case Boolean():
            return f"boolean {'TRUE' if value.boolean else 'FALSE'}"
        case Date():
            return f"date {value.date.isoformat()}"
        case DateTime():
            return f"date {_moment(value.datetime)}"
        case Formula():
            return f"formula {_bounded(value.formula)}"
        case Empty():
            return "empty"


def shown_cell(cell: RawCell, strings: list[str], *, is_date: bool, from_1904: bool) -> str:
    """What stands in a cell, with its type, for people."""
    if cell.formula is not None:
        return f"formula {_bounded('=' + cell.formula)}"
    if cell.text is not None:
        return "text " + _quoted(_unescaped(cell.text))
    if cell.value is None:
        return "empty"
    if cell.kind == "s":
        index = int(cell.value) if cell.value.strip().isdigit() else -1
        return "text " + _quoted(strings[index]) if 0 <= index < len(strings) else "text of no entry"
    if cell.kind in ("str", "inlineStr"):
        return "text " + _quoted(_unescaped(cell.value))
    if cell.kind == "b":
        return f"boolean {'TRUE' if cell.value.strip() == '1' else 'FALSE'}"
    if cell.kind == "e":
        return f"error {_bounded(cell.value)}"
    if cell.kind == "d":
        return f"date {_bounded(cell.value)}"
    return _shown_number(cell.value.strip(), is_date, from_1904)


def _shown_number(spelled: str, is_date: bool, from_1904: bool) -> str:
    try:
        number = float(spelled)
        if is_date:
            origin = dt.datetime(1904, 1, 1) if from_1904 else dt.datetime(1899, 12, 30)
            moment = origin + dt.timedelta(milliseconds=round(number * 86_400_000))
            return f"date {moment.date().isoformat() if number.is_integer() else _moment(moment)}"
    except (ValueError, OverflowError):
        return f"number {_bounded(spelled)}"
    return f"number {int(number) if number.is_integer() and abs(number) < 2**53 else number}"


def _moment(moment: dt.datetime) -> str:
    return moment.isoformat(sep=" ", timespec="milliseconds" if moment.microsecond else "seconds")


def _quoted(text: str) -> str:
    return '"' + _bounded(text) + '"'


def _bounded(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)
