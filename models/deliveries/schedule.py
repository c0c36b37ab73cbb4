"""When a callback that was not taken is sent again, and when it is given up: Standard Webhooks' own schedule."""

from __future__ import annotations

from datetime import timedelta

PAUSES = (
    timedelta(seconds=5),
    timedelta(seconds=30),
    timedelta(minutes=5),
    timedelta(minutes=30),
    timedelta(hours=2),
    timedelta(hours=5),
    timedelta(hours=10),
    timedelta(hours=14),
    timedelta(hours=20),
    timedelta(hours=24),
)
"""What passes between one try and the next: some three days in all, and eleven tries."""

SPREAD = 0.1
"""A pause is up to a tenth longer, so that what failed together does not come back together."""

LONGEST_ASKED = timedelta(hours=1)
"""A receiver that says when to come back is believed up to this."""

GONE = 410


def pause_after(
    tries: int, *, status: int | None, asked: timedelta | None = None, chance: float = 0.0
) -> timedelta | None:
    """How long to wait after so many tries, the last of which failed; None where the callback is given up.

    `status` is what the receiver answered, if it did; `asked`, the pause it asked for; `chance`, a number from 0 to 1.
    """
    if status == GONE or tries > len(PAUSES):
        return None
    pause = PAUSES[tries - 1] * (1 + SPREAD * chance)
    return pause if asked is None else max(pause, min(asked, LONGEST_ASKED))
