"""What may be asked, and what is refused before any file is seen."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.activities.adapters.workbook.contract import parse_input
from counterfoil.models.errors import Refusal


def cell(value: dict[str, Any], address: str = "B7") -> dict[str, Any]:
    return {"op": "set_cell", "sheet": "Data", "cell": address, "value": value}


def refusal_of(*edits: dict[str, Any], **more: Any) -> Refusal:
    with pytest.raises(Refusal) as caught:
        parse_input({"path": "a.xlsx", "edits": list(edits)} | more)
    return caught.value


GOOD = [
    cell({"type": "text", "text": "=1+1"}),
    cell({"type": "text", "text": ""}),
    cell({"type": "text", "text": "x" * 32767}),
    cell({"type": "text", "text": "a\n\tb"}),
    cell({"type": "number", "number": 9007199254740992}),
    cell({"type": "number", "number": -1.5e300}),
    cell({"type": "boolean", "boolean": False}),
    cell({"type": "date", "date": "1900-03-01"}),
    cell({"type": "datetime", "datetime": "2024-01-31T09:30:00.250"}),
    cell({"type": "formula", "formula": "=SUM('It''s'!A1:A3)"}),
    cell({"type": "formula", "formula": '=IF(A1="(",Table1[[#Headers],[a]],{1,2;3,4})'}),
    cell({"type": "formula", "formula": "=50%"}),
    cell({"type": "empty"}, "XFD1048576"),
    {"op": "append_row", "sheet": "Data", "values": [{"type": "empty"}, {"type": "number", "number": 1}]},
    {"op": "add_sheet", "sheet": "x" * 31},
    {"op": "rename_sheet", "sheet": "Data", "to": "data"},
]


@pytest.mark.parametrize("edit", GOOD)
def test_a_sound_edit_is_accepted(edit: dict[str, Any]) -> None:
    assert len(parse_input({"path": "a.xlsx", "edits": [edit]}).edits) == 1


BAD = [
    (cell({"type": "text", "text": "x" * 32768}), "a cell holds at most 32767 characters"),
    (cell({"type": "text", "text": "😀" * 16384}), "a cell holds at most 32767 characters"),
    (cell({"type": "text", "text": "a\x0bb"}), "the character U+000B cannot be kept"),
    (cell({"type": "text", "text": "a\uffffb"}), "the character U+FFFF cannot be kept"),
    (cell({"type": "text", "text": "a\r\nb"}), "a carriage return cannot be kept"),
    (cell({"type": "text", "text": 5}), "valid string"),
    (cell({"type": "number", "number": 9007199254740993}), "beyond 2^53"),
    (cell({"type": "number", "number": float("nan")}), "not finite"),
    (cell({"type": "number", "number": float("inf")}), "not finite"),
    (cell({"type": "number", "number": 1e308}), "too large"),
    (cell({"type": "number", "number": 5e-324}), "too small"),
    (cell({"type": "number", "number": True}), "valid integer"),
    (cell({"type": "number", "number": "5"}), "valid integer"),
    (cell({"type": "boolean", "boolean": 1}), "valid boolean"),
    (cell({"type": "date", "date": "1900-02-28"}), "before 1900-03-01"),
    (cell({"type": "date", "date": "2024-02-30"}), "date.date"),
    (cell({"type": "date", "date": "1704067200"}), "written like 2024-01-31"),
    (cell({"type": "date", "date": 1704067200}), "written like 2024-01-31"),
    (cell({"type": "datetime", "datetime": "2024-01-31T09:30:00Z"}), "no time zones"),
    (cell({"type": "datetime", "datetime": "2024-01-31T09:30:00.000001"}), "millisecond"),
    (cell({"type": "formula", "formula": "SUM(A1)"}), "starts with ="),
    (cell({"type": "formula", "formula": "="}), "is empty"),
    (cell({"type": "formula", "formula": "=SUM(A1"}), "lacks a ')'"),
    (cell({"type": "formula", "formula": "=A1)"}), "without its partner"),
    (cell({"type": "formula", "formula": '="open'}), "stray"),
    (cell({"type": "formula", "formula": "=1+"}), "ends with '+'"),
    (cell({"type": "formula", "formula": "=cmd|'/c calc'!A1"}), "stray '|'"),
    (cell({"type": "formula", "formula": "=[other.xlsx]Data!A1"}), "another workbook"),
    (cell({"type": "formula", "formula": "='[other.xlsx]Data'!A1"}), "another workbook"),
    (cell({"type": "formula", "formula": "=" + "1+" * 4096 + "1"}), "at most 8192"),
    (cell({"type": "money", "money": 5}), "does not match any of the expected tags"),
    (cell({"type": "empty", "text": "x"}), "Extra inputs"),
    (cell({"type": "empty"}, "A0"), "named like B7"),
    (cell({"type": "empty"}, "XFE1"), "named like B7"),
    (cell({"type": "empty"}, "A1048577"), "named like B7"),
    (cell({"type": "empty"}, "$A$1"), "named like B7"),
    (cell({"type": "empty"}, "A1:B2"), "named like B7"),
    ({"op": "append_row", "sheet": "Data", "values": []}, "at least 1 item"),
    ({"op": "append_row", "sheet": "Data", "values": [{"type": "empty"}]}, "row of nothing"),
    ({"op": "add_sheet", "sheet": ""}, "1 to 31 characters"),
    ({"op": "add_sheet", "sheet": "x" * 32}, "1 to 31 characters"),
    ({"op": "add_sheet", "sheet": "😀" * 16}, "1 to 31 characters"),
    ({"op": "add_sheet", "sheet": "a/b"}, "has none of"),
    ({"op": "add_sheet", "sheet": "'a"}, "apostrophe"),
    ({"op": "add_sheet", "sheet": "a'"}, "apostrophe"),
    ({"op": "add_sheet", "sheet": "HISTORY"}, "reserved"),
    ({"op": "delete_sheet", "sheet": "Data"}, "does not match any of the expected tags"),
]


@pytest.mark.parametrize(("edit", "why"), BAD)
def test_an_unsound_edit_is_refused_by_its_index(edit: dict[str, Any], why: str) -> None:
    refusal = refusal_of(GOOD[0], edit)
    assert refusal.code == "WORKBOOK_EDIT_INVALID"
    assert refusal.subject == "edits[1]"
    assert refusal.detail.startswith("edit 1: ")
    assert why in refusal.detail


def test_what_is_wrong_outside_the_edits_is_invalid_input() -> None:
    assert refusal_of().code == "INVALID_INPUT"
    assert refusal_of(GOOD[0], other=1).code == "INVALID_INPUT"
    assert refusal_of(GOOD[0], expected_digest="md5:0").code == "INVALID_INPUT"
    assert refusal_of(*[GOOD[0]] * 5001).code == "INVALID_INPUT"


def test_sheets_are_renamed_before_anything_else() -> None:
    rename = {"op": "rename_sheet", "sheet": "Data", "to": "Other"}
    assert refusal_of(GOOD[0], rename).detail == "edit 1: sheets are renamed before anything else is edited"


def test_one_operation_writes_a_bounded_number_of_cells() -> None:
    row = {"op": "append_row", "sheet": "Data", "values": [{"type": "number", "number": 1}] * 16384}
    assert refusal_of(*[row] * 4).detail == "edit 3: one operation writes at most 50000 cells"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["op", "sheet", "cell", "value", "type", "text", "to"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(edits=JSON)
def test_nothing_that_can_be_sent_raises_anything_but_a_refusal(edits: Any) -> None:
    with suppress(Refusal):
        parse_input({"path": "a.xlsx", "edits": edits})
