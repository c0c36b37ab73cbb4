"""When nobody can know whether the effect happened: adapters that misbehave, locks that stay, people who attest."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime

import pytest

from counterfoil.activities.adapters.base import AdapterContext, Order
from counterfoil.control_plane.client import ControlPlane
from counterfoil.models.errors import Refusal
from counterfoil.models.operations.outcomes import (
    Completed,
    Evidence,
    Failed,
    NotApplied,
    TypedResult,
    UnknownEffect,
)
from counterfoil.models.operations.route import ReplayGuarantee
from support.gate import Gate
from support.scripted import completed, request, scripted
from support.stack import Stack, settled

LOST = UnknownEffect(code="LOST", detail="no reply")


class Panic(BaseException):
    """What a Rust extension's panic is to Python."""


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


def elsewhere(key: str = "other", **changes):
    """A request that needs none of the resources of `request()`."""
    resources = [{"kind": "remote_entity", "system": "scripted", "identity": f"record-{key}"}]
    return request(key, resources=resources, **changes)


async def unknown(stack: Stack, control_plane: ControlPlane, *, key: str = "k1", **changes):
    """An operation whose effect is unknown and can only be attested."""
    created = await control_plane.create(request(key, **changes))
    operation = await settled(control_plane, created.operation_id)
    assert operation.state == "unknown"
    return operation


async def attest(control_plane: ControlPlane, operation, status: str, key: str = "r1", summary: str = "I looked"):
    return await control_plane.resolve_unknown(
        operation.operation_id,
        expected_revision=operation.revision,
        resolution_key=key,
        status=status,
        summary=summary,
    )


# adapters that misbehave


async def hung(_context, _order):
    await asyncio.sleep(600)


async def blocking(_context, _order):
    time.sleep(4)  # noqa: ASYNC251  what nobody should write in a coroutine


def printing(_context, _order):
    print("\x00 adapter says hello \x1b[2J", flush=True)
    return {"not": "an answer"}


MISBEHAVIOUR = {
    "an exception": (ValueError("boom"), "ADAPTER_RAISED"),
    "an exit": (SystemExit(3), "ADAPTER_RAISED"),
    "an interrupt": (KeyboardInterrupt(), "ADAPTER_RAISED"),
    "a panic": (Panic("rust"), "ADAPTER_RAISED"),
    "a cancellation": (asyncio.CancelledError(), "ADAPTER_RAISED"),
    "a stop": (StopIteration(5), "ADAPTER_RAISED"),
    "an exception that cannot be told": (Unspeakable(), "ADAPTER_RAISED"),
    "nothing": (lambda _c, _o: None, "ADAPTER_JUNK"),
    "a stray value": (lambda _c, _o: {"status": "completed"}, "ADAPTER_JUNK"),
    "another phase's answer": (NotApplied(detail="x", evidence=Evidence(source="s", observed_at=datetime.now(UTC))),
                               "ADAPTER_JUNK"),
    "a result that is none": (lambda _c, _o: Completed.model_construct(status="completed", result=5), "ADAPTER_JUNK"),
    "data that is no JSON": (
        lambda _c, _o: Completed(result=TypedResult(kind="k", summary="s", data={"x": object()})), "ADAPTER_JUNK",
    ),
    "output and a stray value": (printing, "ADAPTER_JUNK"),
    "a hanging coroutine": (hung, "ADAPTER_TIMED_OUT"),
    "a blocking coroutine": (blocking, "ADAPTER_TIMED_OUT"),
}  # fmt: skip


async def test_whatever_an_adapter_does_its_operation_is_unknown_and_the_worker_serves_others_meanwhile(
    stack: Stack, control_plane: ControlPlane
):
    good = scripted(stack.catalog, "good.v1")
    bad = {name: scripted(stack.catalog, f"bad{i}.v1", observation=False, call_timeout_seconds=1)
           for i, name in enumerate(MISBEHAVIOUR)}  # fmt: skip
    for name, (answer, _) in MISBEHAVIOUR.items():
        bad[name].script("execute", answer)
    await stack.start()

    created = {name: await control_plane.create(elsewhere(f"bad-{i}", route_id=bad[name].route.id))
               for i, name in enumerate(MISBEHAVIOUR)}  # fmt: skip
    other = await control_plane.create(elsewhere("good", route_id="good.v1"))
    done = await control_plane.wait(other.operation_id, "completed", timeout_seconds=60)
    found = {}
    for name, operation in created.items():
        ended = await settled(control_plane, operation.operation_id, timeout_seconds=60)
        found[name] = (ended.state, ended.problem.code)

    assert found == {name: ("unknown", code) for name, (_, code) in MISBEHAVIOUR.items()}
    assert (done.state, len(good.effects)) == ("completed", 1)
    assert all(len(adapter.effects) == 1 for adapter in bad.values())


async def test_a_result_of_5_mb_is_kept_as_a_blob(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog)
    result = TypedResult(kind="export", summary="large", data={"text": "x" * 5_000_000})
    adapter.script("execute", Completed(result=result))
    await stack.start()

    created = await control_plane.create(request())
    operation = await settled(control_plane, created.operation_id)

    assert (operation.state, operation.verification) == ("completed", "verified")
    assert (operation.result.data, operation.result.blob.size_bytes) == ({}, 5_000_011)


async def test_an_adapter_that_no_longer_takes_the_input_dispatches_nothing_and_says_so(
    stack: Stack, control_plane: ControlPlane
):
    adapter = scripted(stack.catalog, readiness=True)
    await stack.start()
    created = await control_plane.create(request(on_create="hold"))

    def refuse(_request):
        raise Panic("stricter now")

    adapter.validate_input = refuse
    await control_plane.execute(created.operation_id)
    operation = await settled(control_plane, created.operation_id)
    for _ in range(100):
        if (await control_plane.get(created.operation_id)).state == "failed":
            break
        await asyncio.sleep(0.1)
    operation = await control_plane.get(created.operation_id)

    assert (operation.state, operation.problem.code) == ("failed", "INVALID_INPUT")
    assert adapter.effects == []


# late replies


async def test_a_reply_after_the_time_out_counts_while_nobody_has_attested(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog, observation=False, call_timeout_seconds=1)
    gate = Gate(completed("late but true"))
    adapter.script("execute", gate)
    await stack.start()

    operation = await unknown(stack, control_plane)
    assert operation.problem.code == "ADAPTER_TIMED_OUT"
    gate.open()
    done = await control_plane.wait(operation.operation_id, "completed", timeout_seconds=30)
    result = await stack.handle(operation.operation_id).result()

    assert (done.result.summary, done.late_replies) == ("late but true", ())
    assert result["verification"] == "verified"
    assert len(adapter.effects) == 1


async def test_a_reply_after_an_attestation_is_recorded_and_changes_nothing(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog, observation=False, call_timeout_seconds=1)
    gate = Gate(completed("late but true"))
    adapter.script("execute", gate)
    await stack.start()

    operation = await unknown(stack, control_plane)
    await attest(control_plane, operation, "not_applied")
    gate.open()
    for _ in range(200):
        closed = await control_plane.get(operation.operation_id)
        if closed.late_replies:
            break
        await asyncio.sleep(0.1)

    assert (closed.state, closed.attested) == ("not_applied", True)
    assert [reply.data["status"] for reply in closed.late_replies] == ["completed"]


# locks


async def test_an_unknown_effect_keeps_its_locks_and_releases_them_when_attested(
    stack: Stack, control_plane: ControlPlane
):
    adapter = scripted(stack.catalog, observation=False)
    adapter.script("execute", LOST)
    await stack.start()
    operation = await unknown(stack, control_plane)

    second = await control_plane.create(request("k2"))
    for _ in range(200):
        queued = await control_plane.get(second.operation_id)
        if queued.blocked is not None:
            break
        await asyncio.sleep(0.05)
    assert (queued.state, queued.blocked.code) == ("queued", "LOCKED")
    assert operation.operation_id in queued.blocked.detail
    assert "unknown" in queued.blocked.detail

    await attest(control_plane, operation, "not_applied")
    done = await control_plane.wait(second.operation_id, "completed", timeout_seconds=30)
    assert (done.state, [who for who, _ in adapter.effects]) == (
        "completed", [operation.operation_id, second.operation_id],
    )  # fmt: skip


async def test_an_operation_on_another_resource_is_not_held_up_by_an_unknown_one(
    stack: Stack, control_plane: ControlPlane
):
    adapter = scripted(stack.catalog, observation=False)
    adapter.script("execute", LOST)
    await stack.start()
    await unknown(stack, control_plane)

    other = await control_plane.create(elsewhere())
    assert (await control_plane.wait(other.operation_id, "completed", timeout_seconds=30)).state == "completed"


# attestation


@pytest.mark.parametrize(
    ("status", "state"), [("applied", "completed"), ("not_applied", "not_applied"), ("stopped", "stopped")]
)
async def test_an_attestation_closes_an_unknown_effect_unverified(
    stack: Stack, control_plane: ControlPlane, status, state
):
    adapter = scripted(stack.catalog, observation=False)
    adapter.script("execute", LOST)
    await stack.start()

    operation = await unknown(stack, control_plane, constraints={"max_attempts": 3})
    await attest(control_plane, operation, status)
    result = await stack.handle(operation.operation_id).result()
    closed = await control_plane.get(operation.operation_id)

    assert (closed.state, closed.verification, closed.attested) == (state, "unavailable", True)
    assert result["state"] == state
    assert len(adapter.effects) == 1


async def test_an_attestation_of_an_older_revision_is_refused(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog, observation=False)
    adapter.script("execute", LOST)
    await stack.start()
    operation = await unknown(stack, control_plane)

    stale = operation.model_copy(update={"revision": operation.revision - 1})
    with pytest.raises(Refusal, match="STALE_REVISION"):
        await attest(control_plane, stale, "applied")

    assert (await control_plane.get(operation.operation_id)).state == "unknown"


async def test_of_two_attestations_of_one_revision_one_wins_and_the_same_one_again_repeats_its_answer(
    stack: Stack, control_plane: ControlPlane
):
    adapter = scripted(stack.catalog, observation=False)
    adapter.script("execute", LOST)
    await stack.start()
    operation = await unknown(stack, control_plane)

    outcomes = await asyncio.gather(
        attest(control_plane, operation, "applied", "r1"),
        attest(control_plane, operation, "not_applied", "r2"),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes].count(Refusal) == 1
    first_won = not isinstance(outcomes[0], Refusal)
    winner, key = ("applied", "r1") if first_won else ("not_applied", "r2")
    assert (await attest(control_plane, operation, winner, key)).status == "repeated"
    with pytest.raises(Refusal, match="RESOLUTION_KEY_CONFLICT"):
        await attest(control_plane, operation, "stopped", key)


async def test_what_is_still_observed_cannot_be_attested(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog)
    gate = Gate(completed())
    adapter.script("execute", LOST)
    adapter.script("observe", gate)
    await stack.start()
    created = await control_plane.create(request())
    operation = await control_plane.wait(created.operation_id, "unknown", timeout_seconds=30)

    with pytest.raises(Refusal, match="OBSERVATION_PENDING"):
        await attest(control_plane, operation, "applied")
    gate.open()
    await control_plane.wait(created.operation_id, "completed", timeout_seconds=30)


async def test_not_found_alone_is_not_proof_of_absence(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog, replay=ReplayGuarantee(kind="conditional"))
    adapter.script("execute", LOST)
    adapter.script("observe", *[UnknownEffect(code="NOT_FOUND", detail="404")] * 3)
    await stack.start()

    operation = await unknown(stack, control_plane, constraints={"max_attempts": 5, "max_polls": 3})

    assert (operation.state, len(adapter.effects)) == ("unknown", 1)


# replay


def absent(_context: AdapterContext, _order: Order) -> NotApplied:
    """Looked for at the time of the call: evidence from before the dispatch proves nothing."""
    return NotApplied(detail="never arrived", evidence=Evidence(source="journal", observed_at=datetime.now(UTC)))


@pytest.mark.parametrize(
    ("guarantee", "attempts", "state", "effects"),
    [
        (ReplayGuarantee(kind="conditional"), 2, "completed", 2),
        (ReplayGuarantee(kind="by_key", retention_seconds=3600), 2, "completed", 2),
        (ReplayGuarantee(kind="by_key", retention_seconds=0.001), 2, "not_applied", 1),
        (ReplayGuarantee(kind="none"), 2, "not_applied", 1),
        (ReplayGuarantee(kind="conditional"), 1, "not_applied", 1),
    ],
    ids=["conditional", "by_key", "key expired", "none", "no attempt left"],
)
async def test_an_action_proved_absent_is_made_again_only_under_a_guarantee_that_still_holds(
    stack: Stack, control_plane: ControlPlane, guarantee, attempts, state, effects
):
    adapter = scripted(stack.catalog, replay=guarantee)
    adapter.script("execute", LOST)
    adapter.script("observe", absent)
    await stack.start()

    created = await control_plane.create(request(constraints={"max_attempts": attempts}))
    operation = await control_plane.wait(created.operation_id, state, timeout_seconds=30)

    assert operation.state == state
    assert adapter.effects == [(created.operation_id, generation) for generation in range(1, effects + 1)]


async def test_an_action_proved_absent_twice_is_not_made_a_third_time(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog, replay=ReplayGuarantee(kind="conditional"))
    adapter.script("execute", LOST, LOST)
    adapter.script("observe", absent, absent)
    await stack.start()

    created = await control_plane.create(request(constraints={"max_attempts": 2}))
    operation = await settled(control_plane, created.operation_id)

    assert (operation.state, len(adapter.effects)) == ("not_applied", 2)


async def test_a_certain_failure_is_never_tried_again(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog, replay=ReplayGuarantee(kind="conditional"))
    adapter.script("execute", Failed(code="REFUSED", detail="no"))
    await stack.start()

    created = await control_plane.create(request(constraints={"max_attempts": 5}))
    operation = await settled(control_plane, created.operation_id)

    assert (operation.state, len(adapter.effects)) == ("failed", 1)
