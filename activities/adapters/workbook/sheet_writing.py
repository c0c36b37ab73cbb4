"""A worksheet part again, with some cells written and every stored formula result dropped.

Only the bytes of those cells, of their rows' and the sheet's recorded extent change. Formulas shared from a cell that
is written over are handed on to the next cell that uses them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

from counterfoil.activities.adapters.workbook import formula as formulas
from counterfoil.activities.adapters.workbook.cells import (
    Area,
    Position,
    address,
    area_text,
    parse_address,
    parse_area,
)
from counterfoil.activities.adapters.workbook.markup import (
    Element,
    MarkupProblem,
    Splice,
    elements,
    escaped,
    quoted,
    spliced,
    start_tag_end,
    unsupported,
    with_attributes,
)
from counterfoil.activities.adapters.workbook.sheet import Sheet, Span


@dataclass(frozen=True)
class CellContent:
    """What is to stand in a cell. `kind` is the type attribute (None for numbers and formulas), `text` a string."""

    kind: str | None = None
    formula: str | None = None
    value: str | None = None
    text: str | None = None
    style: int | None = None
    """A new style; None keeps the cell's own."""

    @property
    def is_empty(self) -> bool:
        """Whether the cell is to hold nothing."""
        return self.formula is None and self.value is None and self.text is None


def written(sheet: Sheet, contents: Mapping[Position, CellContent]) -> bytes:
    """The part with these cells written. Raises `Refusal` (`WORKBOOK_UNSUPPORTED_CONTENT`) where that would damage."""
    if contents and sheet.map.is_irregular:
        raise unsupported(sheet.part, "rows or cells stand without their numbers or out of order")
    if contents and sheet.map.data is None:
        raise unsupported(sheet.part, "it has no cell data")
    try:
        return _Writer(sheet, contents).written()
    except MarkupProblem as problem:
        raise unsupported(sheet.part, str(problem)) from problem


class _Writer:
    def __init__(self, sheet: Sheet, contents: Mapping[Position, CellContent]) -> None:
        self._sheet = sheet
        self._content = sheet.content
        self._prefix = sheet.map.prefix.encode()
        self._contents = contents
        self._inherited = self._inheritances()
        self._stale = {result.position for result in sheet.map.results}
        self._touched: dict[int, dict[int, CellContent]] = {position.row: {} for position in self._inherited}
        for position, content in contents.items():
            self._touched.setdefault(position.row, {})[position.column] = content

    def written(self) -> bytes:
        splices = self._dropped_results()
        splices += [
            (*span, self._row(number, span)) for number, span in self._sheet.map.rows.items() if number in self._touched
        ]
        splices += self._new_rows()
        splices += self._dimension()
        return spliced(self._content, splices)

    def _inheritances(self) -> dict[Position, bytes]:
        inherited: dict[Position, bytes] = {}
        for index, shared in self._sheet.map.shared.items():
            left = [position for position in shared.members if position not in self._contents]
            if shared.master not in self._contents or not left:
                continue
            heir = left[0]
            text = formulas.shifted(
                self._sheet.read(shared.master).formula or "",
                heir.row - shared.master.row,
                heir.column - shared.master.column,
            )
            if text is None:
                raise unsupported(self._sheet.part, f"the formula {address(shared.master)} shares cannot be moved")
            rows, columns = [p.row for p in left], [p.column for p in left]
            area = area_text(Area(min(rows), min(columns), max(rows), max(columns))).encode()
            name = self._prefix + b"f"
            inherited[heir] = b'<%s t="shared" ref="%s" si=%s>%s</%s>' % (
                name, area, quoted(index), escaped(text), name
            )  # fmt: skip
        return inherited

    def _dropped_results(self) -> list[Splice]:
        splices: list[Splice] = []
        for result in self._sheet.map.results:
            if result.position.row not in self._touched and result.value is not None:
                tag_end = start_tag_end(self._content, result.start)
                splices.append((result.start, tag_end, _untyped(self._content[result.start : tag_end])))
                splices.append((*result.value, b""))
        return splices

    def _new_rows(self) -> list[Splice]:
        data = self._sheet.map.data
        rows = [
            (number, self._new_row(number)) for number in sorted(self._touched.keys() - self._sheet.map.rows.keys())
        ]
        if data is None or not any(markup for _, markup in rows):
            return []
        name = self._prefix + b"sheetData"
        if self._content.endswith(b"/>", 0, data[1]) and start_tag_end(self._content, data[0]) == data[1]:
            opening = self._content[data[0] : data[1] - 2].rstrip() + b">"
            return [(*data, opening + b"".join(markup for _, markup in rows) + b"</" + name + b">")]
        numbers = sorted(self._sheet.map.rows)
        closing = self._content.rindex(b"</", data[0], data[1])
        places: dict[int, bytes] = {}
        for number, markup in rows:
            after = bisect_right(numbers, number)
            at = self._sheet.map.rows[numbers[after]][0] if after < len(numbers) else closing
            places[at] = places.get(at, b"") + markup
        return [(at, at, markup) for at, markup in places.items()]

    def _new_row(self, number: int) -> bytes:
        cells = b"".join(
            self._cell(Position(number, column), content, None)
            for column, content in sorted(self._touched[number].items())
        )
        name = self._prefix + b"row"
        return b'<%s r="%d">%s</%s>' % (name, number, cells, name) if cells else b""

    def _row(self, number: int, span: Span) -> bytes:
        contents = self._touched[number]
        markup = self._content[span[0] : span[1]]
        found = elements(markup)
        top = found[0]
        pieces: dict[int, bytes] = {}
        rest = top.inner_start
        for cell in found:
            position = parse_address(cell.get("r") or "") if cell.depth == 1 and cell.local == "c" else None
            if position is None:
                continue
            if position.column in contents:
                pieces[position.column] = self._cell(position, contents[position.column], cell)
            else:
                pieces[position.column] = self._kept(markup, cell, position, found)
            rest = cell.end
        for column, content in contents.items():
            if column not in pieces:
                pieces[column] = self._cell(Position(number, column), content, None)
        inner = b"".join(pieces[column] for column in sorted(pieces)) + markup[rest : top.inner_end]
        opening = _spanning(markup[: top.inner_start], top.get("spans"), contents)
        if top.self_closing:
            if not inner:
                return opening
            opening = opening[:-2].rstrip() + b">"
        return opening + inner + b"</" + top.name.encode() + b">"

    def _kept(self, markup: bytes, cell: Element, position: Position, row: list[Element]) -> bytes:
        """A cell that keeps its content, without a stale result, and with the formula it inherits."""
        splices: list[Splice] = []
        for child in row:
            if child.parent is not cell:
                continue
            if child.local == "v" and position in self._stale:
                splices += [(cell.start, cell.inner_start, _untyped(markup[cell.start : cell.inner_start]))]
                splices += [(child.start, child.end, b"")]
            elif child.local == "f" and position in self._inherited:
                splices.append((child.start, child.end, self._inherited[position]))
        base = cell.start
        return spliced(markup[base : cell.end], [(start - base, end - base, new) for start, end, new in splices])

    def _cell(self, position: Position, content: CellContent, old: Element | None) -> bytes:
        style = content.style if content.style is not None else int((old.get("s") or 0) if old else 0)
        if content.is_empty and not style:
            return b""
        prefix = self._prefix
        tag = b'<%sc r="%s"' % (prefix, address(position).encode())
        tag += b' s="%d"' % style if style else b""
        tag += b" t=" + quoted(content.kind) if content.kind else b""
        if content.is_empty:
            return tag + b"/>"
        inner = b""
        if content.formula is not None:
            inner += b"<%sf>%s</%sf>" % (prefix, escaped(content.formula), prefix)
        if content.value is not None:
            inner += b"<%sv>%s</%sv>" % (prefix, escaped(content.value), prefix)
        if content.text is not None:
            text = escaped(content.text)
            inner += b'<%sis><%st xml:space="preserve">%s</%st></%sis>' % (prefix, prefix, text, prefix, prefix)
        return tag + b">" + inner + b"</%sc>" % prefix

    def _dimension(self) -> list[Splice]:
        start = self._sheet.map.dimension_start
        filled = [position for position, content in self._contents.items() if not content.is_empty]
        if start is None or not filled:
            return []
        end = start_tag_end(self._content, start)
        tag = self._content[start:end]
        area = parse_area(elements(tag if tag.endswith(b"/>") else tag[:-1] + b"/>")[0].get("ref") or "")
        if area is None:
            return []
        rows, columns = [p.row for p in filled], [p.column for p in filled]
        wider = Area(min(rows), min(columns), max(rows), max(columns))
        if self._sheet.map.rows:
            wider = Area(
                min(area.top, wider.top),
                min(area.left, wider.left),
                max(area.bottom, wider.bottom),
                max(area.right, wider.right),
            )
        return [(start, end, with_attributes(tag, {"ref": area_text(wider)}))] if wider != area else []


def _untyped(tag: bytes) -> bytes:
    return with_attributes(tag, {"t": None})


def _spanning(tag: bytes, spans: str | None, contents: Mapping[int, CellContent]) -> bytes:
    columns = [column for column, content in contents.items() if not content.is_empty]
    if not spans or not columns:
        return tag
    ends = spans.split()[0].split(":")
    if len(spans.split()) != 1 or len(ends) != 2 or not all(end.isdigit() for end in ends):
        return with_attributes(tag, {"spans": None})
    first, last = min(int(ends[0]), *columns), max(int(ends[1]), *columns)
    return with_attributes(tag, {"spans": f"{first}:{last}"}) if [str(first), str(last)] != ends else tag
