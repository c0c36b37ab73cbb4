"""A ProseMirror document as plain nodes, each with the identity of the Yjs type it was read from.

Block nodes and inline nodes without text (images, hard breaks) are elements; a run of characters is a text node, whose
pieces carry marks. This is the shape y-prosemirror gives them, and the one that positions and projections count in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


class ItemId(NamedTuple):
    """The identity of an item in a Yjs document: who inserted it, and as the how-manieth."""

    client: int
    clock: int

    def __str__(self) -> str:
        return f"{self.client}:{self.clock}"


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark on text: `strong`, `link`, … with its attributes."""

    name: str
    attrs: dict[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Run:
    """Characters that carry the same marks. Marks are sorted by name, so equal runs are equal in every process."""

    text: str
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True)
class TextNode:
    """The text of one Yjs text type. `id` is None for one that is not (yet) part of a document."""

    runs: tuple[Run, ...] = ()
    id: ItemId | None = None

    @property
    def text(self) -> str:
        return "".join(run.text for run in self.runs)

    @property
    def length_utf16(self) -> int:
        return sum(utf16_length(run.text) for run in self.runs)


@dataclass(frozen=True, slots=True)
class Element:
    """A node with children: the document (`doc`), a block, or an inline node without text.

    `id` is None for the document itself, and for one that is not (yet) part of a document. Whole numbers among the
    attributes are ints, however the writer's language stored them.
    """

    name: str
    children: tuple[Node, ...] = ()
    attrs: dict[str, Json] = field(default_factory=dict)
    id: ItemId | None = None

    def descendants(self) -> Iterator[Node]:
        """All nodes below this one, in document order."""
        for child in self.children:
            yield child
            if isinstance(child, Element):
                yield from child.descendants()


Node: TypeAlias = "Element | TextNode"


def utf16_length(text: str) -> int:
    """The length of a text as JavaScript counts it: characters beyond U+FFFF count twice."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
