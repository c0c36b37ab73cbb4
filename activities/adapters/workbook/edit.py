"""The edit itself, as a pure function from a workbook's bytes and the asked edits to new bytes.

The same input always gives the same bytes. Only asked cells, the workbook's own lists and stored formula results
change; what an edit would damage is refused, naming it. After any edit no formula keeps a stored result: the
application is told to compute them all when it opens the file, and a reader that does not compute sees none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from counterfoil.activities.adapters.workbook import formula as formulas
from counterfoil.activities.adapters.workbook.book import Book, SheetEntry
from counterfoil.activities.adapters.workbook.cells import MAX_ROW, Area, Position, address, area_text, parse_area
from counterfoil.activities.adapters.workbook.contract import (
    AddSheet,
    AppendRow,
    CellValue,
    Date,
    DateTime,
    Edit,
    Empty,
    Formula,
    RenameSheet,
    SetCell,
    invalid_edit,
)
from counterfoil.activities.adapters.workbook.inspect import Workbook
from counterfoil.activities.adapters.workbook.markup import unsupported
from counterfoil.activities.adapters.workbook.package import write_package
from counterfoil.activities.adapters.workbook.rename import rename_sheet
from counterfoil.activities.adapters.workbook.sheet import RawCell, Sheet
from counterfoil.activities.adapters.workbook.sheet_writing import CellContent, written
from counterfoil.activities.adapters.workbook.strings import shared_strings
from counterfoil.activities.adapters.workbook.styles import DATE_FORMAT, DATETIME_FORMAT, Styles
from counterfoil.activities.adapters.workbook.values import content_of, shown, shown_cell

_KEPT_KINDS = ("worksheet", "chartsheet", "dialogsheet")


@dataclass(frozen=True)
class Change:
    """One line of the before and after. `cell` is empty where a whole sheet is meant."""

    sheet: str
    cell: str
    before: str
    after: str


@dataclass(frozen=True)
class EditResult:
    """The new file and what is different in it."""

    content: bytes
    changes: tuple[Change, ...]
    asked_cells: int
    changed_parts: tuple[str, ...]
    added_parts: tuple[str, ...]
    removed_parts: tuple[str, ...]
    has_formulas: bool
    dropped_results: int
    """Formula cells whose stored result was dropped; the application computes them on opening."""
    notes: tuple[str, ...]
    """What else a person should know, such as charts that show earlier figures until opened."""


def edit_workbook(workbook: Workbook, edits: Sequence[Edit]) -> EditResult:
    """Applies the edits in order.

    Raises `Refusal`: `WORKBOOK_EDIT_INVALID` naming the edit, or `WORKBOOK_UNSUPPORTED_CONTENT` naming the content.
    """
    return _Editing(workbook).run(edits)


class _Editing:
    def __init__(self, workbook: Workbook) -> None:
        self._book = Book(workbook)
        for entry in self._book.sheets:
            if entry.kind not in _KEPT_KINDS:
                raise unsupported(
                    entry.part, f"'{entry.name}' is a sheet of the kind '{entry.kind}', with results of its own"
                )
        self._sheets: dict[str, Sheet] = {}
        self._contents: dict[str, dict[Position, CellValue]] = {}
        self._last_rows: dict[str, int] = {}
        self._obstacles: dict[str, list[tuple[Area, str]]] = {}
        self._structure: list[Change] = []

    def run(self, edits: Sequence[Edit]) -> EditResult:
        for index, edit in enumerate(edits):
            match edit:
                case RenameSheet():
                    self._rename(index, edit)
                case AddSheet():
                    self._add(index, edit)
                case SetCell():
                    self._set(index, edit)
                case AppendRow():
                    self._append(index, edit)
        return self._finished()

    # -- the four edits

    def _rename(self, index: int, edit: RenameSheet) -> None:
        entry = self._entry(index, edit.sheet)
        self._may_change_structure()
        self._name_is_free(index, edit.to, but=entry)
        rename_sheet(self._book, entry, edit.to)
        self._structure.append(Change(edit.sheet, "", f"sheet {edit.sheet}", f"sheet {edit.to}"))

    def _add(self, index: int, edit: AddSheet) -> None:
        self._may_change_structure()
        self._name_is_free(index, edit.sheet, but=None)
        self._book.add_sheet(edit.sheet)
        self._structure.append(Change(edit.sheet, "", "no sheet", "empty sheet"))

    def _set(self, index: int, edit: SetCell) -> None:
        entry = self._entry(index, edit.sheet)
        area = parse_area(edit.cell)
        assert area is not None  # the contract parsed it
        self._put(index, entry, Position(area.top, area.left), edit.value)

    def _append(self, index: int, edit: AppendRow) -> None:
        entry = self._entry(index, edit.sheet)
        self._sheet(entry, index)
        row = self._last_rows[entry.part] + 1
        if row > MAX_ROW:
            raise invalid_edit(index, f"the sheet '{entry.name}' has no row left")
        filled = [c for c, value in enumerate(edit.values, start=1) if not isinstance(value, Empty)]
        for table, what in self._obstacles[entry.part]:
            reaches = any(table.left <= column <= table.right for column in filled)
            if what.startswith("the table") and table.bottom == row - 1 and reaches:
                raise unsupported(entry.part, f"{what} ends in the row above, and would not take the new row in")
        for column, value in enumerate(edit.values, start=1):
            if not isinstance(value, Empty):
                self._put(index, entry, Position(row, column), value)

    def _put(self, index: int, entry: SheetEntry, position: Position, value: CellValue) -> None:
        sheet = self._sheet(entry, index)
        where = f"{entry.name}!{address(position)}"
        for area in sheet.map.merged:
            if area.holds(position) and position != (area.top, area.left):
                raise invalid_edit(
                    index,
                    f"{where} lies inside the merged cells {area_text(area)}; name {address(Position(*area[:2]))}",
                )
        for area in sheet.map.arrays:
            if area.holds(position) and not area.is_single:
                raise unsupported(entry.part, f"{where} is part of the array or data table {area_text(area)}")
        for area, what in self._obstacles[entry.part]:
            if area.holds(position) and not what.startswith("the table"):
                raise unsupported(entry.part, f"{where} is part of {what}")
        self._check_value(index, value)
        self._contents.setdefault(entry.part, {})[position] = value
        if not isinstance(value, Empty):
            self._last_rows[entry.part] = max(self._last_rows[entry.part], position.row)

    def _check_value(self, index: int, value: CellValue) -> None:
        if isinstance(value, Formula):
            known = {entry.name.casefold() for entry in self._book.sheets}
            missing = sorted(n for n in formulas.sheets_named(value.formula[1:]) if n.casefold() not in known)
            if missing:
                raise invalid_edit(index, f"the formula names a sheet '{missing[0]}' that is not there")
        elif isinstance(value, Date | DateTime) and self._book.counts_from_1904:
            day = value.date if isinstance(value, Date) else value.datetime.date()
            if day.year < 1904:
                raise invalid_edit(index, "this workbook counts days from 1904; give an earlier date as text")

    # -- what stands in the way

    def _entry(self, index: int, name: str) -> SheetEntry:
        for entry in self._book.sheets:
            if entry.name == name:
                return entry
        names = ", ".join(f"'{entry.name}'" for entry in self._book.sheets[:10])
        raise invalid_edit(index, f"there is no sheet '{name}'; there are {names}")

    def _name_is_free(self, index: int, name: str, but: SheetEntry | None) -> None:
        if any(e is not but and e.name.casefold() == name.casefold() for e in self._book.sheets):
            raise invalid_edit(index, f"there is a sheet '{name}' already (names differ by more than case)")

    def _may_change_structure(self) -> None:
        if self._book.is_structure_locked:
            raise unsupported(
                self._book.main, "the workbook's structure is protected: sheets cannot be added or renamed"
            )

    def _sheet(self, entry: SheetEntry, index: int) -> Sheet:
        if entry.kind != "worksheet":
            raise invalid_edit(index, f"'{entry.name}' is a {entry.kind or 'sheet of an unknown kind'} without cells")
        known = self._sheets.get(entry.part)
        if known is not None:
            return known
        sheet = Sheet(entry.part, self._book.parts[entry.part])
        if sheet.map.is_protected:
            raise unsupported(entry.part, f"the sheet '{entry.name}' is protected")
        obstacles = [*self._tables(entry.part), *self._pivots(entry.part)]
        self._sheets[entry.part] = sheet
        self._obstacles[entry.part] = obstacles
        tables = [area.bottom for area, what in obstacles if what.startswith("the table")]
        self._last_rows[entry.part] = max([sheet.map.last_row, *tables])
        return sheet

    def _tables(self, part: str) -> list[tuple[Area, str]]:
        found: list[tuple[Area, str]] = []
        for table in self._book.related(part, "table") if part in self._book.source.parts else ():
            root = self._book.elements(table)[0]
            area = parse_area(root.get("ref") or "")
            if area is None:
                continue
            name = root.get("displayName") or root.get("name") or table
            found.append((area, f"the table '{name}'"))
            headers = int(root.get("headerRowCount") or 1)
            totals = int(root.get("totalsRowCount") or 0)
            if headers:
                found.append((area._replace(bottom=area.top + headers - 1), f"the headings of the table '{name}'"))
            if totals:
                found.append((area._replace(top=area.bottom - totals + 1), f"the totals of the table '{name}'"))
        return found

    def _pivots(self, part: str) -> list[tuple[Area, str]]:
        found: list[tuple[Area, str]] = []
        for pivot in self._book.related(part, "pivotTable") if part in self._book.source.parts else ():
            for element in self._book.elements(pivot):
                if element.local == "location":
                    area = parse_area(element.get("ref") or "")
                    if area is not None:
                        found.append((area, "a pivot table"))
        return found

    # -- the new file

    def _finished(self) -> EditResult:
        changes = list(self._structure)
        styles = self._styles()
        strings_part = self._book.strings_part()
        strings: list[str] | None = None
        chain_is_stale = False
        for entry in list(self._book.sheets):
            contents = self._contents.get(entry.part, {})
            if not contents:
                continue
            sheet = self._sheets[entry.part]
            raw: dict[Position, CellContent] = {}
            for position in sorted(contents):
                value = contents[position]
                before = sheet.read(position)
                if before.kind == "s" and strings is None:
                    strings = shared_strings(self._book.parts[strings_part]) if strings_part else []
                raw[position] = self._content(value, before, styles)
                chain_is_stale |= position in sheet.map.formula_cells and not isinstance(value, Formula)
                is_date = styles is not None and styles.is_date(before.style)
                old = shown_cell(before, strings or [], is_date=is_date, from_1904=self._book.counts_from_1904)
                changes.append(Change(entry.name, address(position), old, shown(value)))
            self._book.parts[entry.part] = written(sheet, raw)
        if styles is not None:
            self._book.parts[styles.part] = styles.written()
        dropped, formula_cells = self._drop_results()
        if formula_cells:
            self._book.recalculate_on_load()
        if chain_is_stale:
            self._book.drop_calculation_chain()
        return self._result(changes, dropped, formula_cells)

    def _content(self, value: CellValue, before: RawCell, styles: Styles | None) -> CellContent:
        style = None
        if isinstance(value, Date | DateTime):
            if styles is None:
                raise unsupported(self._book.main, "the workbook has no cell formats, hence none for dates")
            style = styles.dated(before.style, DATE_FORMAT if isinstance(value, Date) else DATETIME_FORMAT)
        return content_of(value, from_1904=self._book.counts_from_1904, style=style)

    def _styles(self) -> Styles | None:
        part = self._book.styles_part()
        return Styles(part, self._book.parts[part]) if part else None

    def _drop_results(self) -> tuple[int, bool]:
        """Drops what formulas are said to give in sheets no cell of which was written, and counts over all sheets."""
        dropped = 0
        any_formula = False
        for entry in self._book.sheets:
            surveyed = self._sheets.get(entry.part)
            if surveyed is not None and self._contents.get(entry.part):
                asked = self._contents[entry.part]
                dropped += sum(1 for r in surveyed.map.results if r.value and r.position not in asked)
                any_formula |= bool(surveyed.map.formula_cells) or any(isinstance(v, Formula) for v in asked.values())
                continue
            content = self._book.parts[entry.part]
            if entry.kind != "worksheet" or not _may_hold_formulas(content):
                continue
            sheet = surveyed or Sheet(entry.part, content)
            if sheet.map.formula_cells:
                any_formula = True
                dropped += sheet.stored_results
                self._book.parts[entry.part] = written(sheet, {})
        return dropped, any_formula

    def _result(self, changes: list[Change], dropped: int, has_formulas: bool) -> EditResult:
        book = self._book
        changed = book.changed
        folded = [part.casefold() for part in book.parts]
        notes = []
        if any(part.startswith("xl/charts/chart") for part in folded):
            notes.append("charts show the figures they were saved with until the application opens the file")
        if any(part.startswith("xl/pivotcache/") for part in folded):
            notes.append("pivot tables show the figures they were saved with until they are refreshed")
        return EditResult(
            content=write_package(book.source, changed, frozenset(book.removed)),
            changes=tuple(changes),
            asked_cells=sum(len(contents) for contents in self._contents.values()),
            changed_parts=tuple(sorted(name for name in changed if name in book.source.parts)),
            added_parts=tuple(sorted(name for name in changed if name not in book.source.parts)),
            removed_parts=tuple(sorted(book.removed)),
            has_formulas=has_formulas,
            dropped_results=dropped,
            notes=tuple(notes),
        )


def _may_hold_formulas(content: bytes) -> bool:
    return b"<f" in content or b":f" in content
