"""The reader's own view of a workbook. It shares no code with the editor, so that they cannot be wrong together.

Sheets are read with ElementTree; once its rows are taken out, what is left of a sheet is its frame.
"""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple
from xml.etree import ElementTree

Element = ElementTree.Element
Place = tuple[int, int]
"""Row and column, from 1."""

MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_PACKAGE = "{http://schemas.openxmlformats.org/package/2006/relationships}"
_OFFICE = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_CELL, _VALUE, _FORMULA, _INLINE = (f"{MAIN}{name}" for name in ("c", "v", "f", "is"))
_ADDRESS = re.compile(r"([A-Z]+)([0-9]+)")
_ESCAPE = re.compile(r"_x([0-9A-Fa-f]{4})_")


class Unreadable(Exception):
    """The file is not a workbook this reader understands."""


class Cell(NamedTuple):
    """A cell as its part has it. `text` is an inline string; `shared` the index of a shared formula's group."""

    kind: str
    style: str
    value: str | None
    text: str | None
    formula: str | None
    formula_kind: str
    shared: str
    extra: str
    """Further attributes of the cell and its formula, spelled out for comparison."""


@dataclass
class SheetReading:
    """One worksheet: its cells, the rows' own attributes, and the frame around them."""

    cells: dict[Place, Cell] = field(default_factory=dict)
    rows: dict[int, dict[str, str]] = field(default_factory=dict)
    frame: Element | None = None
    filled: set[Place] = field(default_factory=set)
    """Cells inside areas that one array formula or data table fills: their values are results too."""
    areas: list[tuple[int, int, int, int]] = field(default_factory=list)
    masters: dict[str, tuple[Place, str]] = field(default_factory=dict)
    last_row: int = 0

    def is_result(self, place: Place) -> bool:
        """Whether a value in this cell is what some formula gave."""
        cell = self.cells.get(place)
        return place in self.filled or (cell is not None and cell.formula is not None)


@dataclass(frozen=True)
class ListedSheet:
    """A sheet as the workbook lists it."""

    name: str
    part: str
    kind: str


class Reading:
    """A workbook's parts, and its sheets read on demand. Raises `Unreadable`."""

    def __init__(self, content: bytes) -> None:
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as container:
                names = [name for name in container.namelist() if not name.endswith("/")]
                self.parts = {name: container.read(name) for name in names}
        except (zipfile.BadZipFile, OSError, EOFError, ValueError, RuntimeError, NotImplementedError) as error:
            raise Unreadable(f"not a sound zip container: {error}") from error
        if len(names) != len(self.parts):
            raise Unreadable("a part is there twice")
        self._sheets: dict[str, SheetReading] = {}
        self.main = self._main()

    def root(self, part: str) -> Element:
        """The part as a tree."""
        content = self.parts.get(part)
        if content is None:
            raise Unreadable(f"the part {part} is missing")
        return _parsed(part, content)

    def relations(self, part: str) -> list[tuple[str, str, str]]:
        """Identity, last word of the type, and target of each inner relationship of a part."""
        folder, name = posixpath.split(part)
        rels = posixpath.join(folder, "_rels", f"{name}.rels")
        if rels not in self.parts:
            return []
        return [
            (e.get("Id", ""), e.get("Type", "").rpartition("/")[2], _target(part, e.get("Target", "")))
            for e in self.root(rels).iter(f"{_PACKAGE}Relationship")
            if e.get("TargetMode") != "External"
        ]

    @cached_property
    def sheets(self) -> list[ListedSheet]:
        """The sheets in the workbook's order."""
        targets = {identity: (kind, target) for identity, kind, target in self.relations(self.main)}
        found = []
        for element in self.root(self.main).iterfind(f"{MAIN}sheets/{MAIN}sheet"):
            kind, target = targets.get(element.get(f"{_OFFICE}id", ""), ("", ""))
            found.append(ListedSheet(element.get("name", ""), target, kind))
        return found

    @cached_property
    def strings(self) -> list[str]:
        """The shared strings' plain text."""
        for _, kind, target in self.relations(self.main):
            if kind == "sharedStrings":
                return [_plain(entry) for entry in self.root(target)]
        return []

    @cached_property
    def counts_from_1904(self) -> bool:
        """Whether days count from 1904."""
        settings = self.root(self.main).find(f"{MAIN}workbookPr")
        return settings is not None and settings.get("date1904") in ("1", "true")

    def sheet(self, part: str) -> SheetReading:
        """A worksheet's cells."""
        if part not in self._sheets:
            if part not in self.parts:
                raise Unreadable(f"the part {part} is missing")
            self._sheets[part] = _read_sheet(part, self.parts[part])
        return self._sheets[part]

    def last_row(self, part: str) -> int:
        """The last row that holds something: a value, a formula, a merged or array area, a table."""
        bottoms = [self.sheet(part).last_row]
        for _, kind, target in self.relations(part):
            if kind == "table":
                bottoms.append(_corners(self.root(target).get("ref", ""))[2])
        return max(bottoms)

    def text_of(self, cell: Cell) -> str | None:
        """The text a cell holds, or None if it holds none."""
        if cell.kind == "s" and cell.value is not None:
            index = int(cell.value)
            return self.strings[index] if index < len(self.strings) else None
        if cell.kind == "inlineStr":
            return _unescaped(cell.text or "")
        return _unescaped(cell.value) if cell.kind == "str" and cell.value is not None else None

    def _main(self) -> str:
        for relationship in self.root("_rels/.rels"):
            if relationship.get("Type", "").endswith("/relationships/officeDocument"):
                return _target("", relationship.get("Target", ""))
        raise Unreadable("no main part is named")


def address(place: Place) -> str:
    """Such as `B7`."""
    letters, number = "", place[1]
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(65 + rest) + letters
    return f"{letters}{place[0]}"


def place_of(text: str) -> Place:
    """The row and column of `B7`; (0, 0) if it is no address."""
    match = _ADDRESS.fullmatch(text.replace("$", "").upper())
    if match is None:
        return (0, 0)
    column = 0
    for letter in match[1]:
        column = column * 26 + ord(letter) - 64
    return (int(match[2]), column)


def _read_sheet(part: str, content: bytes) -> SheetReading:
    reading = SheetReading(frame=_parsed(part, content))
    assert reading.frame is not None
    if reading.frame.tag != f"{MAIN}worksheet":
        raise Unreadable(f"{part} is not a worksheet")
    data = reading.frame.find(f"{MAIN}sheetData")
    columns: dict[str, int] = {}
    number = 0
    try:
        for row in data if data is not None else ():
            if row.tag == f"{MAIN}row":
                number = int(row.get("r", number + 1))
                if number in reading.rows:
                    raise Unreadable(f"row {number} of {part} is there twice")
                _read_row(reading, number, row, columns)
                row.clear()
    except ValueError as error:
        raise Unreadable(f"{part} is not sound: {error}") from error
    if data is not None:
        del data[:]
    for merged in reading.frame.iterfind(f"{MAIN}mergeCells/{MAIN}mergeCell"):
        reading.last_row = max(reading.last_row, _corners(merged.get("ref", ""))[2])
    for top, left, bottom, right in reading.areas:
        reading.last_row = max(reading.last_row, bottom)
        if (top, left) != (bottom, right):
            reading.filled |= {p for p in reading.cells if top <= p[0] <= bottom and left <= p[1] <= right}
    return reading


def _read_row(reading: SheetReading, number: int, row: Element, columns: dict[str, int]) -> None:
    attributes = row.attrib
    reading.rows[number] = {k: v for k, v in attributes.items() if k not in ("r", "spans")}
    digits = str(number)
    column = 0
    for element in row:
        if element.tag != _CELL:
            continue
        attributes = element.attrib
        where = attributes.get("r")
        if where is not None and where.endswith(digits) and (known := columns.get(where[: -len(digits)])):
            place = (number, known)
        else:
            place = place_of(where) if where else (number, column + 1)
            if where == address(place) and place[0] == number:
                columns[where[: -len(digits)]] = place[1]
        column = place[1]
        if place in reading.cells:
            raise Unreadable(f"the cell {address(place)} is there twice")
        reading.cells[place] = cell = _read_cell(reading, place, element)
        if cell.value is not None or cell.text is not None or cell.formula is not None:
            reading.last_row = max(reading.last_row, number)


def _read_cell(reading: SheetReading, place: Place, element: Element) -> Cell:
    attributes = element.attrib
    kind, style = attributes.get("t", "n"), attributes.get("s", "0")
    value = text = formula = None
    formula_kind = shared = extra = ""
    for child in element:
        tag = child.tag
        if tag == _VALUE:
            value = child.text or ""
        elif tag == _FORMULA:
            formula, formula_kind, shared = child.text or "", child.get("t", ""), child.get("si", "")
            extra += _note_formula(reading, place, formula, child)
        elif tag == _INLINE:
            text = _plain(child)
            extra += ElementTree.tostring(child, "unicode") if len(child) != 1 else ""
    if len(attributes) > ("r" in attributes) + ("s" in attributes) + ("t" in attributes):
        extra += "".join(f" {k}={v}" for k, v in sorted(attributes.items()) if k not in ("r", "s", "t"))
    return Cell(kind, style, value, text, formula, formula_kind, shared, extra)


def _note_formula(reading: SheetReading, place: Place, formula: str, element: Element) -> str:
    kind, area = element.get("t", ""), element.get("ref", "")
    if kind == "shared":
        if formula:
            reading.masters[element.get("si", "")] = (place, formula)
        return ""
    if kind in ("array", "dataTable"):
        reading.areas.append(_corners(area))
    return "".join(f" {k}={v}" for k, v in sorted(element.attrib.items()))


def _corners(area: str) -> tuple[int, int, int, int]:
    first, _, second = area.partition(":")
    start, end = place_of(first), place_of(second or first)
    return (min(start[0], end[0]), min(start[1], end[1]), max(start[0], end[0]), max(start[1], end[1]))


def _plain(entry: Element) -> str:
    if len(entry) == 1 and entry[0].tag == f"{MAIN}t":
        return entry[0].text or ""
    pieces = []
    for child in entry:
        if child.tag == f"{MAIN}t":
            pieces.append(child.text or "")
        elif child.tag == f"{MAIN}r":
            pieces += [run.text or "" for run in child.iterfind(f"{MAIN}t")]
    return "".join(pieces)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text) if "_x" in text else text


def _target(part: str, target: str) -> str:
    if target.startswith("/"):
        return target[1:]
    return posixpath.normpath(posixpath.join(posixpath.dirname(part), target))


def _parsed(part: str, content: bytes) -> Element:
    _refuse_declarations(part, content)
    try:
        return ElementTree.fromstring(content)  # noqa: S314 (declarations are refused)
    except (ElementTree.ParseError, ValueError) as error:
        raise Unreadable(f"{part} is not sound XML: {error}") from error


def _refuse_declarations(part: str, content: bytes) -> None:
    # Entities can only be declared in a document type declaration; without one there is nothing to expand.
    if b"<!DOCTYPE" in content or content[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\x00" in content[:64]:
        raise Unreadable(f"{part} declares a document type, or is not UTF-8")
