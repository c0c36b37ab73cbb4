"""Whether a proposal can be applied to a document as it is now, for review: applies, misplaced, or not known.

A proposal that was drafted against another head may still apply. What decides is whether its quote is found, once, in
the Markdown that the current receipt is bound to; without such a receipt nothing is claimed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from counterfoil.models.documents.anchoring import Ambiguous, Found, How, Missing, Quote, anchor


class Misplaced(StrEnum):
    """What is wrong with where a proposal belongs."""

    MISSING = "missing"
    AMBIGUOUS = "ambiguous"


class NoReceipt(StrEnum):
    """Why nothing can be said."""

    MISSING = "missing"
    INVALID = "invalid"
    OUTDATED = "outdated"


@dataclass(frozen=True, slots=True)
class Applies:
    """The quote is there once. Offsets count code points of the Markdown."""

    start: int
    end: int
    how: How


@dataclass(frozen=True, slots=True)
class PlacementProblem:
    """The quote is not there, or more than once."""

    problem: Misplaced


@dataclass(frozen=True, slots=True)
class Unknown:
    """There is no current receipt to judge by."""

    why: NoReceipt


Applicability: TypeAlias = Applies | PlacementProblem | Unknown


def applicability(quote: Quote, markdown: str | None, why: NoReceipt = NoReceipt.MISSING) -> Applicability:
    """How a quote stands in the Markdown of the current receipt; `markdown` is None where there is no current one."""
    if markdown is None:
        return Unknown(why)
    match anchor(markdown, quote):
        case Found(start=start, end=end, how=how):
            return Applies(start, end, how)
        case Ambiguous():
            return PlacementProblem(Misplaced.AMBIGUOUS)
        case Missing():
            return PlacementProblem(Misplaced.MISSING)
