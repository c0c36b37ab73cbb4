"""Workbooks as XlsxWriter makes them, one feature each: edited, published and verified; the feature is still there."""

from __future__ import annotations

import base64
import datetime as dt
import io
from collections.abc import Callable
from typing import Any

import openpyxl
import pytest
import xlsxwriter

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def _plain(book: Any, sheet: Any) -> None:
    for row in range(5):
        sheet.write_row(row, 0, [f"item {row}", row, row * 1.5])


def _formulas(book: Any, sheet: Any) -> None:
    _plain(book, sheet)
    sheet.write_formula("D1", "=SUM(B1:B5)", None, 10)
    sheet.write_formula("D2", '=IF(B1>1,"yes","no")', None, "no")
    sheet.write_formula("D3", "=B1>1", None, False)
    sheet.write_formula("D4", "=1/0", None, "#DIV/0!")


def _chart(book: Any, sheet: Any) -> None:
    _plain(book, sheet)
    chart = book.add_chart({"type": "column"})
    chart.add_series({"values": "=Data!$B$1:$B$5", "categories": "=Data!$A$1:$A$5"})
    sheet.insert_chart("F2", chart)


def _image(book: Any, sheet: Any) -> None:
    _plain(book, sheet)
    sheet.insert_image("F2", "pixel.png", {"image_data": io.BytesIO(PIXEL)})


def _header_image(book: Any, sheet: Any) -> None:
    sheet.set_header("&L&G", {"image_left": "pixel.png", "image_data_left": io.BytesIO(PIXEL)})


def _image_in_cell(book: Any, sheet: Any) -> None:
    sheet.embed_image("B2", "pixel.png", {"image_data": io.BytesIO(PIXEL)})


def _background(book: Any, sheet: Any) -> None:
    sheet.set_background(io.BytesIO(PIXEL), is_byte_stream=True)


def _textbox(book: Any, sheet: Any) -> None:
    sheet.insert_textbox("B2", "a note in a box", {"width": 200})
    sheet.insert_textbox("B9", "", {"textlink": "=$A$1"})


def _form_controls(book: Any, sheet: Any) -> None:
    sheet.insert_button("B2", {"macro": "say_hello", "caption": "Press"})
    sheet.insert_checkbox("D2", True)


def _validation(book: Any, sheet: Any) -> None:
    sheet.data_validation("B2:B9", {"validate": "list", "source": ["a", "b"]})
    sheet.data_validation("C2", {"validate": "decimal", "criteria": ">", "value": "=Data!$A$1"})


def _conditional_formats(book: Any, sheet: Any) -> None:
    _plain(book, sheet)
    sheet.conditional_format("B1:B5", {"type": "3_color_scale"})
    sheet.conditional_format("C1:C5", {"type": "data_bar", "data_bar_2010": True})
    sheet.conditional_format("A1:A5", {"type": "formula", "criteria": "=$B1>2", "format": book.add_format({"bold": 1})})
    sheet.conditional_format("B1:B5", {"type": "icon_set", "icon_style": "3_arrows"})


def _rich_text(book: Any, sheet: Any) -> None:
    sheet.write_rich_string("A1", "plain ", book.add_format({"bold": 1}), "bold", " plain")


def _comments(book: Any, sheet: Any) -> None:
    sheet.write_comment("B2", "a remark", {"author": "A. Person"})


def _table(book: Any, sheet: Any) -> None:
    rows = [["a", 1], ["b", 2]]
    sheet.add_table("B2:C4", {"data": rows, "columns": [{"header": "Name"}, {"header": "Size"}]})
    sheet.write("A9", "below")


def _autofilter(book: Any, sheet: Any) -> None:
    _plain(book, sheet)
    sheet.autofilter("A1:C5")
    sheet.filter_column("B", "x > 1")
    sheet.set_row(1, options={"hidden": True})


def _merged(book: Any, sheet: Any) -> None:
    sheet.merge_range("B2:D4", "across", book.add_format({"align": "center"}))


def _hidden_sheets(book: Any, sheet: Any) -> None:
    book.add_worksheet("Hidden").hide()
    book.add_worksheet("Very").very_hidden()


def _chartsheet(book: Any, sheet: Any) -> None:
    _plain(book, sheet)
    chart = book.add_chart({"type": "pie"})
    chart.add_series({"values": "=Data!$B$1:$B$5"})
    book.add_chartsheet("Picture").set_chart(chart)


def _defined_names(book: Any, sheet: Any) -> None:
    book.define_name("rate", "=Data!$B$1")
    book.define_name("Data!local", "=Data!$B$2:$B$4")
    book.define_name("constant", "=0.19")
    sheet.repeat_rows(0, 1)
    sheet.print_area("A1:F20")


def _dates(book: Any, sheet: Any) -> None:
    sheet.write_datetime("A1", dt.datetime(2024, 5, 6, 7, 8), book.add_format({"num_format": "dd/mm/yy hh:mm"}))


def _array_formula(book: Any, sheet: Any) -> None:
    _plain(book, sheet)
    sheet.write_array_formula("E1:E3", "{=B1:B3*2}", None, 0)
    sheet.write("E2", 2)
    sheet.write("E3", 4)


def _dynamic_array(book: Any, sheet: Any) -> None:
    _plain(book, sheet)
    sheet.write_dynamic_array_formula("E1", "=_xlfn._xlws.SORT(B1:B5)", None, 0)


def _sparklines(book: Any, sheet: Any) -> None:
    _plain(book, sheet)
    sheet.add_sparkline("F1", {"range": "Data!B1:B5"})


def _hyperlinks(book: Any, sheet: Any) -> None:
    sheet.write_url("A1", "https://example.com/a?b=1&c=2", string="out")
    sheet.write_url("A2", "internal:Data!B5", string="in")


def _many_sheets(book: Any, sheet: Any) -> None:
    for number in range(12):
        book.add_worksheet(f"S{number}").write_formula("A1", f"=Data!A{number + 1}", None, number)


def _unicode_names(book: Any, sheet: Any) -> None:
    for name in ("Übersicht Ä", "数据", "Q1's draft", "a & b", "😀"):
        book.add_worksheet(name).write(0, 0, name)


def _formats(book: Any, sheet: Any) -> None:
    sheet.set_column("B:D", 22, book.add_format({"num_format": "#,##0.00 €"}))
    sheet.set_row(6, 30, book.add_format({"bg_color": "#FFEEDD"}))
    sheet.freeze_panes(1, 1)
    sheet.set_zoom(80)


def _outline(book: Any, sheet: Any) -> None:
    _plain(book, sheet)
    for row in range(1, 4):
        sheet.set_row(row, None, None, {"level": 1})
    sheet.write_formula("B6", "=SUBTOTAL(9,B1:B5)", None, 10)


def _errors_and_blanks(book: Any, sheet: Any) -> None:
    for row in range(3):
        sheet.write_blank(row, 2, None, book.add_format({"border": 1}))
    sheet.write_boolean("A1", True)
    sheet.write_string("A2", "  spaces and\nlines  ")
    sheet.ignore_errors({"number_stored_as_text": "A1:A9"})


def _ignored_parts(book: Any, sheet: Any) -> None:
    book.set_custom_property("Reviewed", True)
    book.set_properties({"title": "T", "keywords": "a, b"})


FEATURES: dict[str, tuple[Callable[[Any, Any], None], dict[str, Any]]] = {
    "plain": (_plain, {}),
    "formulas of every result": (_formulas, {}),
    "chart": (_chart, {}),
    "image": (_image, {}),
    "header image": (_header_image, {}),
    "image in a cell": (_image_in_cell, {}),
    "background": (_background, {}),
    "text boxes": (_textbox, {}),
    "form controls": (_form_controls, {}),
    "validations": (_validation, {}),
    "conditional formats": (_conditional_formats, {}),
    "rich text": (_rich_text, {}),
    "comments": (_comments, {}),
    "table": (_table, {}),
    "autofilter": (_autofilter, {}),
    "merged cells": (_merged, {}),
    "hidden sheets": (_hidden_sheets, {}),
    "chart sheet": (_chartsheet, {}),
    "defined names": (_defined_names, {}),
    "dates": (_dates, {}),
    "dates from 1904": (_dates, {"date_1904": True}),
    "array formula": (_array_formula, {}),
    "dynamic array": (_dynamic_array, {}),
    "sparklines": (_sparklines, {}),
    "hyperlinks": (_hyperlinks, {}),
    "many sheets": (_many_sheets, {}),
    "unicode sheet names": (_unicode_names, {}),
    "formats": (_formats, {}),
    "outline": (_outline, {}),
    "errors, blanks and spaces": (_errors_and_blanks, {}),
    "document properties": (_ignored_parts, {}),
    "inline strings": (_plain, {"constant_memory": True}),
}


def made(build: Callable[[Any, Any], None], **options: Any) -> bytes:
    target = io.BytesIO()
    book = xlsxwriter.Workbook(target, {"in_memory": not options.get("constant_memory"), **options})
    build(book, book.add_worksheet("Data"))
    book.close()
    return target.getvalue()


@pytest.mark.parametrize("feature", FEATURES)
def test_a_workbook_with_this_feature_is_edited_and_verified(workplace: Any, probe: Any, feature: str) -> None:
    build, options = FEATURES[feature]
    source = made(build, **options)
    output = workplace.edit(source, probe("Data"))
    sheet = openpyxl.load_workbook(io.BytesIO(output))["Data"]
    assert (sheet["AZ2"].value, sheet["AZ2"].data_type) == ("=1+1", "s")
    assert sheet["AZ3"].value == 12.5
    assert (sheet["AZ4"].value, sheet["AZ4"].data_type) == ("=1+2", "f")
    assert sheet["AZ5"].value is True
    assert sheet["AZ6"].value == dt.datetime(2024, 2, 29)


@pytest.mark.parametrize("feature", FEATURES)
def test_a_sheet_with_this_feature_is_renamed_and_another_added(workplace: Any, feature: str) -> None:
    build, options = FEATURES[feature]
    edits = [
        {"op": "rename_sheet", "sheet": "Data", "to": "Zahlen & mehr"},
        {"op": "add_sheet", "sheet": "Notes"},
        {"op": "set_cell", "sheet": "Notes", "cell": "B2", "value": {"type": "text", "text": "new"}},
    ]
    output = workplace.edit(made(build, **options), edits)
    book = openpyxl.load_workbook(io.BytesIO(output))
    assert book.sheetnames[0] == "Zahlen & mehr"
    assert book.sheetnames[-1] == "Notes"
    assert book["Notes"]["B2"].value == "new"


@pytest.mark.slow
def test_twenty_thousand_rows_are_edited_and_verified(workplace: Any, probe: Any) -> None:
    def build(book: Any, sheet: Any) -> None:
        for row in range(20_000):
            sheet.write_row(row, 0, [f"item {row}", row, row * 1.5, row % 7])
            sheet.write_formula(row, 4, f"=B{row + 1}*C{row + 1}", None, row * row * 1.5)

    output = workplace.edit(made(build), probe("Data"))
    sheet = openpyxl.load_workbook(io.BytesIO(output), read_only=True)["Data"]
    assert [cell.value for cell in next(sheet.iter_rows(20_001, 20_001, 1, 3))] == ["=1+1", None, 12.5]


def test_macros_survive_an_edit(workplace: Any, probe: Any, parts: Any) -> None:
    macros = bytes(range(256)) * 8

    def build(book: Any, sheet: Any) -> None:
        _plain(book, sheet)
        book.add_vba_project(io.BytesIO(macros), True)

    output = workplace.edit(made(build), probe("Data"), "book.xlsm")
    assert parts(output)["xl/vbaProject.bin"] == macros


def test_a_sheet_that_macros_may_name_is_not_renamed(workplace: Any) -> None:
    def build(book: Any, sheet: Any) -> None:
        book.add_vba_project(io.BytesIO(b"macros"), True)

    failed = workplace.refuse(made(build), [{"op": "rename_sheet", "sheet": "Data", "to": "Other"}], "book.xlsm")
    assert failed.code == "WORKBOOK_UNSUPPORTED_CONTENT"
    assert failed.detail == "xl/vbaProject.bin: macros may refer to the sheet 'Data' by its name"
