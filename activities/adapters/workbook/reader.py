"""The independent reader, run as a process of its own: `python -m …workbook.reader`, a question on standard input.

The question is JSON: `{"source": path, "output": path, "edits": […], "memory_bytes": n, "cpu_seconds": n}`; the answer
is JSON on standard output. It reads values with calamine and everything else by its own means, and holds itself to the
given memory and time, so that a file made to hurt readers hurts nobody but this process.
"""

from __future__ import annotations

import datetime as dt
import gc
import io
import json
import resource
import sys
from pathlib import Path
from typing import Any

from python_calamine import CalamineError, CalamineWorkbook, load_workbook

from counterfoil.activities.adapters.workbook.comparison import (
    Asked,
    Findings,
    compare_cells,
    same_tree,
    what_was_asked,
)
from counterfoil.activities.adapters.workbook.reading import (
    MAIN,
    Element,
    Place,
    Reading,
    SheetReading,
    Unreadable,
    address,
)

CONTENT_TYPES = "[Content_Types].xml"


def compare(source: bytes, output: bytes, edits: list[dict[str, Any]]) -> dict[str, Any]:
    """The whole comparison. `{"unreadable": why}` where the output is no workbook; else counts and findings."""
    before = Reading(source)
    asked = what_was_asked(before, edits)
    try:
        return _Comparison(before, Reading(output), output, asked).report()
    except (Unreadable, CalamineError) as error:
        return {"unreadable": f"{error}"[:500]}


class _Comparison:
    def __init__(self, before: Reading, after: Reading, output: bytes, asked: Asked) -> None:
        self._before = before
        self._after = after
        self._output = output
        self._asked = asked
        self._findings = Findings()
        self._held = 0
        self._cells = 0
        self._unchanged = 0
        self._compared: set[str] = set()
        self._has_formulas = False
        self._lost_formulas = False

    def report(self) -> dict[str, Any]:
        """What was found."""
        self._sheets()
        self._workbook()
        self._parts()
        return {
            "asked": sum(len(cells) for cells in self._asked.cells),
            "held": self._held,
            "cells_checked": self._cells,
            "parts_unchanged": self._unchanged,
            "formulas": self._has_formulas,
            "counts": self._findings.counts,
            "shown": self._findings.shown,
        }

    def _sheets(self) -> None:
        names = [sheet.name for sheet in self._after.sheets]
        if names != self._asked.names:
            self._findings.note("structure", f"the sheets are {', '.join(names)}")
        values = load_workbook(io.BytesIO(self._output))
        for index, wanted in enumerate(self._asked.names):
            after = next((sheet for sheet in self._after.sheets if sheet.name == wanted), None)
            before = self._before.sheets[index] if index < len(self._before.sheets) else None
            if after is None or (before is not None and (before.part, before.kind) != (after.part, after.kind)):
                for place in self._asked.cells[index]:
                    self._findings.note("missing", f"{wanted}!{address(place)}")
            elif after.kind == "worksheet":
                self._sheet(index, after.part, before is None, values)

    def _sheet(self, index: int, part: str, is_new: bool, values: CalamineWorkbook) -> None:
        asked, name = self._asked.cells[index], self._asked.names[index]
        self._compared.add(part)
        old = SheetReading() if is_new else self._before.sheet(part)
        new = self._after.sheet(part)
        self._has_formulas |= any(cell.formula is not None for cell in new.cells.values())
        self._lost_formulas |= any(
            value["type"] != "formula" and (cell := old.cells.get(place)) is not None and cell.formula is not None
            for place, value in asked.items()
        )
        self._cells += len(new.cells)
        files = (self._before, self._after)
        held = compare_cells(asked, self._asked.renamed, old, new, files, name, self._findings)
        self._held += held - self._second_opinion(asked, name, values)
        if is_new:
            if new.frame is None or [child.tag for child in new.frame] != [f"{MAIN}sheetData"]:
                self._findings.note("frames", f"{name} holds more than cells")
        elif not _same_frame(old.frame, new.frame, self._asked.renamed):
            self._findings.note("frames", f"{name} (what surrounds its cells)")
        if not is_new and self._before.parts[part] == self._after.parts[part]:
            self._unchanged += 1

    def _second_opinion(self, asked: dict[Place, dict[str, Any]], name: str, values: CalamineWorkbook) -> int:
        """How many asked cells calamine sees otherwise, although the markup seems right."""
        if not asked:
            return 0
        rows = values.get_sheet_by_name(name).to_python(skip_empty_area=False)
        wrong = 0
        missing = set(self._findings.shown.get("missing", []))
        for (row, column), value in asked.items():
            seen = rows[row - 1][column - 1] if row <= len(rows) and column <= len(rows[row - 1]) else ""
            where = f"{name}!{address((row, column))}"
            if not _agrees(value, seen) and where not in missing:
                wrong += 1
                self._findings.note("disputed", f"{where} reads as {seen!r}")
        return wrong

    def _workbook(self) -> None:
        main = self._before.main
        if self._after.main != main:
            self._findings.note("structure", "the main part is another one")
            return
        self._compared.add(main)
        self._unchanged += self._before.parts[main] == self._after.parts[main]
        old, new = self._before.root(main), self._after.root(main)
        listed = new.find(f"{MAIN}sheets")
        for _ in range(self._asked.added):
            if listed is not None and len(listed):
                last = listed[-1]
                if len(listed) > 1:
                    listed[-2].tail = last.tail
                listed.remove(last)
        settings = new.find(f"{MAIN}calcPr")
        if self._has_formulas and (settings is None or settings.get("fullCalcOnLoad") not in ("1", "true")):
            self._findings.note("stale", "the workbook does not ask to be calculated on opening")
        for root in (old, new):
            found = root.find(f"{MAIN}calcPr")
            if found is not None:
                found.attrib.pop("fullCalcOnLoad", None)
                if not found.attrib and old.find(f"{MAIN}calcPr") is None:
                    root.remove(found)
        if not same_tree(old, new, self._asked.renamed):
            self._findings.note("frames", main)

    def _parts(self) -> None:
        old, new = self._before.parts, self._after.parts
        added = (
            {s.part for s in self._after.sheets} - {s.part for s in self._before.sheets} if self._asked.added else set()
        )
        chain = {target for _, kind, target in self._before.relations(self._before.main) if kind == "calcChain"}
        gone = {part for part in chain if part not in new} if self._lost_formulas else set()
        lists = {CONTENT_TYPES, self._before.main.replace("xl/", "xl/_rels/", 1) + ".rels"} if added or gone else set()
        dated = any(value["type"] in ("date", "datetime") for cells in self._asked.cells for value in cells.values())
        styles = {t for _, kind, t in self._before.relations(self._before.main) if kind == "styles"} if dated else set()
        for part in sorted(old.keys() | new.keys()):
            if part in self._compared or part in added or part in gone:
                continue
            if part not in new or part not in old:
                self._findings.note("parts", f"{part} is {'missing' if part not in new else 'new'}")
            elif old[part] == new[part]:
                self._unchanged += 1
            elif part in lists:
                self._list(part, len(added), len(gone))
            elif part in styles:
                self._styles(part)
            elif not (self._asked.renamed and part.endswith((".xml", ".rels", ".vml")) and self._same(part)):
                self._findings.note("parts", f"{part} is different")

    def _same(self, part: str) -> bool:
        return same_tree(self._before.root(part), self._after.root(part), self._asked.renamed)

    def _list(self, part: str, added: int, removed: int) -> None:
        """Declarations and relationships: what was added is for added sheets, what is gone named the calculation."""
        old = {tuple(sorted(e.attrib.items())) for e in self._before.root(part)}
        new = {tuple(sorted(e.attrib.items())) for e in self._after.root(part)}
        sound = all("calcChain" in str(entry) for entry in old - new) and len(old - new) <= removed
        sound &= all("worksheet" in str(entry) for entry in new - old) and len(new - old) == added
        if not sound:
            self._findings.note("parts", f"{part} is different")

    def _styles(self, part: str) -> None:
        """Formats may only have been added, after the others."""
        old, new = self._before.root(part), self._after.root(part)
        for name in ("numFmts", "cellXfs"):
            before, after = old.find(f"{MAIN}{name}"), new.find(f"{MAIN}{name}")
            if after is None:
                continue
            if before is None:
                new.remove(after)
                continue
            for extra in list(after)[len(before) :]:
                after.remove(extra)
            for element in (before, after):
                element.attrib.pop("count", None)
                if len(element):
                    element[-1].tail = None
        if not same_tree(old, new, {}):
            self._findings.note("parts", f"{part} is different")


def _same_frame(old: Element | None, new: Element | None, renamed: dict[str, str]) -> bool:
    if old is None or new is None:
        return False
    for frame in (old, new):
        extent, data = frame.find(f"{MAIN}dimension"), frame.find(f"{MAIN}sheetData")
        if extent is not None:
            extent.attrib.pop("ref", None)
        if data is not None:
            data.text = None
    return same_tree(old, new, renamed)


def _agrees(value: dict[str, Any], seen: object) -> bool:
    kind = value["type"]
    if kind == "text":
        return bool(seen == value["text"])
    if kind == "boolean":
        return seen is value["boolean"]
    if kind == "number":
        is_number = isinstance(seen, int | float) and not isinstance(seen, bool)
        return (is_number and seen == value["number"]) or isinstance(seen, dt.date | dt.time | dt.timedelta)
    if kind in ("date", "datetime"):
        moment = dt.datetime.fromisoformat(value.get("datetime") or value["date"])
        if isinstance(seen, dt.datetime):
            return abs(seen - moment) < dt.timedelta(milliseconds=1)
        return isinstance(seen, dt.date) and dt.datetime.combine(seen, dt.time()) == moment
    return seen == ""


def main() -> None:
    """Answers the question on standard input."""
    question = json.load(sys.stdin)
    # Millions of cells and no cycles among them: looking for garbage would take longer than reading.
    gc.disable()
    for limit, amount in (
        (resource.RLIMIT_AS, question["memory_bytes"]),
        (resource.RLIMIT_CPU, question["cpu_seconds"]),
    ):
        resource.setrlimit(limit, (amount, amount))
    source, output = (Path(question[name]).read_bytes() for name in ("source", "output"))
    json.dump(compare(source, output, question["edits"]), sys.stdout)


if __name__ == "__main__":
    main()
