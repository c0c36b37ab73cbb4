"""How a command speaks: tables for people, one JSON document for programs; errors on stderr, in either form.

Every text that came from outside (a request, a workbook, an adapter) is shown with its control characters spelled out,
so that it can neither move the cursor nor pass for our own words.
"""

from __future__ import annotations

import json
import sys
from typing import Any, TextIO

from rich.console import Console, RenderableType
from rich.text import Text

from counterfoil.models.errors import CounterfoilError

WIDTH_WITHOUT_TERMINAL = 120


class Output:
    """Where one command writes: stdout for what was asked, stderr for everything else."""

    def __init__(self, as_json: bool = False) -> None:
        self.as_json = as_json
        self._out = _console(sys.stdout)
        self._aside = _console(sys.stderr)

    def document(self, value: Any) -> None:
        """The answer, for programs."""
        sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")

    def line(self, value: Any) -> None:
        """One of a stream of answers, for programs: one JSON object a line."""
        sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
        sys.stdout.flush()

    def show(self, *parts: RenderableType) -> None:
        """Something for people. Text is never wrapped, so what is meant to be copied can be."""
        for part in parts:
            self._out.print(part, soft_wrap=isinstance(part, str | Text), markup=False, highlight=False)

    def say(self, text: str, style: str = "") -> None:
        """A sentence beside the answer; silent where a program listens."""
        if not self.as_json:
            self._aside.print(Text(visible(text), style=style), soft_wrap=True)

    def error(self, error: CounterfoilError) -> None:
        """What went wrong and what to do about it."""
        if self.as_json:
            sys.stderr.write(json.dumps(error.as_details(), ensure_ascii=False) + "\n")
            return
        about = f" ({error.subject})" if error.subject else ""
        self._aside.print(Text(f"{error.code}{about}", style="bold red"), soft_wrap=True)
        self._aside.print(Text(visible(error.detail)), soft_wrap=True)
        if error.remedy:
            self._aside.print(Text(f"→ {visible(error.remedy)}", style="cyan"), soft_wrap=True)


def _console(stream: TextIO) -> Console:
    width = None if stream.isatty() else WIDTH_WITHOUT_TERMINAL
    return Console(file=stream, width=width, highlight=False, emoji=False)


def visible(text: str) -> str:
    """Text as it may be shown: line ends and printable characters as they are, everything else spelled out."""
    return "".join(char if char.isprintable() or char == "\n" else _spelled(char) for char in text)


def _spelled(char: str) -> str:
    return "    " if char == "\t" else f"\\u{ord(char):04x}"
