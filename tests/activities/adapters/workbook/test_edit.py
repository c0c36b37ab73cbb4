"""The edit, byte for byte, on small sheets written out by hand."""

from __future__ import annotations

import datetime as dt
import io
import re
from typing import Any

import openpyxl
import pytest
import xlsxwriter
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from counterfoil.activities.adapters.workbook.contract import parse_input
from counterfoil.activities.adapters.workbook.edit import EditResult, edit_workbook
from counterfoil.activities.adapters.workbook.inspect import inspect
from counterfoil.activities.adapters.workbook.reader import compare
from counterfoil.models.errors import Refusal

SHEET = "xl/worksheets/sheet1.xml"
TEXT = st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff")
HEAD = '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'


def book(**options: Any) -> bytes:
    target = io.BytesIO()
    made = xlsxwriter.Workbook(target, {"in_memory": True, **options})
    made.set_properties({"created": dt.datetime(2024, 1, 1)})  # else every second makes another file
    made.add_worksheet("Data").write("A1", 1, made.add_format({"bold": True, "num_format": "0.00"}))
    made.add_worksheet("Other").write_formula("A1", "=Data!A1", None, 1)
    made.close()
    return target.getvalue()


def value(spelled: Any) -> dict[str, Any]:
    if spelled is None:
        return {"type": "empty"}
    if isinstance(spelled, str):
        return {"type": "formula", "formula": spelled} if spelled[:1] == "=" else {"type": "text", "text": spelled}
    return {"type": "number", "number": spelled}


def put(cell: str, spelled: Any, sheet: str = "Data") -> dict[str, Any]:
    return {
        "op": "set_cell",
        "sheet": sheet,
        "cell": cell,
        "value": spelled if isinstance(spelled, dict) else value(spelled),
    }


def row(*spelled: Any, sheet: str = "Data") -> dict[str, Any]:
    return {"op": "append_row", "sheet": sheet, "values": [value(one) for one in spelled]}


def edited(content: bytes, *edits: dict[str, Any]) -> EditResult:
    return edit_workbook(inspect(content, ".xlsx"), parse_input({"path": "a.xlsx", "edits": list(edits)}).edits)


@pytest.fixture
def data(repacked: Any, parts: Any) -> Any:
    """`data(sheet data markup, edits…)`: that markup after the edits; `rest` follows the cells in the sheet."""

    def run(markup: str, *edits: dict[str, Any], rest: str = "") -> str:
        sheet = f"{HEAD}<sheetData>{markup}</sheetData>{rest}</worksheet>".encode()
        output = edited(repacked(book(), {SHEET: sheet}), *edits).content
        found = re.fullmatch(rf"{HEAD}(.*?){rest}</worksheet>", parts(output)[SHEET].decode(), re.DOTALL)
        assert found is not None
        return found[1].removeprefix("<sheetData>").removesuffix("</sheetData>")

    return run


A1 = '<row r="1"><c r="A1"><v>1</v></c></row>'


@pytest.mark.parametrize(
    ("before", "edit", "after"),
    [
        (A1, put("A1", 2), '<row r="1"><c r="A1"><v>2</v></c></row>'),
        (A1, put("B1", 2), '<row r="1"><c r="A1"><v>1</v></c><c r="B1"><v>2</v></c></row>'),
        (A1, put("A3", 2), A1 + '<row r="3"><c r="A3"><v>2</v></c></row>'),
        (A1.replace("1", "5", 1).replace("A1", "A5"), put("A3", 2), '<row r="3"><c r="A3"><v>2</v></c></row>'
         '<row r="5"><c r="A5"><v>1</v></c></row>'),
        ("", put("C2", 2), '<row r="2"><c r="C2"><v>2</v></c></row>'),
        (A1, put("A1", None), '<row r="1"></row>'),
        (A1, put("B9", None), A1),
        (
            '<row r="1"><c r="A1" s="1" cm="1" vm="1" t="e"><v>#VALUE!</v></c></row>',
            put("A1", 2),
            '<row r="1"><c r="A1" s="1"><v>2</v></c></row>',
        ),
        (
            '<row r="1"><c r="A1" s="1"><v>1</v></c></row>',
            put("A1", None),
            '<row r="1"><c r="A1" s="1"/></row>',
        ),
        (
            '<row r="1" spans="1:1" ht="20"><c r="A1"/></row>',
            put("C1", 2),
            '<row r="1" spans="1:3" ht="20"><c r="A1"/><c r="C1"><v>2</v></c></row>',
        ),
        ('<row r="1" ht="9"/>', put("A1", 2), '<row r="1" ht="9"><c r="A1"><v>2</v></c></row>'),
        (
            A1,
            put("A1", {"type": "text", "text": " =a & <b> "}),
            '<row r="1"><c r="A1" t="inlineStr"><is><t xml:space="preserve"> =a &amp; &lt;b&gt; </t></is></c></row>',
        ),
        (
            A1,
            put("A1", "_x0041_"),
            '<row r="1"><c r="A1" t="inlineStr"><is><t xml:space="preserve">_x005F_x0041_</t></is></c></row>',
        ),
        (A1, put("A1", '=IF(B1<2,"a","b")'), '<row r="1"><c r="A1"><f>IF(B1&lt;2,"a","b")</f></c></row>'),
        (A1, put("A1", {"type": "boolean", "boolean": True}), '<row r="1"><c r="A1" t="b"><v>1</v></c></row>'),
        (A1, put("A1", -0.0), '<row r="1"><c r="A1"><v>0</v></c></row>'),
        (A1, put("A1", 0.1), '<row r="1"><c r="A1"><v>0.1</v></c></row>'),
        (A1, row("x", None, 3), A1 + '<row r="2"><c r="A2" t="inlineStr"><is><t xml:space="preserve">x</t></is></c>'
         '<c r="C2"><v>3</v></c></row>'),
        (
            A1 + '<row r="2" s="1" customFormat="1"><c r="A2" s="1"/></row>',
            row(5),
            A1 + '<row r="2" s="1" customFormat="1"><c r="A2" s="1"><v>5</v></c></row>',
        ),
        ("<!-- <row r='7'> -->" + A1, put("A1", 2), '<!-- <row r=\'7\'> --><row r="1"><c r="A1"><v>2</v></c></row>'),
    ],
)  # fmt: skip
def test_only_the_asked_cell_changes_in_the_markup(data: Any, before: str, edit: dict[str, Any], after: str) -> None:
    assert data(before, edit) == after


def test_stored_results_are_dropped_wherever_a_formula_gave_them(data: Any) -> None:
    before = (
        '<row r="1"><c r="A1"><v>1</v></c><c r="B1" s="1" t="str"><f>A1&amp;"x"</f><v>1x</v></c></row>'
        '<row r="2"><c r="B2"><f t="array" ref="B2:B3">A1:A2*2</f><v>2</v></c></row>'
        '<row r="3"><c r="B3"><v>4</v></c><c r="C3"><v>4</v></c></row>'
    )
    assert data(before, put("A1", 5)) == (
        '<row r="1"><c r="A1"><v>5</v></c><c r="B1" s="1"><f>A1&amp;"x"</f></c></row>'
        '<row r="2"><c r="B2"><f t="array" ref="B2:B3">A1:A2*2</f></c></row>'
        '<row r="3"><c r="B3"></c><c r="C3"><v>4</v></c></row>'
    )


SHARED = (
    '<row r="1"><c r="B1"><f t="shared" ref="B1:B3" si="0">A1*$C$1</f><v>1</v></c></row>'
    '<row r="2"><c r="B2"><f t="shared" si="0"/><v>2</v></c></row>'
    '<row r="3"><c r="B3"><f t="shared" si="0"/><v>3</v></c></row>'
)


def test_a_formula_shared_from_an_overwritten_cell_is_handed_on(data: Any) -> None:
    assert data(SHARED, put("B1", 9)) == (
        '<row r="1"><c r="B1"><v>9</v></c></row>'
        '<row r="2"><c r="B2"><f t="shared" ref="B2:B3" si="0">A2*$C$1</f></c></row>'
        '<row r="3"><c r="B3"><f t="shared" si="0"/></c></row>'
    )


def test_a_member_of_a_shared_formula_is_overwritten_by_itself(data: Any) -> None:
    assert data(SHARED, put("B2", 9)) == (
        '<row r="1"><c r="B1"><f t="shared" ref="B1:B3" si="0">A1*$C$1</f></c></row>'
        '<row r="2"><c r="B2"><v>9</v></c></row>'
        '<row r="3"><c r="B3"><f t="shared" si="0"/></c></row>'
    )


def test_the_before_of_a_shared_formula_is_the_formula_in_its_own_place(repacked: Any) -> None:
    sheet = f"{HEAD}<sheetData>{SHARED}</sheetData></worksheet>".encode()
    (change,) = edited(repacked(book(), {SHEET: sheet}), put("B3", "text")).changes
    assert (change.cell, change.before, change.after) == ("B3", "formula =A3*$C$1", 'text "text"')


def test_a_prefixed_sheet_keeps_its_prefix(repacked: Any, parts: Any) -> None:
    sheet = (
        b'<x:worksheet xmlns:x="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><x:sheetData/></x:worksheet>'
    )
    output = edited(repacked(book(), {SHEET: sheet}), put("A1", "t"), put("A2", "=1+1")).content
    assert parts(output)[SHEET].decode() == (
        '<x:worksheet xmlns:x="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><x:sheetData>'
        '<x:row r="1"><x:c r="A1" t="inlineStr"><x:is><x:t xml:space="preserve">t</x:t></x:is></x:c></x:row>'
        '<x:row r="2"><x:c r="A2"><x:f>1+1</x:f></x:c></x:row></x:sheetData></x:worksheet>'
    )


def test_a_byte_order_mark_and_line_breaks_stay(repacked: Any, parts: Any) -> None:
    sheet = f'\ufeff<?xml version="1.0"?>\r\n{HEAD}\r\n<sheetData>\r\n{A1}\r\n</sheetData>\r\n</worksheet>\r\n'
    output = edited(repacked(book(), {SHEET: sheet.encode()}), put("A1", 2)).content
    assert parts(output)[SHEET].decode() == sheet.replace("<v>1</v>", "<v>2</v>")


def test_a_date_keeps_the_cells_other_formatting(parts: Any) -> None:
    output = edited(book(), put("A1", {"type": "date", "date": "2024-02-29"})).content
    cell = openpyxl.load_workbook(io.BytesIO(output))["Data"]["A1"]
    assert (cell.value.isoformat(), cell.font.b, cell.number_format) == ("2024-02-29T00:00:00", True, "yyyy-mm-dd")


def test_a_date_format_that_is_there_stays() -> None:
    target = io.BytesIO()
    made = xlsxwriter.Workbook(target, {"in_memory": True})
    made.add_worksheet("Data").write("A1", 45000, made.add_format({"num_format": "dd.mm.yy"}))
    made.close()
    result = edited(target.getvalue(), put("A1", {"type": "date", "date": "2024-02-29"}))
    assert result.changed_parts == (SHEET,)
    assert result.changes[0].before == "date 2023-03-15"
    assert openpyxl.load_workbook(io.BytesIO(result.content))["Data"]["A1"].number_format == "dd.mm.yy"


def test_a_workbook_that_counts_from_1904_gets_the_right_day() -> None:
    output = edited(book(date_1904=True), put("A1", {"type": "date", "date": "2024-02-29"})).content
    assert openpyxl.load_workbook(io.BytesIO(output))["Data"]["A1"].value.isoformat() == "2024-02-29T00:00:00"


def test_the_application_is_asked_to_calculate_on_opening(parts: Any) -> None:
    assert (
        b'<calcPr calcId="124519" fullCalcOnLoad="1"/>'
        in parts(edited(book(), put("A1", 2)).content)["xl/workbook.xml"]
    )
    without = parts(book())["xl/workbook.xml"].replace(b'<calcPr calcId="124519" fullCalcOnLoad="1"/>', b"")
    assert b"calcPr" not in without


def test_a_workbook_without_calculation_settings_gets_them_in_their_place(repacked: Any, parts: Any) -> None:
    main = parts(book())["xl/workbook.xml"].replace(b'<calcPr calcId="124519" fullCalcOnLoad="1"/>', b"")
    output = parts(edited(repacked(book(), {"xl/workbook.xml": main}), put("A1", 2)).content)["xl/workbook.xml"]
    assert output == main.replace(b"</sheets>", b'</sheets><calcPr fullCalcOnLoad="1"/>')


def test_the_order_of_calculation_goes_when_it_would_name_a_cell_without_a_formula(repacked: Any, parts: Any) -> None:
    source = parts(book())
    kind = b"http://schemas.openxmlformats.org/officeDocument/2006/relationships/calcChain"
    relation = b'<Relationship Id="rId99" Type="%s" Target="calcChain.xml"/></Relationships>' % kind
    override = b'<Override PartName="/xl/calcChain.xml" ContentType="x"/></Types>'
    chained = repacked(
        book(),
        {
            "xl/calcChain.xml": b'<calcChain><c r="A1" i="2"/></calcChain>',
            "xl/_rels/workbook.xml.rels": source["xl/_rels/workbook.xml.rels"].replace(b"</Relationships>", relation),
            "[Content_Types].xml": source["[Content_Types].xml"].replace(b"</Types>", override),
        },
    )
    kept = edited(chained, put("A1", 2))
    assert kept.removed_parts == ()
    gone = edited(chained, put("A1", 2, sheet="Other"))
    assert gone.removed_parts == ("xl/calcChain.xml",)
    left = parts(gone.content)
    assert left["[Content_Types].xml"] == source["[Content_Types].xml"]
    assert left["xl/_rels/workbook.xml.rels"] == source["xl/_rels/workbook.xml.rels"]


def test_the_same_input_gives_the_same_bytes() -> None:
    edits = (put("A1", {"type": "date", "date": "2024-02-29"}), {"op": "add_sheet", "sheet": "New"}, row(1, "x"))
    assert edited(book(), *edits).content == edited(book(), *edits).content


def test_edits_apply_in_order() -> None:
    result = edited(book(), row(1), row(2), put("A2", 3), put("C9", 4), row(5), {"op": "add_sheet", "sheet": "New"})
    sheet = openpyxl.load_workbook(io.BytesIO(result.content))["Data"]
    assert [sheet[cell].value for cell in ("A1", "A2", "A3", "C9", "A10")] == [1, 3, 2, 4, 5]
    assert result.asked_cells == 4


VALUES = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, st.text(TEXT, max_size=12)),
    st.builds(lambda number: {"type": "number", "number": number}, st.integers(-(2**53), 2**53)),
    st.builds(lambda flag: {"type": "boolean", "boolean": flag}, st.booleans()),
    st.just({"type": "formula", "formula": "=A1+1"}),
    st.just({"type": "empty"}),
)
CELLS = st.builds("{}{}".format, st.sampled_from(["A", "B", "C", "AB"]), st.integers(1, 9))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cells=st.lists(st.tuples(CELLS, VALUES), min_size=1, max_size=12))
def test_whatever_is_set_in_whatever_order_reads_back_and_the_rest_stays(
    cells: list[tuple[str, dict[str, Any]]],
) -> None:
    edits = [put(cell, one) for cell, one in cells]
    output = edited(book(), *edits).content
    sheet = openpyxl.load_workbook(io.BytesIO(output))["Data"]
    for cell, one in dict(cells).items():
        assert sheet[cell].value == one.get(one["type"])
    report = compare(book(), output, edits)
    assert (report["held"], report["counts"]) == (len(dict(cells)), {})


def test_a_sheet_can_be_renamed_to_another_ones_former_name() -> None:
    swap = [("Data", "tmp"), ("Other", "Data"), ("tmp", "Other")]
    output = edited(book(), *({"op": "rename_sheet", "sheet": a, "to": b} for a, b in swap)).content
    made = openpyxl.load_workbook(io.BytesIO(output))
    assert made.sheetnames == ["Other", "Data"]
    assert made["Data"]["A1"].value == "=Other!A1"


REFUSED = [
    (put("A1", 1, sheet="data"), "edit 0: there is no sheet 'data'; there are 'Data', 'Other'"),
    ({"op": "add_sheet", "sheet": "DATA"}, "edit 0: there is a sheet 'DATA' already (names differ by more than case)"),
    ({"op": "rename_sheet", "sheet": "Data", "to": "other"}, "edit 0: there is a sheet 'other' already"),
    (put("A1", "=Missing!A1"), "edit 0: the formula names a sheet 'Missing' that is not there"),
    (put("A1", {"type": "date", "date": "1903-01-01"}), "edit 0: this workbook counts days from 1904"),
]


@pytest.mark.parametrize(("edit", "why"), REFUSED)
def test_what_the_workbook_contradicts_is_refused_by_index(edit: dict[str, Any], why: str) -> None:
    with pytest.raises(Refusal) as caught:
        edited(book(date_1904=True), edit)
    assert caught.value.code == "WORKBOOK_EDIT_INVALID"
    assert caught.value.detail.startswith(why)


MERGED = '<mergeCells count="1"><mergeCell ref="A1:B2"/></mergeCells>'
ARRAY = '<row r="1"><c r="A1"><f t="array" ref="A1:A3">B1:B3</f><v>1</v></c></row>'
TABLE = '<row r="1"><c r="A1"><f t="dataTable" ref="A1:B2" dt2D="1" dtr="1" r1="E1" r2="E2"/><v>1</v></c></row>'
UNSUPPORTED = [
    (A1, MERGED, put("B2", 1), "WORKBOOK_EDIT_INVALID", "Data!B2 lies inside the merged cells A1:B2; name A1"),
    (ARRAY, "", put("A2", 1), "WORKBOOK_UNSUPPORTED_CONTENT", "Data!A2 is part of the array or data table A1:A3"),
    (ARRAY, "", put("A1", 1), "WORKBOOK_UNSUPPORTED_CONTENT", "Data!A1 is part of the array or data table A1:A3"),
    (TABLE, "", put("B2", 1), "WORKBOOK_UNSUPPORTED_CONTENT", "Data!B2 is part of the array or data table A1:B2"),
    (A1, '<sheetProtection sheet="1"/>', put("B2", 1), "WORKBOOK_UNSUPPORTED_CONTENT", "the sheet 'Data' is protected"),
    ('<row><c r="A1"/></row>', "", put("B2", 1), "WORKBOOK_UNSUPPORTED_CONTENT", "without their numbers"),
    ('<row r="1"><c/></row>', "", put("B2", 1), "WORKBOOK_UNSUPPORTED_CONTENT", "without their numbers"),
    ('<row r="2"/><row r="1"/>', "", put("B2", 1), "WORKBOOK_UNSUPPORTED_CONTENT", "out of order"),
    ('<row r="1"><c r="B1"/><c r="A1"/></row>', "", put("B2", 1), "WORKBOOK_UNSUPPORTED_CONTENT", "out of order"),
    ('<row r="1"><c r="A1">', "", put("B2", 1), "WORKBOOK_UNSUPPORTED_CONTENT", "not well-formed"),
    (
        '<row r="1048576"><c r="A1048576"><v>1</v></c></row>',
        "",
        row(1),
        "WORKBOOK_EDIT_INVALID",
        "the sheet 'Data' has no row left",
    ),
]


@pytest.mark.parametrize(("markup", "rest", "edit", "code", "why"), UNSUPPORTED)
def test_what_an_edit_would_damage_is_refused_naming_it(
    data: Any, markup: str, rest: str, edit: dict[str, Any], code: str, why: str
) -> None:
    with pytest.raises(Refusal) as caught:
        data(markup, edit, rest=rest)
    assert caught.value.code == code
    assert why in caught.value.detail


def test_a_single_cell_array_may_be_overwritten(data: Any) -> None:
    markup = '<row r="1"><c r="A1" cm="1"><f t="array" ref="A1">SORT(B1:B3)</f><v>1</v></c></row>'
    assert data(markup, put("A1", 5)) == '<row r="1"><c r="A1"><v>5</v></c></row>'


def table_book(**options: Any) -> bytes:
    target = io.BytesIO()
    made = xlsxwriter.Workbook(target, {"in_memory": True})
    columns = [{"header": "Name", "total_string": "Sum"}, {"header": "Size", "total_function": "sum"}]
    made.add_worksheet("Data").add_table("B2:C5", {"columns": columns, **options})
    made.close()
    return target.getvalue()


@pytest.mark.parametrize(
    ("options", "edit", "why"),
    [
        ({}, put("B2", "Other"), "Data!B2 is part of the headings of the table 'Table1'"),
        ({"total_row": True}, put("B5", "x"), "Data!B5 is part of the totals of the table 'Table1'"),
        ({}, row(None, "x"), "the table 'Table1' ends in the row above, and would not take the new row in"),
    ],
)
def test_what_would_make_a_table_untrue_is_refused(options: dict[str, Any], edit: dict[str, Any], why: str) -> None:
    with pytest.raises(Refusal) as caught:
        edited(table_book(**options), edit)
    assert caught.value.code == "WORKBOOK_UNSUPPORTED_CONTENT"
    assert why in caught.value.detail


def test_cells_inside_a_table_and_rows_beside_it_are_written() -> None:
    output = edited(table_book(), put("B3", "x"), row(1)).content
    sheet = openpyxl.load_workbook(io.BytesIO(output))["Data"]
    assert (sheet["B3"].value, sheet["A6"].value, sheet.tables["Table1"].ref) == ("x", 1, "B2:C5")


def test_a_locked_structure_refuses_sheets_but_not_cells(repacked: Any, parts: Any) -> None:
    main = parts(book())["xl/workbook.xml"]
    locked = main.replace(b"<bookViews>", b'<workbookProtection lockStructure="1"/><bookViews>')
    content = repacked(book(), {"xl/workbook.xml": locked})
    assert edited(content, put("A1", 5)).asked_cells == 1
    with pytest.raises(Refusal, match="structure is protected"):
        edited(content, {"op": "add_sheet", "sheet": "New"})


@pytest.mark.parametrize(
    ("formula", "why"),
    [
        ('INDIRECT(A1&"!B1")', "INDIRECT"),
        ('HYPERLINK("#Data!A1","go")', "spells the sheet's name 'Data' in a text"),
    ],
)
def test_a_sheet_is_not_renamed_under_a_formula_that_works_out_its_name(
    repacked: Any, parts: Any, formula: str, why: str
) -> None:
    other = "xl/worksheets/sheet2.xml"
    escaped = formula.replace("&", "&amp;")
    changed = parts(book())[other].replace(b"<f>Data!A1</f>", f"<f>{escaped}</f>".encode())
    with pytest.raises(Refusal, match=re.escape(why)):
        edited(repacked(book(), {other: changed}), {"op": "rename_sheet", "sheet": "Data", "to": "New"})


def test_a_chart_sheet_has_no_cells_to_write() -> None:
    target = io.BytesIO()
    made = xlsxwriter.Workbook(target, {"in_memory": True})
    made.add_worksheet("Data").write(0, 0, 1)
    chart = made.add_chart({"type": "pie"})
    chart.add_series({"values": "=Data!$A$1:$A$1"})
    made.add_chartsheet("Picture").set_chart(chart)
    made.close()
    with pytest.raises(Refusal, match="edit 0: 'Picture' is a chartsheet without cells"):
        edited(target.getvalue(), put("A1", 1, sheet="Picture"))
