"""Working on: set by selection, set by cursor, cleared; stored under exactly its document."""

from __future__ import annotations

import pytest

from counterfoil.models.documents import working_on
from counterfoil.models.documents.captures import WholeDocument, WorkingOn
from counterfoil.models.documents.targets import Granularity, Selection
from counterfoil.models.documents.text import DocumentText
from counterfoil.models.documents.working_on import Begun, Set, Whole
from counterfoil.models.documents.yjs.index import DocumentIndex
from counterfoil.models.errors import Refusal
from support.documents import Editor


@pytest.fixture
def index() -> DocumentIndex:
    return DocumentIndex.build(Editor("One two three.", "Four five six.", client_id=1).update())


@pytest.fixture
def text(index: DocumentIndex) -> DocumentText:
    return DocumentText.of(index.document())


def by_selection(index: DocumentIndex, text: DocumentText, start: int, end: int) -> Set:
    return working_on.set_by_selection(index, text, Selection("notes", text.place_of(start), text.place_of(end)))


def test_the_selection_is_promoted_with_exact_character_endpoints(index: DocumentIndex, text: DocumentText):
    state = by_selection(index, text, 4, 7)

    assert state.target.quote.exact == "two"
    assert state.target.granularity is Granularity.CHARACTER


def test_a_start_cursor_and_then_an_end_cursor_make_a_passage(index: DocumentIndex, text: DocumentText):
    begun = working_on.set_start(Whole(), text.place_of(4))
    state = working_on.set_end(begun, text.place_of(19), index, text, "notes")

    assert state.target.quote.exact == "two three.\nFour"


def test_until_the_end_is_set_what_was_before_stands(index: DocumentIndex, text: DocumentText):
    before = by_selection(index, text, 0, 3)
    begun = working_on.set_start(before, text.place_of(8))

    assert working_on.choice_of(begun) == WorkingOn(target=before.target)
    assert working_on.choice_of(working_on.set_start(Whole(), text.place_of(8))) == WholeDocument()


@pytest.mark.parametrize(("start", "end"), [(8, 4), (4, 4)])
def test_an_end_that_is_not_after_the_start_is_refused(index: DocumentIndex, text: DocumentText, start: int, end: int):
    begun = working_on.set_start(Whole(), text.place_of(start))

    with pytest.raises(Refusal, match="NOT_POSSIBLE"):
        working_on.set_end(begun, text.place_of(end), index, text, "notes")


def test_an_end_without_a_start_is_refused(index: DocumentIndex, text: DocumentText):
    with pytest.raises(Refusal, match="NOT_POSSIBLE"):
        working_on.set_end(Whole(), text.place_of(3), index, text, "notes")


def test_cleared_it_is_the_whole_document():
    assert working_on.choice_of(working_on.clear()) == WholeDocument()


def test_it_is_kept_under_exactly_its_store_and_document(index: DocumentIndex, text: DocumentText):
    state = by_selection(index, text, 4, 7)
    stored = working_on.encoded("store", "notes", state)

    assert working_on.decoded(stored, "store", "notes") == state
    assert working_on.decoded(stored, "store", "other") == Whole()
    assert working_on.decoded(stored, "another", "notes") == Whole()
    assert working_on.decoded("{", "store", "notes") == Whole()
    assert working_on.decoded(None, "store", "notes") == Whole()
    assert len({working_on.key_of("a", "b/c"), working_on.key_of("a/b", "c"), working_on.key_of("a", "b")}) == 3


def test_half_a_passage_is_kept_too(text: DocumentText):
    begun = working_on.set_start(Whole(), text.place_of(4))

    assert isinstance(working_on.decoded(working_on.encoded("s", "d", begun), "s", "d"), Begun)


def test_an_older_target_without_granularity_means_blocks(index: DocumentIndex, text: DocumentText):
    stored = working_on.encoded("s", "d", by_selection(index, text, 4, 7))
    older = stored.replace('"granularity":"character",', "")

    state = working_on.decoded(older, "s", "d")

    assert isinstance(state, Set)
    assert state.target.granularity is Granularity.BLOCK


def test_setting_it_changes_nothing_in_the_document():
    editor = Editor("One two three.", client_id=1)
    before = editor.update()
    index = DocumentIndex.build(before)
    text = DocumentText.of(index.document())

    by_selection(index, text, 0, 3)
    working_on.set_start(Whole(), text.place_of(2))

    assert editor.update() == before
