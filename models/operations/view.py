"""What the workflow sees of a row, and the pure rule that names the next step.

The view is small on purpose: it is what every activity returns, so it is what a history grows by.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from counterfoil.models.common import Instant, Stored
from counterfoil.models.errors import ErrorCode
from counterfoil.models.operations.commands import Answer
from counterfoil.models.operations.lifecycle import CLOSED, UNDISPATCHED, Cancellation, State, Verification
from counterfoil.models.operations.outcomes import Problem, TypedResult


class Blocked(Stored):
    """Why a queued operation was not granted its dispatch, last time it asked."""

    code: ErrorCode
    detail: str


class OperationView(Stored):
    """The part of an operation's row that decides what happens next."""

    operation_id: str
    session: str
    version: int
    """The ledger's head for this operation: of two views, the one with the higher version is newer."""
    revision: int
    state: State
    verification: Verification
    cancellation: Cancellation
    generation: int = 0
    """The newest attempt that was journaled."""
    fence: int = 0
    """Attempts up to this generation can no longer be journaled."""
    attempt_open: bool = False
    """The newest attempt was journaled and has no outcome yet."""
    reverify: bool = False
    """A completed operation whose verification is asked for again."""
    task_queue: str
    """Where the adapter's activities run: the pinned environment's and adapter version's own queue."""
    call_timeout_seconds: float
    heartbeat_seconds: float
    local_transitions: bool = True
    """Whether the worker that gave this view runs transitions as local activities. Recorded, so replay agrees."""
    prepares_with_effect: bool = False
    can_observe: bool = False
    can_cancel: bool = False
    cancel_sent: bool = False
    observation_exhausted: bool = False
    decision_expires_at: Instant | None = None
    deadline: Instant | None = None
    blocked: Blocked | None = None
    resources: tuple[str, ...] = ()
    label: str = ""
    """One line for the Temporal UI: capability and objective."""
    problem: Problem | None = None
    result: TypedResult | None = None
    """Of a closed operation."""
    details: str = ""
    """Markdown for the Temporal UI: state, question, prepared change, the ids needed to answer."""


def conclusion(view: OperationView) -> OperationResult:
    """The result of a settled operation's workflow."""
    return OperationResult(
        operation_id=view.operation_id,
        state=view.state,
        verification=view.verification,
        cancellation=view.cancellation,
        revision=view.revision,
        problem=view.problem,
        result=view.result,
    )


def is_being_verified(view: OperationView) -> bool:
    """Whether the effect is claimed, and fresh evidence of it is being looked for."""
    return view.state is State.COMPLETED and view.verification is Verification.PENDING


WOKEN_BY_OTHERS = frozenset(
    {
        ErrorCode.LOCKED,
        ErrorCode.DEPENDENCY_PENDING,
        ErrorCode.DEPENDENCY_UNKNOWN,
        ErrorCode.OWNER_PAUSED,
    }
)
"""What keeps an operation from its dispatch until somebody says so. Everything else it asks about by itself."""


class StepKind(StrEnum):
    """What a workflow can do next."""

    PREPARE = "prepare"
    DISPATCH = "dispatch"
    FENCE = "fence"
    AWAIT_READINESS = "await_readiness"
    OBSERVE = "observe"
    CANCEL_AT_TARGET = "cancel_at_target"
    VERIFY = "verify"
    EXPIRE = "expire"
    WAIT = "wait"
    DONE = "done"


class Step(Stored):
    """The one step an operation's state asks for. `until` is when waiting must end by itself, if ever."""

    kind: StepKind
    until: Instant | None = None


def next_step(view: OperationView, now: datetime) -> Step:
    """The step a row in this state asks for at `now`. Total: every state has one, and only closed ones are done."""
    limit = _time_limit(view)
    if view.state in UNDISPATCHED and not view.attempt_open and limit is not None and now >= limit:
        return Step(kind=StepKind.EXPIRE)
    match view.state:
        case State.PREPARING if view.attempt_open:
            return Step(kind=StepKind.FENCE)
        case State.PREPARING if view.blocked is None:
            return Step(kind=StepKind.PREPARE)
        case State.QUEUED:
            return _queued(view, limit)
        case State.DISPATCHING:
            return Step(kind=StepKind.FENCE)
        case State.RUNNING if _should_cancel(view):
            return Step(kind=StepKind.CANCEL_AT_TARGET)
        case State.RUNNING | State.UNKNOWN if view.can_observe and not view.observation_exhausted:
            return Step(kind=StepKind.OBSERVE)
        case State.COMPLETED if is_being_verified(view) or view.reverify:
            return Step(kind=StepKind.VERIFY)
        case state if state in CLOSED:
            return Step(kind=StepKind.DONE)
        case _:
            return Step(kind=StepKind.WAIT, until=limit if view.state in UNDISPATCHED else None)


def _time_limit(view: OperationView) -> datetime | None:
    limits = [view.deadline]
    if view.state in (State.AWAITING_DECISION, State.REVISION_REQUESTED):
        limits.append(view.decision_expires_at)
    return min((limit for limit in limits if limit is not None), default=None)


def _queued(view: OperationView, limit: datetime | None) -> Step:
    if view.blocked is None:
        return Step(kind=StepKind.DISPATCH)
    if view.blocked.code in WOKEN_BY_OTHERS:
        return Step(kind=StepKind.WAIT, until=limit)
    return Step(kind=StepKind.AWAIT_READINESS, until=limit)


def _should_cancel(view: OperationView) -> bool:
    return view.cancellation is Cancellation.REQUESTED and view.can_cancel and not view.cancel_sent


def seconds_between(now: datetime, until: datetime) -> timedelta:
    """How long to wait: never negative."""
    return max(until - now, timedelta(0))


class StepInput(Stored):
    """What a workflow tells an activity: which operation, and the newest state it remembers of it."""

    operation_id: str
    seen_revision: int = 0
    seen_generation: int = 0
    generation: int = 0
    """The generation a dispatch is to journal, or a fence is to close."""


class OpenInput(Stored):
    """What `open` is given: the workflow's raw argument, and the workflow id it runs under."""

    workflow_id: str
    argument: Any = None
    problem: str | None = None
    seen_revision: int = 0


class ApplyInput(Stored):
    """A received command with what the workflow remembers, for the transaction that takes it."""

    operation_id: str
    command: Any
    seen_revision: int = 0
    seen_generation: int = 0
    request: Any = None


class Applied(Stored):
    """What a command was answered, and the row's view after it."""

    answer: Answer
    view: OperationView


class OperationResult(Stored):
    """What a finished workflow returns to its host. The whole record is read through the control plane."""

    operation_id: str
    state: State
    verification: Verification
    cancellation: Cancellation
    revision: int
    problem: Problem | None = None
    result: TypedResult | None = None
