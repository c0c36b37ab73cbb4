"""What other serialisers get wrong, as literals; and the position map, both ways."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from counterfoil.models.documents.markdown.losses import LossKind
from counterfoil.models.documents.markdown.parsing import parse
from counterfoil.models.documents.markdown.projection import Unit, project
from counterfoil.models.documents.nodes import Element, Mark, Node, Run, TextNode
from counterfoil.models.documents.positions import Place
from counterfoil.models.documents.yjs.index import DocumentIndex
from counterfoil.models.errors import Refusal
from support.documents import Editor
from support.prose import Prose, told


def text(*runs: str | tuple[str, ...]) -> TextNode:
    """Text; a tuple is a run with its marks."""
    return TextNode(
        tuple(Run(one) if isinstance(one, str) else Run(one[0], tuple(map(Mark, sorted(one[1:])))) for one in runs)
    )


def p(*children: Any) -> Element:
    nodes = [one if isinstance(one, Element | TextNode) else text(one) for one in children]
    merged: list[Node] = []
    for node in nodes:
        if merged and isinstance(node, TextNode) and isinstance(merged[-1], TextNode):
            merged[-1] = TextNode((*merged[-1].runs, *node.runs))
        else:
            merged.append(node)
    return Element("paragraph", tuple(merged))


def doc(*children: Node) -> Element:
    return Element("doc", children)


def heading(level: int, content: str) -> Element:
    return Element("heading", (text(content),), {"level": level})


def items(*contents: tuple[Node, ...]) -> tuple[Node, ...]:
    return tuple(Element("list_item", content) for content in contents)


def bullets(*contents: tuple[Node, ...]) -> Element:
    return Element("bullet_list", items(*contents))


def numbers(order: int, *contents: tuple[Node, ...]) -> Element:
    return Element("ordered_list", items(*contents), {"order": order})


def code(content: str, params: str = "") -> Element:
    return Element("code_block", (text(content),) if content else (), {"params": params} if params else {})


def table(*rows: tuple[str, ...]) -> Element:
    return Element(
        "table",
        tuple(
            Element("table_row", tuple(Element("table_cell" if index else "table_header", (p(cell),)) for cell in row))
            for index, row in enumerate(rows)
        ),
    )


BREAK = Element("hard_break")
CASES: dict[str, tuple[Element, str]] = {
    "a literal entity": (doc(p("AT&amp;T &#35; & so on")), "AT\\&amp;T \\&#35; & so on\n"),
    "four leading spaces": (doc(p("    four")), "&#32;   four\n"),
    "a sign at the end of a heading": (doc(heading(2, "a #")), "## a \\#\n"),
    "emphasis around punctuation between letters": (doc(p("a", ("(b)", "strong"), "c")), "&#97;**(b)**&#99;\n"),
    "emphasis around CJK punctuation": (
        doc(p("日本", ("「語」", "strong"), "です")),
        "日&#26412;**「語」**&#12391;す\n",
    ),
    "strong within emphasis": (doc(p(("a ", "em"), ("b", "em", "strong"), (" c", "em"))), "_a **b** c_\n"),
    "emphasis that ends where strong goes on": (doc(p(("a", "em", "strong"), ("b", "strong"))), "***a*b**\n"),
    "from nine to ten inside a bullet": (
        doc(bullets((numbers(9, (p("a"),), (p("b"), p("c"))),))),
        "- 9. a\n\n  10. b\n\n      c\n",
    ),
    "two lists side by side": (doc(bullets((p("a"),)), bullets((p("b"),)), bullets((p("c"),))), "- a\n\n* b\n\n- c\n"),
    "two numbered lists side by side": (doc(numbers(1, (p("a"),)), numbers(1, (p("b"),))), "1. a\n\n1) b\n"),
    "an empty item before a code block": (doc(bullets((p(),)), code("x")), "-\n\n```\nx\n```\n"),
    "a line end in text": (doc(p("a\nb\r\nc")), "a&#10;b&#13;&#10;c\n"),
    "spaces in inline code": (doc(p((" a ", "code"), ("  ", "code"))), "`  a    `\n"),
    "a grave accent in inline code": (doc(p(("`a", "code"))), "`` `a ``\n"),
    "a link whose address has a space": (
        doc(p(TextNode((Run("x", (Mark("link", {"href": "a b"}),)),)))),
        "[x](<a b>)\n",
    ),
    "a bracket in an image's text": (
        doc(p(Element("image", (), {"src": "i.png", "alt": "a]b"}))),
        "![a\\]b](i.png)\n",
    ),
    "a space at the end of strong text": (doc(p(("a ", "strong"), "b")), "**a&#32;**&#98;\n"),
    "strong text across a break": (doc(p(("a", "strong"), BREAK, ("b", "strong"))), "**a**\\\n**b**\n"),
    "a fence in a fence": (doc(code("```\nx\n```", "md")), "````md\n```\nx\n```\n````\n"),
    "a pipe in a table": (
        doc(table(("a|b", "c"), ("d", "e\\|f"))),
        "| a\\|b | c |\n| --- | --- |\n| d | e\\\\\\|f |\n",
    ),
    "what would begin a list, a quotation, a heading or a rule": (
        doc(p("- a"), p("+ b"), p("1. c"), p("2) d"), p("> e"), p("# f"), p("___")),
        "\\- a\n\n\\+ b\n\n1\\. c\n\n2\\) d\n\n\\> e\n\n\\# f\n\n\\_\\_\\_\n",
    ),
    "what would underline a heading after a break": (doc(p("a", BREAK, "---")), "a\\\n\\---\n"),
    "an exclamation mark before a link": (
        doc(p("!", TextNode((Run("x", (Mark("link", {"href": "y"}),)),)))),
        "\\![x](y)\n",
    ),
    "underscores inside words and beside them": (doc(p("snake_case _x_")), "snake_case \\_x\\_\n"),
    "a task list": (
        doc(
            Element(
                "task_list",
                (
                    Element("task_item", (p("a"),), {"checked": False}),
                    Element("task_item", (p("b"),), {"checked": True}),
                ),
            )
        ),
        "- [ ] a\n- [x] b\n",
    ),
    "a paragraph that reads like a task": (doc(bullets((p("[ ] a"),))), "- \\[ \\] a\n"),
    "strike-through": (doc(p(("a", "strike"))), "~~a~~\n"),
    "a numbered list within a bullet, from five": (
        doc(bullets((p("a"), numbers(5, (p("b"),))))),
        "- a\n\n  5. b\n",
    ),
    "raw HTML": (doc(p("<b>x</b>")), "\\<b>x\\</b>\n"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_others_get_wrong_is_written_so_that_it_reads_the_same(name: str):
    document, markdown = CASES[name]
    projection = project(document)

    assert projection.markdown == markdown
    assert projection.losses == ()
    assert told(parse(markdown)) == told(document)


@pytest.mark.parametrize(
    ("document", "markdown", "kind"),
    [
        (doc(p("a"), p(), p("b")), "a\n\nb\n", LossKind.STRUCTURE),
        (doc(p("a", BREAK)), "a\n", LossKind.NODE),
        (doc(Element("heading", (text("a"), BREAK, text("b")), {"level": 1})), "# a b\n", LossKind.NODE),
        (doc(p(("a", "highlight"))), "a\n", LossKind.MARK),
        (doc(Element("paragraph", (text("a"),), {"textAlign": "center"})), "a\n", LossKind.ATTRIBUTE),
        (doc(Element("callout", (p("a"), p("b")))), "a\n\nb\n", LossKind.NODE),
        (doc(p("x", Element("mention", (), {"id": "ada"}))), "x\n", LossKind.NODE),
        (doc(p(("a\nb", "code"))), "`a b`\n", LossKind.CHARACTER),
        (doc(table(("a",), ("b", "c"))), "| a |  |\n| --- | --- |\n| b | c |\n", LossKind.STRUCTURE),
    ],
)
def test_what_markdown_cannot_say_is_declared(document: Element, markdown: str, kind: LossKind):
    projection = project(document)

    assert projection.markdown == markdown
    assert kind in {loss.kind for loss in projection.losses}
    assert project(parse(markdown)).markdown == markdown


def test_tiptap_s_names_are_known_too():
    named = doc(
        Element("bulletList", (Element("listItem", (p(("a", "bold"), ("b", "italic"), Element("hardBreak"), "c"),)),))
    )

    assert project(named).markdown == "- **a**_b_\\\n  c\n"
    read = parse("- x\n\n```py\ny\n```", like=named)
    assert [child.name for child in read.children if isinstance(child, Element)] == ["bulletList", "codeBlock"]


def test_raw_html_is_refused_where_it_is_read():
    with pytest.raises(Refusal, match="MARKDOWN_UNSUPPORTED"):
        parse("a <b>c</b>")


def test_an_empty_document_is_empty():
    assert project(doc()).markdown == ""
    assert project(doc(p())).markdown == ""


# the position map


def written(seed: int) -> Editor:
    """A generated document in a real Yjs document."""
    from counterfoil.activities.adapters.document_edit.editing import apply_change
    from counterfoil.models.documents.changes import ChildrenChange

    editor = Editor(client_id=seed + 1)
    apply_change(editor.doc, ChildrenChange((), 0, 0, Prose(seed, tables=True).document().children))
    return editor


@pytest.mark.parametrize("seed", range(40))
def test_every_place_in_the_text_is_found_again_from_its_offset(seed: int):
    index = DocumentIndex.build(written(seed).update())
    projection = project(index.document())
    asked, texts = 0, 0
    for node in index.document().descendants():
        if not isinstance(node, TextNode) or not node.text:
            continue
        texts += 1
        units = node.text.encode("utf-16-le")
        for offset in range(len(units) // 2):
            if 0xDC00 <= int.from_bytes(units[2 * offset : 2 * offset + 2], "little") < 0xE000:
                continue  # the middle of a character
            place = Place(node.id, offset)
            at = projection.offset_of(place)
            assert at is not None
            if projection.place_of(at) == place:
                asked += 1
            else:
                # Only what is not written at all has no place of its own: white space alone in a list's code.
                assert projection.losses
    assert asked >= texts - len(projection.losses)


def test_the_three_units_agree_with_counting():
    projection = project(doc(p("aé日😀*z")))
    markdown = "aé日😀\\*z\n"

    for offset in range(len(markdown) + 1):
        assert projection.converted(offset, Unit.BYTES) == len(markdown[:offset].encode())
        assert projection.converted(offset, Unit.UTF16) == len(markdown[:offset].encode("utf-16-le")) // 2
        assert projection.code_points(projection.converted(offset, Unit.BYTES), Unit.BYTES) == offset
        assert projection.code_points(projection.converted(offset, Unit.UTF16), Unit.UTF16) == offset
    with pytest.raises(ValueError, match="inside a character"):
        projection.code_points(2, Unit.BYTES)


def test_a_range_is_the_narrowest_that_holds_its_text():
    editor = Editor("one two three", client_id=1)
    editor.text(0).format(4, 7, {"strong": {}})
    index = DocumentIndex.build(editor.update())
    projection = project(index.document())
    branch = index.document().children[0].children[0].id  # type: ignore[union-attr]

    assert projection.markdown == "one **two** three\n"
    assert projection.markdown_range(Place(branch, 4), Place(branch, 7)) == (6, 9)
    assert projection.places(4, 11) == (Place(branch, 4), Place(branch, 7))


@pytest.mark.parametrize("seed", range(12))
def test_going_on_from_an_earlier_projection_gives_the_same(seed: int):
    editor, random = written(seed), Random(seed)
    index = DocumentIndex.build(editor.update())
    projection = project(index.document())
    for _ in range(10):
        since = editor.doc.get_state()
        editor.insert(random.randint(0, len(editor.root.children)), random.choice(["new", "", "- x"]))
        if random.random() < 0.5:
            del editor.root.children[random.randrange(len(editor.root.children))]
        index.apply(editor.doc.get_update(since))
        projection = project(index.document(), projection)

        fresh = DocumentIndex.build(editor.update())
        assert projection.markdown == project(fresh.document()).markdown
