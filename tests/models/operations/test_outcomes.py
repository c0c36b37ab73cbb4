"""What adapters may say: told apart by their status, bounded, and readable by an older version."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from counterfoil.models.operations.outcomes import (
    CancelOutcome,
    Observation,
    Outcome,
    PreparationOutcome,
    Prepared,
    Preview,
    Running,
    VerificationOutcome,
)
from counterfoil.models.operations.route import Route
from support.scripted import scripted_route

EVIDENCE = {"source": "target", "observed_at": "2026-07-01T12:00:00Z"}
SAID: dict[str, dict[str, Any]] = {
    "running": {"external_id": "job-1"},
    "completed": {"result": {"kind": "k", "summary": "s"}},
    "failed": {"code": "C", "detail": "d"},
    "unknown": {"code": "C", "detail": "d"},
    "not_applied": {"detail": "d", "evidence": EVIDENCE},
    "cancelled": {"detail": "d", "evidence": EVIDENCE},
    "prepared": {"summary": "s"},
    "accepted": {},
    "too_late": {},
    "verified": {"evidence": EVIDENCE},
    "partial": {"evidence": EVIDENCE, "detail": "d"},
    "contradicted": {"evidence": EVIDENCE, "detail": "d"},
    "unavailable": {"detail": "d"},
}


@pytest.mark.parametrize(
    ("answers", "allowed"),
    [
        (Outcome, {"running", "completed", "failed", "unknown"}),
        (PreparationOutcome, {"prepared", "failed", "unknown"}),
        (Observation, {"running", "completed", "failed", "unknown", "not_applied", "cancelled", "prepared"}),
        (CancelOutcome, {"cancelled", "accepted", "too_late", "unknown"}),
        (VerificationOutcome, {"verified", "partial", "contradicted", "unavailable"}),
    ],
)
def test_every_question_has_its_own_answers(answers: Any, allowed: set[str]) -> None:
    """A dispatch can never answer `not_applied`: only a later look can prove that."""
    reader: TypeAdapter[Any] = TypeAdapter(answers)

    for status, fields in SAID.items():
        if status in allowed:
            assert reader.validate_python({"status": status} | fields).status == status
        else:
            with pytest.raises(ValidationError):
                reader.validate_python({"status": status} | fields)


@pytest.mark.parametrize("status", SAID)
def test_an_answer_of_a_newer_version_is_read_without_what_it_added(status: str) -> None:
    reader: TypeAdapter[Any] = TypeAdapter(Observation | CancelOutcome | VerificationOutcome)

    read = reader.validate_python({"status": status, "added_later": True} | SAID[status])

    assert not hasattr(read, "added_later")


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (Preview, {"columns": ()}),
        (Preview, {"columns": ("c",) * 9}),
        (Preview, {"columns": ("c",), "rows": (("x",),) * 41}),
        (Preview, {"columns": ("c",), "omitted_rows": -1}),
        (Prepared, {"summary": "s" * 4001}),
        (Running, {"external_id": ""}),
        (Running, {"external_id": "x" * 201}),
        (Running, {"external_id": "a\nb"}),
        (Running, {"external_id": "job", "poll_after_seconds": -1}),
    ],
)
def test_an_answer_has_bounds(kind: Any, values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        kind(**values)


def test_evidence_says_when_in_which_zone_it_was_read() -> None:
    with pytest.raises(ValidationError, match="timezone"):
        TypeAdapter(VerificationOutcome).validate_python(
            {"status": "verified", "evidence": EVIDENCE | {"observed_at": "2026-07-01T12:00:00"}}
        )


@pytest.mark.parametrize("seconds", [0.5, 121, -1])
def test_an_adapter_call_lasts_between_one_second_and_two_minutes(seconds: float) -> None:
    with pytest.raises(ValidationError):
        scripted_route(call_timeout_seconds=seconds)


def test_a_route_pinned_by_a_newer_version_can_still_be_read() -> None:
    pinned = scripted_route().model_dump(mode="json") | {"streams": True}

    assert Route.model_validate(pinned) == scripted_route()
