"""An adapter whose answers a test sets, one course for each operation, and which keeps what it was asked.

A course is what one operation meets: the first answer is the dispatch's, the following ones are what observation sees,
and the last is seen again and again. Where a test says nothing, an operation completes and is verified.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, ConfigDict

from counterfoil.activities.adapters.base import AdapterContext, Order, Phase
from counterfoil.models.operations.contract import OperationRequest
from counterfoil.models.operations.outcomes import (
    Cancelled,
    Completed,
    Contradicted,
    Evidence,
    Failed,
    NotApplied,
    NotReady,
    Partial,
    Prepared,
    Ready,
    Running,
    TypedResult,
    UnknownEffect,
    VerificationUnavailable,
    Verified,
)
from counterfoil.models.operations.route import Route

Answer = BaseModel | BaseException | Callable[[AdapterContext, Order | None], Any]
"""An outcome, an exception to raise, or a function of (context, order) that gives or raises one."""


def completed(summary: str = "done", **data: Any) -> Answer:
    """The target says that it is done."""
    return Completed(result=TypedResult(kind="scripted", summary=summary, data=data))


def running(external_id: str = "job-1", *, poll_after_seconds: float = 0.1) -> Answer:
    """The target works on it; the next answer of the course is what is seen then."""
    return Running(external_id=external_id, poll_after_seconds=poll_after_seconds)


def failed(code: str = "REFUSED", detail: str = "the target said no") -> Answer:
    """Certainly not applied."""
    return Failed(code=code, detail=detail)


def unknown(detail: str = "the reply was lost", *, code: str = "REPLY_LOST") -> Answer:
    """Nobody can know whether it happened."""
    return UnknownEffect(code=code, detail=detail)


def late(answer: Answer | None = None, *, seconds: float = 0.5) -> Answer:
    """`answer` (completed, unless told otherwise), so many seconds after the call's time-out."""

    def overdue(context: AdapterContext, order: Order | None) -> Any:
        time.sleep(context.timeout_seconds + seconds)
        return _given(completed() if answer is None else answer, context, order)

    return overdue


def not_applied(detail: str = "it is not there, and can no longer come") -> Answer:
    """Seen by observation: it did not happen, and can no longer happen."""
    return lambda _context, _order: NotApplied(detail=detail, evidence=evidence())


def cancelled(detail: str = "stopped before it took effect") -> Answer:
    """Seen by observation, or answered to a cancellation: it was stopped in time."""
    return lambda _context, _order: Cancelled(detail=detail, evidence=evidence())


def verified(version: str = "2") -> Answer:
    """Fresh evidence shows the whole change."""
    return lambda _context, _order: Verified(evidence=evidence(version))


def partial(detail: str = "a part is missing") -> Answer:
    """Fresh evidence shows a part of the change."""
    return lambda _context, _order: Partial(detail=detail, evidence=evidence())


def contradicted(detail: str = "the target shows something else") -> Answer:
    """Fresh evidence shows something else."""
    return lambda _context, _order: Contradicted(detail=detail, evidence=evidence())


def unverifiable(detail: str = "the target cannot be read") -> Answer:
    """No fresh evidence can be had."""
    return VerificationUnavailable(detail=detail)


def evidence(version: str = "2") -> Evidence:
    """What the scripted target shows now."""
    return Evidence(source="scripted target", observed_at=datetime.now(UTC), version=version)


@dataclass(frozen=True)
class Call:
    """One call that the adapter got."""

    phase: Phase
    operation_id: str
    key: str | None = None
    """The idempotency key of the request; None where readiness was asked for, which is no operation's."""
    input: dict[str, Any] | None = None
    generation: int | None = None
    """Which attempt it was."""


@dataclass
class _Course:
    answers: deque[Answer]
    verification: Answer
    cancellation: Answer
    preparation: Answer


class ScriptedInput(BaseModel):
    """Anything at all."""

    model_config = ConfigDict(extra="allow")


class ScriptedAdapter:
    """A route that promises everything but preparation, and answers as a test says. Safe to use from any thread."""

    def __init__(self, route_id: str = "scripted.v1", *capabilities: str, **route: Any) -> None:
        """`route` changes fields of the route, such as `observation=False` or `preparation="pure"`."""
        values: dict[str, Any] = {
            "id": route_id,
            "adapter": route_id,
            "adapter_version": "1",
            "capabilities": capabilities or ("scripted.change",),
            "protocol": "memory",
            "control": "script",
            "readiness": True,
            "observation": True,
            "cancellation": True,
            "verification": True,
            "call_timeout_seconds": 2,
        }
        self._route = Route(**(values | route))
        self._lock = threading.Lock()
        self._readiness: Answer = Ready()
        self._by_key: dict[str, _Course] = {}
        self._in_order: deque[_Course] = deque()
        self._taken: dict[str, _Course] = {}
        self._calls: list[Call] = []

    @property
    def route(self) -> Route:
        return self._route

    # what a test says

    def will(
        self,
        *answers: Answer,
        key: str | None = None,
        verification: Answer | None = None,
        cancellation: Answer | None = None,
        preparation: Answer | None = None,
    ) -> None:
        """Set the course of the operation with this idempotency key, or of the next one that has none.

        `verification` is what reading back shows, `cancellation` what a cancellation is answered, `preparation` what
        is proposed where the route prepares.
        """
        course = _Course(
            deque(answers or (completed(),)),
            verified() if verification is None else verification,
            cancelled() if cancellation is None else cancellation,
            Prepared(summary="a change under test") if preparation is None else preparation,
        )
        with self._lock:
            if key is None:
                self._in_order.append(course)
            else:
                self._by_key[key] = course

    def not_ready(self, detail: str = "closed for maintenance", *, retry_after_seconds: float = 0.2) -> None:
        """From now on the route cannot be used: what is queued waits."""
        self._readiness = NotReady(detail=detail, retry_after_seconds=retry_after_seconds)

    def ready(self) -> None:
        """From now on the route can be used, as it can at first."""
        self._readiness = Ready()

    # what a test asks

    @property
    def calls(self) -> list[Call]:
        """Every call so far, in order, but for those that asked whether the route is ready."""
        with self._lock:
            return [call for call in self._calls if call.phase is not Phase.READINESS]

    @property
    def effects(self) -> list[Call]:
        """Every time the change was made, or may have been: what must never be more than it should."""
        return [call for call in self.calls if call.phase is Phase.EXECUTE]

    # what the engine calls

    def validate_input(self, request: OperationRequest) -> ScriptedInput:
        return ScriptedInput.model_validate(request.input)

    def readiness(self, context: AdapterContext) -> Any:
        with self._lock:
            self._calls.append(Call(context.phase, context.operation_id))
        return _given(self._readiness, context, None)

    def prepare(self, context: AdapterContext, order: Order) -> Any:
        return _given(self._course(context, order).preparation, context, order)

    def execute(self, context: AdapterContext, order: Order) -> Any:
        return _given(self._next(context, order), context, order)

    def observe(self, context: AdapterContext, order: Order) -> Any:
        return _given(self._next(context, order), context, order)

    def cancel(self, context: AdapterContext, order: Order) -> Any:
        return _given(self._course(context, order).cancellation, context, order)

    def verify(self, context: AdapterContext, order: Order) -> Any:
        return _given(self._course(context, order).verification, context, order)

    def _next(self, context: AdapterContext, order: Order) -> Answer:
        """The course's next answer. A function that was the last, such as a late reply, is no news afterwards."""
        answers = self._course(context, order).answers
        with self._lock:
            answer = answers.popleft()
            if not answers:
                lasting = isinstance(answer, BaseModel)
                answers.append(answer if lasting else UnknownEffect(code="NO_NEWS", detail="nothing can be seen"))
            return answer

    def _course(self, context: AdapterContext, order: Order) -> _Course:
        key = order.request.idempotency_key
        with self._lock:
            self._calls.append(
                Call(context.phase, context.operation_id, key, order.request.input, order.generation or None)
            )
            if context.operation_id not in self._taken:
                self._taken[context.operation_id] = self._chosen(key)
            return self._taken[context.operation_id]

    def _chosen(self, key: str) -> _Course:
        if key in self._by_key:
            return self._by_key[key]
        if self._in_order:
            return self._in_order.popleft()
        return _Course(deque([completed()]), verified(), cancelled(), Prepared(summary="a change under test"))


def _given(answer: Answer, context: AdapterContext, order: Order | None) -> Any:
    if isinstance(answer, BaseModel):
        return answer
    if isinstance(answer, BaseException):
        raise answer
    return answer(context, order)
