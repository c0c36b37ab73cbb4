"""Where things stand in an XML part, by byte, so that an edit replaces just them and leaves the rest as it is.

Documents with a document type declaration, or in another encoding than UTF-8, are not edited.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from xml.parsers import expat

from counterfoil.models.errors import ErrorCode, Refusal

Splice = tuple[int, int, bytes]
"""Bytes from, up to, and what takes their place."""

_START_TAG = re.compile(rb"""<[^>"']*(?:"[^"]*"[^>"']*|'[^']*'[^>"']*)*>""")
_ATTRIBUTE = re.compile(rb"""(\s+)([^\s=<>/"']+)\s*=\s*("[^"]*"|'[^']*')""")
_ENCODING = re.compile(rb"""^(?:\xef\xbb\xbf)?<\?xml[^>]*?encoding\s*=\s*["']([A-Za-z0-9._-]+)["']""")


class MarkupProblem(ValueError):
    """The part is not well-formed, or not of the plain sort that is edited."""


@dataclass(slots=True)
class Element:
    """One element: its name, attributes as spelled, and where it stands. `inner` is empty for a self-closing tag."""

    name: str
    attributes: dict[str, str]
    depth: int
    parent: Element | None
    start: int
    inner_start: int
    inner_end: int = 0
    end: int = 0
    text: str = ""

    @property
    def local(self) -> str:
        """The name without its prefix."""
        return self.name.rpartition(":")[2]

    @property
    def prefix(self) -> str:
        """The prefix with its colon, or nothing."""
        return self.name[: -len(self.local)]

    @property
    def self_closing(self) -> bool:
        """Whether it is written `<a/>`."""
        return self.inner_start == self.end

    def get(self, local: str) -> str | None:
        """The attribute of that name, whatever its prefix."""
        for name, value in self.attributes.items():
            if name.rpartition(":")[2] == local:
                return value
        return None


def new_parser() -> expat.XMLParserType:
    """A parser that refuses document type declarations, hence entities, and keeps attributes in order."""
    parser = expat.ParserCreate()
    parser.buffer_text = True

    def refuse(*_: object) -> None:
        raise MarkupProblem("it has a document type declaration")

    parser.StartDoctypeDeclHandler = refuse
    return parser


def check_encoding(content: bytes) -> None:
    """Raises `MarkupProblem` unless the part is UTF-8."""
    declared = _ENCODING.match(content[:200])
    if declared and declared[1].lower() not in (b"utf-8", b"us-ascii", b"ascii"):
        raise MarkupProblem(f"it is in the encoding {declared[1].decode()}")
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise MarkupProblem("it is in UTF-16")


def parse(parser: expat.XMLParserType, content: bytes) -> None:
    """Runs a parser over a whole part. Raises `MarkupProblem`."""
    check_encoding(content)
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        raise MarkupProblem(f"it is not well-formed: {error}") from error


def start_tag_end(content: bytes, start: int) -> int:
    """Where the start tag that begins at `start` ends."""
    match = _START_TAG.match(content, start)
    if match is None:
        raise MarkupProblem("a tag does not end")
    return match.end()


def elements(content: bytes) -> list[Element]:
    """All elements in document order. For parts that fit in memory as objects; sheets have their own walk."""
    found: list[Element] = []
    stack: list[Element] = []
    parser = new_parser()

    def start(name: str, attributes: dict[str, str]) -> None:
        at = parser.CurrentByteIndex
        element = Element(name, attributes, len(stack), stack[-1] if stack else None, at, start_tag_end(content, at))
        found.append(element)
        stack.append(element)

    def end(_: str) -> None:
        element = stack.pop()
        at = parser.CurrentByteIndex
        if content[element.inner_start - 2 : element.inner_start] == b"/>":
            element.inner_end = element.end = element.inner_start
        else:
            element.inner_end = at
            element.end = content.index(b">", at) + 1

    def characters(data: str) -> None:
        if stack:
            stack[-1].text += data

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = characters
    parse(parser, content)
    return found


def spliced(content: bytes, splices: Iterable[Splice]) -> bytes:
    """The content with the splices made. They must not overlap."""
    pieces: list[bytes] = []
    at = 0
    for start, end, replacement in sorted(splices, key=lambda splice: (splice[0], splice[1])):
        if start < at:
            raise MarkupProblem("two changes overlap")
        pieces += (content[at:start], replacement)
        at = end
    pieces.append(content[at:])
    return b"".join(pieces)


def with_attributes(tag: bytes, changes: dict[str, str | None]) -> bytes:
    """A start tag with attributes set or (None) removed; the others stay as they are spelled."""
    left = dict(changes)

    def replace(match: re.Match[bytes]) -> bytes:
        name = match[2].decode()
        if name not in left:
            return match.group()
        value = left.pop(name)
        return b"" if value is None else match[1] + match[2] + b"=" + quoted(value)

    tag = _ATTRIBUTE.sub(replace, tag)
    added = b"".join(b" " + name.encode() + b"=" + quoted(value) for name, value in left.items() if value is not None)
    if not added:
        return tag
    body, closing = (tag[:-2], b"/>") if tag.endswith(b"/>") else (tag[:-1], b">")
    return body.rstrip() + added + closing


def escaped(text: str) -> bytes:
    """Text as element content."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").encode()


def quoted(text: str) -> bytes:
    """Text as an attribute's value, with its quotation marks."""
    safe = text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    return b'"' + safe.replace("\n", "&#10;").replace("\t", "&#9;").encode() + b'"'


def unsupported(part: str, detail: str) -> Refusal:
    """The refusal of content that cannot be kept, naming it."""
    return Refusal(
        ErrorCode.WORKBOOK_UNSUPPORTED_CONTENT,
        f"{part}: {detail}",
        subject=part,
        remedy="make this change in the application, or remove what stands in its way first",
    )
