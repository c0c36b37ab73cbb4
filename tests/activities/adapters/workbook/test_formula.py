"""Moving formulas and renaming sheets in them, against a table and against another library."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openpyxl.formula.translate import Translator

from counterfoil.activities.adapters.workbook import formula as formulas
from counterfoil.activities.adapters.workbook.comparison import canonical

RENAMED = [
    ("Data!A1", "'New name'!A1"),
    ("data!A1+DATA!B1", "'New name'!A1+'New name'!B1"),
    ("'Data'!A1", "'New name'!A1"),
    ("MyData!A1", "MyData!A1"),
    ("Data2!A1", "Data2!A1"),
    ("'My Data'!A1", "'My Data'!A1"),
    ('"Data!A1"&Data!A1', "\"Data!A1\"&'New name'!A1"),
    ("[1]Data!A1", "[1]Data!A1"),
    ("'[1]Data'!A1", "'[1]Data'!A1"),
    ("SUM(Data:Other!A1)", "SUM('New name:Other'!A1)"),
    ("SUM('Other one:Data'!A1)", "SUM('Other one:New name'!A1)"),
    ("Data!#REF!", "'New name'!#REF!"),
    ("#REF!+Data", "#REF!+Data"),
    ("Data!local", "'New name'!local"),
    ("Data!$A$1:$B$2", "'New name'!$A$1:$B$2"),
    ("Data[Column]", "Data[Column]"),
    ("{Data!A1}", "{'New name'!A1}"),
]


@pytest.mark.parametrize(("before", "after"), RENAMED)
def test_renaming_touches_references_to_that_sheet_and_nothing_else(before: str, after: str) -> None:
    assert formulas.renamed(before, "Data", "New name") == after


@pytest.mark.parametrize(("before", "after"), RENAMED)
def test_the_reader_agrees_what_a_renamed_formula_means(before: str, after: str) -> None:
    assert canonical(before, {"data": "New name"}) == canonical(after, {})


@pytest.mark.parametrize(
    ("name", "spelled"),
    [("Plain", "Plain!"), ("It's", "'It''s'!"), ("A1", "'A1'!"), ("RC", "'RC'!"), ("2024", "'2024'!"), ("Ä", "'Ä'!")],
)
def test_a_name_is_quoted_wherever_it_could_be_taken_for_something_else(name: str, spelled: str) -> None:
    assert formulas.qualifier([name]) == spelled


MOVED = [
    ("A1*2", "C4*2"),
    ("$A1+A$1+$A$1", "$A4+C$1+$A$1"),
    ("SUM(A1:B2)", "SUM(C4:D5)"),
    ("SUM(A:A,1:1)", "SUM(C:C,4:4)"),
    ("SUM($A:$A)", "SUM($A:$A)"),
    ('"A1"&A1', '"A1"&C4'),
    ("'A1'!A1", "'A1'!C4"),
    ("LOG10(A1)", "LOG10(C4)"),
    ("A1B+rate", "A1B+rate"),
    ("Table1[A1]", "Table1[A1]"),
    ("1E5+A1", "1E5+C4"),
]


@pytest.mark.parametrize(("before", "after"), MOVED)
def test_moving_a_formula_moves_its_relative_references(before: str, after: str) -> None:
    assert formulas.shifted(before, 3, 2) == after


def test_a_reference_that_would_leave_the_sheet_cannot_be_moved() -> None:
    assert formulas.shifted("A1", -1, 0) is None
    assert formulas.shifted("XFD1", 0, 1) is None


@pytest.mark.parametrize(("before", "after"), MOVED)
def test_the_reader_sees_the_same_shared_formula_at_both_places(before: str, after: str) -> None:
    assert canonical(before, {}, (10, 10)) == canonical(after, {}, (13, 12))


REFERENCE = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "$"]),
    st.sampled_from(["A", "Z", "AA", "XY"]),
    st.sampled_from(["", "$"]),
    st.integers(1, 9999),
)
PIECE = st.one_of(
    REFERENCE,
    st.tuples(REFERENCE, REFERENCE).map(":".join),
    st.sampled_from(["SUM(A1)", '"A1 ""q"""', "'A1 x'!B2", "Data!B2", "12.5", "TRUE", "B:B", "3:4"]),
)


@given(pieces=st.lists(PIECE, min_size=1, max_size=5), rows=st.integers(0, 50), columns=st.integers(0, 50))
def test_moving_agrees_with_another_library(pieces: list[str], rows: int, columns: int) -> None:
    formula = "+".join(pieces)
    expected = Translator("=" + formula, origin="A1").translate_formula(row_delta=rows, col_delta=columns)
    assert "=" + str(formulas.shifted(formula, rows, columns)) == expected
    assert canonical(formula, {}, (1, 1)) == canonical(str(expected)[1:], {}, (1 + rows, 1 + columns))


@given(text=st.text(max_size=60))
def test_any_text_survives_being_looked_at(text: str) -> None:
    formulas.problem(text)
    assert formulas.shifted(text, 0, 0) is not None
    assert formulas.renamed(text, "a name no text has", "x") == text
