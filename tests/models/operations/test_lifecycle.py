"""Every event in every state, against a table written by hand; and the next step of every row there can be."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfoil.models.errors import ErrorCode, Refusal
from counterfoil.models.operations.lifecycle import (
    CLOSED,
    OPEN,
    TRANSITIONS,
    Cancellation,
    Event,
    State,
    Verification,
    apply,
    possible,
)
from counterfoil.models.operations.view import Blocked, OperationView, Step, StepKind, next_step, seconds_between

TABLE = """
                  held               preparing          prepared           awaiting_decision  revision_requested queued             dispatching        running            unknown
prepare           preparing          -                  -                  -                  -                  -                  -                  -                  -
prepared          -                  prepared           -                  -                  -                  -                  -                  -                  -
ask               awaiting_decision  awaiting_decision  awaiting_decision  -                  -                  -                  -                  -                  -
queue             queued             queued             queued             -                  -                  -                  -                  -                  -
approve           -                  -                  -                  queued             -                  -                  -                  -                  -
decline           -                  -                  -                  declined           -                  -                  -                  -                  -
revise            -                  -                  -                  revision_requested -                  -                  -                  -                  -
expire            expired            expired            expired            expired            expired            expired            -                  -                  -
supersede         superseded         superseded         superseded         superseded         superseded         superseded         -                  -                  -
cancel_locally    cancelled          cancelled          cancelled          cancelled          cancelled          cancelled          -                  -                  -
grant             -                  -                  -                  -                  -                  dispatching        -                  -                  -
report_running    -                  -                  -                  -                  -                  -                  running            running            running
report_completed  -                  -                  -                  -                  -                  -                  completed          completed          completed
report_failed     -                  failed             -                  -                  -                  failed             failed             failed             failed
lose              -                  unknown            -                  -                  -                  -                  unknown            unknown            unknown
recover_prepared  -                  -                  -                  -                  -                  -                  -                  prepared           prepared
prove_absent      -                  -                  -                  -                  -                  -                  -                  not_applied        not_applied
replay            -                  -                  -                  -                  -                  -                  -                  queued             queued
confirm_cancelled -                  -                  -                  -                  -                  -                  -                  cancelled          cancelled
attest_applied    -                  -                  -                  -                  -                  -                  -                  -                  completed
attest_not_applied -                 -                  -                  -                  -                  -                  -                  -                  not_applied
attest_stopped    -                  -                  -                  -                  -                  -                  -                  -                  stopped
doubt             unknown            unknown            unknown            unknown            unknown            unknown            unknown            unknown            unknown
"""  # noqa: E501
"""Events by open states: where each leads, or `-` where it is refused. Nothing at all is possible in a closed state."""

CLOSED_STATES = ["completed", "failed", "not_applied", "stopped", "cancelled", "declined", "expired", "superseded"]


def cases() -> list[tuple[str, str, str]]:
    head, *lines = TABLE.strip("\n").splitlines()
    open_states = head.split()
    found = []
    for line in lines:
        event, *destinations = line.split()
        assert len(destinations) == len(open_states) == 9
        found += [(state, event, to) for state, to in zip(open_states, destinations, strict=True)]
        found += [(state, event, "-") for state in CLOSED_STATES]
    return found


def test_the_table_names_every_state_and_every_event_once() -> None:
    pairs = {(state, event) for state, event, _ in cases()}

    assert len(pairs) == len(cases()) == 17 * 23
    assert {state for state, _ in pairs} == set(State)
    assert {event for _, event in pairs} == set(Event)
    assert [transition.event for transition in TRANSITIONS] == list(dict.fromkeys(t.event for t in TRANSITIONS))


@pytest.mark.parametrize(("state", "event", "destination"), cases())
def test_an_event_leads_where_the_table_says_or_is_refused(state: str, event: str, destination: str) -> None:
    if destination != "-":
        assert apply(State(state), Event(event)) == destination
        assert possible(State(state), Event(event))
        return
    with pytest.raises(Refusal) as caught:
        apply(State(state), Event(event), subject="op-1")
    assert not possible(State(state), Event(event))
    assert (caught.value.code, caught.value.subject) == (ErrorCode.NOT_POSSIBLE, "op-1")
    assert state in caught.value.detail
    assert event in caught.value.detail


def test_nine_states_are_open_and_eight_are_closed() -> None:
    assert sorted(CLOSED) == sorted(CLOSED_STATES)
    assert len(OPEN) == 9
    assert set(State) == OPEN | CLOSED


NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
INSTANTS = st.none() | st.sampled_from([NOW - timedelta(seconds=1), NOW, NOW + timedelta(seconds=1)])


def view(state: str = "queued", **changes: Any) -> OperationView:
    values: dict[str, Any] = {
        "operation_id": "op-1",
        "session": "s",
        "version": 1,
        "revision": 1,
        "state": state,
        "verification": "unavailable",
        "cancellation": "none",
        "task_queue": "q",
        "call_timeout_seconds": 30,
        "heartbeat_seconds": 10,
    }
    return OperationView(**(values | changes))


BLOCKS = st.none() | st.sampled_from(list(ErrorCode)).map(lambda code: Blocked(code=code, detail="because"))
VIEWS = st.builds(
    view,
    state=st.sampled_from(list(State)),
    verification=st.sampled_from(list(Verification)),
    cancellation=st.sampled_from(list(Cancellation)),
    attempt_open=st.booleans(),
    reverify=st.booleans(),
    prepares_with_effect=st.booleans(),
    can_observe=st.booleans(),
    can_cancel=st.booleans(),
    cancel_sent=st.booleans(),
    observation_exhausted=st.booleans(),
    decision_expires_at=INSTANTS,
    deadline=INSTANTS,
    blocked=BLOCKS,
)
CLOSED_NAMES = set(CLOSED_STATES)


@settings(max_examples=1500, deadline=None)
@given(VIEWS)
def test_every_row_has_a_next_step_and_it_is_one_its_state_can_take(row: OperationView) -> None:
    kind = next_step(row, NOW).kind.value
    state = row.state.value
    passed = any(
        limit is not None and limit <= NOW
        for limit in (
            row.deadline,
            row.decision_expires_at if state in ("awaiting_decision", "revision_requested") else None,
        )
    )
    undispatched = state in ("held", "preparing", "prepared", "awaiting_decision", "revision_requested", "queued")

    if kind == "done":
        assert state in CLOSED_NAMES
    if state in CLOSED_NAMES:
        wants_proof = state == "completed" and (row.verification == "pending" or row.reverify)
        assert kind == ("verify" if wants_proof else "done")
    if kind == "dispatch":
        assert state == "queued"
        assert row.blocked is None
    if kind == "await_readiness":
        assert state == "queued"
        assert row.blocked is not None
    if kind == "prepare":
        assert state == "preparing"
        assert not row.attempt_open
        assert row.blocked is None
    if kind == "fence":
        assert state == "dispatching" or (state == "preparing" and row.attempt_open)
    if kind == "observe":
        assert state in ("running", "unknown")
        assert row.can_observe
        assert not row.observation_exhausted
    if kind == "cancel_at_target":
        assert state == "running"
        assert row.can_cancel
        assert not row.cancel_sent
        assert row.cancellation == "requested"
    if kind == "expire":
        assert undispatched
        assert passed
        assert not row.attempt_open, "an open attempt cannot expire: the step would be asked for again and again"
    if undispatched and passed and not row.attempt_open:
        assert kind == "expire"


@settings(max_examples=500, deadline=None)
@given(VIEWS)
def test_whoever_waits_before_dispatch_waits_no_longer_than_the_nearest_limit(row: OperationView) -> None:
    step = next_step(row, NOW)

    if step.kind in (StepKind.WAIT, StepKind.AWAIT_READINESS) and step.until is not None:
        assert step.until > NOW or row.attempt_open
        assert step.until in (row.deadline, row.decision_expires_at)
    if step.kind is StepKind.WAIT and row.state in (State.RUNNING, State.UNKNOWN):
        assert step.until is None


LATER, LATEST = NOW + timedelta(hours=1), NOW + timedelta(hours=2)
LOCKED = Blocked(code=ErrorCode.LOCKED, detail="held by another")
NOT_READY = Blocked(code=ErrorCode.NOT_READY, detail="starting")


@pytest.mark.parametrize(
    ("row", "step"),
    [
        (view("held"), Step(kind="wait")),
        (view("held", deadline=LATER), Step(kind="wait", until=LATER)),
        (view("held", deadline=NOW), Step(kind="expire")),
        (view("preparing"), Step(kind="prepare")),
        (view("preparing", attempt_open=True), Step(kind="fence")),
        (view("preparing", attempt_open=True, deadline=NOW), Step(kind="fence")),
        (view("preparing", blocked=LOCKED, deadline=LATER), Step(kind="wait", until=LATER)),
        (view("prepared", decision_expires_at=NOW), Step(kind="wait")),
        (view("awaiting_decision"), Step(kind="wait")),
        (view("awaiting_decision", decision_expires_at=LATER, deadline=LATEST), Step(kind="wait", until=LATER)),
        (view("awaiting_decision", decision_expires_at=LATEST, deadline=LATER), Step(kind="wait", until=LATER)),
        (view("awaiting_decision", decision_expires_at=NOW, deadline=LATER), Step(kind="expire")),
        (view("revision_requested", decision_expires_at=NOW), Step(kind="expire")),
        (view("queued"), Step(kind="dispatch")),
        (view("queued", decision_expires_at=NOW), Step(kind="dispatch")),
        (view("queued", deadline=NOW), Step(kind="expire")),
        (view("queued", blocked=LOCKED, deadline=LATER), Step(kind="wait", until=LATER)),
        (view("queued", blocked=NOT_READY, deadline=LATER), Step(kind="await_readiness", until=LATER)),
        (view("dispatching", deadline=NOW), Step(kind="fence")),
        (view("running", can_observe=True, deadline=NOW), Step(kind="observe")),
        (view("running", can_observe=True, can_cancel=True, cancellation="requested"), Step(kind="cancel_at_target")),
        (view("running", can_observe=True, can_cancel=True, cancellation="requested", cancel_sent=True),
         Step(kind="observe")),
        (view("running", can_observe=True, cancellation="requested"), Step(kind="observe")),
        (view("unknown", can_observe=True, can_cancel=True, cancellation="requested"), Step(kind="observe")),
        (view("unknown", can_observe=True, observation_exhausted=True, deadline=NOW), Step(kind="wait")),
        (view("unknown"), Step(kind="wait")),
        (view("completed", verification="pending"), Step(kind="verify")),
        (view("completed", verification="verified"), Step(kind="done")),
        (view("completed", verification="verified", reverify=True), Step(kind="verify")),
        (view("failed", verification="pending"), Step(kind="done")),
        (view("expired", deadline=NOW), Step(kind="done")),
    ],
)  # fmt: skip
def test_the_next_step_of_a_row_is_the_one_its_state_asks_for(row: OperationView, step: Step) -> None:
    assert next_step(row, NOW) == step


def test_waiting_is_never_negative() -> None:
    assert seconds_between(LATER, NOW) == timedelta(0)
    assert seconds_between(NOW, LATER) == timedelta(hours=1)


@pytest.mark.parametrize("code", sorted(ErrorCode))
def test_a_queued_operation_asks_again_by_itself_unless_somebody_else_will_wake_it(code: ErrorCode) -> None:
    woken = {"LOCKED", "DEPENDENCY_PENDING", "DEPENDENCY_UNKNOWN", "OWNER_PAUSED"}

    step = next_step(view("queued", blocked=Blocked(code=code, detail="")), NOW)

    assert step.kind == ("wait" if code in woken else "await_readiness")
