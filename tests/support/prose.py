"""Generated documents with unpleasant text, and how a reader would tell them."""

from __future__ import annotations

from random import Random
from typing import Any
from urllib.parse import quote, unquote

from counterfoil.models.documents.nodes import Element, Mark, Node, Run, TextNode

WORDS = (
    "a", "b", "word", "two words", " ", "  ", "*", "**", "_", "__", "`", "``", "[", "]", "(", ")",
    "![", "<", ">", "<b>", "&", "&amp;", "&#35;", "#", "##", "-", "+", "1.", "2)", "=", "~", "~~",
    "\\", "|", "!", ":", "http://x.y", "é", "ß", "日本", "「語」", "。", "😀",
    "\U0001f469\u200d\U0001f680", "ع", "\xa0", "\u200b", "é", "€", "snake_case", "\t", "x*y", "\"",
    "'", "x\ny", "\r\n", "  end",
)  # fmt: skip
LINKS = ("", "http://example.org/", "a b", "(x)", "<y>", "/ü", "a\\b", "x&amp;y")


class Prose:
    """Makes documents from one seed. `tables`: with what CommonMark itself does not have."""

    def __init__(self, seed: int, *, tables: bool = False) -> None:
        self._random = Random(seed)
        self._tables = tables

    def document(self) -> Element:
        """A document of a few blocks that Markdown can say."""
        return Element("doc", tuple(self._block(0) for _ in range(self._random.randint(1, 5))))

    def _block(self, depth: int) -> Element:
        kinds = ["paragraph"] * 4 + ["heading", "code_block", "horizontal_rule"]
        if depth < 3:
            kinds += ["blockquote", "bullet_list", "ordered_list"]
        if self._tables:
            kinds += ["table", "task_list"] if depth < 3 else []
        match self._random.choice(kinds):
            case "heading":
                level = self._random.randint(1, 6)
                return Element("heading", self._inline(breaks=False), {"level": level})
            case "code_block":
                return self._code()
            case "horizontal_rule":
                return Element("horizontal_rule")
            case "blockquote":
                return Element("blockquote", self._blocks(depth))
            case "bullet_list":
                return Element("bullet_list", self._items(depth))
            case "ordered_list":
                order = self._random.choice([0, 1, 2, 9, 99])
                return Element("ordered_list", self._items(depth), {"order": order})
            case "task_list":
                items = tuple(
                    Element("task_item", self._task(depth), {"checked": self._random.random() < 0.5})
                    for _ in range(self._random.randint(1, 3))
                )
                return Element("task_list", items)
            case "table":
                return self._table()
            case _:
                return Element("paragraph", self._inline())

    def _blocks(self, depth: int) -> tuple[Node, ...]:
        return tuple(self._block(depth + 1) for _ in range(self._random.randint(1, 3)))

    def _items(self, depth: int) -> tuple[Node, ...]:
        return tuple(Element("list_item", self._blocks(depth)) for _ in range(self._random.randint(1, 3)))

    def _task(self, depth: int) -> tuple[Node, ...]:
        return (Element("paragraph", self._inline()), *(self._blocks(depth) if self._random.random() < 0.3 else ()))

    def _table(self) -> Element:
        columns = self._random.randint(1, 3)
        aligned = [self._random.choice(["", "left", "right", "center"]) for _ in range(columns)]
        rows = []
        for index in range(self._random.randint(1, 3)):
            name = "table_header" if index == 0 else "table_cell"
            cells = tuple(
                Element(name, (Element("paragraph", self._inline(breaks=False)),), {"alignment": one} if one else {})
                for one in aligned
            )
            rows.append(Element("table_row", cells))
        return Element("table", tuple(rows))

    def _code(self) -> Element:
        text = "\n".join(self._text().replace("\r\n", "").replace("\n", "") for _ in range(self._random.randint(0, 3)))
        text = text + self._random.choice(["", "\n", "```", "\n~~~~", "    x"])
        params = self._random.choice(["", "", "python", "a `b", "c&amp;d", "x\\*y"])
        return Element("code_block", (TextNode((Run(text),)),) if text else (), {"params": params} if params else {})

    def _inline(self, *, breaks: bool = True) -> tuple[Node, ...]:
        nodes: list[Node] = []
        for index in range(self._random.choice([1, 1, 1, 2, 3])):
            if index:
                nodes.append(self._leaf(breaks))
            runs: list[Run] = []
            for _ in range(self._random.choice([1, 1, 2, 3, 4])):
                run = Run(self._text(), self._marks())
                if runs and runs[-1].marks == run.marks:
                    runs[-1] = Run(runs[-1].text + run.text, run.marks)
                else:
                    runs.append(run)
            nodes.append(TextNode(tuple(runs)))
        return tuple(nodes)

    def _leaf(self, breaks: bool) -> Element:
        if breaks and self._random.random() < 0.6:
            return Element("hard_break")
        attrs: dict[str, Any] = {"src": self._random.choice(LINKS)}
        if self._random.random() < 0.5:
            attrs["alt"] = self._text().replace("\n", "").replace("\r", "") or "x"
        if self._random.random() < 0.3:
            attrs["title"] = 'a "title" & \\more'
        return Element("image", (), attrs)

    def _text(self) -> str:
        return "".join(self._random.choice(WORDS) for _ in range(self._random.randint(1, 5)))

    def _marks(self) -> tuple[Mark, ...]:
        if self._random.random() < 0.5:
            return ()
        names = [name for name in ("em", "strong") if self._random.random() < 0.45]
        if self._tables and self._random.random() < 0.2:
            names.append("strike")
        if self._random.random() < 0.15:
            names.append("code")
        marks = [Mark(name) for name in names]
        if self._random.random() < 0.2:
            attrs: dict[str, Any] = {"href": self._random.choice(LINKS)}
            if self._random.random() < 0.3:
                attrs["title"] = 't (x) "y" \''
            marks.append(Mark("link", attrs))
        return tuple(sorted(marks, key=lambda mark: mark.name))


def told(node: Node) -> list[Any]:
    """A node as a reader of Markdown would tell it."""
    assert isinstance(node, Element)
    match node.name:
        case "doc":
            return ["doc", [told(child) for child in node.children]]
        case "paragraph":
            return ["paragraph", line(node.children)]
        case "heading":
            return ["heading", node.attrs["level"], line(node.children)]
        case "ordered_list":
            return ["ordered_list", node.attrs["order"], [told(child) for child in node.children]]
        case "code_block":
            return ["code_block", node.attrs.get("params", ""), "".join(child.text for child in node.children)]  # type: ignore[union-attr]
        case "horizontal_rule":
            return ["horizontal_rule"]
        case "task_item" | "list_item" if "checked" in node.attrs:
            return ["task_item", node.attrs["checked"], [told(child) for child in node.children]]
        case "table_header" | "table_cell":
            return [node.name, node.attrs.get("alignment", ""), [told(child) for child in node.children]]
        case _:
            return [node.name, [told(child) for child in node.children]]


def line(nodes: tuple[Node, ...]) -> list[Any]:
    """A textblock's content as pieces."""
    pieces: list[Any] = []
    for node in nodes:
        if isinstance(node, TextNode):
            pieces += [["text", run.text, sorted(map(marked, run.marks))] for run in node.runs]
        elif node.name == "hard_break":
            pieces.append(["break"])
        else:
            alt = str(node.attrs.get("alt") or "")
            pieces.append(["image", shown(str(node.attrs["src"])), str(node.attrs.get("title") or ""), alt])
    return joined(pieces)


def joined(pieces: list[Any]) -> list[Any]:
    """Pieces with neighbours of the same marks put together."""
    found: list[Any] = []
    for piece in pieces:
        if piece[0] == "text" and found and found[-1][0] == "text" and found[-1][2] == piece[2]:
            found[-1] = ["text", found[-1][1] + piece[1], piece[2]]
        elif piece[0] != "text" or piece[1]:
            found.append(list(piece))
    return found


def tidied(said: Any) -> Any:
    """What a reader said, with its pieces put together."""
    if isinstance(said, list) and said and said[0] in ("paragraph", "heading"):
        return [*said[:-1], joined(said[-1])]
    return [tidied(one) for one in said] if isinstance(said, list) else said


def marked(mark: Mark) -> str:
    if mark.name != "link":
        return mark.name
    return f"link {shown(str(mark.attrs['href']))} {mark.attrs.get('title') or ''}"


def shown(url: str) -> str:
    """A URL as a reader gives it back: encoded, then decoded."""
    return unquote(quote(url, safe="%/:=&?~#+!$,;'@()*[]"))
