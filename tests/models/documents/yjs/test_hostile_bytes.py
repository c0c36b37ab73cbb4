"""Whatever is sent: a document, or a typed refusal. Nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfoil.models.documents.positions import Nowhere, Place
from counterfoil.models.documents.yjs.index import DocumentIndex, decode_position
from counterfoil.models.documents.yjs.lib0 import Reader, sint, uint
from counterfoil.models.documents.yjs.update import covers, decode, decode_state_vector, encode_state_vector
from counterfoil.models.errors import ErrorCode, Refusal
from support.documents import Editor

WRITTEN = Editor("Some text, ünïcode 😀", "and more", client_id=5)
WRITTEN.erase(0, 2, 6)
WRITTEN.text(1).format(0, 3, {"strong": {}})
UPDATE = WRITTEN.update()
CODES = {ErrorCode.MALFORMED_UPDATE, ErrorCode.DOCUMENT_UNSUPPORTED, ErrorCode.DOCUMENT_INCOMPLETE}


def read(update: bytes) -> ErrorCode | None:
    """Why it is refused; None for a document."""
    try:
        DocumentIndex.build(update).document()
    except Refusal as refusal:
        return refusal.code
    return None


@given(st.binary(max_size=400))
@settings(max_examples=400, deadline=None)
def test_any_bytes_are_a_document_or_a_refusal(data: bytes):
    assert read(data) in CODES | {None}


@given(st.integers(0, len(UPDATE) * 8 - 1), st.integers(0, len(UPDATE) * 8 - 1))
@settings(max_examples=600, deadline=None)
def test_an_update_with_flipped_bits_is_a_document_or_a_refusal(first: int, second: int):
    data = bytearray(UPDATE)
    for bit in (first, second):
        data[bit // 8] ^= 1 << bit % 8

    assert read(bytes(data)) in CODES | {None}


def test_no_truncated_update_is_taken_for_a_whole_one():
    assert read(UPDATE) is None
    for length in range(len(UPDATE)):
        assert read(UPDATE[:length]) is ErrorCode.MALFORMED_UPDATE
    assert read(UPDATE + b"\x00") is ErrorCode.MALFORMED_UPDATE


@pytest.mark.parametrize(
    "data",
    [
        b"\x01\xff\xff\xff\xff\x0f\x01\x00",  # as many structs as nobody sent
        b"\x01\x01\x01\x00\x04\x01\x01a\xff\xff\xff\xff\x0f",  # a text longer than the bytes
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f",  # a number that no JavaScript counts to
        b"\x01\x01\x01\x00\x08\x01\x01a" + b"\x01" + b"\x75\x01" * 200,  # values in values in values
    ],
)
def test_absurd_sizes_are_refused_before_they_cost_anything(data: bytes):
    with pytest.raises(Refusal, match="MALFORMED_UPDATE"):
        decode(data)


def test_moved_ranges_are_not_supported():
    with pytest.raises(Refusal, match="DOCUMENT_UNSUPPORTED"):
        decode(b"\x01\x01\x01\x00\x0b\x01\x01a\x00\x01\x01\x00\x00")


def test_an_update_that_builds_on_others_is_named_as_such():
    editor = Editor("one", client_id=9)
    editor.typed()
    editor.type(0, 3, " two")

    with pytest.raises(Refusal, match="DOCUMENT_INCOMPLETE"):
        DocumentIndex.build(editor.typed())


@given(st.binary(max_size=40))
@settings(max_examples=400, deadline=None)
def test_any_bytes_are_a_position_or_a_refusal(data: bytes):
    index = DocumentIndex.build(UPDATE)
    found: Place | Nowhere | ErrorCode
    try:
        found = index.resolve(data)
    except Refusal as refusal:
        found = refusal.code
    assert isinstance(found, Place | Nowhere) or found is ErrorCode.MALFORMED_POSITION


@pytest.mark.parametrize(
    ("encoded", "where"),
    [
        ("000100", Nowhere.UNRESOLVED),  # the three-byte form without an association, of a client unknown
        ("00630500", Nowhere.UNRESOLVED),  # a client nobody knows
        ("0005ff7f00", Nowhere.UNRESOLVED),  # a clock from the future
        ("0103666f6f00", Nowhere.UNRESOLVED),  # another root type
    ],
)
def test_what_a_document_does_not_know_is_unresolved(encoded: str, where: Nowhere):
    assert DocumentIndex.build(UPDATE).resolve(bytes.fromhex(encoded)) is where


def test_a_position_in_a_deleted_block_is_told_from_one_that_was_never_known():
    editor = Editor("one", "two", client_id=7)
    index = DocumentIndex.build(editor.update())
    block = index.document().children[1]
    inside = index.encode(Place(block.children[0].id, 1), 0)  # type: ignore[union-attr]
    of_block = index.encode(Place(block.id, 1), 0)
    del editor.root.children[1]
    index = DocumentIndex.build(editor.update())

    assert index.resolve(inside) is Nowhere.DELETED
    assert index.resolve(of_block) is Nowhere.DELETED


@given(st.integers(0, 2**53 - 1))
def test_numbers_read_as_they_were_written(number: int):
    assert Reader(uint(number)).uint() == number
    assert Reader(sint(-number)).sint() == -number


@given(st.dictionaries(st.integers(1, 2**40), st.integers(0, 2**31), max_size=8))
def test_state_vectors_read_as_they_were_written(vector: dict[int, int]):
    assert decode_state_vector(encode_state_vector(vector)) == vector
    assert covers(vector, vector)
    assert covers(vector, {})
    assert not covers({}, {1: 1})


def test_a_decoded_position_names_what_it_stands_beside():
    assert decode_position(bytes.fromhex("000507")) == ((5, 7), None, None, 0)
    assert decode_position(bytes.fromhex("00050741")).assoc == -1


def test_an_update_that_no_editor_could_load_is_refused():
    editor = Editor("in 東京 now", client_id=1)
    editor.text(0).format(0, 5, {"strong": {}})  # in bytes: it ends inside a character

    with pytest.raises(Refusal, match="MALFORMED_UPDATE"):
        decode(editor.update())
