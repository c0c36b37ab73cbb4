"""Positions and documents, judged by Yjs and y-prosemirror themselves."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pycrdt
import pytest

from counterfoil.models.documents.nodes import Element, ItemId, Node, TextNode
from counterfoil.models.documents.positions import Nowhere, Place
from counterfoil.models.documents.yjs.index import DocumentIndex
from support.documents import Editor

SEED, DOCUMENTS, POSITIONS = 20261201, 42, 500
Ask = Callable[..., Iterator[str]]


@dataclass(frozen=True)
class Judged:
    """A document by several editors, and what Yjs says of it."""

    index: DocumentIndex
    update: bytes
    updates: list[bytes]
    said: dict[str, Any]


@pytest.fixture(scope="module")
def judged(oracle: Ask) -> list[Judged]:
    found = []
    for line in oracle("positions.mjs", SEED, DOCUMENTS, POSITIONS):
        said = json.loads(line)
        update = base64.b64decode(said["update"])
        updates = [base64.b64decode(one) for one in said["updates"]]
        found.append(Judged(DocumentIndex.build(update), update, updates, said))
    return found


def place(said: Any) -> Place:
    branch, offset = said
    return Place(None if branch is None else ItemId(*branch), offset)


def as_json(node: Node) -> list[dict[str, Any]]:
    """A node in ProseMirror's JSON."""
    if isinstance(node, TextNode):
        return [
            {"type": "text", "text": run.text}
            | (
                {"marks": [{"type": m.name} | ({"attrs": m.attrs} if m.attrs else {}) for m in run.marks]}
                if run.marks
                else {}
            )
            for run in node.runs
        ]
    made: dict[str, Any] = {"type": node.name}
    if node.attrs:
        made["attrs"] = node.attrs
    if node.children:
        made["content"] = [part for child in node.children for part in as_json(child)]
    return [made]


def tidy(said: dict[str, Any]) -> dict[str, Any]:
    """Yjs's JSON without what has no meaning: the order of marks, and nodes without content or attributes."""
    made: dict[str, Any] = {"type": said["type"]}
    for name in ("attrs", "text"):
        if said.get(name):
            made[name] = said[name]
    if said.get("marks"):
        marks = [{key: value for key, value in mark.items() if value} for mark in said["marks"]]
        made["marks"] = sorted(marks, key=lambda mark: mark["type"])
    content: list[dict[str, Any]] = []
    for child in said.get("content", []):
        piece = tidy(child)
        last = content[-1] if content else None
        if last is not None and "text" in last and "text" in piece and last.get("marks") == piece.get("marks"):
            last["text"] += piece["text"]
        else:
            content.append(piece)
    if content:
        made["content"] = content
    return made


def test_every_position_resolves_to_the_place_that_yjs_gives_or_to_the_same_nowhere(judged: list[Judged]):
    wrong, asked, nowhere = [], 0, 0
    for document in judged:
        for encoded, said in document.said["resolved"]:
            found = document.index.resolve(bytes.fromhex(encoded))
            asked += 1
            nowhere += said is None
            if (said is None) is not isinstance(found, Nowhere) or (said is not None and found != place(said)):
                wrong.append((encoded, said, found))

    assert asked >= 20_000
    assert nowhere > 1000
    assert wrong == [], f"seed {SEED}: {len(wrong)} of {asked} differ"


def test_every_place_is_encoded_byte_for_byte_as_yjs_encodes_it(judged: list[Judged]):
    wrong, asked = [], 0
    for document in judged:
        for branch, offset, assoc, said in document.said["encoded"]:
            asked += 1
            found = document.index.encode(place([branch, offset]), assoc)
            if found.hex() != said:
                wrong.append((branch, offset, assoc, said, found.hex()))

    assert asked >= 20_000
    assert wrong == [], f"seed {SEED}: {len(wrong)} of {asked} differ"


def test_positions_are_where_y_prosemirror_counts_them(judged: list[Judged]):
    asked = 0
    for document in judged:
        for encoded, said in document.said["prosemirror"]:
            found = document.index.resolve(bytes.fromhex(encoded))
            assert isinstance(found, Place)
            assert document.index.prosemirror_position(found) == said
            asked += 1

    assert asked >= 1000


def test_the_document_reads_as_y_prosemirror_reads_it(judged: list[Judged]):
    for document in judged:
        assert tidy(as_json(document.index.document())[0]) == tidy(document.said["json"])


def test_an_index_that_is_kept_up_equals_one_that_is_built_anew(judged: list[Judged]):
    for document in judged:
        kept = DocumentIndex()
        doc: pycrdt.Doc[Any] = pycrdt.Doc()
        for update in document.updates:
            since = doc.get_state()
            doc.apply_update(update)
            kept.apply(doc.get_update(since))
        assert kept.document() == document.index.document()
        assert kept.state_vector == document.index.state_vector


def test_the_runtime_reads_the_same_text(judged: list[Judged]):
    for document in judged:
        doc: pycrdt.Doc[Any] = pycrdt.Doc()
        doc.apply_update(document.update)
        root = doc.get("prosemirror", type=pycrdt.XmlFragment)

        assert shown(root) == read(document.index.document())


def shown(node: Any) -> list[Any]:
    if isinstance(node, pycrdt.XmlText):
        return ["".join(str(piece) for piece, _ in node.diff())]
    return [getattr(node, "tag", None), *(shown(child) for child in node.children)]


def read(node: Node) -> list[Any]:
    if isinstance(node, TextNode):
        return [node.text]
    return [None if node.name == "doc" else node.name, *(read(child) for child in node.children)]


def test_what_the_runtime_writes_the_editors_libraries_read_alike(oracle: Ask):
    editors = []
    for number in range(20):
        editor = Editor("Première ligne 😀", "", "三行目", client_id=number + 1)
        editor.add("Title", "heading", level=2)
        editor.text(0).format(0, 8, {"strong": {}})
        editor.text(0).insert(3, f"[{number}]", {"link": {"href": "https://example.org/"}})
        editor.erase(2, 0, 1)
        editors.append(editor)

    said = [
        json.loads(line)
        for line in oracle("read.mjs", told="\n".join(base64.b64encode(editor.update()).decode() for editor in editors))
    ]

    assert [tidy(one) for one in said] == [
        tidy(as_json(DocumentIndex.build(editor.update()).document())[0]) for editor in editors
    ]
    assert len(said) == 20


def test_documents_of_both_sides_go_on_under_each_others_edits(judged: list[Judged], oracle: Ask):
    edited = []
    for document in judged[:10]:
        editor = Editor(update=document.update, client_id=4242)
        editor.add("added here", "heading", level=1)
        edited.append(editor.update())

    said = oracle("read.mjs", told="\n".join(base64.b64encode(update).decode() for update in edited))

    for update, line in zip(edited, said, strict=True):
        found = DocumentIndex.build(update).document()
        assert tidy(json.loads(line)) == tidy(as_json(found)[0])
        assert isinstance(found.children[-1], Element)
        assert found.children[-1].attrs == {"level": 1}
