"""The workbook that ships with the examples: a real edit of it, and everything in it still there."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import openpyxl

REPORT = Path(__file__).parents[4] / "examples" / "quarterly-report.xlsx"
EDITS = [
    {"op": "set_cell", "sheet": "Revenue", "cell": "D3", "value": {"type": "number", "number": 32750}},
    {"op": "set_cell", "sheet": "Assumptions", "cell": "B3", "value": {"type": "text", "text": "reviewed"}},
    {"op": "set_cell", "sheet": "Assumptions", "cell": "B4", "value": {"type": "date", "date": "2024-10-08"}},
    {"op": "set_cell", "sheet": "Summary", "cell": "A11", "value": {"type": "text", "text": "=checked by Finance"}},
    {
        "op": "set_cell",
        "sheet": "Summary",
        "cell": "B11",
        "value": {"type": "formula", "formula": "=E9>=target_margin"},
    },
    {
        "op": "append_row",
        "sheet": "Log",
        "values": [
            {"type": "date", "date": "2024-10-08"},
            {"type": "text", "text": "Agent"},
            {"type": "text", "text": "Corrected East, September"},
        ],
    },
]


def test_the_report_is_edited_and_only_the_edited_sheets_change(workplace: Any, parts: Any) -> None:
    source = REPORT.read_bytes()
    assert len(source) < 100_000
    output = workplace.edit(source, EDITS)
    before, after = parts(source), parts(output)
    assert {name for name in before if before[name] != after[name]} == {
        "xl/styles.xml",
        "xl/worksheets/sheet1.xml",
        "xl/worksheets/sheet2.xml",
        "xl/worksheets/sheet3.xml",
        "xl/worksheets/sheet4.xml",
        "xl/worksheets/sheet5.xml",
    }
    book = openpyxl.load_workbook(io.BytesIO(output))
    assert book["Revenue"]["D3"].value == 32750
    assert (book["Summary"]["A11"].value, book["Summary"]["A11"].data_type) == ("=checked by Finance", "s")
    assert [cell.value for cell in book["Log"][3]][1:] == ["Agent", "Corrected East, September"]
    values = openpyxl.load_workbook(io.BytesIO(output), data_only=True)
    assert values["Summary"]["E9"].value is None
    for kept in ("xl/charts/chart1.xml", "xl/media/image1.png", "xl/comments1.xml", "xl/sharedStrings.xml"):
        assert kept in after


def test_the_proposal_shows_every_change_with_its_type(workplace: Any) -> None:
    _, prepared = workplace.prepare(REPORT.read_bytes(), EDITS)
    assert prepared.preview.rows == (
        ("Summary", "A11", "empty", 'text "=checked by Finance"'),
        ("Summary", "B11", "empty", "formula =E9>=target_margin"),
        ("Revenue", "D3", "number 31480", "number 32750"),
        ("Assumptions", "B3", 'text "draft"', 'text "reviewed"'),
        ("Assumptions", "B4", "date 2024-09-30", "date 2024-10-08"),
        ("Log", "A3", "empty", "date 2024-10-08"),
        ("Log", "B3", "empty", 'text "Agent"'),
        ("Log", "C3", "empty", 'text "Corrected East, September"'),
    )
