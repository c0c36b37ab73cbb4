"""The independent reader notices what is wrong in a published file, and never calls a part of the work a success."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import openpyxl
import pytest
import xlsxwriter

from counterfoil.activities.adapters.workbook import verify as verification
from counterfoil.models.operations.outcomes import Contradicted, Partial, VerificationUnavailable, Verified

SHEET, OTHER = "xl/worksheets/sheet1.xml", "xl/worksheets/sheet2.xml"
FIVE = [
    {"op": "set_cell", "sheet": "Data", "cell": f"A{row}", "value": {"type": "number", "number": row * 10}}
    for row in range(1, 6)
]


@pytest.fixture(scope="module")
def source() -> bytes:
    target = io.BytesIO()
    made = xlsxwriter.Workbook(target, {"in_memory": True})
    data, other = made.add_worksheet("Data"), made.add_worksheet("Other")
    for row in range(8):
        data.write_row(row, 0, [row, f"name {row}"])
    data.write_formula("C1", "=SUM(A1:A8)", None, 28)
    other.write_formula("A1", "=Data!A1*2", None, 0)
    other.write("B1", "kept")
    chart = made.add_chart({"type": "line"})
    chart.add_series({"values": "=Data!$A$1:$A$8"})
    other.insert_chart("D2", chart)
    made.close()
    return target.getvalue()


@pytest.fixture
def verdict(workplace: Any, source: bytes, repacked: Any, parts: Any) -> Callable[..., Any]:
    """`verdict(part, old, new)`: what verification says when that is replaced in the published file."""

    def run(part: str, old: bytes | None, new: bytes | None, edits: list[dict[str, Any]] | None = None) -> Any:
        order = workplace.publish(source, edits or FIVE)
        target = workplace.root / "book.xlsx"
        content = parts(target.read_bytes()).get(part)
        if old is not None:
            assert content is not None
            assert old in content
            assert new is not None
            content = content.replace(old, new, 1)
        else:
            content = new
        target.write_bytes(repacked(target.read_bytes(), {part: content}))
        return workplace.verify(order)

    return run


def test_an_untouched_publication_is_verified_with_its_evidence(workplace: Any, source: bytes) -> None:
    order = workplace.publish(source, FIVE)
    found = workplace.verify(order)
    assert isinstance(found, Verified)
    assert found.evidence.digest == order.prepared.data["output_digest"]
    assert found.evidence.observed_at >= order.dispatched_at
    assert found.evidence.facts == {
        "reader": "python-calamine and own XML reading, in a separate process",
        "is_the_prepared_file": True,
        "asked_cells": 5,
        "asked_cells_held": 5,
        "cells_checked": 19,
        "parts_unchanged": 13,
        "formula_results": "dropped",
        "dropped_results": 2,
        "findings": {},
        "notes": ["charts show the figures they were saved with until the application opens the file"],
    }


CONTRADICTIONS = [
    (SHEET, b'<c r="A7"><v>6</v></c>', b'<c r="A7"><v>66</v></c>', "cells nobody asked for are different (1: Data!A7)"),
    (SHEET, b'<c r="A7"><v>6</v></c>', b"", "cells nobody asked for are different (1: Data!A7)"),
    (SHEET, b'<c r="A7">', b'<c r="A7" s="1">', "cells nobody asked for are different (1: Data!A7)"),
    (SHEET, b'<c r="A7"><v>6</v></c>', b'<c r="A7" t="str"><v>6</v></c>', "cells nobody asked for are different"),
    (SHEET, b'<row r="8"', b'<row r="8" hidden="1"', "what surrounds the cells is different (1: Data, row 8)"),
    (SHEET, b"</row></sheetData>", b'</row><row r="9"><c r="A9"><v>1</v></c></row></sheetData>', "Data!A9"),
    (SHEET, b"SUM(A1:A8)", b"SUM(A1:A7)", "cells nobody asked for are different (1: Data!C1)"),
    (SHEET, b"<f>SUM(A1:A8)</f>", b"", "cells nobody asked for are different (1: Data!C1)"),
    (SHEET, b"<pageMargins", b'<sheetProtection sheet="1"/><pageMargins', "what surrounds the cells is different"),
    (SHEET, b"<f>SUM(A1:A8)</f>", b"<f>SUM(A1:A8)</f><v>28</v>", "results from before the edit (1: Data!C1)"),
    (OTHER, b"<f>Data!A1*2</f>", b"<f>Data!A1*2</f><v>0</v>", "results from before the edit (1: Other!A1)"),
    (OTHER, b'<c r="B1" t="s"><v>8</v></c>', b'<c r="B1" t="s"><v>7</v></c>', "(1: Other!B1)"),
    ("xl/workbook.xml", b' fullCalcOnLoad="1"', b"", "does not ask to be calculated on opening"),
    ("xl/workbook.xml", b'name="Other"', b'name="Else"', "the workbook is made up otherwise"),
    ("xl/workbook.xml", b"<bookViews>", b'<workbookProtection lockStructure="1"/><bookViews>', "xl/workbook.xml"),
    ("xl/sharedStrings.xml", b"name 7", b"nome 7", "parts are different (1: xl/sharedStrings.xml is different)"),
    ("xl/charts/chart1.xml", None, None, "parts are different (1: xl/charts/chart1.xml is missing)"),
    ("xl/theme/theme1.xml", b"Office", b"0ffice", "parts are different (1: xl/theme/theme1.xml is different)"),
    ("xl/added.xml", None, b"<a/>", "parts are different (1: xl/added.xml is new)"),
    ("xl/styles.xml", b"Calibri", b"Arial", "parts are different (1: xl/styles.xml is different)"),
    (SHEET, b"</worksheet>", b"", "the file is no sound workbook"),
]


@pytest.mark.parametrize(("part", "old", "new", "why"), CONTRADICTIONS)
def test_anything_nobody_asked_for_contradicts(
    verdict: Any, part: str, old: bytes | None, new: bytes | None, why: str
) -> None:
    found = verdict(part, old, new)
    assert isinstance(found, Contradicted)
    assert why in found.detail


def test_three_of_five_cells_are_partial_and_no_success(verdict: Any) -> None:
    found = verdict(SHEET, b'<c r="A4"><v>40</v></c>', b'<c r="A4"><v>3</v></c>')
    assert isinstance(found, Partial)
    assert found.detail == "4 of 5 asked cells hold what was asked; not: Data!A4"


def test_three_of_five_cells_written_is_what_the_evidence_says(
    workplace: Any, source: bytes, repacked: Any, parts: Any
) -> None:
    order = workplace.publish(source, FIVE)
    target = workplace.root / "book.xlsx"
    sheet = parts(target.read_bytes())[SHEET]
    for now, before in ((b"<v>40</v>", b"<v>3</v>"), (b"<v>50</v>", b"<v>4</v>")):
        assert now in sheet
        sheet = sheet.replace(now, before)
    target.write_bytes(repacked(target.read_bytes(), {SHEET: sheet}))
    found = workplace.verify(order)
    assert isinstance(found, Partial)
    assert found.detail == "3 of 5 asked cells hold what was asked; not: Data!A4, Data!A5"
    assert (found.evidence.facts["asked_cells"], found.evidence.facts["asked_cells_held"]) == (5, 3)


def test_the_old_file_put_back_is_contradicted(workplace: Any, source: bytes) -> None:
    order = workplace.publish(source, FIVE)
    (workplace.root / "book.xlsx").write_bytes(source)
    assert isinstance(workplace.verify(order), Contradicted)


def test_a_file_that_is_gone_is_contradicted(workplace: Any, source: bytes) -> None:
    order = workplace.publish(source, FIVE)
    (workplace.root / "book.xlsx").unlink()
    found = workplace.verify(order)
    assert isinstance(found, Contradicted)
    assert found.evidence.facts == {"found": "FILE_NOT_FOUND"}


def test_a_file_that_another_program_wrote_anew_is_not_called_untouched(workplace: Any, source: bytes) -> None:
    order = workplace.publish(source, FIVE)
    target = workplace.root / "book.xlsx"
    again = openpyxl.load_workbook(target)
    again.save(target)
    assert isinstance(workplace.verify(order), Contradicted)


@pytest.mark.parametrize("junk", [b"", b"PK\x03\x04junk", b"a,b\n"])
def test_a_file_that_is_no_workbook_any_more_is_contradicted(workplace: Any, source: bytes, junk: bytes) -> None:
    order = workplace.publish(source, FIVE)
    (workplace.root / "book.xlsx").write_bytes(junk)
    assert isinstance(workplace.verify(order), Contradicted)


WRONG_VALUES = [
    ({"type": "text", "text": "=1+1"}, b'<is><t xml:space="preserve">=1+1</t></is>', b"<f>1+1</f>"),
    ({"type": "text", "text": "12"}, b' t="inlineStr"><is><t xml:space="preserve">12</t></is>', b"><v>12</v>"),
    ({"type": "number", "number": 12}, b'<c r="A1"><v>12</v>', b'<c r="A1" t="str"><v>12</v>'),
    ({"type": "number", "number": 12.5}, b"<v>12.5</v>", b"<v>12.500001</v>"),
    ({"type": "boolean", "boolean": True}, b' t="b"><v>1</v>', b"><v>1</v>"),
    ({"type": "formula", "formula": "=1+1"}, b"<f>1+1</f>", b"<v>2</v>"),
    ({"type": "date", "date": "2024-02-29"}, b"<v>45351</v>", b"<v>45352</v>"),
    ({"type": "empty"}, b'<row r="1" spans="1:3">', b'<row r="1" spans="1:3"><c r="A1"><v>0</v></c>'),
]  # fmt: skip


@pytest.mark.parametrize(("value", "old", "new"), WRONG_VALUES)
def test_a_value_of_another_type_is_not_what_was_asked(
    verdict: Any, value: dict[str, Any], old: bytes, new: bytes
) -> None:
    edit = {"op": "set_cell", "sheet": "Data", "cell": "A1", "value": value}
    assert isinstance(verdict(SHEET, old, new, [edit]), Contradicted)


def test_a_date_that_would_show_as_a_number_is_not_what_was_asked(verdict: Any) -> None:
    edit = {"op": "set_cell", "sheet": "Data", "cell": "A1", "value": {"type": "date", "date": "2024-02-29"}}
    found = verdict(SHEET, b'<c r="A1" s="1">', b'<c r="A1">', [edit])
    assert isinstance(found, Contradicted)


def test_a_reader_that_crashes_leaves_verification_unavailable(
    workplace: Any, source: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = workplace.publish(source, FIVE)
    monkeypatch.setattr(verification, "READER", "counterfoil.no_such_reader")
    found = workplace.verify(order)
    assert isinstance(found, VerificationUnavailable)
    assert found.detail.startswith("the reader ended with 1")


def test_a_reader_without_memory_leaves_verification_unavailable(
    workplace: Any, source: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = workplace.publish(source, FIVE)
    monkeypatch.setattr(verification, "MEMORY_BYTES", 1024)
    assert isinstance(workplace.verify(order), VerificationUnavailable)


def test_a_reader_that_hangs_is_ended(workplace: Any, source: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    order = workplace.publish(source, FIVE)
    monkeypatch.setattr("counterfoil.activities.adapters.workbook.adapter._left", lambda _: 0.3)
    monkeypatch.setattr(verification, "_command", lambda: ["/bin/sleep", "30"])
    found = workplace.verify(order)
    assert isinstance(found, VerificationUnavailable)
    assert found.detail == "the reader took longer than 0.3 s and was ended"
