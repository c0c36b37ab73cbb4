"""What a process remembers of its operations between two calls. Losing it costs an answer's speed, never its truth."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")

MOST = 4096
"""Operations remembered; the oldest are forgotten."""


class Memory:
    """Bounded; shared by the threads that adapter calls run in. `clock` gives seconds, and is never set."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._record_ids: OrderedDict[str, str] = OrderedDict()
        self._first_looks: OrderedDict[tuple[str, int], float] = OrderedDict()
        self._quiet_until = 0.0

    def remember_record(self, operation_id: str, record_id: str) -> None:
        """The id the target gave to the record that an operation made."""
        with self._lock:
            _put(self._record_ids, operation_id, record_id)

    def record_of(self, operation_id: str) -> str | None:
        """The id of the record that an operation made, where this process saw it."""
        with self._lock:
            return self._record_ids.get(operation_id)

    def watched_seconds(self, operation_id: str, generation: int) -> float:
        """How long ago this process first looked for an attempt, by a clock that nobody sets. The first time: 0."""
        now = self._clock()
        with self._lock:
            first = self._first_looks.get((operation_id, generation))
            if first is None:
                _put(self._first_looks, (operation_id, generation), now)
                return 0.0
            return now - first

    def keep_quiet(self, seconds: float) -> None:
        """The target asked to be left alone for so long."""
        with self._lock:
            self._quiet_until = max(self._quiet_until, self._clock() + seconds)

    def quiet_seconds(self) -> float:
        """How long the target wants to be left alone still."""
        with self._lock:
            return max(0.0, self._quiet_until - self._clock())


def _put(kept: OrderedDict[K, V], key: K, value: V) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > MOST:
        kept.popitem(last=False)
