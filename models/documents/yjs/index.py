"""An index of a Yjs document: its nodes, and relative positions encoded and resolved, byte for byte as Yjs does.

Built once from the document's encoded state, then kept up with further updates. Nodes that an update does not touch
stay the same objects.
"""

from __future__ import annotations

from typing import NamedTuple

from counterfoil.models.documents.nodes import Element, ItemId, Node, TextNode
from counterfoil.models.documents.positions import Branch, Nowhere, Place
from counterfoil.models.documents.yjs.branches import YType
from counterfoil.models.documents.yjs.items import Items
from counterfoil.models.documents.yjs.lib0 import Reader, sint, string, uint
from counterfoil.models.documents.yjs.update import Id, Kind, decode
from counterfoil.models.errors import ErrorCode, Refusal

ROOT = "prosemirror"
"""The name that y-prosemirror's users give the root fragment."""
POSITION_LIMIT_BYTES = 256
LEAVES = frozenset({"hard_break", "hardBreak", "image", "horizontal_rule", "horizontalRule", "mention", "emoji"})
"""Nodes that ProseMirror counts as one, as they can have no content."""


class RelativePosition(NamedTuple):
    """A decoded relative position: beside an item, or at an end of a type; `assoc` < 0 belongs to what is before."""

    item: Id | None
    root: str | None
    type: Id | None
    assoc: int


class DocumentIndex:
    """The document as it is after the updates that were put in."""

    def __init__(self, root: str = ROOT) -> None:
        self._items = Items()
        self._root = self._items.root(root)

    @classmethod
    def build(cls, update: bytes, root: str = ROOT) -> DocumentIndex:
        """The index of a document's whole encoded state.

        Raises `Refusal`: `MALFORMED_UPDATE`, `DOCUMENT_UNSUPPORTED`, and `DOCUMENT_INCOMPLETE` where parts are missing.
        """
        index = cls(root)
        index._items.integrate(decode(update))
        return index

    def apply(self, update: bytes) -> None:
        """Put a further update in. Raises `Refusal` as `build` does; this index must not be used any more then."""
        self._items.integrate(decode(update))

    @property
    def state_vector(self) -> dict[int, int]:
        """How far each client's clock goes."""
        return dict(self._items.state)

    def document(self) -> Element:
        """The document, as a node named `doc`. Raises `Refusal` (`DOCUMENT_UNSUPPORTED`)."""
        node = self._root.node()
        assert isinstance(node, Element)
        return node

    def node(self, branch: Branch) -> Node | None:
        """The node of a branch, or None where there is none (any more)."""
        found = self._type(branch)
        return None if found is None else found.node()

    def parent(self, branch: ItemId) -> Branch:
        """The branch that a branch is in. Raises KeyError for one that is not in the document."""
        found = self._type(branch)
        if found is None or found.item is None:
            raise KeyError(str(branch))
        parent: YType = found.item.branch
        return parent.id

    def resolve(self, position: bytes) -> Place | Nowhere:
        """Where a relative position, as Yjs encodes it, is now. Raises `Refusal` (`MALFORMED_POSITION`)."""
        named = decode_position(position)
        if named.item is not None:
            return self._beside(named.item, named.assoc)
        if named.root is not None:
            return self._end_of(self._root, named.assoc) if named.root == self._root.name else Nowhere.UNRESOLVED
        assert named.type is not None
        item = self._items.find(*named.type)
        if item is None:
            return Nowhere.UNRESOLVED
        if item.deleted or item.kind == Kind.GC:
            return Nowhere.DELETED
        return self._end_of(item.value, named.assoc) if isinstance(item.value, YType) else Nowhere.UNRESOLVED

    def encode(self, place: Place, assoc: int) -> bytes:
        """A place as a relative position that survives edits, as Yjs encodes it. Raises KeyError."""
        branch = self._type(place.branch)
        if branch is None:
            raise KeyError(str(place.branch))
        offset = place.offset
        if assoc < 0:
            if offset == 0:
                return _end_position(branch, assoc)
            offset -= 1
        item = branch.item_at(offset)
        if item is not None:
            return _position((item.client, item.clock + offset - item.at), assoc)
        last = branch.last()
        if assoc < 0 and last is not None:
            return _position((last.client, last.clock + last.length - 1), assoc)
        return _end_position(branch, assoc)

    def prosemirror_position(self, place: Place) -> int:
        """The same place as ProseMirror counts the document: an opening or closing of a node is one."""
        branch = self._type(place.branch)
        if branch is None:
            raise KeyError(str(place.branch))
        position = place.offset
        if not branch.is_text:
            position = 1
            for child, _ in zip(branch.children(), range(place.offset), strict=False):
                position += _size(child.node())
        for at in branch.chain():
            if at.item is None:
                break
            position += 1
            for sibling in at.item.branch.children():
                if sibling is at:
                    break
                position += _size(sibling.node())
        return position - 1

    def place_at(self, position: int) -> Place:
        """The place of a ProseMirror position: inside a text where it touches one. Raises ValueError beyond the end."""
        if position < 0:
            raise ValueError("a position is not negative")
        branch, rest = self._root, position
        while True:
            at = -1
            for at, child in enumerate(branch.children()):
                size = _size(child.node())
                if child.is_text and rest <= size:
                    return Place(child.id, rest)
                if rest == 0:
                    return Place(branch.id, at)
                if not child.is_text and rest < size:
                    branch, rest = child, rest - 1
                    break
                rest -= size
            else:
                if rest:
                    raise ValueError("the position is beyond the document's end")
                return Place(branch.id, at + 1)

    def path(self, branch: Branch) -> tuple[ItemId, ...]:
        """The branches from just below the root down to this one. Raises KeyError."""
        found = self._type(branch)
        if found is None:
            raise KeyError(str(branch))
        return tuple(one.id for one in reversed(list(found.chain())) if one.id is not None)

    def _type(self, branch: Branch) -> YType | None:
        if branch is None:
            return self._root
        item = self._items.find(*branch)
        if item is None or item.clock != branch.clock or not isinstance(item.value, YType):
            return None
        return item.value if self._stands(item.value) is True else None

    def _stands(self, branch: YType) -> bool | None:
        """Whether a type is in the document; None for one that is in another root of the same Yjs document."""
        top = branch
        for top in branch.chain():
            if top.item is not None and top.item.deleted:
                return False
        return True if top is self._root else None

    def _beside(self, named: Id, assoc: int) -> Place | Nowhere:
        item = self._items.find(*named)
        if item is None:
            return Nowhere.UNRESOLVED
        if item.kind == Kind.GC:
            return Nowhere.DELETED
        branch: YType = item.branch
        stands = self._stands(branch)
        if not stands:
            return Nowhere.UNRESOLVED if stands is None else Nowhere.DELETED
        branch.measure()
        if item.deleted or item.kind == Kind.FORMAT:
            return Place(branch.id, item.at)
        return Place(branch.id, item.at + named[1] - item.clock + (0 if assoc >= 0 else 1))

    def _end_of(self, branch: YType, assoc: int) -> Place | Nowhere:
        stands = self._stands(branch)
        if not stands:
            return Nowhere.UNRESOLVED if stands is None else Nowhere.DELETED
        return Place(branch.id, branch.length if assoc >= 0 else 0)


def decode_position(data: bytes) -> RelativePosition:
    """A relative position, with or without its association. Raises `Refusal` (`MALFORMED_POSITION`)."""
    reader = Reader(data)
    try:
        if len(data) > POSITION_LIMIT_BYTES:
            raise ValueError("it is too long")
        item, root, of = None, None, None
        match reader.uint():
            case 0:
                item = (reader.uint(), reader.uint())
            case 1:
                root = reader.string()
            case 2:
                of = (reader.uint(), reader.uint())
            case other:
                raise ValueError(f"{other} names no kind of position")
        assoc = reader.sint() if reader.left else 0
        if reader.left:
            raise ValueError("bytes follow its end")
    except ValueError as error:
        raise Refusal(
            ErrorCode.MALFORMED_POSITION,
            f"the bytes are not a Yjs relative position: {error}",
            subject="position",
            remedy="send the position as the editor encoded it",
        ) from error
    return RelativePosition(item, root, of, assoc)


def _position(item: Id, assoc: int) -> bytes:
    return b"\x00" + uint(item[0]) + uint(item[1]) + sint(assoc)


def _end_position(branch: YType, assoc: int) -> bytes:
    if branch.item is None:
        return b"\x01" + string(branch.name) + sint(assoc)
    return b"\x02" + uint(branch.item.client) + uint(branch.item.clock) + sint(assoc)


def _size(node: Node) -> int:
    """What ProseMirror counts a node as."""
    if isinstance(node, TextNode):
        return node.length_utf16
    if not node.children and node.name in LEAVES:
        return 1
    return 2 + sum(_size(child) for child in node.children)
