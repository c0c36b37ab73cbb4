"""Yjs updates (version 1) as structs and deletions, and state vectors.

An update holds, for each client, a run of structs with consecutive clocks, and then which clocks are deleted. Reading
it checks every byte: what is not a whole update is refused, whatever it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from counterfoil.models.documents.nodes import utf16_length
from counterfoil.models.documents.yjs.lib0 import Reader, uint
from counterfoil.models.errors import ErrorCode, Refusal

MOVE = 11
"""A moved range: an extension of the runtime that y-prosemirror and Yjs do not have."""
LONGEST = 2**31


class Kind(IntEnum):
    """What a struct holds, by the number that is written."""

    GC = 0
    DELETED = 1
    JSON = 2
    BINARY = 3
    STRING = 4
    EMBED = 5
    FORMAT = 6
    TYPE = 7
    ANY = 8
    DOC = 9
    SKIP = 10


class TypeRef(IntEnum):
    """What a nested type is."""

    ARRAY = 0
    MAP = 1
    TEXT = 2
    XML_ELEMENT = 3
    XML_FRAGMENT = 4
    XML_HOOK = 5
    XML_TEXT = 6


Id = tuple[int, int]
"""A client and a clock."""


class Item:
    """One struct as it was written. `value` depends on the kind; `length` counts clocks.

    `parent` is the name of a root type, or an id, or None where it follows from the neighbours. The last five belong to
    whoever puts it into a document: its neighbours, the type it is in, whether it is deleted, where it begins there.
    """

    __slots__ = (
        "at",
        "branch",
        "client",
        "clock",
        "deleted",
        "key",
        "kind",
        "left",
        "length",
        "origin",
        "parent",
        "right",
        "right_origin",
        "value",
    )

    def __init__(
        self,
        client: int,
        clock: int,
        kind: int,
        length: int,
        value: Any = None,
        origin: Id | None = None,
        right_origin: Id | None = None,
        parent: str | Id | None = None,
        key: str | None = None,
    ) -> None:
        self.client = client
        self.clock = clock
        self.kind = kind
        self.length = length
        self.value = value
        self.origin = origin
        self.right_origin = right_origin
        self.parent = parent
        self.key = key
        self.left: Item | None = None
        self.right: Item | None = None
        self.branch: Any = None
        self.deleted = kind == Kind.DELETED
        self.at = 0


@dataclass(frozen=True, slots=True)
class Update:
    """A decoded update."""

    structs: dict[int, list[Item]]
    """By client, in the order of their clocks."""
    deletions: dict[int, list[tuple[int, int]]]
    """By client, clocks and how many from there."""

    @property
    def is_empty(self) -> bool:
        return not self.structs and not self.deletions


def decode(data: bytes) -> Update:
    """An update's structs and deletions.

    Raises `Refusal`: `MALFORMED_UPDATE` for bytes that are no whole update, `DOCUMENT_UNSUPPORTED` for moved ranges.
    """
    reader = Reader(data)
    try:
        structs = _structs(reader)
        deletions = _deletions(reader)
        if reader.left:
            raise ValueError(f"{reader.left} bytes follow its end")
    except (ValueError, RecursionError) as error:
        raise Refusal(
            ErrorCode.MALFORMED_UPDATE,
            f"the bytes are not a Yjs update: {error}"[:300],
            subject="update",
            remedy="send the update as the editor produced it",
        ) from error
    return Update(structs, deletions)


def _structs(reader: Reader) -> dict[int, list[Item]]:
    found: dict[int, list[Item]] = {}
    read = reader.uint
    for _ in range(reader.count()):
        count = reader.count()
        client, clock = read(), read()
        structs = found.setdefault(client, [])
        if structs and clock < structs[-1].clock + structs[-1].length:
            raise ValueError("a client's clocks run backwards")
        for _ in range(count):
            struct = _struct(reader, client, clock)
            if struct.length == 0 and struct.kind != Kind.SKIP:
                raise ValueError("an item has no length")
            if _is_ahead(struct):
                # pycrdt writes such where a format ends inside a character; editors that load it fail.
                raise ValueError("an item stands beside itself, or beside what comes after it")
            clock += struct.length
            if clock > LONGEST:
                raise ValueError("a clock is too large")
            structs.append(struct)
    return found


def _is_ahead(item: Item) -> bool:
    client, clock = item.client, item.clock
    return any(
        named is not None and named[0] == client and named[1] >= clock for named in (item.origin, item.right_origin)
    )


def _struct(reader: Reader, client: int, clock: int) -> Item:
    read = reader.uint
    info = reader.byte()
    kind = info & 31
    if kind in (Kind.GC, Kind.SKIP):
        return Item(client, clock, kind, read())
    origin = (read(), read()) if info & 0x80 else None
    right_origin = (read(), read()) if info & 0x40 else None
    parent: str | Id | None = None
    key = None
    if not info & 0xC0:
        parent = reader.string() if read() == 1 else (read(), read())
        if info & 0x20:
            key = reader.string()
    if kind == Kind.STRING:
        value: Any = reader.string()
        return Item(client, clock, kind, utf16_length(value), value, origin, right_origin, parent, key)
    length, value = _content(reader, kind)
    return Item(client, clock, kind, length, value, origin, right_origin, parent, key)


def _content(reader: Reader, kind: int) -> tuple[int, Any]:
    match kind:
        case Kind.DELETED:
            return reader.uint(), None
        case Kind.FORMAT:
            return 1, (reader.string(), _json(reader.string()))
        case Kind.TYPE:
            return 1, _type(reader)
        case Kind.ANY:
            values = [reader.value() for _ in range(reader.count())]
            return len(values), values
        case Kind.JSON:
            texts = [reader.string() for _ in range(reader.count())]
            return len(texts), [None if text == "undefined" else _json(text) for text in texts]
        case Kind.BINARY:
            return 1, reader.raw()
        case Kind.EMBED:
            return 1, _json(reader.string())
        case Kind.DOC:
            return 1, (reader.string(), reader.value())
        case _ if kind == MOVE:
            raise Refusal(
                ErrorCode.DOCUMENT_UNSUPPORTED,
                "the update holds moved ranges, which a ProseMirror document cannot have",
                subject="update",
                remedy="write the document with y-prosemirror",
            )
        case _:
            raise ValueError(f"{kind} names no kind of content")


def _type(reader: Reader) -> tuple[TypeRef, str | None]:
    ref = reader.uint()
    try:
        known = TypeRef(ref)
    except ValueError:
        raise Refusal(
            ErrorCode.DOCUMENT_UNSUPPORTED,
            f"the update holds a type ({ref}) that a ProseMirror document cannot have",
            subject="update",
            remedy="write the document with y-prosemirror",
        ) from None
    return known, reader.string() if known in (TypeRef.XML_ELEMENT, TypeRef.XML_HOOK) else None


def _json(text: str) -> Any:
    value = json.loads(text, parse_constant=lambda _: None)
    return value


def _deletions(reader: Reader) -> dict[int, list[tuple[int, int]]]:
    found: dict[int, list[tuple[int, int]]] = {}
    read = reader.uint
    for _ in range(reader.count()):
        client = read()
        ranges = found.setdefault(client, [])
        for _ in range(reader.count()):
            clock, length = read(), read()
            if clock + length > LONGEST:
                raise ValueError("a clock is too large")
            if length:
                ranges.append((clock, length))
    return found


def decode_state_vector(data: bytes) -> dict[int, int]:
    """How far each client's clock was seen. Raises `Refusal` (`MALFORMED_UPDATE`)."""
    reader = Reader(data)
    try:
        vector = {reader.uint(): reader.uint() for _ in range(reader.count())}
        if reader.left:
            raise ValueError(f"{reader.left} bytes follow its end")
    except ValueError as error:
        raise Refusal(
            ErrorCode.MALFORMED_UPDATE,
            f"the bytes are not a Yjs state vector: {error}"[:300],
            subject="state vector",
            remedy="send the state vector as the editor encoded it",
        ) from error
    return vector


def encode_state_vector(vector: Mapping[int, int]) -> bytes:
    """A state vector as Yjs writes it: the highest client first."""
    parts = [uint(len(vector))]
    parts += [uint(client) + uint(clock) for client, clock in sorted(vector.items(), reverse=True)]
    return b"".join(parts)


def covers(have: Mapping[int, int], wanted: Mapping[int, int]) -> bool:
    """Whether everything that `wanted` has seen is in `have`. Deletions are in no state vector."""
    return all(have.get(client, 0) >= clock for client, clock in wanted.items())


def is_whole(merged: bytes, loaded: bytes) -> bool:
    """Whether a loaded document, encoded, says all that the updates it was loaded from say.

    It does not where structs are missing that others build on: those, and deletions of what is not there yet, wait, and
    encoding the document would forget them. Raises `Refusal` as `decode` does.
    """
    given, kept = decode(merged), decode(loaded)
    known: dict[int, int] = {}
    for client, structs in kept.structs.items():
        known[client] = structs[-1].clock + structs[-1].length
    for client, structs in given.structs.items():
        if any(struct.kind == Kind.SKIP for struct in structs):
            return False
        if structs[-1].clock + structs[-1].length > known.get(client, 0):
            return False
    return all(
        clock + length <= known.get(client, 0) for client, ranges in given.deletions.items() for clock, length in ranges
    )
