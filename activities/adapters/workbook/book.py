"""The parts around the sheets: which sheets there are, where they live, and the declarations that name them."""

from __future__ import annotations

from dataclasses import dataclass

from counterfoil.activities.adapters.workbook.inspect import CONTENT_TYPES, Workbook
from counterfoil.activities.adapters.workbook.markup import (
    Element,
    MarkupProblem,
    Splice,
    elements,
    quoted,
    spliced,
    unsupported,
    with_attributes,
)
from counterfoil.activities.adapters.workbook.package import Package, corrupt, relationships_of, resolve

_SPREADSHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_RELATIONSHIPS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_WORKSHEET_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"
_BEFORE_CALCULATION = ("sheets", "functionGroups", "externalReferences", "definedNames")
_NEW_SHEET = (
    f'<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
    f'<worksheet xmlns="{_SPREADSHEET}"><sheetData/></worksheet>'
).encode()


@dataclass(frozen=True)
class SheetEntry:
    """A sheet as the workbook lists it. `kind` is `worksheet`, `chartsheet`, `dialogsheet` or a macro sheet."""

    name: str
    part: str
    kind: str


class Book:
    """The workbook's parts while they are edited; `changed` and `removed` say what became of the source's."""

    def __init__(self, workbook: Workbook) -> None:
        self.source: Package = workbook.package
        self.main = workbook.main
        self.parts: dict[str, bytes] = dict(workbook.package.parts)
        self.removed: set[str] = set()
        self._types = self._found(CONTENT_TYPES)
        self._relationships = self._found(relationships_of(workbook.main))
        self.sheets = self._listed()
        root = self.elements(self.main)
        self.is_structure_locked = any(
            e.local == "workbookProtection" and e.get("lockStructure") in ("1", "true", "on") for e in root
        )
        self.counts_from_1904 = any(e.local == "workbookPr" and e.get("date1904") in ("1", "true", "on") for e in root)

    @property
    def changed(self) -> dict[str, bytes]:
        """Parts that differ from the source, and new ones."""
        return {name: content for name, content in self.parts.items() if self.source.parts.get(name) != content}

    def elements(self, part: str) -> list[Element]:
        """The elements of a part. Raises `Refusal` (`WORKBOOK_UNSUPPORTED_CONTENT`) if it is not plain XML."""
        try:
            return elements(self.parts[part])
        except MarkupProblem as problem:
            raise unsupported(part, str(problem)) from problem

    def related(self, part: str, kind: str) -> list[str]:
        """The parts that `part` is related to by a relationship of that kind, such as `table`."""
        relationships = self.source.find(relationships_of(part))
        if relationships is None:
            return []
        targets = [
            self.source.find(resolve(part, e.get("Target") or ""))
            for e in self.elements(relationships)
            if (e.get("Type") or "").rpartition("/")[2] == kind and e.get("TargetMode") != "External"
        ]
        return [target for target in targets if target is not None]

    def styles_part(self) -> str | None:
        """The part with the cell formats."""
        return next(iter(self.related(self.main, "styles")), None)

    def strings_part(self) -> str | None:
        """The part with the shared strings."""
        return next(iter(self.related(self.main, "sharedStrings")), None)

    def add_sheet(self, name: str) -> SheetEntry:
        """Adds an empty worksheet after the last sheet."""
        taken = {part.casefold() for part in self.parts}
        number = next(n for n in range(1, 100_000) if f"xl/worksheets/sheet{n}.xml" not in taken)
        part = f"xl/worksheets/sheet{number}.xml"
        self.parts[part] = _NEW_SHEET
        self._declare(part, _WORKSHEET_TYPE)
        relationship = self._relate(f"{_RELATIONSHIPS}/worksheet", f"/{part}")
        found = self.elements(self.main)
        listed = [e for e in found if e.local == "sheet" and e.parent is not None and e.parent.local == "sheets"]
        last = listed[-1]
        identity = max(int(e.get("sheetId") or 0) for e in listed) + 1
        reference = next(key for key in last.attributes if key.rpartition(":")[2] == "id")
        markup = f"<{last.name} name=".encode() + quoted(name)
        markup += f' sheetId="{identity}" {reference}="{relationship}"/>'.encode()
        self._splice(self.main, [(last.end, last.end, markup)])
        entry = SheetEntry(name, part, "worksheet")
        self.sheets.append(entry)
        return entry

    def rename_sheet(self, entry: SheetEntry, name: str) -> None:
        """Changes the name in the list of sheets; references are another matter."""
        found = self.elements(self.main)
        listed = [e for e in found if e.local == "sheet" and e.parent is not None and e.parent.local == "sheets"]
        element = listed[self.sheets.index(entry)]
        tag = self.parts[self.main][element.start : element.inner_start]
        self._splice(self.main, [(element.start, element.inner_start, with_attributes(tag, {"name": name}))])
        self.sheets[self.sheets.index(entry)] = SheetEntry(name, entry.part, entry.kind)

    def recalculate_on_load(self) -> None:
        """Makes the application compute every formula when it opens the file."""
        found = self.elements(self.main)
        existing = next((e for e in found if e.local == "calcPr" and e.depth == 1), None)
        if existing is not None:
            tag = self.parts[self.main][existing.start : existing.inner_start]
            changed = with_attributes(tag, {"fullCalcOnLoad": "1"})
            self._splice(self.main, [(existing.start, existing.inner_start, changed)])
            return
        before = [e for e in found if e.depth == 1 and e.local in _BEFORE_CALCULATION][-1]
        self._splice(self.main, [(before.end, before.end, f'<{before.prefix}calcPr fullCalcOnLoad="1"/>'.encode())])

    def drop_calculation_chain(self) -> None:
        """Removes the order of calculation, which names cells with formulas. The application makes a new one."""
        for part in self.related(self.main, "calcChain"):
            self.removed.add(part)
            del self.parts[part]
            types = self.elements(self._types)
            gone = [e for e in types if (e.get("PartName") or "").lstrip("/").casefold() == part.casefold()]
            self._splice(self._types, [(e.start, e.end, b"") for e in gone])
        relations = self.elements(self._relationships)
        gone = [e for e in relations if (e.get("Type") or "").endswith("/calcChain")]
        self._splice(self._relationships, [(e.start, e.end, b"") for e in gone])

    def _listed(self) -> list[SheetEntry]:
        targets = {
            e.get("Id"): ((e.get("Type") or "").rpartition("/")[2], resolve(self.main, e.get("Target") or ""))
            for e in self.elements(self._relationships)
        }
        sheets: list[SheetEntry] = []
        for element in self.elements(self.main):
            if element.local != "sheet" or element.parent is None or element.parent.local != "sheets":
                continue
            identity = next((v for k, v in element.attributes.items() if k.rpartition(":")[2] == "id"), None)
            kind, target = targets.get(identity, ("", ""))
            part = self.source.find(target)
            name = element.attributes.get("name", "")
            if part is None:
                raise corrupt(f"the sheet '{name[:100]}' has no part")
            sheets.append(SheetEntry(name, part, kind))
        if not sheets:
            raise corrupt("the workbook has no sheets")
        return sheets

    def _found(self, name: str) -> str:
        part = self.source.find(name)
        if part is None:
            raise corrupt(f"the part '{name}' is missing")
        return part

    def _declare(self, part: str, content_type: str) -> None:
        root = self.elements(self._types)[0]
        markup = f'<{root.prefix}Override PartName="/{part}" ContentType="{content_type}"/>'.encode()
        self._splice(self._types, [(root.inner_end, root.inner_end, markup)])

    def _relate(self, kind: str, target: str) -> str:
        found = self.elements(self._relationships)
        taken = {e.get("Id") for e in found}
        identity = next(f"rId{n}" for n in range(1, 100_000) if f"rId{n}" not in taken)
        markup = f'<{found[0].prefix}Relationship Id="{identity}" Type="{kind}" Target="{target}"/>'.encode()
        self._splice(self._relationships, [(found[0].inner_end, found[0].inner_end, markup)])
        return identity

    def _splice(self, part: str, splices: list[Splice]) -> None:
        self.parts[part] = spliced(self.parts[part], splices)
