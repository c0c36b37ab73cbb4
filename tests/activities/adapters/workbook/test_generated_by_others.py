"""Workbooks as openpyxl makes them, and parts no library here writes: edited and verified, or refused by name."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import openpyxl
import pytest
import xlsxwriter
from openpyxl.chart import BarChart, Reference
from openpyxl.comments import Comment
from openpyxl.formatting.rule import ColorScaleRule
from openpyxl.styles import Protection
from openpyxl.workbook.defined_name import DefinedName
from openpyxl.worksheet.datavalidation import DataValidation
from openpyxl.worksheet.table import Table

RELATIONSHIP = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
SHEET, RELS = "xl/worksheets/sheet1.xml", "xl/worksheets/_rels/sheet1.xml.rels"


def _rows(book: Any, sheet: Any) -> None:
    for row in range(1, 6):
        sheet.append([f"item {row}", row, f"=B{row}*2"])


def _comments(book: Any, sheet: Any) -> None:
    sheet["B2"].comment = Comment("a remark", "A. Person")


def _chart(book: Any, sheet: Any) -> None:
    _rows(book, sheet)
    chart = BarChart()
    chart.add_data(Reference(sheet, min_col=2, min_row=1, max_row=5))
    sheet.add_chart(chart, "F2")


def _table(book: Any, sheet: Any) -> None:
    sheet.append(["Name", "Size"])
    sheet.append(["a", 1])
    sheet.add_table(Table(displayName="T", ref="A1:B2"))
    sheet["A5"] = "below"


def _validation(book: Any, sheet: Any) -> None:
    rule = DataValidation(type="list", formula1='"a,b"')
    rule.add("B2:B9")
    sheet.add_data_validation(rule)


def _conditional(book: Any, sheet: Any) -> None:
    _rows(book, sheet)
    rule = ColorScaleRule(start_type="min", start_color="FF0000", end_type="max", end_color="00FF00")
    sheet.conditional_formatting.add("B1:B5", rule)


def _merged(book: Any, sheet: Any) -> None:
    sheet["B2"] = "across"
    sheet.merge_cells("B2:D3")


def _names(book: Any, sheet: Any) -> None:
    book.defined_names["rate"] = DefinedName("rate", attr_text="Data!$B$1")
    sheet.defined_names["local"] = DefinedName("local", attr_text="Data!$B$2")
    sheet.print_title_rows = "1:2"


def _hidden(book: Any, sheet: Any) -> None:
    book.create_sheet("Hidden").sheet_state = "veryHidden"


def _layout(book: Any, sheet: Any) -> None:
    sheet.freeze_panes = "B2"
    sheet.column_dimensions["C"].width = 30
    sheet.row_dimensions[3].height = 40
    sheet.oddHeader.center.text = "&P of &N"


BUILDERS = [_rows, _comments, _chart, _table, _validation, _conditional, _merged, _names, _hidden, _layout]


def made(build: Callable[[Any, Any], None]) -> bytes:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.title = "Data"
    build(book, sheet)
    target = io.BytesIO()
    book.save(target)
    return target.getvalue()


def plain() -> bytes:
    target = io.BytesIO()
    book = xlsxwriter.Workbook(target, {"in_memory": True})
    book.add_worksheet("Data").write_row(0, 0, [1, "a"])
    book.add_worksheet("Other").write_formula("A1", "=Data!A1", None, 1)
    book.close()
    return target.getvalue()


@pytest.mark.parametrize("build", BUILDERS)
def test_a_workbook_of_openpyxl_is_edited_and_verified(workplace: Any, probe: Any, build: Any) -> None:
    output = workplace.edit(made(build), probe("Data"))
    assert openpyxl.load_workbook(io.BytesIO(output))["Data"]["AZ3"].value == 12.5


@pytest.mark.parametrize("build", BUILDERS)
def test_a_sheet_of_openpyxl_is_renamed_and_another_added(workplace: Any, build: Any) -> None:
    edits = [{"op": "rename_sheet", "sheet": "Data", "to": "Zahlen 1"}, {"op": "add_sheet", "sheet": "Notes"}]
    names = openpyxl.load_workbook(io.BytesIO(workplace.edit(made(build), edits))).sheetnames
    assert (names[0], names[-1]) == ("Zahlen 1", "Notes")


@pytest.mark.parametrize(
    "extra",
    [
        {"customXml/item1.xml": b"<a>Data!A1</a>", "customXml/itemProps1.xml": b"<b/>"},
        {"xl/printerSettings/printerSettings1.bin": bytes(range(256))},
        {"xl/embeddings/oleObject1.bin": b"\xd0\xcf\x11\xe0" + bytes(500)},
        {"xl/activeX/activeX1.bin": bytes(100), "xl/activeX/activeX1.xml": b"<ax/>"},
        {"xl/model/item.data": bytes(range(256)) * 4},
        {"xl/connections.xml": b"<connections/>", "xl/queryTables/queryTable1.xml": b"<queryTable/>"},
        {"xl/externalLinks/externalLink1.xml": b'<externalLink><sheetName val="Data"/></externalLink>'},
        {"xl/threadedComments/threadedComment1.xml": b"<ThreadedComments/>", "xl/persons/person.xml": b"<p/>"},
        {"xl/slicers/slicer1.xml": b"<slicers/>", "xl/slicerCaches/slicerCache1.xml": b"<slicerCacheDefinition/>"},
        {"xl/ctrlProps/ctrlProp1.xml": b'<formControlPr fmlaLink="Data!$A$1"/>'},
        {"docMetadata/LabelInfo.xml": b"<labels/>", "docProps/thumbnail.wmf": bytes(64)},
        {"xl/diagrams/data1.xml": b"<dataModel/>", "xl/media/image1.emf": bytes(range(256))},
    ],
    ids=lambda extra: next(iter(extra)),
)
def test_parts_nobody_here_understands_are_kept_byte_for_byte(
    workplace: Any, probe: Any, repacked: Any, parts: Any, extra: dict[str, bytes]
) -> None:
    output = parts(workplace.edit(repacked(plain(), extra), probe("Data")))
    assert {name: output[name] for name in extra} == extra


def test_a_reference_in_a_form_control_follows_a_renamed_sheet(workplace: Any, repacked: Any, parts: Any) -> None:
    source = repacked(plain(), {"xl/ctrlProps/ctrlProp1.xml": b'<formControlPr fmlaLink="Data!$A$1"/>'})
    output = workplace.edit(source, [{"op": "rename_sheet", "sheet": "Data", "to": "New one"}])
    assert parts(output)["xl/ctrlProps/ctrlProp1.xml"] == b"<formControlPr fmlaLink=\"'New one'!$A$1\"/>"


def test_a_reference_nobody_here_understands_stops_a_renaming(workplace: Any, repacked: Any) -> None:
    source = repacked(plain(), {"xl/odd.xml": b'<odd where="Data!$A$1"/>'})
    failed = workplace.refuse(source, [{"op": "rename_sheet", "sheet": "Data", "to": "New"}])
    assert failed.detail == "xl/odd.xml: the attribute 'where' of 'odd' refers to the sheet 'Data'"


def test_a_link_is_followed_and_its_shown_text_is_left_to_its_author(workplace: Any, repacked: Any, parts: Any) -> None:
    link = b'<hyperlinks><hyperlink ref="A1" location="Data!B2" display="Data!B2"/></hyperlinks><pageMargins'
    source = repacked(plain(), {SHEET: parts(plain())[SHEET].replace(b"<pageMargins", link)})
    output = workplace.edit(source, [{"op": "rename_sheet", "sheet": "Data", "to": "New"}])
    assert b'location="New!B2" display="Data!B2"' in parts(output)[SHEET]


def test_a_sheet_of_old_macros_is_named(workplace: Any, repacked: Any, parts: Any, probe: Any) -> None:
    relations = "xl/_rels/workbook.xml.rels"
    old = parts(plain())[relations].replace(
        f'"{RELATIONSHIP}/worksheet" Target="worksheets/sheet2.xml"'.encode(),
        b'"http://schemas.microsoft.com/office/2006/relationships/xlMacrosheet" Target="worksheets/sheet2.xml"',
    )
    failed = workplace.refuse(repacked(plain(), {relations: old}), probe("Data"))
    assert (failed.code, failed.detail.partition(":")[0]) == (
        "WORKBOOK_UNSUPPORTED_CONTENT",
        "xl/worksheets/sheet2.xml",
    )


@pytest.fixture
def pivoted(repacked: Any) -> bytes:
    rels = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" '
        f'Type="{RELATIONSHIP}/pivotTable" Target="../pivotTables/pivotTable1.xml"/></Relationships>'
    )
    table = (
        '<pivotTableDefinition xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" name="P" cacheId="1">'
        '<location ref="D3:F9" firstHeaderRow="1" firstDataRow="1" firstDataCol="1"/></pivotTableDefinition>'
    )
    cache = (
        '<pivotCacheDefinition xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
        '<cacheSource type="worksheet"><worksheetSource ref="A1:B2" sheet="Data"/></cacheSource></pivotCacheDefinition>'
    )
    return repacked(
        plain(),
        {
            RELS: rels.encode(),
            "xl/pivotTables/pivotTable1.xml": table.encode(),
            "xl/pivotCache/pivotCacheDefinition1.xml": cache.encode(),
        },
    )  # type: ignore[no-any-return]


def test_a_cell_of_a_pivot_table_is_not_written(workplace: Any, pivoted: bytes) -> None:
    edit = {"op": "set_cell", "sheet": "Data", "cell": "E4", "value": {"type": "number", "number": 1}}
    failed = workplace.refuse(pivoted, [edit])
    assert failed.code == "WORKBOOK_UNSUPPORTED_CONTENT"
    assert failed.detail == f"{SHEET}: Data!E4 is part of a pivot table"


def test_the_data_of_a_pivot_table_is_written_and_the_proposal_says_it_must_be_refreshed(
    workplace: Any, pivoted: bytes
) -> None:
    edit = {"op": "set_cell", "sheet": "Data", "cell": "A1", "value": {"type": "number", "number": 9}}
    order = workplace.publish(pivoted, [edit])
    assert order.prepared.data["notes"] == [
        "pivot tables show the figures they were saved with until they are refreshed"
    ]
    assert workplace.verify(order).status == "verified"


def test_the_source_of_a_pivot_table_follows_a_renamed_sheet(workplace: Any, pivoted: bytes, parts: Any) -> None:
    order = workplace.publish(pivoted, [{"op": "rename_sheet", "sheet": "Data", "to": "New one"}])
    assert workplace.verify(order).status == "verified"
    output = parts((workplace.root / "book.xlsx").read_bytes())
    assert b'sheet="New one"' in output["xl/pivotCache/pivotCacheDefinition1.xml"]


def test_a_protected_sheet_is_not_written_but_its_neighbour_is(workplace: Any) -> None:
    def build(book: Any, sheet: Any) -> None:
        sheet.protection.sheet = True
        sheet["A1"].protection = Protection(locked=False)
        book.create_sheet("Free")

    edit = {"op": "set_cell", "sheet": "Data", "cell": "A1", "value": {"type": "number", "number": 1}}
    failed = workplace.refuse(made(build), [edit])
    assert failed.detail == f"{SHEET}: the sheet 'Data' is protected"
    workplace.edit(made(build), [edit | {"sheet": "Free"}])


def test_a_sheet_in_another_encoding_is_refused_by_name(workplace: Any, repacked: Any, parts: Any, probe: Any) -> None:
    text = parts(plain())[SHEET].decode().replace("UTF-8", "UTF-16")
    failed = workplace.refuse(repacked(plain(), {SHEET: text.encode("utf-16")}), probe("Data"))
    assert (failed.code, failed.detail.partition(":")[0]) == ("WORKBOOK_UNSUPPORTED_CONTENT", SHEET)
