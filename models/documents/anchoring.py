"""Finds a quoted passage in a text: there, not there, or there more than once. Never a best guess.

First the quote exactly as it is, then with any white space for any other. Where it occurs more than once, what stood
around it decides, if it decides for one occurrence only. And where it occurs once, half of what stood around it, or
all of one side, must still be there, counted from the passage outwards: else the quoted passage is gone, and this is
one that reads the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, TypeAlias

from pydantic import StringConstraints

from counterfoil.models.common import Stored

CONTEXT_LENGTH = 32
"""How many characters before and after a passage are quoted with it."""
WHOLE_SIDE = 16
"""One side of so many characters, unchanged, is enough."""
MOST_HITS = 1000

_Passage = Annotated[str, StringConstraints(min_length=1, max_length=1_000_000)]
_Context = Annotated[str, StringConstraints(max_length=1000)]


class Quote(Stored):
    """A passage as it was quoted. `prefix` and `suffix` are what stood just before and after; empty at an edge."""

    exact: _Passage
    prefix: _Context = ""
    suffix: _Context = ""


class How(StrEnum):
    """How closely a passage matches its quote."""

    EXACT = "exact"
    WHITESPACE = "whitespace"


@dataclass(frozen=True, slots=True)
class Found:
    """The one place where the passage is, in code points."""

    start: int
    end: int
    how: How


@dataclass(frozen=True, slots=True)
class Missing:
    """The passage is not in the text, or only one that reads the same and stands elsewhere."""


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """The passage is in the text more than once, and nothing tells which was meant."""

    count: int


Anchor: TypeAlias = Found | Missing | Ambiguous


def anchor(text: str, quote: Quote) -> Anchor:
    """Where the quoted passage is in the text. Overlapping occurrences count each."""
    exact = list(_exactly(text, quote.exact))
    if exact:
        return _chosen(text, quote, exact, How.EXACT)
    if not re.search(r"\s", quote.exact):
        return Missing()
    tolerant = list(_tolerantly(text, quote.exact))
    return _chosen(text, quote, tolerant, How.WHITESPACE) if tolerant else Missing()


def quote_of(text: str, start: int, end: int) -> Quote:
    """The passage from `start` to `end`, with what stands around it. Raises ValueError for an empty one."""
    if not start < end:
        raise ValueError("an empty passage cannot be quoted")
    return Quote(
        exact=text[start:end],
        prefix=text[max(0, start - CONTEXT_LENGTH) : start],
        suffix=text[end : end + CONTEXT_LENGTH],
    )


def _chosen(text: str, quote: Quote, hits: list[tuple[int, int]], how: How) -> Anchor:
    whole = [hit for hit in hits if _agreement(text, quote, hit) == (len(quote.prefix), len(quote.suffix))]
    if len(whole) == 1:
        return Found(*whole[0], how)
    if len(hits) > 1:
        return Ambiguous(len(whole) or len(hits))
    return Found(*hits[0], how) if _stands_there(text, quote, hits[0]) else Missing()


def _stands_there(text: str, quote: Quote, hit: tuple[int, int]) -> bool:
    """Whether the only occurrence still stands beside at least half of what it was quoted with, or all of one side."""
    before, after = _agreement(text, quote, hit)
    if 2 * (before + after) >= len(quote.prefix) + len(quote.suffix):
        return True
    return any(agreed == len(side) >= WHOLE_SIDE for agreed, side in ((before, quote.prefix), (after, quote.suffix)))


def _agreement(text: str, quote: Quote, hit: tuple[int, int]) -> tuple[int, int]:
    """How many characters of the context agree, from the passage outwards."""
    start, end = hit
    before = 0
    while before < min(len(quote.prefix), start) and text[start - 1 - before] == quote.prefix[-1 - before]:
        before += 1
    after = 0
    while after < min(len(quote.suffix), len(text) - end) and text[end + after] == quote.suffix[after]:
        after += 1
    return before, after


def _exactly(text: str, passage: str) -> Iterator[tuple[int, int]]:
    at = text.find(passage)
    for _ in range(MOST_HITS):
        if at < 0:
            return
        yield at, at + len(passage)
        at = text.find(passage, at + 1)


def _tolerantly(text: str, passage: str) -> Iterator[tuple[int, int]]:
    at, pattern = 0, _pattern(passage)
    for _ in range(MOST_HITS):
        match = pattern.search(text, at)
        if match is None:
            return
        yield match.start(1), match.end(1)
        at = match.start() + 1


@lru_cache(maxsize=64)
def _pattern(passage: str) -> re.Pattern[str]:
    words = passage.split()
    return re.compile("(" + r"\s+".join(re.escape(word) for word in words) + ")" if words else "(?!)")
