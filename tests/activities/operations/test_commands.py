"""Commands in their transaction: each applied once, each recorded, each refusal with its reason in the ledger."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from counterfoil.activities.operations.commands import SealPolicy
from counterfoil.models.common import Scope
from counterfoil.models.operations.commands import CommandName, Decide, seal
from counterfoil.models.operations.outcomes import Evidence, Failed, NotApplied, Prepared, Running, UnknownEffect
from counterfoil.models.operations.route import ReplayGuarantee
from support.scripted import completed

QUESTION = {"reason": "it costs", "question": "may I?", "expires_after_seconds": 3600}
LOST = UnknownEffect(code="LOST", detail="no reply")


async def asked(bench: Any, **changes: Any) -> tuple[str, dict[str, str]]:
    """An operation that awaits its decision, and the approval of it."""
    row = await bench.create(decision=QUESTION, **changes)
    return row.id, {"proposal_digest": row.proposal_digest, "verdict": "approve"}


async def unknown(bench: Any, **route: Any) -> str:
    """An effect that nobody can look at."""
    bench.route(**({"observation": False} | route))
    operation_id: str = (await bench.create()).id
    await bench.grant(operation_id)
    await bench.reply(operation_id, LOST)
    return operation_id


def attestation(
    status: str = "applied", revision: int = 3, key: str = "k", summary: str = "I looked"
) -> dict[str, Any]:
    return {"expected_revision": revision, "resolution_key": key, "status": status, "summary": summary}


async def last(bench: Any, operation_id: str) -> tuple[str, str | None]:
    """The newest ledger entry: its kind, and the code it carries."""
    entry = (await bench.ledger(operation_id))[-1]
    return entry.kind, (entry.data or {}).get("code")


# deciding


@pytest.mark.parametrize(
    ("verdict", "state"), [("approve", "queued"), ("decline", "declined"), ("revise", "revision_requested")]
)
async def test_a_decision_moves_the_operation_and_is_kept_with_who_gave_it(
    bench: Any, verdict: str, state: str
) -> None:
    operation_id, approval = await asked(bench)

    answer = await bench.tell(operation_id, "decide", approval | {"verdict": verdict, "notes": "because"})

    operation = await bench.read(operation_id)
    assert (answer.status, answer.state, operation.state) == ("applied", state, state)
    decision = operation.decision
    assert (decision.verdict, decision.notes, decision.proposal_digest) == (
        verdict,
        "because",
        approval["proposal_digest"],
    )
    assert (decision.actor.principal, decision.actor.authenticated) == ("unauthenticated", False)


async def test_the_same_approval_twice_at_once_dispatches_once(bench: Any) -> None:
    """Fault 12."""
    operation_id, approval = await asked(bench)

    answers = await asyncio.gather(*[bench.tell(operation_id, "decide", approval) for _ in range(6)])

    assert sorted(answer.status for answer in answers) == ["applied"] + ["repeated"] * 5
    assert {answer.revision for answer in answers} == {2}
    kinds = await bench.kinds(operation_id)
    assert (kinds.count("approve"), kinds.count("command_repeated")) == (1, 5)


async def test_approvals_by_two_people_are_one_approval_and_the_second_is_told_of_the_first(bench: Any) -> None:
    operation_id, approval = await asked(bench)

    answers = await asyncio.gather(
        bench.tell(operation_id, "decide", approval | {"notes": "fine by me", "key": "ann"}),
        bench.tell(operation_id, "decide", approval | {"notes": "me too", "key": "bob"}),
    )

    details = sorted(answer.detail for answer in answers)
    assert details == ["approve by unauthenticated", "decided before: approve by unauthenticated"]
    kinds = await bench.kinds(operation_id)
    assert (kinds.count("approve"), kinds.count("command_repeated")) == (1, 1)


async def test_of_an_approval_and_a_refusal_at_once_one_wins(bench: Any) -> None:
    operation_id, approval = await asked(bench)

    answers = await asyncio.gather(
        bench.tell(operation_id, "decide", approval),
        bench.tell(operation_id, "decide", approval | {"verdict": "decline"}),
    )

    assert sorted(answer.status for answer in answers) == ["applied", "refused"]
    winner = next(answer for answer in answers if answer.status == "applied")
    assert (await bench.read(operation_id)).state == winner.state
    assert (await last(bench, operation_id)) == ("command_refused", "NOT_POSSIBLE")


async def test_an_answer_to_another_proposal_authorises_nothing(bench: Any) -> None:
    """Fault 11."""
    operation_id, approval = await asked(bench)

    answer = await bench.tell(operation_id, "decide", approval | {"proposal_digest": "sha256:" + "0" * 64})

    assert (answer.status, answer.code, answer.state) == ("refused", "PROPOSAL_MISMATCH", "awaiting_decision")
    assert approval["proposal_digest"] in answer.remedy
    assert await last(bench, operation_id) == ("command_refused", "PROPOSAL_MISMATCH")
    assert not await bench.grant(operation_id)


async def test_an_answer_that_comes_before_there_is_a_proposal_authorises_nothing(bench: Any) -> None:
    bench.route(preparation="pure")
    row = await bench.create(decision=QUESTION)

    early = await bench.tell(row.id, "decide", {"proposal_digest": "sha256:" + "0" * 64, "verdict": "approve"})
    await bench.prepared(row.id, Prepared(summary="sets 2"))

    assert early.code == "PROPOSAL_MISMATCH"
    assert (await bench.read(row.id)).state == "awaiting_decision"


@pytest.mark.parametrize("seconds", [3600, 3601])
async def test_an_answer_that_comes_too_late_authorises_nothing(bench: Any, seconds: float) -> None:
    operation_id, approval = await asked(bench)
    bench.clock.forward(seconds)

    answer = await bench.tell(operation_id, "decide", approval)
    await bench.expire(operation_id)
    after = await bench.tell(operation_id, "decide", approval)

    assert (answer.code, after.code) == ("DECISION_EXPIRED", "NOT_POSSIBLE")
    assert (await bench.read(operation_id)).state == "expired"
    assert (await bench.kinds(operation_id)).count("command_refused") == 2


async def test_an_approval_repeated_after_completion_gets_the_stored_decision(bench: Any) -> None:
    operation_id, approval = await asked(bench)
    await bench.tell(operation_id, "decide", approval)
    await bench.grant(operation_id)
    await bench.reply(operation_id, completed())

    answer = await bench.tell(operation_id, "decide", approval)

    assert (answer.status, answer.state, answer.detail) == ("repeated", "queued", "approve by unauthenticated")
    assert (await bench.read(operation_id)).state == "completed"


# cancelling: fault 13


@pytest.mark.parametrize(
    ("route", "changes", "state"),
    [
        ({}, {"on_create": "hold"}, "held"),
        ({"preparation": "pure"}, {}, "preparing"),
        ({}, {"on_create": "prepare"}, "prepared"),
        ({}, {"decision": QUESTION}, "awaiting_decision"),
        ({}, {}, "queued"),
    ],
)
async def test_before_dispatch_a_cancellation_is_local_and_final(
    bench: Any, route: dict[str, Any], changes: dict[str, Any], state: str
) -> None:
    bench.route(**route)
    row = await bench.create(**changes)
    assert row.state == state

    answer = await bench.tell(row.id, "cancel", {"reason": "enough"})

    operation = await bench.read(row.id)
    assert (answer.status, operation.state, operation.cancellation) == ("applied", "cancelled", "confirmed")
    assert not await bench.grant(row.id)


@pytest.mark.parametrize("outcome", [None, Running(external_id="job"), LOST])
async def test_once_something_may_be_under_way_a_cancellation_is_only_asked_for(bench: Any, outcome: Any) -> None:
    row = await bench.create()
    await bench.grant(row.id)
    if outcome is not None:
        await bench.reply(row.id, outcome)
    before = await bench.read(row.id)

    answer = await bench.tell(row.id, "cancel", {"reason": "enough"})

    operation = await bench.read(row.id)
    assert (operation.state, operation.cancellation) == (before.state, "requested")
    assert (answer.status, operation.revision) == ("applied", before.revision)
    assert await bench.held(row.id) == 2


async def test_what_is_completed_stays_completed(bench: Any) -> None:
    row = await bench.create()
    await bench.grant(row.id)
    await bench.reply(row.id, completed())

    answer = await bench.tell(row.id, "cancel", {"reason": "enough"})

    operation = await bench.read(row.id)
    assert (operation.state, operation.cancellation, operation.result.summary) == ("completed", "too_late", "done")
    assert answer.detail == "too late: the operation is completed, and cancelling is not undoing"


async def test_a_cancellation_and_a_grant_at_once_agree_on_who_won(bench: Any) -> None:
    row = await bench.create()

    granted, _ = await asyncio.gather(bench.grant(row.id), bench.tell(row.id, "cancel", {"reason": "enough"}))

    operation = await bench.read(row.id)
    assert (granted, operation.state, operation.cancellation) in [
        (True, "dispatching", "requested"),
        (False, "cancelled", "confirmed"),
    ]


async def test_every_cancellation_is_recorded_even_one_that_changes_nothing(bench: Any) -> None:
    row = await bench.create()
    await bench.tell(row.id, "cancel", {"reason": "enough"})

    again = await bench.tell(row.id, "cancel", {"reason": "really"})

    assert again.detail == "cancellation was asked for before; it is confirmed"
    assert await bench.kinds(row.id) == ["created", "queue", "cancel_locally", "command_repeated"]


async def test_what_ended_otherwise_cannot_be_cancelled(bench: Any) -> None:
    row = await bench.create()
    await bench.grant(row.id)
    await bench.reply(row.id, Failed(code="REFUSED", detail="no"))

    answer = await bench.tell(row.id, "cancel", {"reason": "enough"})

    assert (answer.status, answer.code) == ("refused", "NOT_POSSIBLE")
    assert await last(bench, row.id) == ("command_refused", "NOT_POSSIBLE")


# attesting: fault 15


@pytest.mark.parametrize(
    ("status", "state"), [("applied", "completed"), ("not_applied", "not_applied"), ("stopped", "stopped")]
)
async def test_an_attestation_settles_an_unknown_effect_and_proves_nothing(bench: Any, status: str, state: str) -> None:
    operation_id = await unknown(bench)
    assert await bench.held(operation_id) == 2

    answer = await bench.tell(operation_id, "resolve_unknown", attestation(status))

    operation = await bench.read(operation_id)
    assert (answer.status, operation.state, operation.verification, operation.attested) == (
        "applied",
        state,
        "unavailable",
        True,
    )
    assert (operation.problem.code, operation.problem.detail) == ("ATTESTED", "I looked")
    assert await bench.claims(operation_id) == []
    assert not await bench.grant(operation_id, generation=2)


async def test_of_two_attestations_of_one_revision_one_wins(bench: Any) -> None:
    operation_id = await unknown(bench)

    answers = await asyncio.gather(
        bench.tell(operation_id, "resolve_unknown", attestation("applied", key="ann")),
        bench.tell(operation_id, "resolve_unknown", attestation("not_applied", key="bob")),
    )

    assert sorted((answer.status, answer.code) for answer in answers) == [
        ("applied", None),
        ("refused", "STALE_REVISION"),
    ]
    winner = next(answer for answer in answers if answer.status == "applied")
    assert (await bench.read(operation_id)).state == winner.state


async def test_the_same_attestation_repeats_its_answer_and_another_under_its_key_is_refused(bench: Any) -> None:
    operation_id = await unknown(bench)
    first = await bench.tell(operation_id, "resolve_unknown", attestation())

    again = await bench.tell(operation_id, "resolve_unknown", attestation())
    other = await bench.tell(operation_id, "resolve_unknown", attestation("not_applied"))

    assert (again.status, again.revision, again.detail) == ("repeated", first.revision, "attested as applied")
    assert (other.status, other.code) == ("refused", "RESOLUTION_KEY_CONFLICT")
    assert await last(bench, operation_id) == ("command_refused", "RESOLUTION_KEY_CONFLICT")


async def test_a_recorded_duplicate_does_not_make_an_attestation_stale(bench: Any) -> None:
    """Versions count what was recorded, revisions what was moved."""
    operation_id = await unknown(bench)
    for _ in range(3):
        await bench.tell(operation_id, "decide", {"nonsense": True})

    assert (await bench.tell(operation_id, "resolve_unknown", attestation())).status == "applied"


@pytest.mark.parametrize("revision", [0, 2, 4])
async def test_an_attestation_of_what_was_not_looked_at_is_refused(bench: Any, revision: int) -> None:
    operation_id = await unknown(bench)

    answer = await bench.tell(operation_id, "resolve_unknown", attestation(revision=revision))

    assert answer.code == "STALE_REVISION"
    assert (await bench.tell(operation_id, "resolve_unknown", attestation())).status == "applied", "its key is free"


async def test_nothing_is_attested_while_its_route_still_looks(bench: Any) -> None:
    operation_id = await unknown(bench, observation=True)

    answer = await bench.tell(operation_id, "resolve_unknown", attestation())

    assert (answer.code, answer.state) == ("OBSERVATION_PENDING", "unknown")


async def test_what_nobody_has_looked_at_for_ten_minutes_may_be_attested(bench: Any) -> None:
    """A retired adapter or a lost machine never looks again; asking too early does not make it wait longer."""
    operation_id = await unknown(bench, observation=True)
    bench.clock.forward(9 * 60)
    early = await bench.tell(operation_id, "resolve_unknown", attestation())
    bench.clock.forward(61)

    answer = await bench.tell(operation_id, "resolve_unknown", attestation())

    assert (early.code, answer.status, answer.state) == ("OBSERVATION_PENDING", "applied", "completed")


@pytest.mark.parametrize("outcome", [None, Running(external_id="job"), completed()])
async def test_only_what_is_unknown_can_be_attested(bench: Any, outcome: Any) -> None:
    row = await bench.create()
    await bench.grant(row.id)
    if outcome is not None:
        await bench.reply(row.id, outcome)
    revision = (await bench.read(row.id)).revision

    answer = await bench.tell(row.id, "resolve_unknown", attestation(revision=revision))

    assert answer.code == "NOT_POSSIBLE"


async def test_a_preparation_cannot_be_attested_as_the_effect_itself(bench: Any) -> None:
    bench.route(preparation="effectful", observation=False)
    row = await bench.create()
    await bench.grant(row.id, kind="prepare")
    await bench.reply(row.id, LOST)
    revision = (await bench.read(row.id)).revision

    applied = await bench.tell(row.id, "resolve_unknown", attestation("applied", revision))
    stopped = await bench.tell(row.id, "resolve_unknown", attestation("stopped", revision))

    assert (applied.code, stopped.state) == ("NOT_POSSIBLE", "stopped")


# holding, preparing, executing


async def test_a_held_operation_prepares_and_then_executes_when_told(bench: Any) -> None:
    bench.route(preparation="pure")
    row = await bench.create(on_create="hold", decision=QUESTION)

    states = [(await bench.tell(row.id, "prepare", {})).state]
    await bench.prepared(row.id, Prepared(summary="sets 2"))
    states.append((await bench.read(row.id)).state)
    states.append((await bench.tell(row.id, "execute", {})).state)

    assert states == ["preparing", "prepared", "awaiting_decision"]
    assert (await bench.tell(row.id, "execute", {"key": "again"})).code == "NOT_POSSIBLE"


async def test_executing_while_the_preparation_runs_takes_effect_when_it_ends(bench: Any) -> None:
    bench.route(preparation="pure")
    row = await bench.create(on_create="prepare")

    assert (await bench.tell(row.id, "execute", {})).state == "preparing"
    await bench.prepared(row.id, Prepared(summary="sets 2"))

    assert (await bench.read(row.id)).state == "queued"


@pytest.mark.parametrize("name", ["prepare", "execute"])
async def test_what_is_under_way_needs_no_push(bench: Any, name: str) -> None:
    row = await bench.create()

    answer = await bench.tell(row.id, name, {})

    assert (answer.code, answer.state) == ("NOT_POSSIBLE", "queued")


# looking again


async def test_an_exhausted_observation_is_given_exactly_one_more_look(bench: Any) -> None:
    bench.route()
    row = await bench.create(constraints={"max_polls": 1})
    await bench.grant(row.id)
    await bench.reply(row.id, LOST)
    await bench.look(row.id, LOST)

    answer = await bench.tell(row.id, "reconcile", {"key": "1"})
    assert (answer.status, (await bench.read(row.id)).observation_exhausted) == ("applied", False)
    await bench.look(row.id, LOST)

    assert (await bench.read(row.id)).observation_exhausted is True


async def test_nobody_is_promised_a_look_that_the_deadline_forbids(bench: Any) -> None:
    row = await bench.create(constraints={"deadline": (bench.clock.now + timedelta(hours=1)).isoformat()})
    await bench.grant(row.id)
    await bench.reply(row.id, LOST)
    bench.clock.forward(3600)
    await bench.stop_exhausted(row.id)

    answer = await bench.tell(row.id, "reconcile", {"key": "1"})

    assert (answer.status, answer.code) == ("refused", "DEADLINE_PASSED")
    assert (await bench.read(row.id)).observation_exhausted is True
    assert (await bench.tell(row.id, "resolve_unknown", attestation())).status == "applied"


async def test_nothing_is_looked_at_beyond_the_allowed_adapter_calls(bench: Any) -> None:
    row = await bench.create(constraints={"max_adapter_calls": 2})
    await bench.grant(row.id)
    await bench.reply(row.id, LOST)
    await bench.look(row.id, LOST)

    assert (await bench.tell(row.id, "reconcile", {"key": "1"})).code == "LIMIT_REACHED"


async def test_what_was_attested_is_not_verified_afterwards(bench: Any) -> None:
    operation_id = await unknown(bench)
    await bench.tell(operation_id, "resolve_unknown", attestation("applied"))

    assert (await bench.tell(operation_id, "reconcile", {"key": "1"})).code == "NOT_POSSIBLE"


# whatever arrives: faults 14, 25, 30


@pytest.mark.parametrize(
    ("name", "payload", "problem", "code"),
    [
        ("decide", None, None, "BAD_COMMAND"),
        ("decide", None, "it came without an argument", "BAD_COMMAND"),
        ("decide", None, "it came with 2 arguments", "BAD_COMMAND"),
        ("decide", None, "it could not be decoded: \x00\ud800", "BAD_COMMAND"),
        ("decide", "approve", None, "BAD_COMMAND"),
        ("decide", {"a\x00b": 1}, None, "BAD_COMMAND"),
        ("cancel", {"reason": "\ud800"}, None, "BAD_COMMAND"),
        ("cancel", {"reason": float("nan")}, None, "BAD_COMMAND"),
        ("explode", {}, None, "BAD_COMMAND"),
        ("é" * 200, {}, None, "BAD_COMMAND"),
        ("repair", {"reason": "r"}, None, "NOT_POSSIBLE"),
        ("cancel", {"command": {"reason": "\ud800"}, "seal": {}}, None, "FORGED_SEAL"),
        (
            "cancel",
            {
                "command": {"reason": "\ud800"},
                "seal": {"principal": "p", "scope": "admin", "at": "2026-07-01T12:00:00Z", "mac": "0" * 64},
            },
            None,
            "FORGED_SEAL",
        ),
    ],
)
async def test_whatever_arrives_is_recorded_with_the_reason_and_changes_nothing(
    bench: Any, name: str, payload: Any, problem: str | None, code: str
) -> None:
    row = await bench.create()

    answer = await bench.tell(row.id, name, payload, problem=problem)

    assert (answer.status, answer.code, answer.state, answer.revision) == ("refused", code, "queued", 1)
    assert answer.remedy
    assert await last(bench, row.id) == ("command_refused", code)


def by_ann(operation_id: str, approval: dict[str, str], scope: Scope = Scope.REVIEW, **changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "operation_id": operation_id,
        "name": CommandName.DECIDE,
        "command": Decide.model_validate(approval),
        "principal": "ann",
        "scope": scope,
        "at": "2026-07-01T12:00:00Z",
    } | changes
    from datetime import datetime

    values["at"] = datetime.fromisoformat(values["at"])
    return seal(changes.pop("key", b"the sealing key of these tests"), **values)


async def test_a_sealed_approval_is_recorded_with_who_gave_it(bench: Any) -> None:
    bench.policy = SealPolicy(key=b"the sealing key of these tests", allow_unsealed=False)
    operation_id, approval = await asked(bench)

    assert (await bench.tell(operation_id, "decide", by_ann(operation_id, approval))).status == "applied"

    entry = (await bench.ledger(operation_id))[-1]
    assert (entry.kind, entry.actor.principal, entry.actor.authenticated, entry.actor.scope) == (
        "approve",
        "ann",
        True,
        "review",
    )


async def test_where_seals_are_asked_for_nothing_else_is_honoured(bench: Any) -> None:
    """Fault 30."""
    bench.policy = SealPolicy(key=b"the sealing key of these tests", allow_unsealed=False)
    operation_id, approval = await asked(bench)
    other = by_ann("op-other", approval)
    changed = by_ann(operation_id, approval | {"verdict": "decline"})
    changed["command"]["verdict"] = "approve"

    codes = [
        (await bench.tell(operation_id, "decide", payload)).code
        for payload in (approval, other, changed, by_ann(operation_id, approval, Scope.OPERATE))
    ]

    assert codes == ["UNAUTHENTICATED", "FORGED_SEAL", "FORGED_SEAL", "SCOPE_MISSING"]
    assert (await bench.kinds(operation_id))[2:] == ["command_refused"] * 4
    assert (await bench.read(operation_id)).state == "awaiting_decision"
    assert {entry.actor.principal for entry in (await bench.ledger(operation_id))[2:]} == {"unauthenticated"}


async def test_a_refused_command_may_be_tried_again_under_its_key(bench: Any) -> None:
    bench.route(preparation="pure")
    row = await bench.create(on_create="prepare")
    assert (await bench.tell(row.id, "reconcile", {"key": "k"})).status == "refused"
    await bench.prepared(row.id, Prepared(summary="sets 2"))
    await bench.tell(row.id, "execute", {})
    await bench.grant(row.id)
    await bench.reply(row.id, completed())

    assert (await bench.tell(row.id, "reconcile", {"key": "k"})).status == "applied"


async def test_a_key_used_for_another_command_is_refused(bench: Any) -> None:
    operation_id, approval = await asked(bench)
    await bench.tell(operation_id, "decide", approval | {"key": "k"})

    answer = await bench.tell(operation_id, "decide", approval | {"key": "k", "verdict": "decline"})

    assert (answer.status, answer.code) == ("refused", "BAD_COMMAND")


async def test_replaying_what_was_approved_needs_no_second_approval(bench: Any) -> None:
    bench.route(replay=ReplayGuarantee(kind="conditional"))
    operation_id, approval = await asked(bench, constraints={"max_attempts": 2})
    await bench.tell(operation_id, "decide", approval)
    await bench.grant(operation_id)
    await bench.reply(operation_id, LOST)
    evidence = Evidence(source="target", observed_at=bench.clock.now)
    await bench.look(operation_id, NotApplied(detail="not there", evidence=evidence))

    assert await bench.grant(operation_id, generation=2)
