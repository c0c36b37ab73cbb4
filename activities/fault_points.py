"""Every place where a fault test may stop the process, in one registry, so that a new await cannot escape the tests.

Code calls `checkpoint(FaultPoint.X)` at the place; production injects `no_fault`. `KillOnce` ends the process with
SIGKILL the first time its point is reached, and never again (a marker file remembers, across restarts).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path


class FaultPoint(StrEnum):
    """Named in the order an operation meets them."""

    OPEN_BEFORE_COMMIT = "open.before_commit"
    OPEN_COMMITTED = "open.committed"
    PREPARE_BEFORE_ADAPTER = "prepare.before_adapter"
    PREPARE_BEFORE_COMMIT = "prepare.before_commit"
    PREPARE_COMMITTED = "prepare.committed"
    COMMAND_BEFORE_COMMIT = "command.before_commit"
    COMMAND_COMMITTED = "command.committed"
    EXPIRE_BEFORE_COMMIT = "expire.before_commit"
    EXPIRE_COMMITTED = "expire.committed"
    JOURNAL_BEFORE_COMMIT = "journal.before_commit"
    JOURNAL_COMMITTED = "journal.committed"
    PUBLISH_LOCKED = "publish.locked"
    PUBLISH_STAGED = "publish.staged"
    PUBLISH_INTENDED = "publish.intended"
    PUBLISH_DONE = "publish.done"
    ADAPTER_RETURNED = "adapter.returned"
    OUTCOME_BEFORE_COMMIT = "outcome.before_commit"
    OUTCOME_COMMITTED = "outcome.committed"
    FENCE_BEFORE_COMMIT = "fence.before_commit"
    FENCE_COMMITTED = "fence.committed"
    OBSERVE_BEFORE_ADAPTER = "observe.before_adapter"
    OBSERVE_FENCED = "observe.fenced"
    OBSERVE_BEFORE_COMMIT = "observe.before_commit"
    OBSERVE_COMMITTED = "observe.committed"
    CANCEL_JOURNALED = "cancel.journaled"
    CANCEL_RETURNED = "cancel.returned"
    CANCEL_BEFORE_COMMIT = "cancel.before_commit"
    CANCEL_COMMITTED = "cancel.committed"
    VERIFY_BEFORE_ADAPTER = "verify.before_adapter"
    VERIFY_BEFORE_COMMIT = "verify.before_commit"
    VERIFY_COMMITTED = "verify.committed"
    DELIVERY_ENQUEUED = "delivery.enqueued"
    DELIVERY_POSTED = "delivery.posted"
    DELIVERY_RECORDED = "delivery.recorded"


Checkpoint = Callable[[FaultPoint], None]


def no_fault(point: FaultPoint) -> None:
    """Production's checkpoint: goes on."""


class KillOnce:
    """Ends this process with SIGKILL when `point` is reached, once; `marker` remembers that it did."""

    def __init__(self, point: FaultPoint, marker: Path) -> None:
        self._point = point
        self._marker = marker

    def __call__(self, point: FaultPoint) -> None:
        if point is not self._point or self._marker.exists():
            return
        self._marker.parent.mkdir(parents=True, exist_ok=True)
        self._marker.write_text(point)
        os.kill(os.getpid(), signal.SIGKILL)
