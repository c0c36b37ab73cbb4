"""The shared strings of a workbook, for showing what stood in a cell."""

from __future__ import annotations

from defusedxml.ElementTree import fromstring

_MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


def shared_strings(content: bytes) -> list[str]:
    """The plain text of every entry, in order; runs of rich text joined, phonetic guides left out."""
    return [
        "".join(
            run.text or ""
            for child in entry
            for run in ([child] if child.tag == f"{_MAIN}t" else child.iter(f"{_MAIN}t"))
            if child.tag in (f"{_MAIN}t", f"{_MAIN}r")
        )
        for entry in fromstring(content)
    ]
