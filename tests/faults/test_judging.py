"""The judge of the fault harness condemns what it must: each hand-made dishonesty, and nothing that is honest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from counterfoil.models.operations.lifecycle import State, Verification
from counterfoil.worker.faults.judge import Claim, judge
from counterfoil.worker.faults.target import Effect

HONEST = Claim(
    operation_id="op-a",
    state=State.COMPLETED,
    verification=Verification.VERIFIED,
    settled=True,
    awaits_person=False,
    holds_resources=False,
    wanted={"value": 2},
)
MADE = Effect("op-a", {"value": 2})


def findings(claim: Claim | None, *effects: Effect) -> dict[str, list[str]]:
    """What is found wrong where `op-a` was acknowledged."""
    verdict = judge(["op-a"], {} if claim is None else {claim.operation_id: claim}, effects)
    return {name: found for name, found in vars(verdict).items() if found}


def test_an_effect_that_was_made_once_and_verified_is_honest() -> None:
    assert findings(HONEST, MADE) == {}


@pytest.mark.parametrize("state", ["failed", "not_applied", "cancelled", "declined", "expired", "superseded"])
def test_a_claim_that_nothing_happened_is_honest_only_where_nothing_happened(state: str) -> None:
    claim = replace(HONEST, state=State(state), verification=Verification.UNAVAILABLE)

    assert findings(claim) == {}
    assert findings(claim, MADE) == {"dishonest": [f"op-a is '{state}', 'unavailable', and the log has its effect"]}


def test_two_effects_of_one_operation_are_a_double() -> None:
    assert findings(HONEST, MADE, MADE) == {"doubles": ["op-a has 2 effects"]}


def test_an_acknowledged_operation_that_the_store_does_not_know_is_lost() -> None:
    assert findings(None) == {"lost": ["op-a was acknowledged, and the store does not know it"]}


def test_an_effect_of_an_operation_that_the_store_does_not_know_is_lost() -> None:
    assert findings(HONEST, MADE, Effect("op-b", None)) == {
        "lost": ["op-b has an effect, and the store does not know it"]
    }


def test_a_completed_operation_without_an_effect_is_lost() -> None:
    assert findings(HONEST) == {"lost": ["op-a is 'completed', 'verified', and the log has no effect of it"]}


def test_a_verified_operation_whose_target_holds_something_else_is_dishonest() -> None:
    assert findings(HONEST, Effect("op-a", {"value": 3})) == {
        "dishonest": ["op-a is 'completed', 'verified', and the target was left with {'value': 3}"]
    }


def test_a_partial_one_whose_target_holds_something_else_is_honest() -> None:
    assert findings(replace(HONEST, verification=Verification.PARTIAL), Effect("op-a", {"value": None})) == {}


def test_an_unknown_effect_waits_for_a_person_with_its_resources_or_is_dishonest() -> None:
    held = replace(
        HONEST,
        state=State.UNKNOWN,
        verification=Verification.PENDING,
        settled=False,
        awaits_person=True,
        holds_resources=True,
    )

    assert findings(held) == findings(held, MADE) == {}
    assert findings(replace(held, holds_resources=False)) == {
        "dishonest": ["op-a is 'unknown', 'pending', and does not hold its resources"]
    }


def test_an_operation_that_nobody_moves_is_stuck() -> None:
    queued = replace(HONEST, state=State.QUEUED, verification=Verification.PENDING, settled=False)

    assert findings(queued) == {"stuck": ["op-a is 'queued', 'pending', and nothing moves it"]}


def test_a_settled_operation_that_holds_resources_is_stuck() -> None:
    assert findings(replace(HONEST, holds_resources=True), MADE) == {
        "stuck": ["op-a is 'completed', 'verified', and still holds its resources"]
    }
