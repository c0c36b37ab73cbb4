"""One worksheet part, surveyed: where its rows, formulas, merged areas and arrays stand, by byte.

The survey walks the part once and keeps little, so that a sheet of a million cells fits; single rows are read again
where they matter.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from counterfoil.activities.adapters.workbook import formula as formulas
from counterfoil.activities.adapters.workbook.cells import Area, Position, parse_address, parse_area
from counterfoil.activities.adapters.workbook.markup import (
    Element,
    MarkupProblem,
    elements,
    new_parser,
    parse,
    unsupported,
)

Span = tuple[int, int]


@dataclass(frozen=True)
class RawCell:
    """What stands in a cell, as the part spells it. `kind` is the type attribute, `text` an inline string."""

    kind: str = "n"
    style: int = 0
    formula: str | None = None
    value: str | None = None
    text: str | None = None


@dataclass(slots=True)
class StoredResult:
    """A cell whose value is a formula's result: where the cell starts and, if there is one, where the value stands."""

    position: Position
    start: int
    value: Span | None = None


@dataclass(slots=True)
class SharedFormula:
    """A formula written once, in `master`, and used by `members` too."""

    master: Position
    members: list[Position] = field(default_factory=list)


@dataclass(slots=True)
class SheetMap:
    """What the survey found."""

    prefix: str = ""
    rows: dict[int, Span] = field(default_factory=dict)
    results: list[StoredResult] = field(default_factory=list)
    shared: dict[str, SharedFormula] = field(default_factory=dict)
    merged: list[Area] = field(default_factory=list)
    arrays: list[Area] = field(default_factory=list)
    """Areas filled by one array formula or data table."""
    formula_cells: set[Position] = field(default_factory=set)
    last_row: int = 0
    """The last row that holds a value, a formula, an array or a merged area."""
    is_protected: bool = False
    is_irregular: bool = False
    """Some row or cell stands without its number, or out of order."""
    data: Span | None = None
    dimension_start: int | None = None


class Sheet:
    """A surveyed worksheet part. Raises `Refusal` (`WORKBOOK_UNSUPPORTED_CONTENT`) for one that is not plain enough."""

    def __init__(self, part: str, content: bytes) -> None:
        self.part = part
        self.content = content
        try:
            self.map = _survey(content)
        except MarkupProblem as problem:
            raise unsupported(part, str(problem)) from problem

    @property
    def stored_results(self) -> int:
        """How many cells hold the stored result of a formula."""
        return sum(1 for result in self.map.results if result.value is not None)

    def read(self, position: Position) -> RawCell:
        """What stands in a cell; an empty one where there is none."""
        span = self.map.rows.get(position.row)
        if span is None:
            return RawCell()
        # Prefixes are not resolved here, so a row's markup stands by itself.
        found = elements(self.content[span[0] : span[1]])
        for cell in found:
            if cell.depth == 1 and cell.local == "c" and parse_address(cell.get("r") or "") == position:
                return self._raw(cell, [child for child in found if child.parent is cell], found, position)
        return RawCell()

    def _raw(self, cell: Element, children: list[Element], row: list[Element], position: Position) -> RawCell:
        formula = value = text = None
        for child in children:
            if child.local == "f":
                formula = child.text or self._shared_formula(child.get("si") or "", position)
            elif child.local == "v":
                value = child.text
            elif child.local == "is":
                text = "".join(e.text for e in row if e.local == "t" and _within(e, child) and not _phonetic(e))
        return RawCell(cell.get("t") or "n", int(cell.get("s") or 0), formula, value, text)

    def _shared_formula(self, index: str, position: Position) -> str:
        shared = self.map.shared.get(index)
        if shared is None or shared.master == position:
            return ""
        master = self.read(shared.master).formula or ""
        moved = formulas.shifted(master, position.row - shared.master.row, position.column - shared.master.column)
        return moved if moved is not None else "#REF!"


def _survey(content: bytes) -> SheetMap:
    found = SheetMap()
    walk = _Walk(found, content)
    parse(walk.parser, content)
    bottoms = [area.bottom for area in (*found.merged, *found.arrays)]
    found.last_row = max([found.last_row, *bottoms])
    return found


class _Walk:
    """The parser's callbacks. Depths: worksheet 1, sheetData 2, row 3, c 4, and in it f, v, is 5.

    They run for every element of what may be a million cells, so the common cell makes no objects here.
    """

    def __init__(self, found: SheetMap, content: bytes) -> None:
        self.parser = new_parser()
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self._found = found
        self._content = content
        self._depth = 0
        self._row_name = self._cell_name = self._value_name = self._formula_name = self._inline_name = ""
        self._row = 0
        self._row_digits = ""
        self._row_start = -1
        self._column = 0
        self._cell_start = -1
        self._value: Span | None = None
        self._is_result = False
        self._wide: list[Area] = []
        self._columns: dict[str, int] = {}

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        depth = self._depth = self._depth + 1
        if depth >= 4 and self._row_start >= 0:
            if depth == 4 and name == self._cell_name:
                self._start_cell(attributes.get("r", ""))
            elif depth == 5 and self._cell_start >= 0:
                self._start_content(name, attributes)
        elif depth == 3 and name == self._row_name and self._found.data is not None:
            self._start_row(attributes)
        elif depth == 1:
            prefix, _, local = name.rpartition(":")
            if local != "worksheet":
                raise MarkupProblem("it is not a worksheet")
            prefix = self._found.prefix = f"{prefix}:" if prefix else ""
            self._row_name, self._cell_name = f"{prefix}row", f"{prefix}c"
            self._value_name, self._formula_name, self._inline_name = f"{prefix}v", f"{prefix}f", f"{prefix}is"
        else:
            self._start_other(name.removeprefix(self._found.prefix), attributes)

    def _start_row(self, attributes: dict[str, str]) -> None:
        digits = attributes.get("r", "")
        number = int(digits) if digits.isdecimal() else 0
        if number <= self._row:
            self._found.is_irregular = True
            number = number or self._row + 1
        self._row, self._row_digits = number, str(number)
        self._row_start = self.parser.CurrentByteIndex
        self._column = 0
        if self._wide:
            self._wide = [area for area in self._wide if area.bottom >= number]

    def _start_cell(self, reference: str) -> None:
        letters = reference.removesuffix(self._row_digits)
        column = self._columns.get(letters)
        if column is None:
            position = parse_address(reference)
            is_here = position is not None and reference == f"{letters}{self._row_digits}"
            column = position.column if position is not None and is_here else 0
            self._columns[letters] = column
        if column <= self._column or len(letters) == len(reference):
            self._found.is_irregular = True
            column = column or self._column + 1
        self._column = column
        self._cell_start = self.parser.CurrentByteIndex
        self._value = None
        self._is_result = bool(self._wide) and any(area.holds(Position(self._row, column)) for area in self._wide)

    def _start_content(self, name: str, attributes: dict[str, str]) -> None:
        if name == self._value_name:
            self._value = (self.parser.CurrentByteIndex, -1)
        elif name == self._formula_name:
            if self._value is not None:
                raise MarkupProblem("a cell's value stands before its formula")
            self._is_result = True
            position = Position(self._row, self._column)
            self._found.formula_cells.add(position)
            if "t" in attributes:
                self._note_formula(position, attributes)
        elif name != self._inline_name:
            return
        if self._row > self._found.last_row:
            self._found.last_row = self._row

    def _note_formula(self, position: Position, attributes: dict[str, str]) -> None:
        kind = attributes["t"]
        if kind in ("array", "dataTable"):
            area = parse_area(attributes.get("ref", "")) or Area(*position, *position)
            self._found.arrays.append(area)
            if not area.is_single:
                self._wide.append(area)
        elif kind == "shared":
            index = attributes.get("si", "")
            if "ref" in attributes or index not in self._found.shared:
                self._found.shared[index] = SharedFormula(position)
            else:
                self._found.shared[index].members.append(position)

    def _start_other(self, local: str, attributes: dict[str, str]) -> None:
        if local == "mergeCell":
            area = parse_area(attributes.get("ref", ""))
            self._found.merged += [area] if area else []
        elif self._depth == 2 and local == "sheetProtection":
            self._found.is_protected = attributes.get("sheet", "0") in ("1", "true", "on")
        elif self._depth == 2 and local == "dimension":
            self._found.dimension_start = self.parser.CurrentByteIndex
        elif self._depth == 2 and local == "sheetData":
            self._found.data = (self.parser.CurrentByteIndex, -1)

    def _end(self, name: str) -> None:
        depth = self._depth
        self._depth = depth - 1
        if depth == 5:
            if self._is_result and self._value is not None and name == self._value_name:
                self._value = (self._value[0], self._end_of(name))
        elif depth == 4:
            if self._is_result and self._cell_start >= 0:
                position = Position(self._row, self._column)
                self._found.results.append(StoredResult(position, self._cell_start, self._value))
            self._cell_start = -1
        elif depth == 3 and self._row_start >= 0:
            self._found.rows[self._row] = (self._row_start, self._end_of(name))
            self._row_start = -1
        elif depth == 2 and self._found.data is not None and name == f"{self._found.prefix}sheetData":
            self._found.data = (self._found.data[0], self._end_of(name))

    def _end_of(self, name: str) -> int:
        # At the end of a self-closing tag the parser already stands behind it.
        at = self.parser.CurrentByteIndex
        return self._content.index(b">", at) + 1 if self._content.startswith(b"</" + name.encode(), at) else at


def _within(element: Element, ancestor: Element) -> bool:
    parent = element.parent
    while parent is not None and parent is not ancestor:
        parent = parent.parent
    return parent is ancestor


def _phonetic(element: Element) -> bool:
    return element.parent is not None and element.parent.local == "rPh"
