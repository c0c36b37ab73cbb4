"""How characters are written so that Markdown reads them as themselves, and where each raw character went."""

from __future__ import annotations

import re
import unicodedata

_ALWAYS = re.compile(
    r"""[\\`*\[\]<~]            # these mean something anywhere
      | _                        # and so does this, unless between letters
      | &(?=[#A-Za-z][A-Za-z0-9]*;|\#)   # what could be read as a character reference
    """,
    re.VERBOSE,
)
_BY_NUMBER = re.compile(r"[\n\r]")
_LINE_START = re.compile(r"(?:#{1,6}(?=[ \t]|$)|>|[-+=:](?=[-=:| \t]|$)|[-+](?=[ \t]|$)|\d{1,9}[.)](?=[ \t]|$))")
_HEADING_END = re.compile(r"(?:(?<=[ \t])|^)#+$")


def reference(character: str) -> str:
    """A character by its number."""
    return f"&#{ord(character)};"


def escaped(text: str, before: str = "", after: str = "") -> str:
    """Text in the middle of a line. `before` and `after` are what stands around it, as far as that is letters."""

    def write(match: re.Match[str]) -> str:
        character = match.group()
        if (
            character == "_"
            and _is_letter(_at(text, match.start() - 1, before))
            and _is_letter(_at(text, match.end(), after))
        ):
            return character
        return "\\" + character

    return _BY_NUMBER.sub(lambda match: reference(match.group()), _ALWAYS.sub(write, text))


def at_line_start(written: str) -> str:
    """Written text that begins a line, so that it begins no list, heading, quotation or rule."""
    found = _LINE_START.match(written)
    if found is None:
        return written
    mark = found.group()
    if mark[0].isdigit():
        return f"{mark[:-1]}\\{mark[-1]}{written[len(mark) :]}"
    return "\\" + written


def at_heading_end(written: str) -> str:
    """Written text that ends a heading, so that its last signs are not taken for the heading's own."""
    return _HEADING_END.sub(lambda match: "\\" + match.group(), written)


def is_strippable(character: str) -> bool:
    """Whether readers drop the character at the edge of a line."""
    return character.isspace() or character == "\ufeff"


def can_be_referenced(character: str) -> bool:
    """Whether readers take the character from its number: not control characters, save tab and line ends."""
    return character in "\t\n\r\x0c" or not (character < " " or "\x7f" <= character <= "\x9f")


def kind_of(character: str) -> str:
    """What a delimiter beside it sees: `space`, `letter`, `punctuation`, or `symbol`, where readers differ."""
    if character == "" or character.isspace():
        return "space"
    if character.isascii():
        return "letter" if character.isalnum() else "punctuation"
    category = unicodedata.category(character)
    if category[0] == "P":
        return "punctuation"
    return "symbol" if category[0] in "SC" else "letter"


def offsets(raw: str, written: str) -> list[int]:
    """Where each raw character begins in what was written for it, and where the last one ends."""
    found, at = [], 0
    for character in raw:
        found.append(at)
        number = reference(character)
        if written.startswith(number, at):
            at += len(number)
        elif written[at] == "\\" and (written[at : at + 2] == "\\" + character):
            at += 2
        else:
            at += 1
    return [*found, len(written)]


def _at(text: str, index: int, beyond: str) -> str:
    return text[index] if 0 <= index < len(text) else beyond


def _is_letter(character: str) -> bool:
    return character.isalnum()
