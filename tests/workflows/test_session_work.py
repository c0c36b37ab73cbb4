"""A session's work as a whole: cancelled in every state it can be in, begun anew only by who asks anew, and paused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from counterfoil.control_plane.client import ControlPlane
from counterfoil.models.common import Scope
from counterfoil.models.errors import ErrorCode, Refusal
from counterfoil.models.operations.outcomes import Cancelled, NotReady, Running, UnknownEffect
from counterfoil.models.operations.route import PreparationSupport
from support import scripted as scripts
from support.gate import Gate
from support.scripted import completed, evidence, request, scripted
from support.stack import Stack, settled

QUESTION = {"reason": "it is live data", "question": "Set the value to 2?"}


def elsewhere(name: str, **more: Any) -> dict[str, Any]:
    return {"resources": [{"kind": "remote_entity", "system": "scripted", "identity": name}]} | more


def owner(epoch: int) -> dict[str, Any]:
    return {"owner": {"workspace": "w", "session": scripts.SESSION, "epoch": epoch}}


async def blocked(control_plane: ControlPlane, operation_id: str, code: ErrorCode) -> None:
    for _ in range(400):
        found = (await control_plane.get(operation_id)).blocked
        if found is not None and found.code == code:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{operation_id} was never blocked by {code}")


async def test_cancelling_a_session_stops_what_waits_asks_what_runs_and_observes_what_was_issued(
    stack: Stack, control_plane: ControlPlane
):
    quick = scripted(stack.catalog, call_timeout_seconds=60)
    job = scripted(stack.catalog, "job.v1", cancellation=True)
    asks = scripted(stack.catalog, "asks.v1", preparation=PreparationSupport.PURE)
    away = scripted(stack.catalog, "away.v1", readiness=True)
    await stack.start()
    held_up = Gate(completed())
    job.script("execute", Running(external_id="job-1", poll_after_seconds=0.2))
    job.script("observe", *[Running(external_id="job-1", poll_after_seconds=1)] * 500)
    job.script("cancel", lambda context, order: Cancelled(detail="stopped in time", evidence=evidence()))
    quick.script("execute", UnknownEffect(code="REPLY_LOST", detail="no reply"))
    quick.script("observe", held_up)
    away.script("readiness", *[NotReady(detail="closed on Sundays", retry_after_seconds=3600)] * 100)

    unknown = await control_plane.create(request("unknown", **elsewhere("a")))
    await control_plane.wait(unknown.operation_id, "unknown", timeout_seconds=30)
    running = await control_plane.create(request("running", "job.v1", **elsewhere("b")))
    await control_plane.wait(running.operation_id, "running", timeout_seconds=30)
    locked = await control_plane.create(request("locked", **elsewhere("a")))
    proposal = await control_plane.create(request("proposal", "asks.v1", decision=QUESTION, **elsewhere("c")))
    await settled(control_plane, proposal.operation_id)
    dependent = await control_plane.create(request("dependent", depends_on=[unknown.operation_id], **elsewhere("d")))
    unready = await control_plane.create(request("unready", "away.v1", **elsewhere("e")))
    held = await control_plane.create(request("held", on_create="hold", **elsewhere("f")))

    answer = await control_plane.cancel_session(scripts.SESSION, "the person went home")

    assert (answer.status, answer.epoch, answer.operations) == ("applied", 1, 7)
    for stopped in (locked, proposal, dependent, unready, held):
        operation = await control_plane.wait(stopped.operation_id, "cancelled", timeout_seconds=30)
        assert (operation.cancellation, operation.attempts) == ("confirmed", ())
    assert (await control_plane.wait(running.operation_id, "cancelled", timeout_seconds=30)).cancellation == "confirmed"
    assert [phase for phase, _ in job.calls].count("cancel") == 1
    issued = await control_plane.get(unknown.operation_id)
    assert (issued.state, issued.cancellation) == ("unknown", "requested")
    held_up.open()
    observed = await settled(control_plane, unknown.operation_id)
    assert (observed.state, observed.verification, observed.cancellation) == ("completed", "verified", "too_late")
    assert len(quick.effects) == 1
    assert asks.effects == away.effects == []


async def test_a_cancelled_run_starts_nothing_new_and_a_follow_up_run_may_without_resurrecting_anything(
    stack: Stack, control_plane: ControlPlane
):
    adapter = scripted(stack.catalog)
    await stack.start()
    draft = await control_plane.create(request("draft", decision=QUESTION))
    asked = await settled(control_plane, draft.operation_id)
    await control_plane.cancel_session(scripts.SESSION, "enough")

    with pytest.raises(Refusal) as late:
        await control_plane.create(request("new"))
    with pytest.raises(Refusal):
        await control_plane.decide(draft.operation_id, "approve", proposal_digest=asked.proposal_digest)
    same = await control_plane.create(request("draft", decision=QUESTION, **owner(1)))
    followed = await control_plane.create(request("new", **owner(1)))

    assert late.value.code == ErrorCode.OWNER_CANCELLED
    assert late.value.remedy == "stop; an explicit follow-up run passes owner.epoch 1"
    assert (same.operation_id, same.state) == (draft.operation_id, "cancelled")
    assert (await settled(control_plane, followed.operation_id)).verification == "verified"
    assert [operation_id for operation_id, _ in adapter.effects] == [followed.operation_id]


async def test_what_slips_past_a_cancellation_is_not_granted(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog)
    await stack.start()
    draft = await control_plane.create(request("draft", decision=QUESTION))
    asked = await settled(control_plane, draft.operation_id)

    async def lost(operation_id: str, command: dict[str, Any]) -> None:
        return None

    assert stack.unit is not None
    engine = stack.unit.activities._parts.engine
    cancel, engine.cancel = engine.cancel, lost  # type: ignore[method-assign]
    await control_plane.cancel_session(scripts.SESSION, "enough")
    engine.cancel = cancel  # type: ignore[method-assign]
    assert (await control_plane.get(draft.operation_id)).state == "awaiting_decision"
    await control_plane.decide(draft.operation_id, "approve", proposal_digest=asked.proposal_digest)

    ended = await control_plane.wait(draft.operation_id, "cancelled", timeout_seconds=30)

    assert (ended.cancellation, ended.attempts, adapter.effects) == ("confirmed", (), [])


async def test_the_sweep_tells_whoever_did_not_hear_of_a_cancellation(stack: Stack, control_plane: ControlPlane):
    scripted(stack.catalog)
    await stack.start()
    draft = await control_plane.create(request("draft", decision=QUESTION))
    await settled(control_plane, draft.operation_id)

    async def lost(operation_id: str, command: dict[str, Any]) -> None:
        return None

    assert stack.unit is not None
    engine = stack.unit.activities._parts.engine
    cancel, engine.cancel = engine.cancel, lost  # type: ignore[method-assign]
    await control_plane.cancel_session(scripts.SESSION, "enough")
    engine.cancel = cancel  # type: ignore[method-assign]

    await stack.sweep()

    ended = await control_plane.wait(draft.operation_id, "cancelled", timeout_seconds=30)
    kinds = await control_plane.history(draft.operation_id)
    assert isinstance(kinds, list)
    assert (kinds[-1].kind, kinds[-1].actor.principal) == ("cancel_locally", "counterfoil")
    assert ended.cancellation == "confirmed"


async def test_cancelling_the_same_epoch_twice_or_at_once_ends_one(stack: Stack, control_plane: ControlPlane):
    scripted(stack.catalog)
    await stack.start()
    await control_plane.create(request("one", on_create="hold"))

    answers = await asyncio.gather(
        *(control_plane.cancel_session(scripts.SESSION, "enough", epoch=0) for _ in range(4))
    )

    assert sorted(answer.status for answer in answers) == ["applied", "repeated", "repeated", "repeated"]
    assert {answer.epoch for answer in answers} == {1}
    with pytest.raises(Refusal) as ahead:
        await control_plane.cancel_session(scripts.SESSION, "enough", epoch=7)
    assert ahead.value.code == ErrorCode.BAD_COMMAND
    assert (await control_plane.session(scripts.SESSION)).epoch == 1


async def test_a_pause_keeps_new_dispatches_back_observes_what_was_issued_and_ends(
    stack: Stack, control_plane: ControlPlane
):
    adapter = scripted(stack.catalog, call_timeout_seconds=60)
    await stack.start()
    gate = Gate(completed())
    adapter.script("execute", Running(external_id="job-1", poll_after_seconds=0.2))
    adapter.script("observe", gate)
    running = await control_plane.create(request("running", **elsewhere("a")))
    await control_plane.wait(running.operation_id, "running", timeout_seconds=30)

    await control_plane.pause_session(scripts.SESSION, "a person wants to look")
    paused = await control_plane.create(request("paused", **elsewhere("b")))
    another = await control_plane.create(
        request("theirs", owner={"workspace": "w", "session": f"{scripts.SESSION}-another"}, **elsewhere("c"))
    )
    gate.open()

    await blocked(control_plane, paused.operation_id, ErrorCode.OWNER_PAUSED)
    assert (await settled(control_plane, running.operation_id)).verification == "verified"
    assert (await settled(control_plane, another.operation_id)).verification == "verified"
    assert (await control_plane.get(paused.operation_id)).state == "queued"

    answer = await control_plane.resume_session(scripts.SESSION)
    assert (answer.status, answer.paused, answer.operations) == ("applied", False, 1)
    assert (await settled(control_plane, paused.operation_id)).verification == "verified"


async def test_a_preparation_that_is_an_effect_is_kept_back_by_a_pause_too(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog, preparation=PreparationSupport.EFFECTFUL)
    await stack.start()
    await control_plane.create(request("first", on_create="hold"))
    await control_plane.pause_session(scripts.SESSION, "wait")
    paused = await control_plane.create(request("paused", **elsewhere("b")))
    await blocked(control_plane, paused.operation_id, ErrorCode.OWNER_PAUSED)
    assert adapter.calls == []

    await control_plane.resume_session(scripts.SESSION)

    assert (await settled(control_plane, paused.operation_id)).verification == "verified"
    assert [phase for phase, _ in adapter.calls].count("prepare") == 1


async def test_what_is_paused_in_a_line_lets_others_pass(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog, call_timeout_seconds=60)
    await stack.start()
    gate = Gate(completed())
    adapter.script("execute", gate)
    theirs = {"owner": {"workspace": "w", "session": f"{scripts.SESSION}-another"}}
    holder = await control_plane.create(request("holder", **theirs))
    waiting = await control_plane.create(request("waiting"))
    await blocked(control_plane, waiting.operation_id, ErrorCode.LOCKED)
    behind = await control_plane.create(request("behind", **theirs))
    await control_plane.pause_session(scripts.SESSION, "wait")
    gate.open()

    assert (await settled(control_plane, holder.operation_id)).verification == "verified"
    assert (await settled(control_plane, behind.operation_id)).verification == "verified"
    assert (await control_plane.get(waiting.operation_id)).state == "queued"
    await control_plane.resume_session(scripts.SESSION)
    assert (await settled(control_plane, waiting.operation_id)).verification == "verified"


async def test_a_session_that_was_never_heard_of_has_nothing_to_cancel(stack: Stack, control_plane: ControlPlane):
    await stack.start()

    with pytest.raises(Refusal) as refusal:
        await control_plane.pause_session("nobody's", "why not")

    assert refusal.value.code == ErrorCode.NOT_FOUND


async def test_who_may_not_operate_cannot_cancel_a_session_and_a_forged_seal_is_recorded(
    stack: Stack, control_plane: ControlPlane
):
    scripted(stack.catalog)
    await stack.start()
    await control_plane.create(request("one", on_create="hold"))

    for other, code in (
        (stack.control_plane(scopes=(Scope.READ, Scope.REVIEW)), ErrorCode.SCOPE_MISSING),
        (stack.control_plane(seal_key=b"somebody else's"), ErrorCode.FORGED_SEAL),
    ):
        with pytest.raises(Refusal) as refusal:
            await other.cancel_session(scripts.SESSION, "no", epoch=0)
        assert refusal.value.code == code

    assert (await control_plane.session(scripts.SESSION)).epoch == 0


MALFORMED = {
    "no argument": [],
    "two arguments": [{"session": "s"}, 2],
    "a string": ["stop"],
    "no payload": [{"session": "SESSION", "name": "cancel_session"}],
    "an unknown name": [{"session": "SESSION", "name": "burn_session", "payload": {}}],
    "an extra field": [{"session": "SESSION", "name": "pause_session", "payload": {"reason": "r", "sudo": True}}],
}


@pytest.mark.parametrize("shape", MALFORMED)
async def test_a_malformed_command_to_a_session_ends_at_once_and_changes_nothing(
    stack: Stack, control_plane: ControlPlane, shape: str
):
    scripted(stack.catalog)
    await stack.start()
    await control_plane.create(request("one", on_create="hold"))
    arguments: list[Any] = [
        {k: v.replace("SESSION", scripts.SESSION) if isinstance(v, str) else v for k, v in one.items()}
        if isinstance(one, dict)
        else one
        for one in MALFORMED[shape]
    ]

    handle = await stack.client.start_workflow(
        "SessionCommand", args=arguments, id=f"{scripts.SESSION}-command", task_queue=stack.settings.task_queue
    )

    answer = await asyncio.wait_for(handle.result(), 20)
    assert (answer["status"], answer["operations"]) == ("refused", 0)
    assert answer["code"] in ("BAD_COMMAND", "NOT_FOUND")
    standing = await control_plane.session(scripts.SESSION)
    assert (standing.epoch, standing.paused) == (0, False)
