"""A table of cases is the specification: what is quoted, and where it is, if it is certainly anywhere."""

from __future__ import annotations

import time

import pytest

from counterfoil.models.documents.anchoring import Ambiguous, Anchor, Found, How, Missing, Quote, anchor, quote_of

SPRING = "In the spring the cat sat on the mat."
WINTER = "All through winter a cat slept by the fire."

CASES: dict[str, tuple[str, Quote, Anchor]] = {
    "there once": ("one two three", Quote(exact="two"), Found(4, 7, How.EXACT)),
    "not there": ("one two three", Quote(exact="four"), Missing()),
    "a part of a word is not refused": ("machines", Quote(exact="chines"), Found(2, 8, How.EXACT)),
    "a word that only resembles it": ("in machines", Quote(exact="Linus"), Missing()),
    "there twice, with nothing to tell": ("a cat and a cat", Quote(exact="cat"), Ambiguous(2)),
    "overlapping occurrences count each": ("aaaa", Quote(exact="aaa"), Ambiguous(2)),
    "there twice, and what stands before tells": (
        "a cat and the cat",
        Quote(exact="cat", prefix="and the "),
        Found(14, 17, How.EXACT),
    ),
    "there twice, and what stands around tells neither": (
        "a cat and a cat",
        Quote(exact="cat", prefix="the "),
        Ambiguous(2),
    ),
    "the quoted one is gone, and its twin remains": (
        WINTER,
        Quote(exact="cat", prefix="In the spring the ", suffix=" sat on the mat."),
        Missing(),
    ),
    "its surroundings changed on one side": (
        "Last week the cat sat on the mat.",
        Quote(exact="cat", prefix="In the spring the ", suffix=" sat on the mat."),
        Found(14, 17, How.EXACT),
    ),
    "other white space": ("one\n  two", Quote(exact="one two"), Found(0, 9, How.WHITESPACE)),
    "a space that does not break": ("one\u00a0two", Quote(exact="one two"), Found(0, 7, How.WHITESPACE)),
    "other white space, twice": ("one  two one\ttwo", Quote(exact="one two"), Ambiguous(2)),
    "exactly once goes before almost, elsewhere": ("one  two one two", Quote(exact="one two"), Found(9, 16, How.EXACT)),
    "white space within a word is another word": ("on e two", Quote(exact="one two"), Missing()),
    "beyond the first plane": ("😀😀 cat", Quote(exact="cat"), Found(3, 6, How.EXACT)),
    "signs that mean something to patterns": ("a (b) [c] \\d+", Quote(exact="(b)\n[c]"), Found(2, 9, How.WHITESPACE)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_quote_is_where_it_certainly_is_or_nowhere(name: str):
    text, quote, expected = CASES[name]

    assert anchor(text, quote) == expected


def test_a_passage_is_quoted_with_what_stands_around_it():
    assert quote_of(SPRING, 18, 21) == Quote(exact="cat", prefix="In the spring the ", suffix=" sat on the mat.")
    assert anchor(SPRING, quote_of(SPRING, 18, 21)) == Found(18, 21, How.EXACT)
    with pytest.raises(ValueError, match="empty"):
        quote_of(SPRING, 3, 3)


def test_a_megabyte_is_searched_in_milliseconds():
    text = "all work and no play makes jack a dull boy\n" * 25_000 + "the needle is here"
    begun = time.perf_counter()

    assert isinstance(anchor(text, Quote(exact="needle is")), Found)
    assert isinstance(anchor(text, Quote(exact="needle\tis")), Found)

    assert time.perf_counter() - begun < 0.5
