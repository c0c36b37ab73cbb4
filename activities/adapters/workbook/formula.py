"""Just enough of the formula language to move a formula, to rename a sheet in it and to see which sheets it names.

A formula here is the text in the file, without the leading equals sign. Text in quotation marks is never touched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise

from counterfoil.activities.adapters.workbook.cells import MAX_COLUMN, MAX_ROW, column_letters, column_number

_TOKEN = re.compile(
    r"""
    (?P<string>"(?:[^"]|"")*")
  | (?P<quoted>'(?:[^']|'')*'!)
  | (?P<error>\#(?:REF!|NAME\?|VALUE!|DIV/0!|NULL!|NUM!|N/A|[A-Z_]+!?))
  | (?P<plain>(?:\[[^\[\]]*\])?[\w.]+(?::[\w.]+)?!)
  | (?P<columns>\$?[A-Za-z]{1,3}:\$?[A-Za-z]{1,3}(?![\w.(\[!]))
  | (?P<rows>\$?[0-9]{1,7}:\$?[0-9]{1,7}(?![\w.(\[!]))
  | (?P<cell>\$?[A-Za-z]{1,3}\$?[1-9][0-9]{0,6}(?![\w.(\[!]))
  | (?P<number>[0-9]+(?:\.[0-9]*)?(?:[Ee][+-]?[0-9]+)?|\.[0-9]+(?:[Ee][+-]?[0-9]+)?)
  | (?P<name>[^\W\d][\w.\\?]*|\\[\w.]*)
  | (?P<bracket>\[(?:[^\[\]']|'.|\[(?:[^\[\]']|'.)*\])*\])
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_LOOKS_LIKE_A_REFERENCE = re.compile(
    r"[A-Za-z]{1,3}[0-9]+|[Rr][0-9]*(?:[Cc][0-9]*)?|[Cc][0-9]*|true|false", re.IGNORECASE
)
_COORDINATE = re.compile(r"(\$?)([A-Za-z]{1,3})(\$?)([0-9]+)")
_OPENERS = {"(": ")", "{": "}"}


def problem(formula: str) -> str | None:
    """Why a formula cannot be written to a file, or None. An ill-formed one makes the application repair the file."""
    if not formula.strip():
        return "the formula is empty"
    expected: list[str] = []
    last = ""
    for kind, text in _tokens(formula):
        if kind in ("quoted", "plain") and "[" in text:
            return "the formula refers to another workbook"
        if kind == "other":
            if text in _OPENERS:
                expected.append(_OPENERS[text])
            elif text in ")}":
                if not expected or expected.pop() != text:
                    return f"the formula has a '{text}' without its partner"
            elif text in "\"'[]|!":
                return f"the formula has a stray '{text}'"
        if text.strip():
            last = text
    if expected:
        return f"the formula lacks a '{expected[-1]}'"
    if last in set("+-*/^&=<>,;:@#"):
        return f"the formula ends with '{last}'"
    return None


def sheets_named(formula: str) -> set[str]:
    """The sheets of this workbook that a formula names, as it spells them."""
    found: set[str] = set()
    for kind, text in _tokens(formula):
        if kind in ("quoted", "plain"):
            found.update(_sheet_names(kind, text) or ())
    return found


def calls(formula: str, function: str) -> bool:
    """Whether a formula uses the function of that name."""
    tokens = [text for kind, text in _tokens(formula) if kind in ("name", "other") and text.strip()]
    return any(a.upper() == function and b == "(" for a, b in pairwise(tokens))


def mentions_in_text(formula: str, sheet: str) -> bool:
    """Whether a quoted text inside a formula spells a reference to a sheet, as INDIRECT and HYPERLINK take them."""
    wanted = sheet.casefold()
    return any(
        kind == "string" and "!" in text and wanted in text.replace("''", "'").casefold()
        for kind, text in _tokens(formula)
    )


def renamed(formula: str, old: str, new: str) -> str:
    """The formula after the sheet `old` got the name `new`."""
    pieces: list[str] = []
    for kind, text in _tokens(formula):
        names = _sheet_names(kind, text) if kind in ("quoted", "plain") else None
        if names and any(_same(name, old) for name in names):
            text = qualifier([new if _same(name, old) else name for name in names])
        pieces.append(text)
    return "".join(pieces)


def qualifier(names: list[str]) -> str:
    """How a formula names a sheet, or the first and last of a run of sheets, in front of a reference."""
    joined = ":".join(names)
    if all(_PLAIN_NAME.fullmatch(name) and not _LOOKS_LIKE_A_REFERENCE.fullmatch(name) for name in names):
        return f"{joined}!"
    return "'" + joined.replace("'", "''") + "'!"


def shifted(formula: str, rows: int, columns: int) -> str | None:
    """The formula as it reads when moved by so many rows and columns, or None if a reference leaves the sheet."""
    pieces: list[str] = []
    for kind, text in _tokens(formula):
        if kind == "cell":
            moved = _shift_cell(text, rows, columns)
        elif kind == "columns":
            moved = _shift_pair(text, columns, MAX_COLUMN, column_number, column_letters)
        elif kind == "rows":
            moved = _shift_pair(text, rows, MAX_ROW, int, str)
        else:
            moved = text
        if moved is None:
            return None
        pieces.append(moved)
    return "".join(pieces)


def _shift_cell(text: str, rows: int, columns: int) -> str | None:
    match = _COORDINATE.fullmatch(text)
    if match is None:
        return text
    column = column_number(match[2]) + (0 if match[1] else columns)
    row = int(match[4]) + (0 if match[3] else rows)
    if not (1 <= column <= MAX_COLUMN and 1 <= row <= MAX_ROW):
        return None
    return f"{match[1]}{column_letters(column)}{match[3]}{row}"


def _shift_pair(
    text: str, by: int, limit: int, number: Callable[[str], int], spelling: Callable[[int], str]
) -> str | None:
    ends: list[str] = []
    for end in text.split(":"):
        fixed = end.startswith("$")
        value = number(end.lstrip("$")) + (0 if fixed else by)
        if not 1 <= value <= limit:
            return None
        ends.append(("$" if fixed else "") + spelling(value))
    return ":".join(ends)


def _tokens(formula: str) -> Iterator[tuple[str, str]]:
    for match in _TOKEN.finditer(formula):
        yield match.lastgroup or "other", match.group()


def _sheet_names(kind: str, text: str) -> list[str] | None:
    inner = text[:-1]
    if kind == "quoted":
        inner = inner[1:-1].replace("''", "'")
    return None if "[" in inner else inner.split(":")


def _same(one: str, other: str) -> bool:
    return one.casefold() == other.casefold()
