"""The request: its identity, its bounds, and what it refuses."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from counterfoil.models.errors import ErrorCode, Refusal
from counterfoil.models.operations import rules
from counterfoil.models.operations.contract import (
    OperationRequest,
    Resource,
    operation_id,
    resource_digest,
    workspace_digest,
)
from counterfoil.models.operations.lifecycle import CLOSED, OPEN, State, Verification
from counterfoil.models.operations.outcomes import BoundVersion, Evidence, Prepared, Preview
from counterfoil.models.operations.route import PreparationSupport, ReplayGuarantee, Route
from support.scripted import request, scripted_route

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("session", "key", "expected"),
    [
        ("s", "k1", "op-hbknauwtasf7uegki7nqn3nzmrzuz7mh"),
        ("session-7", "create invoice 12", "op-5nek65duqllugnarncf2cuhexfmihadt"),
    ],
)
def test_an_operation_id_is_the_hash_of_its_claim(session: str, key: str, expected: str) -> None:
    assert operation_id(session, key) == expected


def test_session_and_key_cannot_be_pushed_into_one_another() -> None:
    assert operation_id("ab", "c") != operation_id("a", "bc")


def test_a_request_has_the_id_of_its_claim_whatever_else_it_says() -> None:
    assert request("k1").operation_id == "op-hbknauwtasf7uegki7nqn3nzmrzuz7mh"
    assert request("k1", objective="something else").operation_id == request("k1").operation_id


def resource(**changes: Any) -> Resource:
    return Resource.model_validate({"kind": "file", "system": "files", "identity": "a.txt"} | changes)


def test_a_resource_is_what_its_system_calls_it_whatever_kind_or_version_it_was_named_with() -> None:
    plain = "sha256:713b6fabbb4d315d163a81e2e3597f5fb97a71af0b0f0e291f51fcbcc663e54e"

    assert resource_digest(resource()) == plain
    assert resource_digest(resource(kind="query", version="7")) == plain
    assert (
        resource_digest(resource(account_id="acc", tenant_id="ten"))
        == "sha256:89b20a83bdb87e81a234dd39ce613ccbaf3deeae187a68491ce77cdc103600f5"
    )
    assert workspace_digest("w") == "sha256:e179e92d0078e02a0318db0d7b59bf52ad7ee2c49c951b3d568ba90bdddc730c"


CHANGES: list[dict[str, Any]] = [
    {"objective": "other"},
    {"input": {"value": 3}},
    {"input": {"value": 2.0}},
    {"input": {"value": "2"}},
    {"route_id": "other.v1"},
    {"capability": "record.delete"},
    {"plan_revision": 1},
    {"on_create": "prepare"},
    {"owner": {"workspace": "other", "session": "s"}},
    {"owner": {"workspace": "w", "session": "s", "turn": "t"}},
    {"resources": []},
    {"decision": {"reason": "r", "question": "q"}},
    {"constraints": {"max_attempts": 2}},
    {"constraints": {"deadline": "2030-01-01T00:00:00Z"}},
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_request_that_differs_anywhere_is_another_request(change: dict[str, Any]) -> None:
    assert request(**change).digest != request().digest


def test_a_request_that_spells_out_its_defaults_is_the_same_request() -> None:
    spelled = request(constraints={"max_attempts": 1, "deadline": None}, depends_on=[], on_create="execute")

    assert spelled.digest == request().digest


@pytest.mark.parametrize(
    "change",
    [
        {"surprise": 1},
        {"schema_version": 2},
        {"idempotency_key": ""},
        {"idempotency_key": "x" * 201},
        {"idempotency_key": "a\x00b"},
        {"owner": {"workspace": "w"}},
        {"owner": {"workspace": "w", "session": "s", "admin": True}},
        {"input": [1]},
        {"input": None},
        {"input": {"x": float("nan")}},
        {"input": {"x": [float("inf")]}},
        {"input": {"x": "\ud800"}},
        {"input": {"x": NOW}},
        {"resources": [{"kind": "file", "system": "f", "identity": "a"}] * 2},
        {
            "resources": [
                {"kind": "file", "system": "f", "identity": "a"},
                {"kind": "query", "system": "f", "identity": "a"},
            ]
        },
        {"resources": [{"kind": "file", "system": "f", "identity": str(n)} for n in range(33)]},
        {"resources": [{"kind": "printer", "system": "f", "identity": "a"}]},
        {"constraints": {"max_attempts": 0}},
        {"constraints": {"max_polls": -1}},
        {"constraints": {"deadline": "2030-01-01T00:00:00"}},
        {"constraints": {"deadline": "tomorrow"}},
        {"constraints": {"verification_max_age_seconds": 0}},
        {"decision": {"reason": "r", "question": "q", "expires_after_seconds": 0}},
        {"decision": {"reason": "r"}},
        {"on_create": "later"},
        {"plan_revision": -1},
    ],
)
def test_a_malformed_request_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        request(**change)


def test_an_input_nested_without_end_is_refused() -> None:
    nested: Any = []
    for _ in range(100_000):
        nested = [nested]

    with pytest.raises(ValidationError):
        request(input={"x": nested})


def test_a_request_survives_its_journey_as_json() -> None:
    sent = request(
        input={"n": 2**70, "f": 1.0, "s": "é\x00\u2028", "deep": {"a": [None, True]}},
        constraints={"deadline": "2030-01-01T00:00:00+02:00", "max_cost": {"amount": "1.50", "currency": "EUR"}},
    )

    assert OperationRequest.model_validate_json(sent.model_dump_json()).digest == sent.digest


def test_a_request_repeated_in_a_later_epoch_is_the_same_request() -> None:
    assert request(owner={"workspace": "w", "session": "s", "epoch": 3}).digest == request().digest


def priced(amount: str | None, currency: str = "EUR", **changes: Any) -> Route:
    estimate = None if amount is None else {"amount": amount, "currency": currency}
    return scripted_route(cost_estimate=estimate, **changes)


@pytest.mark.parametrize(
    ("route", "code"),
    [
        (priced(None), ErrorCode.COST_UNKNOWN),
        (priced("1", "USD"), ErrorCode.CURRENCY_MISMATCH),
        (priced("2.51"), ErrorCode.LIMIT_REACHED),
        (priced("1", preparation=PreparationSupport.EFFECTFUL), ErrorCode.COST_UNBOUNDED),
    ],
)
def test_a_cost_limit_that_nobody_can_keep_is_refused(route: Route, code: ErrorCode) -> None:
    limited = request(constraints={"max_cost": {"amount": "2.50", "currency": "EUR"}})

    with pytest.raises(Refusal) as caught:
        rules.refuse_unaffordable(limited, route)

    assert caught.value.code == code
    rules.refuse_unaffordable(request(), route)


@pytest.mark.parametrize(
    ("estimate", "attempts", "affordable"),
    [("2.50", 0, True), ("2.50", 1, False), ("0.1", 24, True), ("0.1", 25, False), ("0", 99, True)],
)
def test_estimates_add_up_over_attempts_to_the_cent(estimate: str, attempts: int, affordable: bool) -> None:
    limited = request(constraints={"max_cost": {"amount": "2.50", "currency": "EUR"}})

    assert rules.affords(limited, priced(estimate), attempts=attempts) is affordable


VERIFIABLE, UNVERIFIABLE = scripted_route(), scripted_route(verification=False)
STANDINGS = (
    {(state, verification): "pending" for state in OPEN for verification in Verification}
    | {(state, verification): "failed" for state in CLOSED for verification in Verification}
    | {(State.UNKNOWN, verification): "unknown" for verification in Verification}
    | {(State.COMPLETED, Verification.PENDING): "pending", (State.COMPLETED, Verification.VERIFIED): "met"}
)


@pytest.mark.parametrize(("state", "verification"), sorted(STANDINGS))
def test_a_dependency_is_met_only_by_what_is_completed_and_verified(state: State, verification: Verification) -> None:
    assert rules.standing(state, verification, VERIFIABLE) == STANDINGS[state, verification]


def test_a_dependency_on_a_route_that_cannot_verify_can_never_be_met() -> None:
    assert rules.standing(State.QUEUED, Verification.UNAVAILABLE, UNVERIFIABLE) == "failed"


def test_an_input_of_one_megabyte_is_taken_and_one_byte_more_is_not() -> None:
    frame = len('{"x":""}')

    assert rules.refuse_oversized(request(input={"x": "a" * (1024 * 1024 - frame)})) == 1024 * 1024
    with pytest.raises(Refusal) as caught:
        rules.refuse_oversized(request(input={"x": "a" * (1024 * 1024 - frame + 1)}))
    assert caught.value.code == ErrorCode.INPUT_TOO_LARGE


def test_the_size_of_an_input_is_counted_in_bytes_not_characters() -> None:
    with pytest.raises(Refusal):
        rules.refuse_oversized(request(input={"x": "é" * (600 * 1024)}))


@pytest.mark.parametrize(("seconds", "refused"), [(-1, True), (0, True), (1, False)])
def test_a_deadline_must_lie_ahead(seconds: float, refused: bool) -> None:
    asked = request(constraints={"deadline": (NOW + timedelta(seconds=seconds)).isoformat()})
    if not refused:
        rules.refuse_past_deadline(asked, NOW)
        return
    with pytest.raises(Refusal) as caught:
        rules.refuse_past_deadline(asked, NOW)
    assert caught.value.code == ErrorCode.DEADLINE_PASSED


def test_work_that_must_run_in_the_background_needs_a_route_that_can() -> None:
    asked = request(constraints={"background_required": True})

    rules.refuse_foreground_route(asked, scripted_route())
    rules.refuse_foreground_route(request(), scripted_route(background=False))
    with pytest.raises(Refusal) as caught:
        rules.refuse_foreground_route(asked, scripted_route(background=False))
    assert caught.value.code == ErrorCode.NOT_POSSIBLE


@pytest.mark.parametrize(
    ("guarantee", "age_seconds", "safe"),
    [
        (ReplayGuarantee(), 0, False),
        (ReplayGuarantee(kind="conditional"), 10**6, True),
        (ReplayGuarantee(kind="by_key"), 0, False),
        (ReplayGuarantee(kind="by_key", retention_seconds=60), 59.999, True),
        (ReplayGuarantee(kind="by_key", retention_seconds=60), 60, False),
        (ReplayGuarantee(kind="by_key", retention_seconds=60), None, False),
    ],
)
def test_a_replay_is_safe_only_while_the_target_remembers_the_key(
    guarantee: ReplayGuarantee, age_seconds: float | None, safe: bool
) -> None:
    first = None if age_seconds is None else NOW - timedelta(seconds=age_seconds)

    assert rules.replay_is_safe(scripted_route(replay=guarantee), first, NOW) is safe


@pytest.mark.parametrize(
    ("observed", "dispatched", "max_age", "fresh"),
    [
        (0, 0, None, True),
        (0, 1, None, False),
        (0, None, None, True),
        (5, 0, None, True),
        (5.1, 0, None, False),
        (-60, -100, 60, True),
        (-60.1, -100, 60, False),
    ],
)
def test_evidence_counts_when_it_was_read_after_the_dispatch_not_in_the_future_and_recently(
    observed: float, dispatched: float | None, max_age: float | None, fresh: bool
) -> None:
    evidence = Evidence(source="target", observed_at=NOW + timedelta(seconds=observed))
    at = None if dispatched is None else NOW + timedelta(seconds=dispatched)

    assert rules.evidence_is_fresh(evidence, at, NOW, max_age) is fresh


def proposal(
    *, asked: OperationRequest | None = None, route: Route | None = None, prepared: Prepared | None = None
) -> str:
    asked = asked or request()
    return rules.proposal_digest(
        request_digest=asked.digest, route=route or scripted_route(), request=asked, prepared=prepared
    )


def material(**changes: Any) -> Prepared:
    bound = BoundVersion(resource=resource(), version="v1")
    return Prepared(**({"summary": "sets 2", "versions": (bound,), "data": {"cell": "A1"}} | changes))


@pytest.mark.parametrize(
    "other",
    [
        {"prepared": material(versions=(BoundVersion(resource=resource(), version="v2"),))},
        {"prepared": material(versions=())},
        {"prepared": material(data={"cell": "A2"})},
        {"prepared": material(summary="sets 3")},
        {"prepared": material(preview=Preview(columns=("Cell",), rows=(("A1",),)))},
        {"prepared": None},
        {"prepared": material(), "asked": request(plan_revision=1)},
        {"prepared": material(), "asked": request(input={"value": 3})},
        {"prepared": material(), "route": scripted_route(adapter_version="2")},
        {"prepared": material(), "route": scripted_route(environment="elsewhere")},
    ],
)
def test_whatever_changes_in_a_proposal_makes_it_another_one(other: dict[str, Any]) -> None:
    assert proposal(**other) != proposal(prepared=material())


def test_two_spellings_of_one_resource_are_refused_once_normalised() -> None:
    asked = request(
        resources=[
            {"kind": "file", "system": "files", "identity": "a.txt"},
            {"kind": "file", "system": "files", "identity": "./a.txt"},
        ]
    )

    with pytest.raises(Refusal) as caught:
        rules.refuse_repeated_resources(asked, (resource(), resource()))
    assert caught.value.code == ErrorCode.BAD_REQUEST
    assert "'a.txt' and './a.txt'" in caught.value.detail
    rules.refuse_repeated_resources(asked, (resource(), resource(identity="b.txt")))
