"""The binary encoding that Yjs writes in (lib0): numbers, strings, byte arrays, and values of any JSON-like type.

Everything a reader is given may be hostile: what is not a whole value raises `ValueError`, and nothing is allocated
that the bytes do not pay for.
"""

from __future__ import annotations

import struct
from typing import Any

MOST = 2**53 - 1
"""The largest whole number JavaScript counts with."""
DEEPEST = 64


class Reader:
    """Reads values one after the other."""

    __slots__ = ("at", "data", "size")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.size = len(data)

    @property
    def left(self) -> int:
        """How many bytes are not read yet."""
        return self.size - self.at

    def byte(self) -> int:
        """One byte."""
        at = self.at
        if at >= self.size:
            raise ValueError("it ends too early")
        self.at = at + 1
        return self.data[at]

    def uint(self) -> int:
        """A whole number, least significant seven bits first."""
        data, at = self.data, self.at
        try:
            byte = data[at]
            at += 1
            if byte < 0x80:
                self.at = at
                return byte
            value, shift = byte & 0x7F, 7
            while True:
                byte = data[at]
                at += 1
                value |= (byte & 0x7F) << shift
                if byte < 0x80:
                    break
                shift += 7
                if shift > 56:
                    raise ValueError("a number is too large")
        except IndexError:
            raise ValueError("it ends too early") from None
        if value > MOST:
            raise ValueError("a number is too large")
        self.at = at
        return value

    def sint(self) -> int:
        """A signed whole number."""
        byte = self.byte()
        value, shift = byte & 0x3F, 6
        sign = -1 if byte & 0x40 else 1
        while byte & 0x80:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if shift > 60:
                raise ValueError("a number is too large")
        if value > MOST:
            raise ValueError("a number is too large")
        return sign * value

    def count(self) -> int:
        """How many values follow, each of at least one byte."""
        count = self.uint()
        if count > self.size - self.at:
            raise ValueError("it names more than it holds")
        return count

    def raw(self) -> bytes:
        """A byte array."""
        length = self.count()
        at = self.at
        self.at = at + length
        return self.data[at : at + length]

    def string(self) -> str:
        """A text in UTF-8. Half a surrogate pair reads as U+FFFD, as a browser's decoder has it."""
        length = self.uint()
        at = self.at
        end = at + length
        if end > self.size:
            raise ValueError("it ends too early")
        self.at = end
        try:
            return self.data[at:end].decode()
        except UnicodeDecodeError:
            return self.data[at:end].decode("utf-8", "replace")

    def value(self, depth: int = 0) -> Any:
        """A value of any type; whole numbers are ints, whatever they were stored as."""
        if depth > DEEPEST:
            raise ValueError("values are nested too deeply")
        kind = self.byte()
        match kind:
            case 127 | 126:
                return None
            case 125:
                return self.sint()
            case 124 | 123:
                return _whole(self._packed(">f" if kind == 124 else ">d"))
            case 122:
                return self._packed(">q")
            case 121 | 120:
                return kind == 120
            case 119:
                return self.string()
            case 118:
                return {self.string(): self.value(depth + 1) for _ in range(self.count())}
            case 117:
                return [self.value(depth + 1) for _ in range(self.count())]
            case 116:
                return list(self.raw())
            case _:
                raise ValueError(f"{kind} names no type of value")

    def _packed(self, form: str) -> Any:
        size = struct.calcsize(form)
        if self.left < size:
            raise ValueError("it ends too early")
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += size
        return value


def _whole(value: float) -> float | int | None:
    if value != value or value in (float("inf"), float("-inf")):
        return None  # JSON has no word for it
    return int(value) if value.is_integer() and abs(value) <= MOST else value


def uint(value: int) -> bytes:
    """A whole number as `Reader.uint` reads it."""
    written = bytearray()
    while value > 0x7F:
        written.append(0x80 | (value & 0x7F))
        value >>= 7
    written.append(value)
    return bytes(written)


def sint(value: int) -> bytes:
    """A signed whole number as `Reader.sint` reads it."""
    negative, value = value < 0, abs(value)
    written = bytearray([(0x80 if value > 0x3F else 0) | (0x40 if negative else 0) | (value & 0x3F)])
    value >>= 6
    while value > 0:
        written.append((0x80 if value > 0x7F else 0) | (value & 0x7F))
        value >>= 7
    return bytes(written)


def string(value: str) -> bytes:
    """A text as `Reader.string` reads it."""
    encoded = value.encode()
    return uint(len(encoded)) + encoded
