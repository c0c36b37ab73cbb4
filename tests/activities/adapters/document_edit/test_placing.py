"""Whatever is proposed for whatever document: it is made exactly and nothing else is touched, or it is refused."""

from __future__ import annotations

from random import Random

import pytest

from counterfoil.activities.adapters.document_edit.contract import ProposedChange
from counterfoil.activities.adapters.document_edit.desk import LiveDocument
from counterfoil.activities.adapters.document_edit.editing import apply_change
from counterfoil.activities.adapters.document_edit.placing import bind, located, spliced, work_out
from counterfoil.models.documents.anchoring import Quote
from counterfoil.models.documents.changes import ChildrenChange
from counterfoil.models.documents.heads import Head
from counterfoil.models.documents.markdown.parsing import parse
from counterfoil.models.documents.markdown.projection import project
from counterfoil.models.documents.text import DocumentText
from counterfoil.models.documents.yjs.index import DocumentIndex
from counterfoil.models.errors import ErrorCode, Refusal
from support.documents import Editor
from support.prose import Prose

REPLACEMENTS = (
    "", "word", "**strong** word", "new\n\npara", "- a\n- b", "# head", "a *b* `c`", "```\ncode\n```", "[x](y)", "> q",
    "| a | b |\n|---|---|\n| c | d |", "```", "- [x] done", "1. one",
)  # fmt: skip
PLACEMENT = {ErrorCode.PLACEMENT_MISSING, ErrorCode.PLACEMENT_AMBIGUOUS}
REFUSALS = PLACEMENT | {ErrorCode.OUTSIDE_ALLOWED_RANGES, ErrorCode.MARKDOWN_UNSUPPORTED}


def live(editor: Editor) -> LiveDocument:
    update = editor.update()
    index = DocumentIndex.build(update)
    document = index.document()
    head = Head(generation=1, sequence=1)
    return LiveDocument("notes", head, update, index, DocumentText.of(document), project(document))


def of(*blocks: str) -> LiveDocument:
    editor = Editor(client_id=1)
    apply_change(editor.doc, ChildrenChange((), 0, 0, parse("\n\n".join(blocks)).children))
    return live(editor)


def changed(document: LiveDocument, *changes: tuple[str, str]) -> str:
    asked = [ProposedChange(quote=Quote(exact=quote), replacement=becomes) for quote, becomes in changes]
    return work_out(document, located(document, bind(document, "s", None, asked))).projection.markdown


@pytest.mark.parametrize("seed", range(60))
def test_any_change_of_any_document_is_made_exactly_or_refused(seed: int):
    random = Random(seed)
    editor = Editor(client_id=seed + 1)
    apply_change(editor.doc, ChildrenChange((), 0, 0, Prose(seed, tables=seed % 2 == 0).document().children))
    document = live(editor)
    markdown = document.projection.markdown
    made = 0
    for _ in range(4):
        start = random.randrange(max(len(markdown) - 1, 1))
        end = min(len(markdown) - 1, start + random.randint(1, 40))
        quote = Quote(
            exact=markdown[start:end], prefix=markdown[max(0, start - 60) : start], suffix=markdown[end : end + 60]
        )
        asked = ProposedChange(quote=quote, replacement=random.choice(REPLACEMENTS))
        code = None
        try:
            passages = located(document, bind(document, "s", None, [asked]))
            worked_out = work_out(document, passages)
        except Refusal as refusal:
            code = refusal.code
        if code is not None:
            assert code in REFUSALS
            continue
        made += 1
        edited = DocumentIndex.build(document.update)
        edited.apply(worked_out.update)
        wanted = project(parse(spliced(markdown, passages))).markdown
        assert project(edited.document()).markdown == worked_out.projection.markdown == wanted
        kept = {child.id for child in document.index.document().children} & {
            child.id for child in edited.document().children
        }
        touched = markdown[start:end].count("\n\n") + 2
        assert len(kept) >= len(document.index.document().children) - touched
    assert made <= 4


@pytest.mark.parametrize(
    ("blocks", "change", "after"),
    [
        (("One two.", "Three."), ("two", "2"), "One 2.\n\nThree.\n"),
        (("One two.", "Three."), ("One two.", ""), "Three.\n"),
        (("One.", "Three."), ("One.", "One.\n\nTwo."), "One.\n\nTwo.\n\nThree.\n"),
        (("One.", "Three."), ("One.", "## One"), "## One\n\nThree.\n"),
        (("- a\n- b\n- c",), ("b", "b\n- between"), "- a\n- b\n- between\n- c\n"),
        (("One **two** three.",), ("**two**", "two"), "One two three.\n"),
        (("One **two** three.",), ("two", "2"), "One **2** three.\n"),
        (("| a | b |\n|---|---|\n| c | d |",), ("c", "C!"), "| a | b |\n| --- | --- |\n| C! | d |\n"),
        (("```py\nx = 1\n```",), ("1", "2"), "```py\nx = 2\n```\n"),
        (("a", "___", "b"), ("___", "between"), "a\n\nbetween\n\nb\n"),
        (("a ![x](y.png) b",), ("![x](y.png)", "picture"), "a picture b\n"),
        (("- [ ] todo",), ("[ ] todo", "[x] todo"), "- [x] todo\n"),
        (("One 😀 two.",), ("two", "zwei"), "One 😀 zwei.\n"),
    ],
)
def test_words_paragraphs_lists_tables_and_code_are_changed_alike(
    blocks: tuple[str, ...], change: tuple[str, str], after: str
):
    assert changed(of(*blocks), change) == after


def test_several_changes_keep_what_stands_between_them():
    document = of("One two three.", "Keep this.", "Four five.")
    asked = [("two", "2"), ("Four", "4")]

    assert changed(document, *asked) == "One 2 three.\n\nKeep this.\n\n4 five.\n"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("One", "```"), ErrorCode.OUTSIDE_ALLOWED_RANGES),
        (("One", "<i>x</i>"), ErrorCode.MARKDOWN_UNSUPPORTED),
        (("\n\n", "\n"), ErrorCode.PLACEMENT_MISSING),
        (("o", "0"), ErrorCode.PLACEMENT_AMBIGUOUS),
        (("absent", "x"), ErrorCode.PLACEMENT_MISSING),
    ],
)
def test_what_would_change_more_than_its_passage_or_has_no_place_is_refused(change: tuple[str, str], code: ErrorCode):
    with pytest.raises(Refusal) as refused:
        changed(of("One two too.", "Three."), change)

    assert refused.value.code is code


def test_overlapping_changes_are_refused():
    with pytest.raises(Refusal, match="INVALID_INPUT"):
        changed(of("One two three."), ("One two", "x"), ("two three", "y"))
