"""Digests, the one JSON spelling, and which contracts refuse or ignore what they do not know."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from counterfoil.models.common import (
    Actor,
    BlobRef,
    Digest,
    Identifier,
    Money,
    Text,
    canonical_json,
    digest_bytes,
    digest_of,
)
from counterfoil.models.errors import CounterfoilError, ErrorCode, Refusal, Unavailable

EMPTY = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_a_digest_is_the_sha256_of_the_bytes() -> None:
    assert digest_bytes(b"") == EMPTY


def test_canonical_json_sorts_keys_drops_spaces_and_keeps_characters() -> None:
    value = {"b": [True, None, "é"], "a": 1.5}

    assert canonical_json(value) == '{"a":1.5,"b":[true,null,"é"]}'.encode()
    assert digest_of(value) == "sha256:c7a2c7923145f6402ac426bf2e49e9c09432221ced82df988c0668a1723299c3"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"x": [float("-inf")]}, "\ud800", {1: 2, "1": 3}, b"x"])
def test_what_json_cannot_say_has_no_canonical_form(value: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        canonical_json(value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), JSON, max_size=6))
def test_the_order_in_which_keys_were_written_does_not_matter(value: dict[str, object]) -> None:
    assert canonical_json(dict(reversed(value.items()))) == canonical_json(value)


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        (EMPTY, True),
        (EMPTY.upper(), False),
        (EMPTY[:-1], False),
        (EMPTY + "\n", False),
        (EMPTY.removeprefix("sha256:"), False),
    ],
)
def test_a_digest_has_one_spelling(text: str, valid: bool) -> None:
    assert _accepts(Digest, text) is valid


@pytest.mark.parametrize(
    ("text", "valid"),
    [("a", True), ("ä b/c:d", True), ("x" * 200, True), ("x" * 201, False), ("", False), ("a\x00b", False),
     ("a\nb", False), ("a\n", False), ("a\x7f", False), ("\t", False)],
)  # fmt: skip
def test_a_name_has_no_control_characters_and_an_end(text: str, valid: bool) -> None:
    assert _accepts(Identifier, text) is valid


@pytest.mark.parametrize(
    ("text", "valid"), [("", True), ("two\nlines", True), ("x" * 4000, True), ("x" * 4001, False), ("a\x00b", False)]
)
def test_a_sentence_may_have_lines_but_no_nul_and_an_end(text: str, valid: bool) -> None:
    assert _accepts(Text, text) is valid


def _accepts(kind: object, value: str) -> bool:
    try:
        TypeAdapter(kind).validate_python(value)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize("amount", ["-0.01", "NaN", "0.0000001", "1e30"])
def test_money_is_a_bounded_amount_that_is_not_negative(amount: str) -> None:
    with pytest.raises(ValidationError):
        Money(amount=Decimal(amount), currency="EUR")


@pytest.mark.parametrize("currency", ["eur", "EURO", "€", ""])
def test_a_currency_is_three_capitals(currency: str) -> None:
    with pytest.raises(ValidationError):
        Money(amount=Decimal(1), currency=currency)


def test_what_outsiders_send_may_have_no_unknown_fields() -> None:
    with pytest.raises(ValidationError, match="extra"):
        Money.model_validate({"amount": "1", "currency": "EUR", "tax": "0"})


def test_what_was_stored_by_a_newer_version_can_still_be_read() -> None:
    read = Actor.model_validate_json('{"principal":"ann","authenticated":true,"scope":"review","device":"phone"}')
    blob = BlobRef.model_validate({"digest": EMPTY, "size_bytes": 0, "encrypted": True})

    assert (read.principal, read.authenticated, read.scope) == ("ann", True, "review")
    assert blob.media_type == "application/octet-stream"


def test_contracts_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        Actor(principal="ann").authenticated = True  # type: ignore[misc]


def test_an_error_crosses_a_boundary_and_comes_back() -> None:
    error = Refusal(ErrorCode.LOCKED, "held by another", subject="op-1", remedy="wait")

    assert error.as_details() == {"code": "LOCKED", "subject": "op-1", "detail": "held by another", "remedy": "wait"}
    assert str(error) == "LOCKED: held by another"
    back = CounterfoilError.from_details(error.as_details())
    assert back is not None
    assert back.as_details() == error.as_details()


@pytest.mark.parametrize("details", [None, "LOCKED", [], {}, {"code": "ADDED_BY_A_NEWER_VERSION"}, {"code": None}])
def test_what_is_not_one_of_our_errors_is_none(details: object) -> None:
    assert CounterfoilError.from_details(details) is None


def test_codes_are_their_own_names_and_both_kinds_of_error_are_ours() -> None:
    assert all(code.name == code.value for code in ErrorCode)
    assert issubclass(Refusal, CounterfoilError)
    assert issubclass(Unavailable, CounterfoilError)
