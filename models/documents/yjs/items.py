"""Puts items into a document as Yjs does: split where others refer to, ordered among concurrent ones, deleted.

This is the integration algorithm of Yjs (YATA) over decoded updates, without a runtime: identities stay visible, text
is counted in UTF-16 units throughout, and nothing an update says can do more than be refused.
"""

from __future__ import annotations

from bisect import bisect_right, insort

from counterfoil.models.documents.yjs.branches import YType
from counterfoil.models.documents.yjs.update import Id, Item, TypeRef, Update
from counterfoil.models.errors import ErrorCode, Refusal

NO_END = 2**62
GC, SKIP, FORMAT, TYPE, STRING = 0, 10, 6, 7, 4
"""The numbers of `Kind`, which is slow to compare with where there are many."""


class Items:
    """All items of a document, by client and clock, linked in their types."""

    def __init__(self) -> None:
        self._clocks: dict[int, list[int]] = {}
        self._items: dict[int, list[Item]] = {}
        self.state: dict[int, int] = {}
        self.roots: dict[str, YType] = {}

    def root(self, name: str) -> YType:
        """A root type, made when it is first named."""
        found = self.roots.get(name)
        if found is None:
            found = self.roots[name] = YType(TypeRef.XML_FRAGMENT, name)
        return found

    def find(self, client: int, clock: int) -> Item | None:
        """The item that spans a clock, or None where it is not known."""
        if clock >= self.state.get(client, 0):
            return None
        return self._items[client][bisect_right(self._clocks[client], clock) - 1]

    def integrate(self, update: Update) -> None:
        """Put an update's items in, then make its deletions.

        Raises `Refusal` (`DOCUMENT_INCOMPLETE`) where it builds on what is not here; this is of no use then.
        """
        waiting = {client: _Queue(items) for client, items in update.structs.items()}
        for client in sorted(waiting, reverse=True):
            self._integrate_from(client, waiting)
        for client, ranges in update.deletions.items():
            for clock, length in ranges:
                self._delete_range(client, clock, length)

    def _integrate_from(self, first: int, waiting: dict[int, _Queue]) -> None:
        """All of a client's items, and of others' what each builds on, no further than that."""
        stack: list[tuple[int, int]] = [(first, NO_END)]
        while stack:
            client, until = stack[-1]
            item = waiting[client].next
            known = self.state.get(client, 0)
            if item is None or known > until:
                stack.pop()
                continue
            if item.clock + item.length <= known:
                waiting[client].pass_on()
                continue
            if item.clock > known or item.kind == SKIP:
                raise _incomplete()
            needed = self._needs(item)
            if needed is None:
                waiting[client].pass_on()
                self._put(item, known - item.clock)
                continue
            if needed[0] not in waiting or waiting[needed[0]].next is None or len(stack) > len(waiting):
                raise _incomplete()
            stack.append(needed)

    def _needs(self, item: Item) -> Id | None:
        """What this item builds on and that is not here yet."""
        state = self.state
        for named in (item.origin, item.right_origin, item.parent):
            if named is None or isinstance(named, str) or named[1] < state.get(named[0], 0):
                continue
            if named[0] == item.client:
                raise _incomplete()
            return named
        return None

    def _put(self, item: Item, known: int) -> None:
        if known:
            item = _rest(item, known)
        if item.kind == GC:
            self._keep(item)
            return
        left = None if item.origin is None else self._ending_at(item.origin)
        right = None if item.right_origin is None else self._beginning_at(item.right_origin)
        branch = self._branch_of(item, left, right)
        if branch is None:
            # What it was in is forgotten, and so is it.
            item.kind, item.value = GC, None
            self._keep(item)
            return
        item.branch = branch
        self._link(item, branch, left, right)
        self._keep(item)
        if item.kind == TYPE:
            ref, name = item.value
            item.value = YType(ref, name or ref.name.lower(), item)
        if not item.deleted:
            if item.key is None and item.kind != FORMAT:
                branch.length += item.length
            holder = branch.item
            if (holder is not None and holder.deleted) or (item.key is not None and item.right is not None):
                _delete(item)
        branch.touch()

    def _branch_of(self, item: Item, left: Item | None, right: Item | None) -> YType | None:
        if (left is not None and left.kind == GC) or (right is not None and right.kind == GC):
            return None
        if item.parent is None:
            beside = left if left is not None else right
            if beside is None:
                return None
            item.key = beside.key
            found: YType | None = beside.branch
            return found
        if isinstance(item.parent, str):
            return self.root(item.parent)
        holder = self.find(*item.parent)
        return holder.value if holder is not None and isinstance(holder.value, YType) else None

    def _link(self, item: Item, branch: YType, left: Item | None, right: Item | None) -> None:
        if (left is None and (right is None or right.left is not None)) or (
            left is not None and left.right is not right
        ):
            left = self._after_concurrent(item, branch, left, right)
        item.left = left
        if left is not None:
            item.right = left.right
            left.right = item
        elif item.key is not None:
            item.right = branch.attributes.get(item.key)
            while item.right is not None and item.right.left is not None:
                item.right = item.right.left
        else:
            item.right = branch.start
            branch.start = item
        if item.right is not None:
            item.right.left = item
        elif item.key is not None:
            branch.attributes[item.key] = item
            if left is not None:
                _delete(left)

    def _after_concurrent(self, item: Item, branch: YType, left: Item | None, right: Item | None) -> Item | None:
        """The left neighbour, among items that were put at the same place concurrently."""
        if left is not None:
            other = left.right
        elif item.key is not None:
            other = branch.attributes.get(item.key)
            while other is not None and other.left is not None:
                other = other.left
        else:
            other = branch.start
        conflicting: set[Item] = set()
        before_origin: set[Item] = set()
        while other is not None and other is not right:
            before_origin.add(other)
            conflicting.add(other)
            if item.origin == other.origin:
                if other.client < item.client:
                    left = other
                    conflicting.clear()
                elif item.right_origin == other.right_origin:
                    break
            elif other.origin is not None and (origin := self.find(*other.origin)) in before_origin:
                if origin not in conflicting:
                    left = other
                    conflicting.clear()
            else:
                break
            other = other.right
        return left

    def _ending_at(self, named: Id) -> Item:
        """The item whose last clock this is, split off if need be."""
        item = self.find(*named)
        assert item is not None
        if item.kind != GC and named[1] != item.clock + item.length - 1:
            self._split(item, named[1] - item.clock + 1)
        return item

    def _beginning_at(self, named: Id) -> Item:
        """The item whose first clock this is, split off if need be."""
        item = self.find(*named)
        assert item is not None
        if item.kind != GC and named[1] != item.clock:
            return self._split(item, named[1] - item.clock)
        return item

    def _split(self, item: Item, offset: int) -> Item:
        rest = _rest(item, offset)
        rest.origin = (item.client, item.clock + offset - 1)
        rest.branch, rest.deleted, rest.key = item.branch, item.deleted, item.key
        if item.kind == STRING:
            item.value = _cut(item.value, offset)[0]
        elif isinstance(item.value, list):
            item.value = item.value[:offset]
        item.length = offset
        rest.left, rest.right = item, item.right
        if item.right is not None:
            item.right.left = rest
        elif item.key is not None:
            item.branch.attributes[item.key] = rest
        item.right = rest
        insort(self._clocks[item.client], rest.clock)
        items = self._items[item.client]
        items.insert(bisect_right(self._clocks[item.client], rest.clock) - 1, rest)
        if item.branch is not None:
            item.branch._measured = False
        return rest

    def _keep(self, item: Item) -> None:
        clocks = self._clocks.get(item.client)
        if clocks is None:
            clocks = self._clocks[item.client] = []
            self._items[item.client] = []
        clocks.append(item.clock)
        self._items[item.client].append(item)
        self.state[item.client] = item.clock + item.length

    def _delete_range(self, client: int, clock: int, length: int) -> None:
        end = clock + length
        if end > self.state.get(client, 0):
            raise _incomplete()
        items, clocks = self._items[client], self._clocks[client]
        index = bisect_right(clocks, clock) - 1
        item = items[index]
        if not item.deleted and item.kind != GC and item.clock < clock:
            self._split(item, clock - item.clock)
            index += 1
        while index < len(items) and items[index].clock < end:
            item = items[index]
            if not item.deleted and item.kind != GC:
                if item.clock + item.length > end:
                    self._split(item, end - item.clock)
                _delete(item)
            index += 1


class _Queue:
    """A client's items that are not put in yet."""

    __slots__ = ("_at", "_items")

    def __init__(self, items: list[Item]) -> None:
        self._items = items
        self._at = 0

    @property
    def next(self) -> Item | None:
        return self._items[self._at] if self._at < len(self._items) else None

    def pass_on(self) -> None:
        self._at += 1


def _delete(item: Item) -> None:
    """Delete an item, and all that is in it."""
    doomed = [item]
    while doomed:
        one = doomed.pop()
        if one.deleted or one.kind == GC:
            continue
        one.deleted = True
        if one.branch is not None:
            if one.key is None and one.kind != FORMAT:
                one.branch.length -= one.length
            one.branch.touch()
        if isinstance(one.value, YType):
            doomed.extend(one.value.items())
            doomed.extend(one.value.attributes.values())


def _rest(item: Item, offset: int) -> Item:
    """What of an item comes after its first `offset` clocks."""
    value = item.value
    if item.kind == STRING:
        value = _cut(value, offset)[1]
    elif isinstance(value, list):
        value = value[offset:]
    origin = item.origin if item.kind == GC else (item.client, item.clock + offset - 1)
    return Item(
        item.client,
        item.clock + offset,
        item.kind,
        item.length - offset,
        value,
        origin,
        item.right_origin,
        None,
        item.key,
    )


def _cut(text: str, offset: int) -> tuple[str, str]:
    """A text in two, at a UTF-16 offset. Half a character is U+FFFD on both sides, as in Yjs."""
    if text.isascii():
        return text[:offset], text[offset:]
    encoded = text.encode("utf-16-le")
    left, right = encoded[: 2 * offset], encoded[2 * offset :]
    return left.decode("utf-16-le", "replace"), right.decode("utf-16-le", "replace")


def _incomplete() -> Refusal:
    return Refusal(
        ErrorCode.DOCUMENT_INCOMPLETE,
        "the update builds on others that are not here",
        subject="document",
        remedy="let the editor send what it has; then ask again",
    )
