"""Makes `quarterly-report.xlsx`, the workbook the examples edit: one of everything an edit must leave alone.

    python examples/make_quarterly_report.py

It needs XlsxWriter, which the development extras bring. The file is kept beside this script, so nobody has to run it.
"""

from __future__ import annotations

import io
import struct
import zlib
from datetime import datetime
from pathlib import Path
from typing import Any

import xlsxwriter

TARGET = Path(__file__).with_name("quarterly-report.xlsx")
MADE_AT = datetime(2024, 10, 7, 9, 0)
REGIONS = ("North", "East", "South", "West")
MONTHS = ("Jul", "Aug", "Sep")
REVENUE = ((41200, 39850, 44100), (28700, 30120, 31480), (35510, 33990, 36205), (19930, 21440, 20875))
COST = ((30110, 29640, 31020), (21450, 22010, 22890), (27030, 26120, 27400), (15820, 16490, 16110))


def main() -> None:
    """Writes the workbook, always the same bytes."""
    book = xlsxwriter.Workbook(TARGET)
    book.set_properties({"title": "Quarterly report Q3 2024", "author": "Finance", "created": MADE_AT})
    formats = {
        "title": book.add_format({"bold": True, "font_size": 16}),
        "head": book.add_format({"bold": True, "bg_color": "#1F3864", "font_color": "#FFFFFF", "border": 1}),
        "money": book.add_format({"num_format": "#,##0 €"}),
        "percent": book.add_format({"num_format": "0.0%"}),
        "total": book.add_format({"bold": True, "top": 1, "num_format": "#,##0 €"}),
        "date": book.add_format({"num_format": "yyyy-mm-dd", "align": "left"}),
        "bold": book.add_format({"bold": True}),
        "low": book.add_format({"bg_color": "#F8CBAD"}),
    }
    summary, revenue, cost = book.add_worksheet("Summary"), book.add_worksheet("Revenue"), book.add_worksheet("Cost")
    _months(revenue, REVENUE, formats)
    _months(cost, COST, formats)
    _summary(book, summary, formats)
    _assumptions(book, book.add_worksheet("Assumptions"), formats)
    _log(book.add_worksheet("Log"), formats)
    book.define_name("target_margin", "=Assumptions!$B$2")
    summary.activate()
    book.close()


def _months(sheet: Any, figures: tuple[tuple[int, ...], ...], formats: dict[str, Any]) -> None:
    sheet.write_row(0, 0, ("Region", *MONTHS, "Quarter"), formats["head"])
    for row, (region, values) in enumerate(zip(REGIONS, figures, strict=True), start=1):
        sheet.write(row, 0, region)
        sheet.write_row(row, 1, values, formats["money"])
        sheet.write_formula(row, 4, f"=SUM(B{row + 1}:D{row + 1})", formats["money"], sum(values))
    sheet.write(5, 0, "Total", formats["bold"])
    for column in range(1, 5):
        letter = "ABCDE"[column]
        total = sum(sum(line) for line in figures) if column == 4 else sum(line[column - 1] for line in figures)
        sheet.write_formula(5, column, f"=SUM({letter}2:{letter}5)", formats["total"], total)
    sheet.set_column("A:A", 14)
    sheet.set_column("B:E", 12)
    sheet.freeze_panes(1, 1)
    sheet.autofilter(0, 0, 4, 4)


def _summary(book: Any, sheet: Any, formats: dict[str, Any]) -> None:
    sheet.merge_range("B1:E1", "Quarterly report Q3 2024", formats["title"])
    sheet.insert_image("A1", "logo.png", {"image_data": io.BytesIO(_logo()), "description": "A square"})
    sheet.write_rich_string("B2", "Figures are ", formats["bold"], "preliminary", " until the audit.")
    sheet.write_row("A4", ("Region", "Revenue", "Cost", "Result", "Margin"), formats["head"])
    for index, region in enumerate(REGIONS):
        row, income, spent = index + 5, sum(REVENUE[index]), sum(COST[index])
        sheet.write(f"A{row}", region)
        sheet.write_formula(f"B{row}", f"=Revenue!E{index + 2}", formats["money"], income)
        sheet.write_formula(f"C{row}", f"=Cost!E{index + 2}", formats["money"], spent)
        sheet.write_formula(f"D{row}", f"=B{row}-C{row}", formats["money"], income - spent)
        sheet.write_formula(f"E{row}", f"=D{row}/B{row}", formats["percent"], (income - spent) / income)
    income, spent = sum(map(sum, REVENUE)), sum(map(sum, COST))
    sheet.write("A9", "All", formats["bold"])
    for letter, value in (("B", income), ("C", spent), ("D", income - spent)):
        sheet.write_formula(f"{letter}9", f"=SUM({letter}5:{letter}8)", formats["total"], value)
    sheet.write_formula("E9", "=D9/B9", formats["percent"], (income - spent) / income)
    sheet.write_comment("E9", "Compare with the target in Assumptions.", {"author": "Finance"})
    rule = {"type": "cell", "criteria": "<", "value": "target_margin", "format": formats["low"]}
    sheet.conditional_format("E5:E8", rule)
    chart = book.add_chart({"type": "column"})
    chart.add_series({"name": "Revenue", "categories": "=Summary!$A$5:$A$8", "values": "=Summary!$B$5:$B$8"})
    chart.add_series({"name": "Cost", "categories": "=Summary!$A$5:$A$8", "values": "=Summary!$C$5:$C$8"})
    chart.set_title({"name": "Revenue and cost by region"})
    sheet.insert_chart("G3", chart)
    sheet.set_column("A:E", 13)


def _assumptions(book: Any, sheet: Any, formats: dict[str, Any]) -> None:
    sheet.write_row("A1", ("Assumption", "Value"), formats["head"])
    sheet.write("A2", "Target margin")
    sheet.write("B2", 0.25, formats["percent"])
    sheet.write("A3", "Status")
    sheet.write("B3", "draft")
    sheet.data_validation("B3", {"validate": "list", "source": ["draft", "reviewed", "final"]})
    sheet.write("A4", "As of")
    sheet.write_datetime("B4", datetime(2024, 9, 30), formats["date"])
    sheet.set_column("A:B", 16)


def _log(sheet: Any, formats: dict[str, Any]) -> None:
    sheet.write_row("A1", ("Date", "Who", "What"), formats["head"])
    sheet.write_datetime("A2", datetime(2024, 10, 4), formats["date"])
    sheet.write_row("B2", ("Finance", "Closed September"))
    sheet.set_column("A:C", 20)


def _logo() -> bytes:
    """A 24-pixel square, written out as PNG."""
    size = 24
    rows = b"".join(b"\x00" + b"\x1f\x38\x64" * size for _ in range(size))
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows, 9)),
        (b"IEND", b""),
    )
    picture = b"\x89PNG\r\n\x1a\n"
    for name, data in chunks:
        picture += struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    return picture


if __name__ == "__main__":
    main()
