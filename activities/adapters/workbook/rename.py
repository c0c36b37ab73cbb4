"""Renaming a sheet: every place in the package where a formula or an attribute refers to it by name.

Where something refers to it in a way that is not understood, the renaming is refused, naming the part.
"""

from __future__ import annotations

from counterfoil.activities.adapters.workbook import formula as formulas
from counterfoil.activities.adapters.workbook.book import Book, SheetEntry
from counterfoil.activities.adapters.workbook.markup import (
    Element,
    MarkupProblem,
    Splice,
    elements,
    escaped,
    spliced,
    unsupported,
    with_attributes,
)

_FORMULA_ELEMENTS = frozenset(
    {
        *("f", "formula", "formula1", "formula2", "oldFormula", "definedName"),
        *("calculatedColumnFormula", "totalsRowFormula", "sqref"),
        *("FmlaLink", "FmlaRange", "FmlaTxbx", "FmlaPict", "FmlaGroup"),
    }
)
_FORMULA_ATTRIBUTES = frozenset(
    {
        ("hyperlink", "location"),
        ("sp", "textlink"),
        *(("formControlPr", name) for name in ("fmlaLink", "fmlaRange", "fmlaTxbx", "fmlaGroup")),
    }
)
_NAME_ATTRIBUTES = frozenset({("worksheetSource", "sheet"), ("rangeSet", "sheet"), ("dataRef", "sheet")})
_FOR_READERS_EYES = frozenset({"t", "v", "author", "text"})
"""Elements whose text people wrote for people; a mention in them is not a reference."""
_FOR_READERS_TOO = frozenset({"display", "tooltip", "descr", "title", "prompt", "promptTitle", "error", "errorTitle"})
"""Attributes of the same sort."""
_ELSEWHERE = ("xl/externallinks/", "customxml/", "docprops/core.xml", "docprops/custom.xml", "xl/sharedstrings.xml")


def rename_sheet(book: Book, entry: SheetEntry, new: str) -> None:
    """Renames a sheet and everything that refers to it. Raises `Refusal` (`WORKBOOK_UNSUPPORTED_CONTENT`)."""
    old = entry.name
    for part in list(book.parts):
        folded = part.casefold()
        if folded.endswith("vbaproject.bin"):
            raise unsupported(part, f"macros may refer to the sheet '{old}' by its name")
        if folded.startswith(_ELSEWHERE) or not folded.endswith((".xml", ".vml", ".rels")):
            continue
        if (
            b"!" not in book.parts[part]
            and old.encode() not in book.parts[part]
            and b"INDIRECT" not in book.parts[part]
        ):
            continue
        try:
            book.parts[part] = _rewritten(part, book.parts[part], old, new)
        except MarkupProblem as problem:
            if folded.endswith(".vml"):
                continue  # drawings of comments are often not well-formed, and then nothing reads references from them
            raise unsupported(part, str(problem)) from problem
    book.rename_sheet(entry, new)


def _rewritten(part: str, content: bytes, old: str, new: str) -> bytes:
    splices: list[Splice] = []
    titles = part.casefold() == "docprops/app.xml"
    for element in elements(content):
        changes = _attribute_changes(part, element, old, new)
        if changes:
            tag = content[element.start : element.inner_start]
            splices.append((element.start, element.inner_start, with_attributes(tag, changes)))
        text = element.text
        if not text.strip() or element.local in _FOR_READERS_EYES:
            continue
        if element.local in _FORMULA_ELEMENTS:
            _check(part, text, old)
            after = formulas.renamed(text, old, new)
        elif titles and element.local == "lpstr":
            after = new if text == old else formulas.renamed(text, old, new)
        elif formulas.renamed(text, old, "x" + old) != text:
            raise unsupported(part, f"the element '{element.name}' refers to the sheet '{old}'")
        else:
            continue
        if after != text:
            splices.append((element.inner_start, element.inner_end, escaped(after)))
    return spliced(content, splices)


def _attribute_changes(part: str, element: Element, old: str, new: str) -> dict[str, str | None]:
    changes: dict[str, str | None] = {}
    for name, value in element.attributes.items():
        place = (element.local, name.rpartition(":")[2])
        if place in _FORMULA_ATTRIBUTES:
            after = formulas.renamed(value, old, new)
        elif place in _NAME_ATTRIBUTES:
            after = new if value.casefold() == old.casefold() else value
        elif place == ("Relationship", "Target") and value.startswith("#"):
            after = "#" + formulas.renamed(value[1:], old, new)
            if after == value and old.casefold() in value.casefold():
                raise unsupported(part, f"a link refers to the sheet '{old}'")
        elif place[1] not in _FOR_READERS_TOO and "!" in value and formulas.renamed(value, old, "x" + old) != value:
            raise unsupported(part, f"the attribute '{name}' of '{element.name}' refers to the sheet '{old}'")
        else:
            continue
        if after != value:
            changes[name] = after
    return changes


def _check(part: str, formula: str, old: str) -> None:
    if formulas.calls(formula, "INDIRECT"):
        raise unsupported(part, "a formula works out what it refers to (INDIRECT), perhaps by the sheet's name")
    if formulas.mentions_in_text(formula, old):
        raise unsupported(part, f"a formula spells the sheet's name '{old}' in a text")
