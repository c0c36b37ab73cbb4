"""The types of a Yjs document: sequences of items with attributes, measured and read on demand."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

from counterfoil.models.common import canonical_json
from counterfoil.models.documents.nodes import Element, ItemId, Json, Mark, Node, Run, TextNode
from counterfoil.models.documents.yjs.update import Item, Kind, TypeRef
from counterfoil.models.errors import ErrorCode, Refusal

OVERLAPPING = re.compile(r"--[a-zA-Z0-9+/=]{8}$")
"""What y-prosemirror adds to the name of a mark that may overlap others of its name."""
OBJECT = "\ufffc"


class YType:
    """A type: the document's root, an element, or a text. `item` holds it; the root has none."""

    __slots__ = ("_items", "_measured", "_node", "_starts", "attributes", "item", "length", "name", "ref", "start")

    def __init__(self, ref: TypeRef, name: str, item: Item | None = None) -> None:
        self.ref = ref
        self.name = name
        self.item = item
        self.start: Item | None = None
        self.attributes: dict[str, Item] = {}
        self.length = 0
        self._node: Node | None = None
        self._measured = False
        self._starts: list[int] = []
        self._items: list[Item] = []

    @property
    def id(self) -> ItemId | None:
        return None if self.item is None else ItemId(self.item.client, self.item.clock)

    @property
    def is_text(self) -> bool:
        return self.ref in (TypeRef.XML_TEXT, TypeRef.TEXT)

    def chain(self) -> Iterator[YType]:
        """This type, the one it is in, and so on up to a root."""
        at: YType | None = self
        while at is not None:
            yield at
            at = None if at.item is None else at.item.branch

    def touch(self) -> None:
        """What was read or measured holds no more, and what holds this type reads differently too."""
        self._measured = False
        at: YType | None = self
        while at is not None and at._node is not None:
            at._node = None
            at = None if at.item is None else at.item.branch

    def items(self) -> Iterator[Item]:
        """All items in order, deleted ones too."""
        item = self.start
        while item is not None:
            yield item
            item = item.right

    def children(self) -> Iterator[YType]:
        """The types in it, in order. Raises `Refusal` (`DOCUMENT_UNSUPPORTED`) for anything else in it."""
        for item in self.items():
            if item.deleted:
                continue
            if item.kind != Kind.TYPE:
                raise _unsupported(f"'{self.name}' holds {Kind(item.kind).name.lower()} content among its nodes")
            yield item.value

    def measure(self) -> None:
        """Find where each item begins."""
        if self._measured:
            return
        at = 0
        starts, visible = [], []
        for item in self.items():
            item.at = at
            if not item.deleted and item.kind != Kind.FORMAT:
                starts.append(at)
                visible.append(item)
                at += item.length
        self._starts, self._items, self._measured = starts, visible, True

    def item_at(self, offset: int) -> Item | None:
        """The visible item that spans an offset; None at the end."""
        if offset >= self.length or offset < 0:
            return None
        self.measure()
        return self._items[bisect_right(self._starts, offset) - 1]

    def last(self) -> Item | None:
        """The last item, deleted or not."""
        item = self.start
        if self._measured and self._items:
            item = self._items[-1]
        while item is not None and item.right is not None:
            item = item.right
        return item

    def node(self) -> Node:
        """The type as a node. The same object until something in it changes."""
        if self._node is None:
            self._node = self._text() if self.is_text else self._element()
        return self._node

    def _element(self) -> Element:
        if self.item is not None and self.ref is not TypeRef.XML_ELEMENT:
            raise _unsupported(f"a {self.ref.name.lower()} stands where a node was expected")
        children = tuple(child.node() for child in self.children())
        return Element("doc" if self.item is None else self.name, children, self._attributes(), self.id)

    def _attributes(self) -> dict[str, Json]:
        return {key: _value(item) for key, item in sorted(self.attributes.items()) if not item.deleted}

    def _text(self) -> TextNode:
        runs: list[Run] = []
        marks: dict[str, Any] = {}
        standing: tuple[Mark, ...] | None = ()
        for item in self.items():
            if item.deleted:
                continue
            if item.kind == Kind.FORMAT:
                name, value = item.value
                if value is None:
                    marks.pop(name, None)
                else:
                    marks[name] = value
                standing = None
                continue
            if standing is None:
                standing = _marks(marks)
            text = item.value if item.kind == Kind.STRING else OBJECT * item.length
            if runs and runs[-1].marks == standing:
                runs[-1] = Run(runs[-1].text + text, standing)
            else:
                runs.append(Run(text, standing))
        return TextNode(tuple(runs), self.id)


def _marks(marks: dict[str, Any]) -> tuple[Mark, ...]:
    if not marks:
        return ()
    made = [Mark(OVERLAPPING.sub("", name), value if isinstance(value, dict) else {}) for name, value in marks.items()]
    return tuple(sorted(made, key=lambda mark: (mark.name, canonical_json(mark.attrs))))


def _value(item: Item) -> Json:
    match item.kind:
        case Kind.ANY | Kind.JSON:
            value: Json = item.value[-1]
            return value
        case Kind.STRING:
            return str(item.value)
        case Kind.BINARY:
            return list(item.value)
        case _:
            return None


def _unsupported(detail: str) -> Refusal:
    return Refusal(
        ErrorCode.DOCUMENT_UNSUPPORTED, detail, subject="document", remedy="write the document with y-prosemirror"
    )
