"""What becomes of a target when the document is edited: each kind of edit, each way of finding. Never widened."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable

import pytest
from pycrdt import UndoManager, XmlElement, XmlText
from pydantic import ValidationError

from counterfoil.models.documents.anchoring import Quote
from counterfoil.models.documents.targets import (
    DocumentTarget,
    Reason,
    Repaired,
    Resolved,
    Selection,
    Unresolved,
    block_target_of,
    resolve_target,
    target_of,
)
from counterfoil.models.documents.text import DocumentText
from counterfoil.models.documents.yjs.index import DocumentIndex
from counterfoil.models.errors import Refusal
from support.documents import Editor

BLOCKS = ("Alpha one two, and more.", "Beta three four, and more.", "Gamma five six, and more.")
LOST = base64.b64encode(bytes.fromhex("00636300")).decode()
"""A position beside an item of a client that nobody knows."""


def read(editor: Editor) -> tuple[DocumentIndex, DocumentText]:
    index = DocumentIndex.build(editor.update())
    return index, DocumentText.of(index.document())


def of(editor: Editor, passage: str) -> DocumentTarget:
    index, text = read(editor)
    at = text.text.index(passage)
    ends = text.place_of(at + len(passage), forward=False)
    return target_of(index, text, Selection("notes", text.place_of(at), ends))


def of_block(editor: Editor, block: int) -> DocumentTarget:
    index, text = read(editor)
    return block_target_of(index, text, "notes", [text.blocks[block]])


def without_positions(target: DocumentTarget) -> DocumentTarget:
    return target.model_copy(update={"start": LOST, "end": LOST})


def older(target: DocumentTarget) -> DocumentTarget:
    """As it was written before targets had a granularity."""
    return DocumentTarget.model_validate_json(target.model_dump_json(exclude={"granularity"}))


TARGETS: dict[str, tuple[Callable[[Editor], DocumentTarget], int, str]] = {
    # the target, the block it is in, and its text
    "characters": (lambda editor: of(editor, "three four"), 1, "three four"),
    "characters, positions lost": (lambda editor: without_positions(of(editor, "three four")), 1, "three four"),
    "first position": (lambda editor: of(editor, "Alpha one"), 0, "Alpha one"),
    "a block": (lambda editor: of_block(editor, 1), 1, BLOCKS[1]),
    "a block, positions lost": (lambda editor: without_positions(of_block(editor, 1)), 1, BLOCKS[1]),
    "older, without granularity": (lambda editor: older(of_block(editor, 1)), 1, BLOCKS[1]),
}


def written(editor: Editor, block: int) -> str:
    return str(editor.text(block))


def copied(editor: Editor, block: int, name: str = "paragraph") -> XmlElement:
    return XmlElement(name, {}, [XmlText(written(editor, block))])


def append(editor: Editor, block: int, passage: str) -> None:
    at = written(editor, block).index(passage) + len(passage)
    editor.type(block, at, "X")


def join(editor: Editor, block: int, passage: str) -> None:
    first = max(block - 1, 0)
    moved = written(editor, first + 1)
    editor.type(first, len(written(editor, first)), moved)
    del editor.root.children[first + 1]


def replace(editor: Editor, block: int, passage: str) -> None:
    at = written(editor, block).index(passage)
    editor.erase(block, at, at + len(passage))
    editor.type(block, at, "something else")


def split(editor: Editor, block: int, at: int) -> None:
    tail = written(editor, block)[at:]
    editor.erase(block, at, at + len(tail))
    editor.insert(block + 1, tail)


def split_before(editor: Editor, block: int, passage: str) -> None:
    split(editor, block, written(editor, block).index(passage))


def split_inside(editor: Editor, block: int, passage: str) -> None:
    split(editor, block, written(editor, block).index(passage) + 4)


def reorder(editor: Editor, block: int, passage: str) -> None:
    moved = copied(editor, block)
    del editor.root.children[block]
    editor.root.children.insert(1 - block, moved)


def move(editor: Editor, block: int, passage: str) -> None:
    moved = copied(editor, block)
    del editor.root.children[block]
    editor.root.children.append(moved)


def wrap(editor: Editor, block: int, passage: str) -> None:
    inner = copied(editor, block)
    del editor.root.children[block]
    editor.root.children.insert(block, XmlElement("blockquote", {}, [inner]))


def heading(editor: Editor, block: int, passage: str) -> None:
    changed = copied(editor, block, "heading")
    del editor.root.children[block]
    editor.root.children.insert(block, changed)


def mark(editor: Editor, block: int, passage: str) -> None:
    at = written(editor, block).index(passage)
    editor.text(block).format(at, at + len(passage), {"strong": {}})


def undo_deletion(editor: Editor, block: int, passage: str) -> None:
    manager = UndoManager(scopes=[editor.root], capture_timeout_millis=0)
    at = written(editor, block).index(passage)
    editor.erase(block, at, at + len(passage))
    assert manager.undo()


def other_white_space(editor: Editor, block: int, passage: str) -> None:
    """The first space of the passage becomes one that does not break."""
    at = written(editor, block).index(passage) + passage.index(" ")
    editor.erase(block, at, at + 1)
    editor.type(block, at, "\u00a0")


def empty_block(editor: Editor, block: int, passage: str) -> None:
    editor.insert(block, "")


def typing_before(editor: Editor, block: int, passage: str) -> None:
    editor.type(block, 0, "So: ")


EDITS = {
    "typing before": typing_before,
    "append": append,
    "join": join,
    "replace": replace,
    "split before": split_before,
    "split inside": split_inside,
    "reorder": reorder,
    "move": move,
    "wrap": wrap,
    "heading change": heading,
    "format": mark,
    "undo of a deletion": undo_deletion,
    "empty block": empty_block,
    "other white space": other_white_space,
}

EXPECTED: dict[str, tuple[str, ...]] = {
    # characters, the same with positions lost, at the first position, a block, the same lost, an older reference
    "typing before": ("resolved", "quote_exact", "resolved", "missing", "missing", "missing"),
    "append": ("resolved", "quote_exact", "resolved", "missing", "missing", "missing"),
    "join": ("quote_exact", "quote_exact", "resolved", "missing", "missing", "missing"),
    "replace": ("missing", "missing", "missing", "missing", "missing", "missing"),
    "split before": ("quote_exact", "quote_exact", "quote_exact", "quote_exact", "quote_exact", "quote_exact"),
    "split inside": ("missing", "missing", "missing", "missing", "missing", "missing"),
    "reorder": ("block", "block", "quote_exact", "block", "block", "block"),
    "move": ("block", "block", "block", "block", "block", "block"),
    "wrap": ("quote_exact", "quote_exact", "quote_exact", "quote_exact", "quote_exact", "quote_exact"),
    "heading change": ("quote_exact", "quote_exact", "quote_exact", "quote_exact", "quote_exact", "quote_exact"),
    "format": ("resolved", "quote_exact", "resolved", "resolved", "quote_exact", "resolved"),
    "undo of a deletion": ("quote_exact", "quote_exact", "quote_exact", "quote_exact", "quote_exact", "quote_exact"),
    "empty block": ("resolved", "quote_exact", "resolved", "resolved", "quote_exact", "resolved"),
    "other white space": (*["quote_whitespace"] * 6,),
}


def outcome(editor: Editor, target: DocumentTarget) -> str:
    found = resolve_target(*read(editor), target)
    match found:
        case Resolved():
            return "resolved"
        case Repaired(how=how):
            return str(how)
        case Unresolved(reason=reason):
            return str(reason)


@pytest.mark.parametrize("edit", EDITS)
def test_each_edit_has_its_outcome_on_each_path_and_widens_nothing(edit: str):
    outcomes = []
    for make, block, passage in TARGETS.values():
        editor = Editor(*BLOCKS, client_id=11)
        target = make(editor)
        EDITS[edit](editor, block, passage)
        outcomes.append(outcome(editor, target))
        found = resolve_target(*read(editor), target)
        if not isinstance(found, Unresolved):
            assert found.text.replace("\u00a0", " ") == passage

    assert tuple(outcomes) == EXPECTED[edit]


# the first text position


def test_at_the_first_position_a_character_target_needs_both_its_blocks():
    editor = Editor("Same words here.", "Other.", "Same words here.", client_id=3)
    index, text = read(editor)
    target = target_of(index, text, Selection("notes", text.place_of(0), text.place_of(10, forward=False)))
    assert target.start_block is not None

    moved = target.start_block.model_copy(update={"id": "3:999"})
    for hints in ({"start_block": moved}, {"end_block": moved}, {"start_block": None}, {"end_block": None}):
        doubtful = target.model_copy(update=hints | {"quote": Quote(exact="Same words")})
        assert resolve_target(index, text, doubtful) == Unresolved(Reason.AMBIGUOUS)
    assert isinstance(resolve_target(index, text, target), Resolved)


def test_without_that_proof_a_quote_that_is_there_once_still_repairs_it():
    editor = Editor("Only here.", "Other.", client_id=3)
    index, text = read(editor)
    target = target_of(index, text, Selection("notes", text.place_of(0), text.place_of(9, forward=False)))

    found = resolve_target(index, text, target.model_copy(update={"start_block": None}))

    assert isinstance(found, Repaired)
    assert (found.how, found.text) == ("quote_exact", "Only here")


# what cannot be resolved


def test_a_quote_with_a_twin_is_ambiguous_once_its_positions_are_lost():
    editor = Editor("one and one more", client_id=5)
    target = without_positions(of(editor, "one").model_copy(update={"quote": Quote(exact="one")}))
    target = target.model_copy(update={"start_block": None})

    assert resolve_target(*read(editor), target) == Unresolved(Reason.AMBIGUOUS)


def test_when_the_quoted_passage_is_deleted_its_twin_is_not_taken():
    editor = Editor("In the spring the cat sat on the mat.", "All through winter a cat slept by the fire.", client_id=5)
    target = of(editor, "cat")
    editor.erase(0, 0, 37)

    assert resolve_target(*read(editor), target) == Unresolved(Reason.MISSING)


@pytest.mark.parametrize(
    "blocks",
    [
        ("Intro words here are long.", "Approved.", "Middle text that is different.", "Approved.", "Closing line."),
        ("A " * 20, "Approved.", "B " * 20, "A " * 20, "Approved.", "B " * 20),
    ],
)
@pytest.mark.parametrize("whole", [False, True])
def test_a_whole_block_that_is_deleted_is_not_found_in_its_twin(blocks: tuple[str, ...], whole: bool):
    editor = Editor(*blocks, client_id=5)
    target = of_block(editor, 1) if whole else of(editor, "Approved.")
    del editor.root.children[1]

    assert resolve_target(*read(editor), target) == Unresolved(Reason.MISSING)


def test_what_slipped_past_the_contract_is_malformed_and_resolves_to_nothing():
    editor = Editor(*BLOCKS)
    target = of(editor, "three")

    for hostile in ("", "AA", "////", "not base64"):
        assert resolve_target(*read(editor), target.model_copy(update={"start": hostile})) == Unresolved(
            Reason.MALFORMED
        )


def test_positions_that_are_no_positions_are_refused_where_they_come_in():
    target = of(Editor(*BLOCKS), "three")

    for hostile in ("", "AA", "////////////", "not base64"):
        with pytest.raises(ValidationError):
            DocumentTarget.model_validate(target.model_dump() | {"start": hostile})


def test_an_empty_selection_is_no_target():
    index, text = read(Editor(*BLOCKS))

    with pytest.raises(Refusal, match="TARGET_UNRESOLVED"):
        target_of(index, text, Selection("notes", text.place_of(3), text.place_of(3)))


def test_a_selection_that_was_made_backwards_is_the_same_target():
    index, text = read(Editor(*BLOCKS))
    forwards = target_of(index, text, Selection("notes", text.place_of(2), text.place_of(8)))

    assert target_of(index, text, Selection("notes", text.place_of(8), text.place_of(2))) == forwards


def test_a_target_says_what_headings_it_is_under():
    editor = Editor(client_id=1)
    for name, words, more in (
        ("heading", "Title", {"level": 1}),
        ("heading", "Part", {"level": 2}),
        ("paragraph", "a passage", {}),
    ):
        editor.add(words, name, **more)

    assert of(editor, "passage").heading_path == ("Title", "Part")


def test_a_thousand_targets_resolve_quickly_after_one_build():
    editor = Editor(*(f"Paragraph {number} with its own words, number {number}." for number in range(400)))
    index, text = read(editor)
    targets = [block_target_of(index, text, "notes", [block]) for block in text.blocks]
    targets += [
        target_of(index, text, Selection("notes", text.place_of(block.start + 2), text.place_of(block.start + 14)))
        for block in text.blocks
    ] + targets[:200]

    begun = time.perf_counter()
    found = [resolve_target(index, text, target) for target in targets]
    took = time.perf_counter() - begun

    assert all(isinstance(one, Resolved) for one in found)
    assert len(found) == 1000
    assert took < 0.5  # a tenth of a second is the budget, on a quiet machine; `make bench-documents` measures it
