"""Comparing what was asked with what is there: types count, objects may gain fields, nothing is guessed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.activities.adapters.http_json.answers import retry_after_seconds
from counterfoil.activities.adapters.http_json.fields import (
    MISSING,
    compare,
    depth_of,
    digest_without,
    pick,
    preview_of,
    put,
    same,
    word_at,
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(json_values)
def test_a_value_is_the_same_as_itself(value: Any):
    assert same(value, value)


@given(st.dictionaries(st.text(max_size=4), json_values), st.dictionaries(st.text(max_size=4), json_values))
def test_a_record_that_gained_fields_holds_what_was_asked(asked: dict[str, Any], more: dict[str, Any]):
    assert compare(asked, {**more, **asked}).whole


@pytest.mark.parametrize(
    ("asked", "found", "expected"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        (1, "1", False),
        (None, MISSING, False),
        (None, 0, False),
        ("", None, False),
        ([1, 2], [2, 1], False),
        ([1], [1, 2], False),
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1, "b": 2}, {"a": 1}, False),
        ({}, [], False),
        (0.1 + 0.2, 0.3, False),
        (10**20, 1e20, True),
        pytest.param(1e308, 10**400, False, id="beyond floats"),
        ("é", "e\u0301", False),
    ],
)
def test_what_counts_as_the_same(asked: Any, found: Any, expected: bool):
    assert same(asked, found) is expected


def test_a_field_that_was_asked_to_be_null_may_be_gone():
    assert compare({"a": None, "b": 1}, {}).held == ("a",)


@given(st.dictionaries(st.text(max_size=3), json_values, max_size=3), st.integers())
def test_what_is_put_at_a_path_is_picked_from_it(record: dict[str, Any], value: int):
    assert pick(put(record, "a.b.c", value), "a.b.c") == value


def test_a_word_is_a_text_or_a_whole_number():
    record = {"a": "x", "b": 7, "c": True, "d": None, "e": 1.5, "f": ["x"]}

    assert [word_at(record, name) for name in "abcdefg"] == ["x", "7", None, None, None, None, None]


def test_depth_counts_objects_and_lists():
    assert [depth_of(value) for value in (1, {}, [[]], {"a": [{"b": 1}]})] == [0, 1, 2, 3]


def test_volatile_fields_do_not_count_as_a_change():
    assert digest_without({"a": 1, "seen": 1}, ["seen"]) == digest_without({"a": 1, "seen": 2}, ["seen"])
    assert digest_without({"a": 1}, []) != digest_without({"a": 2}, [])


def test_a_preview_shows_only_what_changes_and_hides_nothing_in_it():
    preview = preview_of({"a": 1, "b": "x\u202e"}, {"a": 1, "b": "y\n", "c": None})

    assert preview.rows == (("b", "x\\u202e", "y\\n"), ("c", "⟨absent⟩", "null"))


NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("7", 7.0),
        ("Tue, 01 Jan 2030 00:00:09 GMT", 9.0),
        ("Mon, 31 Dec 2029 00:00:00 GMT", 0.0),
        ("999999999999999999999", 3600.0),
        ("-5", None),
        ("soon", None),
        ("", None),
        ("٣", None),
    ],
)
def test_when_to_ask_again(said: str, expected: float | None):
    assert retry_after_seconds({"retry-after": said}, NOW) == expected


@given(st.text(max_size=30))
def test_whatever_retry_after_says_it_is_bounded(said: str):
    seconds = retry_after_seconds({"retry-after": said}, NOW + timedelta(days=1))

    assert seconds is None or 0 <= seconds <= 3600
