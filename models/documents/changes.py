"""The smallest change that makes one document read as another: which nodes differ, and how.

A proposed change is written in Markdown. Read as nodes, it differs from the document in one place: characters of one
textblock, or some children of one node. Only that place is edited, so that whoever types beside it loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from counterfoil.models.documents.nodes import Element, Node, Run, TextNode, utf16_length

Path: TypeAlias = tuple[int, ...]
"""A node by the indexes of children that lead to it from the document."""


@dataclass(frozen=True, slots=True)
class TextChange:
    """In the text node at `path`, the UTF-16 units from `start` to `end` become `runs`."""

    path: Path
    start: int
    end: int
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class ChildrenChange:
    """Of the node at `path`, the children from `start` to `end` become `nodes`."""

    path: Path
    start: int
    end: int
    nodes: tuple[Node, ...]


Change: TypeAlias = TextChange | ChildrenChange
Same: TypeAlias = Callable[[Node, Node], bool]


def difference(old: Element, new: Element, same: Same) -> Change | None:
    """The one change that makes `old` read as `new`; None where it does already.

    `same` says whether two nodes read alike: what a reading cannot tell apart is left as it is in `old`. Identities of
    `new` do not matter; those of `old` are kept wherever nothing changes.
    """
    return _between(old, new, same, ())


def _between(old: Element, new: Element, same: Same, path: Path) -> Change | None:
    start = _common(old.children, new.children, same)
    rest_old, rest_new = old.children[start:], new.children[start:]
    tail = _common(rest_old[::-1], rest_new[::-1], same)
    end = len(old.children) - tail
    replaced, replacing = old.children[start:end], new.children[start : len(new.children) - tail]
    if not replaced and not replacing:
        return None
    if len(replaced) == len(replacing) == 1:
        within = _within(replaced[0], replacing[0], same, (*path, start))
        if within is not None:
            return within
    return ChildrenChange(path, start, end, replacing)


def _within(old: Node, new: Node, same: Same, path: Path) -> Change | None:
    """The change inside one node that keeps the node itself, if there is one."""
    if isinstance(old, TextNode) and isinstance(new, TextNode):
        return _in_text(old, new, path)
    if isinstance(old, Element) and isinstance(new, Element) and (old.name, old.attrs) == (new.name, new.attrs):
        return _between(old, new, same, path)
    return None


def _common(old: Sequence[Node], new: Sequence[Node], same: Same) -> int:
    length = 0
    for one, other in zip(old, new, strict=False):
        if not same(one, other):
            break
        length += 1
    return length


def _in_text(old: TextNode, new: TextNode, path: Path) -> TextChange:
    before, after = _characters(old), _characters(new)
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    tail = 0
    while tail < min(len(before), len(after)) - start and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    until = len(before) - tail
    start_utf16 = utf16_length(old.text[:start])
    return TextChange(
        path,
        start_utf16,
        start_utf16 + utf16_length(old.text[start:until]),
        _slice(new, start, len(after) - tail),
    )


def _characters(node: TextNode) -> list[tuple[str, object]]:
    return [(character, run.marks) for run in node.runs for character in run.text]


def _slice(node: TextNode, start: int, end: int) -> tuple[Run, ...]:
    runs, at = [], 0
    for run in node.runs:
        piece = run.text[max(start - at, 0) : max(end - at, 0)]
        if piece:
            runs.append(Run(piece, run.marks))
        at += len(run.text)
    return tuple(runs)
