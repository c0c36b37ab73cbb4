"""The smallest change that makes one document read as another: which nodes differ, and how.

A proposed change is written in Markdown. Read as nodes, it differs from the document in one place: characters of one
textblock, or some children of one node. Only that place is edited, so that whoever types beside it loses nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from counterfoil.models.documents.markdown.layout import is_empty
from counterfoil.models.documents.markdown.shapes import is_same_kind, reads_alike
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


def difference(old: Element, new: Element) -> Change | None:
    """The one change that makes `old` read as `new`; None where it does already.

    What a reading cannot tell apart is left as it is in `old`; its identities are kept wherever nothing changes.
    """
    return _between(old, new, ())


def _between(old: Element, new: Element, path: Path) -> Change | None:
    said = _said(old, new)
    before = [old.children[index] for index in said]
    start = _common(before, new.children)
    tail = _common(before[start:][::-1], new.children[start:][::-1])
    replaced, replacing = said[start : len(said) - tail], new.children[start : len(new.children) - tail]
    if not replaced and not replacing:
        return None
    if len(replaced) == len(replacing) == 1:
        within = _within(old.children[replaced[0]], replacing[0], (*path, replaced[0]))
        if within is not None:
            return within
    if replaced:
        return ChildrenChange(path, replaced[0], replaced[-1] + 1, replacing)
    at = said[start] if start < len(said) else said[-1] + 1 if said else len(old.children)
    return ChildrenChange(path, at, at, replacing)


def _said(old: Element, new: Element) -> list[int]:
    """The children of `old` that a reading shows: where `new` has no empty block, those of `old` are not to be told."""
    keep = any(isinstance(child, Element) and is_empty((child,)) for child in new.children)
    return [
        index
        for index, child in enumerate(old.children)
        if keep or isinstance(child, TextNode) or not is_empty((child,))
    ]


def _within(old: Node, new: Node, path: Path) -> Change | None:
    """The change inside one node that keeps the node itself, if there is one."""
    if isinstance(old, TextNode) and isinstance(new, TextNode):
        return _in_text(old, new, path)
    if isinstance(old, Element) and isinstance(new, Element) and is_same_kind(old, new):
        return _between(old, new, path)
    return None


def _common(old: Sequence[Node], new: Sequence[Node]) -> int:
    length = 0
    for one, other in zip(old, new, strict=False):
        if not reads_alike(one, other):
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
