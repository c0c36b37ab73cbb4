"""What a workbook edit may ask for, typed: text is text, a formula is asked for as a formula, a date is a date.

Everything that can be refused without seeing the file is refused here, naming the edit by its index (from 0).
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictFloat, StrictInt, ValidationError, field_validator

from counterfoil.activities.adapters.workbook import formula as formulas
from counterfoil.activities.adapters.workbook.cells import MAX_COLUMN, parse_address
from counterfoil.models.common import Contract, Digest
from counterfoil.models.errors import ErrorCode, Refusal

MAX_EDITS = 5000
MAX_CELLS = 50_000
"""Cells that one operation may write, all edits together."""
MAX_TEXT_UTF16 = 32_767
MAX_FORMULA_UTF16 = 8192
MAX_SHEET_NAME_UTF16 = 31
LARGEST_EXACT_INTEGER = 2**53
LARGEST_NUMBER = 9.99999999999999e307
SMALLEST_NUMBER = 2.2250738585072014e-308
FIRST_DATE = dt.date(1900, 3, 1)
"""Before this day the application counts a 29 February 1900 that never was, and readers disagree by a day."""

_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_ISO_DATETIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?([Zz]|[+-][0-9:]{4,6})?"
)
_NOT_IN_SHEET_NAMES = re.compile(r"[\[\]:*?/\\]")


def utf16_length(text: str) -> int:
    """Length as the application counts it."""
    return len(text) + sum(1 for character in text if ord(character) > 0xFFFF)


def _writable(text: str) -> str:
    found = _NOT_IN_XML.search(text)
    if found:
        raise ValueError(f"the character U+{ord(found.group()):04X} cannot be kept in a workbook")
    if "\r" in text:
        raise ValueError("a carriage return cannot be kept in a cell; break lines with a line feed")
    return text


def _iso(value: object, shape: re.Pattern[str], expected: str) -> object:
    """Only the one spelling: left to itself, pydantic reads 1704067200 as a day in 2024."""
    if isinstance(value, str) and not shape.fullmatch(value):
        raise ValueError(expected)
    if not isinstance(value, str | dt.date):
        raise ValueError(expected)
    return value


def check_sheet_name(name: str) -> str:
    """The name, if a sheet may bear it; else `ValueError`."""
    _writable(name)
    if not name or utf16_length(name) > MAX_SHEET_NAME_UTF16:
        raise ValueError(f"a sheet's name has 1 to {MAX_SHEET_NAME_UTF16} characters")
    if _NOT_IN_SHEET_NAMES.search(name) or "\n" in name or "\t" in name:
        raise ValueError("a sheet's name has none of [ ] : * ? / \\ and no line break or tab")
    if name.startswith("'") or name.endswith("'"):
        raise ValueError("a sheet's name neither starts nor ends with an apostrophe")
    if name.casefold() == "history":
        raise ValueError("the name History is reserved by the application")
    return name


class Text(Contract):
    """Text, whatever it looks like: `=1+1` stays five characters."""

    type: Literal["text"]
    text: str

    @field_validator("text")
    @classmethod
    def _fits(cls, text: str) -> str:
        if utf16_length(text) > MAX_TEXT_UTF16:
            raise ValueError(f"a cell holds at most {MAX_TEXT_UTF16} characters")
        return _writable(text)


class Number(Contract):
    """A finite number that a workbook can hold exactly as given."""

    type: Literal["number"]
    number: StrictInt | StrictFloat

    @field_validator("number")
    @classmethod
    def _fits(cls, number: int | float) -> int | float:
        if isinstance(number, int) and abs(number) > LARGEST_EXACT_INTEGER:
            raise ValueError("a whole number beyond 2^53 would lose digits; give it as text")
        if isinstance(number, float) and not abs(number) <= LARGEST_NUMBER:
            raise ValueError("the number is not finite or too large for a workbook")
        if number != 0 and abs(number) < SMALLEST_NUMBER:
            raise ValueError("the number is too small for a workbook")
        return number


class Boolean(Contract):
    """TRUE or FALSE."""

    type: Literal["boolean"]
    boolean: StrictBool


class Date(Contract):
    """A day. The cell gets a date format if it has none."""

    type: Literal["date"]
    date: dt.date

    @field_validator("date", mode="before")
    @classmethod
    def _is_spelled_out(cls, value: object) -> object:
        return _iso(value, _ISO_DATE, "a date is written like 2024-01-31")

    @field_validator("date")
    @classmethod
    def _counts(cls, date: dt.date) -> dt.date:
        if date < FIRST_DATE:
            raise ValueError(f"dates before {FIRST_DATE} are ambiguous in workbooks; give it as text")
        return date


class DateTime(Contract):
    """A day and time without a zone, to the millisecond, as workbooks keep them."""

    type: Literal["datetime"]
    datetime: dt.datetime

    @field_validator("datetime", mode="before")
    @classmethod
    def _is_spelled_out(cls, value: object) -> object:
        return _iso(value, _ISO_DATETIME, "a date and time is written like 2024-01-31T09:30:00")

    @field_validator("datetime")
    @classmethod
    def _counts(cls, value: dt.datetime) -> dt.datetime:
        if value.tzinfo is not None:
            raise ValueError("workbooks know no time zones; give the local time without one")
        if value.date() < FIRST_DATE:
            raise ValueError(f"dates before {FIRST_DATE} are ambiguous in workbooks; give it as text")
        if value.microsecond % 1000:
            raise ValueError("workbooks keep time to the millisecond")
        return value


class Formula(Contract):
    """A formula, written as in the application's formula bar in English: `=SUM(A1:A3)`.

    It is stored as given; functions newer than the file format need the prefix it gives them (`=_xlfn.XLOOKUP(…)`).
    """

    type: Literal["formula"]
    formula: str

    @field_validator("formula")
    @classmethod
    def _is_one(cls, formula: str) -> str:
        _writable(formula)
        if not formula.startswith("="):
            raise ValueError("a formula starts with =")
        if utf16_length(formula) > MAX_FORMULA_UTF16:
            raise ValueError(f"a formula has at most {MAX_FORMULA_UTF16} characters")
        found = formulas.problem(formula[1:])
        if found:
            raise ValueError(found)
        return formula


class Empty(Contract):
    """No value and no formula; the cell's format stays."""

    type: Literal["empty"]


CellValue = Annotated[Text | Number | Boolean | Date | DateTime | Formula | Empty, Field(discriminator="type")]


class _OnSheet(Contract):
    sheet: str

    @field_validator("sheet")
    @classmethod
    def _may_be_a_sheet(cls, name: str) -> str:
        return check_sheet_name(name)


class SetCell(_OnSheet):
    """Give one cell a value. Its format stays."""

    op: Literal["set_cell"]
    cell: str
    value: CellValue

    @field_validator("cell")
    @classmethod
    def _is_an_address(cls, cell: str) -> str:
        if "$" in cell or parse_address(cell) is None:
            raise ValueError("a cell is named like B7, from A1 to XFD1048576")
        return cell.upper()


class AppendRow(_OnSheet):
    """Write values from column A on in the first row below everything the sheet holds."""

    op: Literal["append_row"]
    values: Annotated[tuple[CellValue, ...], Field(min_length=1, max_length=MAX_COLUMN)]

    @field_validator("values")
    @classmethod
    def _says_something(cls, values: tuple[CellValue, ...]) -> tuple[CellValue, ...]:
        if all(isinstance(value, Empty) for value in values):
            raise ValueError("a row of nothing cannot be appended")
        return values


class AddSheet(_OnSheet):
    """Add an empty sheet after the last one."""

    op: Literal["add_sheet"]


class RenameSheet(_OnSheet):
    """Give a sheet another name, everywhere the workbook refers to it."""

    op: Literal["rename_sheet"]
    to: str

    @field_validator("to")
    @classmethod
    def _may_be_named(cls, name: str) -> str:
        return check_sheet_name(name)


Edit = Annotated[SetCell | AppendRow | AddSheet | RenameSheet, Field(discriminator="op")]


class WorkbookEdit(Contract):
    """The edits of one workbook, applied in order. Sheets are renamed first; later edits use their new names."""

    path: Annotated[str, Field(min_length=1, max_length=1000)]
    expected_digest: Digest | None = None
    edits: Annotated[tuple[Edit, ...], Field(min_length=1, max_length=MAX_EDITS)]


def parse_input(raw: dict[str, Any]) -> WorkbookEdit:
    """The typed input. Raises `Refusal`: `WORKBOOK_EDIT_INVALID` where an edit is to blame, else `INVALID_INPUT`."""
    try:
        parsed = WorkbookEdit.model_validate(raw)
    except ValidationError as error:
        raise _refusal(error) from None
    cells = 0
    only_renames = True
    for index, edit in enumerate(parsed.edits):
        if isinstance(edit, RenameSheet):
            if not only_renames:
                raise invalid_edit(index, "sheets are renamed before anything else is edited")
            continue
        only_renames = False
        cells += 1 if isinstance(edit, SetCell) else len(edit.values) if isinstance(edit, AppendRow) else 0
        if cells > MAX_CELLS:
            raise invalid_edit(index, f"one operation writes at most {MAX_CELLS} cells")
    return parsed


def invalid_edit(index: int, detail: str) -> Refusal:
    """The refusal of one edit."""
    return Refusal(
        ErrorCode.WORKBOOK_EDIT_INVALID,
        f"edit {index}: {detail}",
        subject=f"edits[{index}]",
        remedy="correct this edit and ask again",
    )


def _refusal(error: ValidationError) -> Refusal:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = first["loc"]
    message = first["msg"].removeprefix("Value error, ")
    if len(where) > 1 and where[0] == "edits" and isinstance(where[1], int):
        within = ".".join(str(part) for part in where[3:])
        return invalid_edit(where[1], f"{within}: {message}" if within else message)
    return Refusal(
        ErrorCode.INVALID_INPUT,
        f"{'.'.join(str(part) for part in where) or 'input'}: {message}",
        subject="input",
        remedy="correct the input",
    )
