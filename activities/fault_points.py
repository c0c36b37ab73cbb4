"""Every place where a fault test may stop the process, in one registry, so that a new await cannot escape the tests.

Code calls `checkpoint(FaultPoint.X)` at the place; production injects `no_fault`. `KillOnce` ends the process with
SIGKILL the first time its point is reached; `TimeOutOnce` lets a store write happen and has its caller told that it
timed out. Neither strikes twice at a point: a marker file remembers, across restarts.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from counterfoil.models.errors import ErrorCode, Unavailable


class FaultPoint(StrEnum):
    """Named in the order an operation meets them."""

    OPEN_BEFORE_COMMIT = "open.before_commit"
    OPEN_COMMITTED = "open.committed"
    GATE_BEFORE_COMMIT = "gate.before_commit"
    GATE_COMMITTED = "gate.committed"
    PREPARE_BEFORE_ADAPTER = "prepare.before_adapter"
    PREPARE_BEFORE_COMMIT = "prepare.before_commit"
    PREPARE_COMMITTED = "prepare.committed"
    COMMAND_BEFORE_COMMIT = "command.before_commit"
    COMMAND_COMMITTED = "command.committed"
    SESSION_BEFORE_COMMIT = "session.before_commit"
    SESSION_COMMITTED = "session.committed"
    EXPIRE_BEFORE_COMMIT = "expire.before_commit"
    EXPIRE_COMMITTED = "expire.committed"
    JOURNAL_BEFORE_COMMIT = "journal.before_commit"
    JOURNAL_COMMITTED = "journal.committed"
    PUBLISH_LOCKED = "publish.locked"
    PUBLISH_STAGED = "publish.staged"
    PUBLISH_INTENDED = "publish.intended"
    PUBLISH_DONE = "publish.done"
    ADAPTER_RETURNED = "adapter.returned"
    REFUSE_BEFORE_COMMIT = "refuse.before_commit"
    REFUSE_COMMITTED = "refuse.committed"
    BLOCK_BEFORE_COMMIT = "block.before_commit"
    BLOCK_COMMITTED = "block.committed"
    OUTCOME_BEFORE_COMMIT = "outcome.before_commit"
    OUTCOME_COMMITTED = "outcome.committed"
    FENCE_BEFORE_COMMIT = "fence.before_commit"
    FENCE_COMMITTED = "fence.committed"
    EXHAUST_BEFORE_COMMIT = "exhaust.before_commit"
    EXHAUST_COMMITTED = "exhaust.committed"
    OBSERVE_BEFORE_ADAPTER = "observe.before_adapter"
    OBSERVE_FENCED = "observe.fenced"
    OBSERVE_BEFORE_COMMIT = "observe.before_commit"
    OBSERVE_COMMITTED = "observe.committed"
    CANCEL_JOURNAL_BEFORE_COMMIT = "cancel_journal.before_commit"
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
    WAKE_BEFORE_SIGNAL = "wake.before_signal"
    # documents
    APPEND_BEFORE_COMMIT = "document.append.before_commit"
    APPEND_COMMITTED = "document.append.committed"
    COMPACT_BLOB_PUT = "document.compact.blob_put"
    COMPACT_BEFORE_COMMIT = "document.compact.before_commit"
    COMPACT_COMMITTED = "document.compact.committed"
    CAPTURE_BLOBS_PUT = "document.capture.blobs_put"
    CAPTURE_BEFORE_COMMIT = "document.capture.before_commit"
    CAPTURE_COMMITTED = "document.capture.committed"
    EDIT_BEFORE_COMMIT = "document.edit.before_commit"
    EDIT_COMMITTED = "document.edit.committed"
    FETCH_BEFORE_COMMIT = "document.fetch.before_commit"
    FETCH_COMMITTED = "document.fetch.committed"
    REPLY_BEFORE_COMMIT = "document.reply.before_commit"
    REPLY_COMMITTED = "document.reply.committed"
    ACKNOWLEDGE_BEFORE_COMMIT = "document.acknowledge.before_commit"
    ACKNOWLEDGE_COMMITTED = "document.acknowledge.committed"
    CONDEMN_BEFORE_COMMIT = "document.condemn.before_commit"
    CONDEMNED = "document.condemn.committed"
    REMOVED = "document.condemn.removed"
    FORGET_BEFORE_COMMIT = "document.forget.before_commit"
    LET_GO_BEFORE_COMMIT = "document.let_go.before_commit"


DOCUMENT_POINTS = tuple(point for point in FaultPoint if point.startswith("document."))
"""The points of documents; the others are met by operations."""
WRITES = tuple(point for point in FaultPoint if point.endswith(".before_commit") and point not in DOCUMENT_POINTS)
"""Every write of an operation, each by the point that it passes just before it commits."""
TIME_OUT = "timeout:"
EVERY_WRITE = "every"

Checkpoint = Callable[[FaultPoint], None]


class CommitFault(Protocol):
    """What may befall a transaction after it was committed. Production has none."""

    def begun(self) -> None:
        """A transaction's work begins, perhaps once more."""
        ...

    def worked(self) -> FaultPoint | None:
        """Its work is done; the point that it passed and that its commit is to be doubted for, if any."""
        ...

    def committed(self, doubted: FaultPoint) -> None:
        """It was committed: raises what its caller is told instead."""
        ...


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


class TimeOutOnce:
    """Lets the write at each of `points` happen, and tells its caller once that it timed out.

    A checkpoint like any other, that the database asks about each transaction it commits.
    """

    def __init__(self, points: Iterable[FaultPoint], folder: Path) -> None:
        self._points = frozenset(points)
        self._folder = folder
        self._passed: ContextVar[FaultPoint | None] = ContextVar("passed", default=None)

    def __call__(self, point: FaultPoint) -> None:
        if point in self._points and not self._marker(point).exists():
            self._passed.set(point)

    def begun(self) -> None:
        self._passed.set(None)

    def worked(self) -> FaultPoint | None:
        return self._passed.get()

    def committed(self, doubted: FaultPoint) -> None:
        if self._marker(doubted).exists():
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        self._marker(doubted).write_text(doubted)
        raise Unavailable(ErrorCode.STORE_UNAVAILABLE, f"the commit at {doubted} timed out, by order", subject="store")

    def _marker(self, point: FaultPoint) -> Path:
        return self._folder / f"fault.{TIME_OUT}{point}"


def checkpoint_of(fault: str | None, folder: Path) -> Checkpoint:
    """The checkpoint that a setting names: `<point>`, `timeout:<point>`, `timeout:every`, or none.

    Raises ValueError for a point that is not registered.
    """
    if fault is None:
        return no_fault
    if not fault.startswith(TIME_OUT):
        return KillOnce(FaultPoint(fault), folder / f"fault.{fault}")
    point = fault.removeprefix(TIME_OUT)
    return TimeOutOnce(WRITES if point == EVERY_WRITE else [FaultPoint(point)], folder)
