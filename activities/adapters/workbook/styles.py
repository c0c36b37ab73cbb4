"""Cell formats: what counts as a date format, and a date format for cells that have none, added without moving any."""

from __future__ import annotations

import re

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

DATE_FORMAT = "yyyy-mm-dd"
DATETIME_FORMAT = "yyyy-mm-dd hh:mm:ss"
_FIRST_CUSTOM = 164
_BUILT_IN_DATES = frozenset({*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)})
_NOT_CODE = re.compile(r'"[^"]*"|\\.|_.|\*.|\[(?!(?:h+|m+|s+)\])[^\]]*\]', re.IGNORECASE)


def is_date_format(number: int, code: str | None) -> bool:
    """Whether a number format shows a date or time."""
    if code is None:
        return number in _BUILT_IN_DATES
    first_section = _NOT_CODE.sub("", code).split(";")[0]
    return re.search(r"[dmyhs]", first_section, re.IGNORECASE) is not None


class Styles:
    """The styles part, with formats added at the end of its lists. Existing indexes keep their meaning."""

    def __init__(self, part: str, content: bytes) -> None:
        self.part = part
        self._content = content
        try:
            found = elements(content)
        except MarkupProblem as problem:
            raise unsupported(part, str(problem)) from problem
        self._root = found[0]
        self._formats = {
            int(e.get("numFmtId") or 0): e.get("formatCode") or ""
            for e in found
            if e.local == "numFmt" and e.parent is not None and e.parent.local == "numFmts"
        }
        self._format_list = next((e for e in found if e.local == "numFmts" and e.depth == 1), None)
        self._style_list = next((e for e in found if e.local == "cellXfs" and e.depth == 1), None)
        self._styles = [e for e in found if e.local == "xf" and e.parent is self._style_list]
        self._new_formats: dict[str, int] = {}
        self._new_styles: dict[tuple[int, int], int] = {}

    def is_date(self, style: int) -> bool:
        """Whether cells of this style show dates."""
        if style >= len(self._styles):
            return False
        number = int(self._styles[style].get("numFmtId") or 0)
        return is_date_format(number, self._formats.get(number))

    def dated(self, style: int, code: str) -> int:
        """A style like this one that shows dates; itself, if it does already."""
        if self.is_date(style):
            return style
        if self._style_list is None or style >= len(self._styles):
            raise unsupported(self.part, f"it has no cell style {style} to make a date style from")
        number = self._number(code)
        return self._new_styles.setdefault((style, number), len(self._styles) + len(self._new_styles))

    def written(self) -> bytes:
        """The part with what was added."""
        splices: list[Splice] = []
        if self._new_styles and self._style_list is not None:
            added = b"".join(self._copy(style, number) for style, number in self._new_styles)
            splices += _appended(self._content, self._style_list, added, str(len(self._styles) + len(self._new_styles)))
        if self._new_formats:
            prefix = self._root.prefix.encode()
            added = b"".join(
                b'<%snumFmt numFmtId="%d" formatCode=%s/>' % (prefix, number, quoted(code))
                for code, number in self._new_formats.items()
            )
            count = str(len(self._formats) + len(self._new_formats))
            if self._format_list is None:
                at = self._root.inner_start
                markup = b'<%snumFmts count="%s">%s</%snumFmts>' % (prefix, count.encode(), added, prefix)
                splices.append((at, at, markup))
            else:
                splices += _appended(self._content, self._format_list, added, count)
        return spliced(self._content, splices)

    def _number(self, code: str) -> int:
        for number, known in self._formats.items():
            if known == code:
                return number
        first = max([_FIRST_CUSTOM - 1, *self._formats]) + 1
        return self._new_formats.setdefault(code, first + len(self._new_formats))

    def _copy(self, style: int, number: int) -> bytes:
        original = self._styles[style]
        markup = self._content[original.start : original.end]
        length = original.inner_start - original.start
        tag = with_attributes(markup[:length], {"numFmtId": str(number), "applyNumberFormat": "1"})
        return tag + markup[length:]


def _appended(content: bytes, element: Element, added: bytes, count: str) -> list[Splice]:
    tag = with_attributes(content[element.start : element.inner_start], {"count": count})
    if element.self_closing:
        tag = tag[:-2].rstrip() + b">"
        return [(element.start, element.end, tag + added + b"</" + element.name.encode() + b">")]
    return [(element.start, element.inner_start, tag), (element.inner_end, element.inner_end, added)]
