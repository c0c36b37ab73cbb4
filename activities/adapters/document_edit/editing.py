"""Makes a change in a Yjs document, and nothing else: characters of one text, or some children of one node.

The runtime counts text in UTF-8 bytes; changes count in UTF-16 units, as everywhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pycrdt import Doc, XmlElement, XmlFragment, XmlText

from counterfoil.models.documents.changes import Change, ChildrenChange, Path, TextChange
from counterfoil.models.documents.nodes import Mark, Node, Run, TextNode


def apply_change(doc: Doc[Any], change: Change, root: str = "prosemirror") -> None:
    """Edit the document, in one transaction of its own."""
    with doc.transaction():
        place = _at(doc.get(root, type=XmlFragment), change.path)
        match change:
            case TextChange():
                assert isinstance(place, XmlText)
                _change_text(place, change)
            case ChildrenChange():
                assert isinstance(place, XmlFragment | XmlElement)
                del place.children[change.start : change.end]
                for index, node in enumerate(change.nodes, change.start):
                    _insert(place, index, node)


def _at(node: XmlFragment | XmlElement | XmlText, path: Path) -> XmlFragment | XmlElement | XmlText:
    for index in path:
        assert not isinstance(node, XmlText)
        node = node.children[index]
    return node


def _change_text(text: XmlText, change: TextChange) -> None:
    content = "".join(str(piece) for piece, _ in text.diff())
    start, end = _bytes_at(content, change.start), _bytes_at(content, change.end)
    if end > start:
        del text[start:end]
    _write(text, start, change.runs)


def _write(text: XmlText, at_bytes: int, runs: tuple[Run, ...]) -> None:
    used = {mark.name for run in runs for mark in run.marks}
    for run in runs:
        # Text takes on the marks of what stands before it: those it does not carry are ended by name.
        around = _marks_at(text, at_bytes)
        ended = dict.fromkeys(used | around.keys())
        text.insert(at_bytes, run.text, {**ended, **_attributes(run.marks)})
        at_bytes += len(run.text.encode())


def _marks_at(text: XmlText, at_bytes: int) -> Mapping[str, Any]:
    """The marks of the character that ends at, or spans, an index."""
    seen = 0
    for piece, marks in text.diff():
        seen += len(str(piece).encode())
        if seen >= at_bytes:
            return marks or {}
    return {}


def _insert(parent: XmlFragment | XmlElement, index: int, node: Node) -> None:
    if isinstance(node, TextNode):
        parent.children.insert(index, XmlText())
        text = parent.children[index]
        assert isinstance(text, XmlText)
        _write(text, 0, node.runs)
        return
    attributes: dict[str, Any] = dict(node.attrs)
    parent.children.insert(index, XmlElement(node.name, attributes))
    placed = parent.children[index]
    assert isinstance(placed, XmlElement)
    for at, child in enumerate(node.children):
        _insert(placed, at, child)


def _attributes(marks: tuple[Mark, ...]) -> dict[str, Any]:
    return {mark.name: mark.attrs for mark in marks}


def _bytes_at(text: str, offset_utf16: int) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")[: 2 * offset_utf16].decode("utf-16-le", "replace").encode())
