"""The execution lifecycle of an operation, as data: which event moves which states where.

`TRANSITIONS` is the only place that says what may follow what. The store consults it for every move; nothing else
decides. Verification and cancellation are separate statuses and never appear here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from counterfoil.models.errors import ErrorCode, Refusal


class State(StrEnum):
    """Execution status."""

    HELD = "held"
    PREPARING = "preparing"
    PREPARED = "prepared"
    AWAITING_DECISION = "awaiting_decision"
    REVISION_REQUESTED = "revision_requested"
    QUEUED = "queued"
    DISPATCHING = "dispatching"
    RUNNING = "running"
    UNKNOWN = "unknown"
    COMPLETED = "completed"
    FAILED = "failed"
    NOT_APPLIED = "not_applied"
    STOPPED = "stopped"
    CANCELLED = "cancelled"
    DECLINED = "declined"
    EXPIRED = "expired"
    SUPERSEDED = "superseded"


class Verification(StrEnum):
    """What fresh evidence says of a completed operation."""

    PENDING = "pending"
    VERIFIED = "verified"
    PARTIAL = "partial"
    CONTRADICTED = "contradicted"
    EXPIRED = "expired"
    UNAVAILABLE = "unavailable"


class Cancellation(StrEnum):
    """How far a cancellation has come. It is never an undo."""

    NONE = "none"
    REQUESTED = "requested"
    CONFIRMED = "confirmed"
    TOO_LATE = "too_late"
    UNKNOWN = "unknown"


class Event(StrEnum):
    """What can happen to an operation."""

    PREPARE = "prepare"
    """Preparation was asked for."""
    PREPARED = "prepared"
    """The proposal is persisted; nothing more is asked yet."""
    ASK = "ask"
    """The proposal waits for a decision."""
    QUEUE = "queue"
    """Everything is in order; dispatch when resources allow."""
    APPROVE = "approve"
    DECLINE = "decline"
    REVISE = "revise"
    EXPIRE = "expire"
    """A decision or the deadline ran out before anything was dispatched."""
    SUPERSEDE = "supersede"
    CANCEL_LOCALLY = "cancel_locally"
    GRANT = "grant"
    """Locks, guards and journal are in place: the adapter is about to be called."""
    REPORT_RUNNING = "report_running"
    REPORT_COMPLETED = "report_completed"
    REPORT_FAILED = "report_failed"
    """Certainly not applied."""
    LOSE = "lose"
    """Dispatched, and nobody can tell what came of it; or observation was exhausted."""
    RECOVER_PREPARED = "recover_prepared"
    """Observation recovered the result of an effectful preparation."""
    PROVE_ABSENT = "prove_absent"
    """Authoritative: not applied, and can no longer be."""
    REPLAY = "replay"
    """Proved absent, and the route's replay guarantee still holds: eligible again."""
    CONFIRM_CANCELLED = "confirm_cancelled"
    ATTEST_APPLIED = "attest_applied"
    ATTEST_NOT_APPLIED = "attest_not_applied"
    ATTEST_STOPPED = "attest_stopped"
    DOUBT = "doubt"
    """Repair: the store is older than what was dispatched; what it says of this operation is not believed."""


@dataclass(frozen=True)
class Transition:
    """One event: the states it may be applied in, and the state it leads to."""

    event: Event
    sources: frozenset[State]
    destination: State


OPEN = frozenset(
    {
        State.HELD,
        State.PREPARING,
        State.PREPARED,
        State.AWAITING_DECISION,
        State.REVISION_REQUESTED,
        State.QUEUED,
        State.DISPATCHING,
        State.RUNNING,
        State.UNKNOWN,
    }
)
CLOSED = frozenset(State) - OPEN

UNDISPATCHED = frozenset(
    {
        State.HELD,
        State.PREPARING,
        State.PREPARED,
        State.AWAITING_DECISION,
        State.REVISION_REQUESTED,
        State.QUEUED,
    }
)
"""States in which the final action was certainly not dispatched by the current proposal."""

ISSUED = frozenset({State.DISPATCHING, State.RUNNING, State.UNKNOWN})
"""States in which an effect may be under way: locks are held and observation goes on."""


def _transition(event: Event, sources: set[State] | frozenset[State], destination: State) -> Transition:
    return Transition(event, frozenset(sources), destination)


TRANSITIONS: tuple[Transition, ...] = (
    _transition(Event.PREPARE, {State.HELD}, State.PREPARING),
    _transition(Event.PREPARED, {State.PREPARING}, State.PREPARED),
    _transition(Event.ASK, {State.HELD, State.PREPARING, State.PREPARED}, State.AWAITING_DECISION),
    _transition(Event.QUEUE, {State.HELD, State.PREPARING, State.PREPARED}, State.QUEUED),
    _transition(Event.APPROVE, {State.AWAITING_DECISION}, State.QUEUED),
    _transition(Event.DECLINE, {State.AWAITING_DECISION}, State.DECLINED),
    _transition(Event.REVISE, {State.AWAITING_DECISION}, State.REVISION_REQUESTED),
    _transition(Event.EXPIRE, UNDISPATCHED, State.EXPIRED),
    _transition(Event.SUPERSEDE, UNDISPATCHED, State.SUPERSEDED),
    _transition(Event.CANCEL_LOCALLY, UNDISPATCHED, State.CANCELLED),
    _transition(Event.GRANT, {State.QUEUED}, State.DISPATCHING),
    _transition(Event.REPORT_RUNNING, {State.DISPATCHING, State.RUNNING, State.UNKNOWN}, State.RUNNING),
    _transition(Event.REPORT_COMPLETED, ISSUED, State.COMPLETED),
    _transition(Event.REPORT_FAILED, ISSUED | {State.PREPARING, State.QUEUED}, State.FAILED),
    _transition(Event.LOSE, ISSUED | {State.PREPARING}, State.UNKNOWN),
    _transition(Event.RECOVER_PREPARED, {State.RUNNING, State.UNKNOWN}, State.PREPARED),
    _transition(Event.PROVE_ABSENT, {State.RUNNING, State.UNKNOWN}, State.NOT_APPLIED),
    _transition(Event.REPLAY, {State.RUNNING, State.UNKNOWN}, State.QUEUED),
    _transition(Event.CONFIRM_CANCELLED, {State.RUNNING, State.UNKNOWN}, State.CANCELLED),
    _transition(Event.ATTEST_APPLIED, {State.UNKNOWN}, State.COMPLETED),
    _transition(Event.ATTEST_NOT_APPLIED, {State.UNKNOWN}, State.NOT_APPLIED),
    _transition(Event.ATTEST_STOPPED, {State.UNKNOWN}, State.STOPPED),
    _transition(Event.DOUBT, OPEN, State.UNKNOWN),
)

_BY_EVENT = {transition.event: transition for transition in TRANSITIONS}


def is_settled(state: State, verification: Verification) -> bool:
    """Whether nothing more happens by itself: closed, and where completed, not awaiting verification."""
    return state in CLOSED and not (state is State.COMPLETED and verification is Verification.PENDING)


def possible(state: State, event: Event) -> bool:
    """Whether `event` may be applied in `state`."""
    return state in _BY_EVENT[event].sources


def apply(state: State, event: Event, *, subject: str = "") -> State:
    """The state `event` leads to from `state`; refuses with `NOT_POSSIBLE` where the table has no such row."""
    if not possible(state, event):
        raise Refusal(
            ErrorCode.NOT_POSSIBLE,
            f"'{event}' is not possible while the operation is '{state}'",
            subject=subject,
            remedy="read the operation's present state and decide again",
        )
    return _BY_EVENT[event].destination
