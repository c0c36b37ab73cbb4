"""What a terminal shows of operations that a real stack brings about only by accident."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from counterfoil.models.common import SYSTEM
from counterfoil.models.deliveries.contract import Delivery
from counterfoil.models.operations.lifecycle import Cancellation, State, Verification
from counterfoil.models.operations.record import LedgerEntry, Operation
from counterfoil.worker.output import Output
from counterfoil.worker.presentation import listed, shown
from support.scripted import request, scripted_route

AT = datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC)


def operation(**changes: Any) -> Operation:
    asked = changes.pop("request", request())
    values: dict[str, Any] = {
        "operation_id": asked.operation_id,
        "workspace": "w",
        "session": "s",
        "capability": asked.capability,
        "route_id": asked.route_id,
        "objective": asked.objective,
        "state": State.UNKNOWN,
        "verification": Verification.PENDING,
        "cancellation": Cancellation.NONE,
        "revision": 7,
        "created_at": AT,
        "updated_at": AT,
        "request": asked,
        "request_digest": asked.digest,
        "route": scripted_route(),
        "resources": asked.resources,
    }
    return Operation(**(values | changes))


def told(found: Operation, capsys: pytest.CaptureFixture[str]) -> str:
    Output().show(*shown(found))
    return capsys.readouterr().out


def test_every_late_reply_of_an_unknown_effect_is_shown(capsys: pytest.CaptureFixture[str]):
    late = [
        LedgerEntry(
            version=version,
            kind="late_reply",
            summary=summary,
            actor=SYSTEM,
            material=False,
            at=AT,
            data={"status": "completed", "order": version},
        )
        for version, summary in ((8, "the target says it is done"), (9, "the target says so again"))
    ]

    said = told(operation(late_replies=late, observation_exhausted=True), capsys)

    assert "the target says it is done" in said
    assert "the target says so again" in said
    assert '{"status": "completed", "order": 9}' in said


def test_an_unknown_effect_that_is_being_observed_asks_nobody(capsys: pytest.CaptureFixture[str]):
    said = told(operation(polls=3), capsys)

    assert "It is being observed on its original route (3 polls so far)." in said
    assert "operation resolve" not in said


def test_a_large_input_is_said_to_be_elsewhere_instead_of_shown_as_empty(capsys: pytest.CaptureFixture[str]):
    whole = request(input={"text": "x" * 9000})
    kept = whole.model_copy(update={"input": {}})

    said = told(operation(request=kept, request_digest=whole.digest), capsys)

    assert "it is in the blob store" in said


def test_a_decision_that_nobody_authenticated_is_marked(capsys: pytest.CaptureFixture[str]):
    decision = {
        "verdict": "approve",
        "proposal_digest": "sha256:" + "0" * 64,
        "actor": {"principal": "unauthenticated"},
        "at": AT,
    }

    said = told(operation(state=State.COMPLETED, verification=Verification.VERIFIED, decision=decision), capsys)

    assert "approve by unauthenticated (unauthenticated)" in said


def test_what_an_operation_holds_waits_for_costs_and_replaces_is_shown(capsys: pytest.CaptureFixture[str]):
    found = operation(
        state=State.QUEUED,
        request=request(
            supersedes="op-old", constraints={"max_cost": {"amount": "2.50", "currency": "EUR"}}, depends_on=["op-a"]
        ),
        claims=[
            {"name": "scripted:a", "exclusive": True, "held": False, "since": AT, "overtakable": True},
            {"name": "workspace:w", "exclusive": False, "held": True, "since": AT},
        ],
        dependencies=[
            {"named": "op-a", "operation_id": "op-b", "state": "completed", "verification": "verified"},
        ],
        superseded_by="op-new",
        estimated_cost={"amount": "1.10", "currency": "EUR"},
    )

    said = " ".join(told(found, capsys).split())

    assert "Waits for scripted:a, since" in said
    assert "it waits for an unknown effect, so others may pass it" in said
    assert "Holds workspace:w, shared, since" in said
    assert "Depends on op-b (in the place of op-a): completed, verification verified" in said
    assert "Supersedes op-old" in said
    assert "Superseded by op-new" in said
    assert "Estimated cost 1.10 EUR of 2.50 EUR" in said


def test_an_empty_list_says_so(capsys: pytest.CaptureFixture[str]):
    Output().show(listed([]))

    assert capsys.readouterr().out == "No operations.\n"


def test_a_callback_that_was_given_up_is_shown_with_what_failed_last_and_marked_in_the_list(
    capsys: pytest.CaptureFixture[str],
):
    lost = Delivery(
        id="op-1-7-00000000",
        type="operation.settled",
        state="given_up",
        tries=11,
        created_at=AT,
        settled_at=AT,
        status=500,
        problem="it was answered with 500",
    )
    found = operation(state=State.COMPLETED, deliveries=(lost,), callback_given_up=True)

    shown_whole = " ".join(told(found, capsys).split())
    Output().show(listed([found]))
    in_a_list = " ".join(capsys.readouterr().out.split())

    assert "operation.settled given up 11" in shown_whole
    assert "answered with 500" in shown_whole
    assert "completed (not" in in_a_list
    assert " told)" in in_a_list
