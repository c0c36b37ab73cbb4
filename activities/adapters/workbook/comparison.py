"""What the reader checks: a published workbook against the snapshot it was made from and the edits that were asked.

Every asked cell has its value; every other cell, part, row and frame is as it was; no formula shows a stored result.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from counterfoil.activities.adapters.workbook.reading import (
    MAIN,
    Cell,
    Element,
    Place,
    Reading,
    SheetReading,
    address,
    place_of,
)

SHOWN = 12
"""How many of each kind of finding are spelled out; the rest are counted."""

_REFERENCE = re.compile(r"""("(?:[^"]|"")*")|(?<![\]\w.'])('(?:[^']|'')*'|[\w.]+(?::[\w.]+)?)!""")
_RELATIVE = re.compile(
    r"""("(?:[^"]|"")*"|'(?:[^']|'')*'!)|(?<![\w.$\[\]])(\$?)([A-Za-z]{1,3})(\$?)([0-9]+)(?![\w.(!])"""
)
_LINES = re.compile(
    r"""("(?:[^"]|"")*"|'(?:[^']|'')*'!)|(?<![\w.$\[\]:])(\$?)([A-Za-z]{1,3}|[0-9]+):(\$?)([A-Za-z]{1,3}|[0-9]+)(?![\w.(!$])"""
)
_BUILT_IN_DATES = {*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)}


@dataclass
class Findings:
    """Counts, and the first few of each kind in words."""

    counts: dict[str, int] = field(default_factory=dict)
    shown: dict[str, list[str]] = field(default_factory=dict)

    def note(self, kind: str, what: str) -> None:
        """Adds one finding."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if len(self.shown.setdefault(kind, [])) < SHOWN:
            self.shown[kind].append(what[:300])


@dataclass
class Asked:
    """The edits as a state: which sheets there are to be, under which names, and what each asked cell is to hold."""

    names: list[str]
    """All sheets in order, the added ones last."""
    cells: list[dict[Place, dict[str, Any]]]
    """Asked values by cell, sheet by sheet in the same order."""
    renamed: dict[str, str]
    """The new name by the old one's case-folded spelling."""
    added: int = 0


def what_was_asked(source: Reading, edits: Iterable[dict[str, Any]]) -> Asked:
    """Works the edits out against the snapshot, as a person would who has only the two."""
    asked = Asked([sheet.name for sheet in source.sheets], [{} for _ in source.sheets], {})
    last_rows: dict[int, int] = {}
    originals = list(asked.names)
    for edit in edits:
        if edit["op"] == "add_sheet":
            asked.names.append(edit["sheet"])
            asked.cells.append({})
            asked.added += 1
            continue
        index = asked.names.index(edit["sheet"])
        if edit["op"] == "rename_sheet":
            asked.names[index] = edit["to"]
            continue
        if index not in last_rows:
            last_rows[index] = source.last_row(source.sheets[index].part) if index < len(source.sheets) else 0
        if edit["op"] == "set_cell":
            written = {place_of(edit["cell"]): edit["value"]}
        else:
            row = last_rows[index] + 1
            written = {(row, c): v for c, v in enumerate(edit["values"], 1) if v["type"] != "empty"}
        asked.cells[index].update(written)
        filled = [place[0] for place, value in written.items() if value["type"] != "empty"]
        last_rows[index] = max([last_rows[index], *filled])
    asked.renamed = {old.casefold(): new for old, new in zip(originals, asked.names, strict=False) if old != new}
    return asked


def canonical(formula: str, renamed: dict[str, str], host: Place | None = None) -> str:
    """A formula in a spelling that depends neither on quotation marks nor, given its cell, on where it stands."""

    def names(match: re.Match[str]) -> str:
        if match[1] is not None:
            return match[1]
        spelled = match[2][1:-1].replace("''", "'") if match[2].startswith("'") else match[2]
        if "[" in spelled:
            return match[0]
        return "'" + ":".join(renamed.get(name.casefold(), name) for name in spelled.split(":")) + "'!"

    formula = _REFERENCE.sub(names, formula)
    if host is None:
        return formula
    row, column = host

    def relative(match: re.Match[str]) -> str:
        if match[1] is not None:
            return match[1]
        at = place_of(match[3] + match[5])
        rows = f"R{at[0]}" if match[4] else f"R[{at[0] - row}]"
        return rows + (f"C{at[1]}" if match[2] else f"C[{at[1] - column}]")

    def lines(match: re.Match[str]) -> str:
        if match[1] is not None:
            return match[1]
        ends = []
        for fixed, end in ((match[2], match[3]), (match[4], match[5])):
            number, own = (int(end), row) if end.isdigit() else (place_of(end + "1")[1], column)
            ends.append(f"{'#' if end.isdigit() else '@'}{number if fixed else f'[{number - own}]'}")
        return ":".join(ends)

    return _LINES.sub(lines, _RELATIVE.sub(relative, formula))


def compare_cells(
    asked: dict[Place, dict[str, Any]],
    renamed: dict[str, str],
    before: SheetReading,
    after: SheetReading,
    files: tuple[Reading, Reading],
    name: str,
    findings: Findings,
) -> int:
    """Notes what is wrong in one sheet; returns how many asked cells hold what was asked."""
    held = 0
    for place in dict.fromkeys([*before.cells, *after.cells, *asked]):
        old, new = before.cells.get(place), after.cells.get(place)
        if place in asked:
            if _holds(asked[place], new, files[1]):
                held += 1
            else:
                findings.note("missing", f"{name}!{address(place)}")
        elif new == old and new is not None and new.formula is None and place not in after.filled:
            continue
        elif not _same_cell(before, after, place, renamed):
            findings.note("strangers", f"{name}!{address(place)}")
        if new is not None and new.value is not None and after.is_result(place):
            findings.note("stale", f"{name}!{address(place)}")
    written = {place[0] for place in asked}
    for row in dict.fromkeys([*before.rows, *after.rows]):
        if before.rows.get(row, {} if row in written else None) != after.rows.get(row):
            findings.note("frames", f"{name}, row {row}")
    return held


def _same_cell(before: SheetReading, after: SheetReading, place: Place, renamed: dict[str, str]) -> bool:
    old, new = before.cells.get(place), after.cells.get(place)
    if old is None or new is None:
        return old is new
    if (old.style, old.extra) != (new.style, new.extra) or (old.formula is None) is not (new.formula is None):
        return False
    if old.formula is not None and _meaning(before, old, place, renamed) != _meaning(after, new, place, {}):
        return False
    if before.is_result(place):
        return new.value is None or (new.kind, new.value) == (old.kind, old.value)
    return (old.kind, old.value, old.text) == (new.kind, new.value, new.text)


def _meaning(sheet: SheetReading, cell: Cell, place: Place, renamed: dict[str, str]) -> str:
    if cell.formula_kind != "shared":
        return canonical(cell.formula or "", renamed)
    host, formula = sheet.masters.get(cell.shared, (place, cell.formula or ""))
    if cell.formula:
        host, formula = place, cell.formula
    return "shared " + canonical(formula, renamed, host)


def _holds(value: dict[str, Any], cell: Cell | None, file: Reading) -> bool:
    if value["type"] == "empty":
        return cell is None or (cell.value is None and cell.text is None and cell.formula is None)
    if cell is None:
        return False
    if value["type"] == "formula":
        return cell.formula is not None and cell.formula == value["formula"][1:] and cell.formula_kind == ""
    if cell.formula is not None:
        return False
    if value["type"] == "text":
        return bool(file.text_of(cell) == value["text"])
    if cell.value is None:
        return False
    if value["type"] == "boolean":
        return (cell.kind, cell.value) == ("b", "1" if value["boolean"] else "0")
    if cell.kind != "n":
        return False
    if value["type"] == "number":
        return bool(float(cell.value) == float(value["number"]))
    moment = dt.datetime.fromisoformat(value.get("datetime") or value["date"])
    origin = dt.datetime(1904, 1, 1) if file.counts_from_1904 else dt.datetime(1899, 12, 30)
    off = abs(float(cell.value) * 86_400_000 - (moment - origin) / dt.timedelta(milliseconds=1))
    return off < 0.5 and _shows_dates(file, cell.style)


def _shows_dates(file: Reading, style: str) -> bool:
    for _, kind, target in file.relations(file.main):
        if kind == "styles":
            root = file.root(target)
            formats = root.findall(f"{MAIN}cellXfs/{MAIN}xf")
            number = formats[int(style)].get("numFmtId", "0") if int(style) < len(formats) else "0"
            for own in root.iterfind(f"{MAIN}numFmts/{MAIN}numFmt"):
                if own.get("numFmtId") == number:
                    return re.search("[ymdhs]", own.get("formatCode", "").lower()) is not None
            return int(number) in _BUILT_IN_DATES
    return False


def same_tree(old: Element, new: Element, renamed: dict[str, str]) -> bool:
    """Whether two elements are the same, sheet names in references aside if sheets were renamed."""
    if old.tag != new.tag or len(old) != len(new) or old.attrib.keys() != new.attrib.keys():
        return False
    texts = [(old.text or "", new.text or ""), (old.tail or "", new.tail or "")]
    texts += [(value, new.attrib[key]) for key, value in old.attrib.items()]
    for one, other in texts:
        if one == other:
            continue
        if not renamed or (renamed.get(one.casefold()) != other and canonical(one, renamed) != canonical(other, {})):
            return False
    return all(same_tree(one, other, renamed) for one, other in zip(old, new, strict=True))
