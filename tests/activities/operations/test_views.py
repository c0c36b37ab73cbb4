"""What a person reads in the Temporal UI: always how to answer, never another's markup."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from counterfoil.activities.operations.views import details_of, plain
from counterfoil.models.operations.contract import DecisionRequest, OperationRequest, Owner
from counterfoil.models.operations.outcomes import Prepared, Preview
from counterfoil.models.operations.route import Route
from counterfoil.models.tables import OperationRow

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DIGEST = "sha256:" + "7" * 64
CALENDAR = Route(
    id="calendar.v1",
    adapter="calendar",
    adapter_version="1",
    capabilities=("event.add",),
    protocol="memory",
    control="script",
)


def awaiting(decision: DecisionRequest, preview: Preview) -> OperationRow:
    request = OperationRequest(
        owner=Owner(workspace="w", session="s"),
        idempotency_key="k",
        capability="event.add",
        route_id="calendar.v1",
        objective="add an event",
        input={},
        decision=decision,
    )
    return OperationRow(
        id=request.operation_id,
        schema_version=1,
        workspace="w",
        session="s",
        idempotency_key="k",
        request_digest=request.digest,
        request=request.model_dump_json(),
        resources="[]",
        capability="event.add",
        route_id="calendar.v1",
        route=CALENDAR.model_dump_json(),
        task_queue="q",
        intent="execute",
        state="awaiting_decision",
        verification="pending",
        cancellation="none",
        prepared=Prepared(summary="many changes", preview=preview).model_dump_json(),
        proposal_digest=DIGEST,
        created_at=NOW,
        updated_at=NOW,
    )


@pytest.mark.parametrize(
    "text", ["x" * 4000, "表" * 4000, "😀" * 4000, "|" * 4000], ids=["long", "wide", "wider", "escaped"]
)
def test_how_to_answer_stays_in_sight_however_large_the_question_and_the_change_are(text: str) -> None:
    decision = DecisionRequest(reason=text, question=text)
    preview = Preview(columns=("Before", "After"), rows=((text[:500], text[:500]),) * 40, omitted_rows=2)

    details = details_of(awaiting(decision, preview))

    assert details.endswith(f'{{\n  "proposal_digest": "{DIGEST}",\n  "verdict": "approve",\n  "notes": ""\n}}\n```')
    assert "| Before" in details
    rows = details.count("\n| ") - len(("columns", "rule"))
    assert f"… and {42 - rows} more." in details
    assert len(details.encode()) < 16_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("number 41200", "number 41200"),
        ("**bold** <b>", r"\*\*bold\*\* \<b\>"),
        ("a|b", r"a\|b"),
        (r"a\|b", r"a\\\|b"),
        ("[a](https://b.example)", r"\[a\]\(https\://b\.example\)"),
        ("line one\n\n# line two", r"line one \# line two"),
        ("safe\u202eevil\u200b", r"safe\\u202eevil\\u200b"),
        ("\x1b[2J", r"\\x1b\[2J"),
    ],
)
def test_what_others_wrote_is_escaped(text: str, expected: str) -> None:
    assert plain(text) == expected


def test_text_that_is_cut_says_so() -> None:
    assert plain("abcdef", 4) == "abc…"
    assert plain("abcd", 4) == "abcd"
