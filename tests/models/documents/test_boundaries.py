"""What may be shown is inside both boundaries, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.models.documents.boundaries import GAP, AllowedRanges, ContextBoundary, EgressBoundary, shown
from counterfoil.models.errors import Refusal

UNIQUE = "".join(chr(0x4E00 + number) for number in range(60))
"""Sixty characters, three bytes each, none of them twice."""


def ranges(draw: st.DrawFn) -> list[tuple[int, int]]:
    cuts = sorted(draw(st.sets(st.integers(0, 60), max_size=8)))
    return [(start * 3, end * 3) for start, end in zip(cuts[::2], cuts[1::2], strict=False)]


@st.composite
def boundaries(draw: st.DrawFn) -> tuple[ContextBoundary, EgressBoundary]:
    return ContextBoundary(ranges=tuple(ranges(draw))), EgressBoundary(ranges=tuple(ranges(draw)))


@given(boundaries())
def test_no_character_outside_either_boundary_is_shown_and_none_inside_both_is_missing(
    both: tuple[ContextBoundary, EgressBoundary],
):
    context, egress = both
    inside = {
        character
        for at, character in enumerate(UNIQUE)
        if all(any(start <= at * 3 < end for start, end in one.ranges) for one in both)
    }

    text = shown(UNIQUE, context, egress)

    assert {character for character in text.text if character in UNIQUE} == inside
    assert text.omitted is (len(inside) < len(UNIQUE))
    for start, end, at in text.pieces:
        assert text.text[at : at + end - start] == UNIQUE[start:end]


def test_the_whole_is_shown_as_it_is():
    text = shown("a text\n", ContextBoundary.everything(), EgressBoundary.everything())

    assert (text.text, text.omitted) == ("a text\n", False)
    assert text.placed(2, 6) == (2, 6)


def test_nothing_is_shown_where_one_of_them_allows_nothing():
    text = shown("secret", ContextBoundary.everything(), EgressBoundary.nothing())

    assert "secret" not in text.text
    assert text.placed(0, 6) is None


def test_what_is_left_out_is_marked():
    text = shown("one two three", ContextBoundary.everything(), EgressBoundary.of(4, 7))

    assert text.text == f"{GAP}two{GAP}"
    assert text.placed(4, 7) == (len(GAP), len(GAP) + 3)
    assert text.placed(0, 7) is None


@pytest.mark.parametrize("cut", [(1, 3), (0, 2), (3, 200)])
def test_a_boundary_of_another_text_lets_nothing_out(cut: tuple[int, int]):
    with pytest.raises(Refusal, match="EGRESS_REFUSED"):
        shown("日本語", ContextBoundary.everything(), EgressBoundary.of(*cut))


def test_the_three_boundaries_do_not_stand_in_for_each_other():
    with pytest.raises(TypeError):
        shown("x", ContextBoundary.everything(), AllowedRanges.everything())  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        shown("x", EgressBoundary.everything(), ContextBoundary.everything())  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [((3, 3),), ((5, 4),), ((0, 3), (2, 5)), ((4, 6), (0, 2)), ((0, 2), (2, 4))])
def test_ranges_are_sorted_apart_and_not_empty(wrong: tuple[tuple[int, int], ...]):
    with pytest.raises(ValueError, match="sorted"):
        EgressBoundary(ranges=wrong)
