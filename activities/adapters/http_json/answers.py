"""What a target's answers mean. Pure: a status says that a change was made, taken on, refused, or nothing certain."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum

LONGEST_WAIT_SECONDS = 3600.0
"""A target's Retry-After counts up to here."""


class Meaning(StrEnum):
    """What a reply to a change says of the change."""

    DONE = "done"
    """The target says that it made it."""
    ACCEPTED = "accepted"
    """The target will make it later, or has."""
    REFUSED = "refused"
    """Certainly not made."""
    STALE = "stale"
    """Certainly not made: the record is not at the version that was named."""
    BUSY = "busy"
    """Certainly not made: the target wants to be asked later."""
    UNCLEAR = "unclear"
    """It may have been made."""


_DONE = frozenset({200, 201, 203, 204, 205})
_UNCLEAR_REFUSALS = frozenset({408, 499})
"""A proxy says these too, of a request that it has passed on already."""
_PASSED_ON_ELSEWHERE = frozenset({307, 308})
"""The same request must be made elsewhere, so here it was not. The other redirects may follow a change: 303 does."""


def meaning_of(status: int, refuses_before_acting: Collection[int], generation: int) -> Meaning:
    """What the reply to a change means.

    On a repeated attempt (`generation` above 1) a conflict may be with an earlier one, so it proves nothing.
    """
    if status in _DONE:
        return Meaning.DONE
    if status == 202:
        return Meaning.ACCEPTED
    if status == 429 or status in refuses_before_acting:
        return Meaning.BUSY
    if status in _PASSED_ON_ELSEWHERE:
        return Meaning.REFUSED
    if not 400 <= status <= 499 or status in _UNCLEAR_REFUSALS:
        return Meaning.UNCLEAR
    if generation > 1 and status in (404, 409, 410, 412):
        return Meaning.UNCLEAR
    return Meaning.STALE if status == 412 else Meaning.REFUSED


def retry_after_seconds(headers: Mapping[str, str], now: datetime) -> float | None:
    """How long the target asks to be left alone, at most `LONGEST_WAIT_SECONDS`; None where it does not say."""
    said = headers.get("retry-after", "").strip()
    if said.isascii() and said.isdigit():
        seconds = float(said[:9])
    else:
        try:
            seconds = (parsedate_to_datetime(said) - now).total_seconds()
        except (TypeError, ValueError, OverflowError):
            return None
    return min(max(seconds, 0.0), LONGEST_WAIT_SECONDS)
