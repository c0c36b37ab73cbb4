"""Operations that wait for others or take their place, through the real server: woken, ended, never left behind."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from counterfoil.control_plane.client import ControlPlane
from counterfoil.models.errors import Refusal
from counterfoil.models.operations.outcomes import Failed, Partial, UnknownEffect
from counterfoil.models.operations.route import PreparationSupport
from support.gate import Gate
from support.scripted import completed, evidence, request, scripted
from support.stack import Stack, settled

QUESTION = {"reason": "it is live data", "question": "Set the value to 2?"}


def elsewhere(name: str) -> dict[str, Any]:
    return {"resources": [{"kind": "remote_entity", "system": "scripted", "identity": name}]}


async def blocked(control_plane: ControlPlane, operation_id: str, code: str) -> None:
    for _ in range(300):
        operation = await control_plane.get(operation_id)
        if operation.blocked is not None and operation.blocked.code == code:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"never blocked by {code}: {operation.state} {operation.blocked}")


async def test_a_chain_runs_in_its_order_each_once_what_it_needs_is_verified(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog, preparation=PreparationSupport.PURE, call_timeout_seconds=60)
    await stack.start()
    gate = Gate(completed())
    adapter.script("execute", gate)

    first = await control_plane.create(request("first", **elsewhere("a")))
    second = await control_plane.create(request("second", depends_on=[first.operation_id], **elsewhere("b")))
    third = await control_plane.create(
        request("third", depends_on=[first.operation_id, second.operation_id], **elsewhere("c"))
    )
    await blocked(control_plane, second.operation_id, "DEPENDENCY_PENDING")
    assert (await control_plane.get(second.operation_id)).prepared is None
    gate.open()

    for one in (third, second, first):
        assert (await settled(control_plane, one.operation_id)).verification == "verified"
    assert [operation_id for operation_id, _ in adapter.effects] == [
        first.operation_id,
        second.operation_id,
        third.operation_id,
    ]


@pytest.mark.parametrize(
    ("phase", "answer"),
    [
        ("execute", Failed(code="NO", detail="no")),
        ("verify", Partial(evidence=evidence(), detail="half of it")),
    ],
)
async def test_what_depends_on_something_that_was_not_verified_ends_and_says_so(
    stack: Stack, control_plane: ControlPlane, phase: str, answer: Any
):
    adapter = scripted(stack.catalog, call_timeout_seconds=60)
    await stack.start()
    gate = Gate(answer if phase == "execute" else completed())
    adapter.script("execute", gate)
    if phase == "verify":
        adapter.script("verify", lambda context, order: Partial(evidence=evidence(), detail="half of it"))

    first = await control_plane.create(request("first"))
    second = await control_plane.create(request("second", depends_on=[first.operation_id], **elsewhere("b")))
    await blocked(control_plane, second.operation_id, "DEPENDENCY_PENDING")
    gate.open()

    ended = await settled(control_plane, second.operation_id)
    assert (ended.state, ended.problem.code) == ("failed", "DEPENDENCY_FAILED")
    assert [operation_id for operation_id, _ in adapter.effects] == [first.operation_id]


async def test_what_depends_on_an_unknown_effect_says_so_and_goes_on_once_that_is_observed(
    stack: Stack, control_plane: ControlPlane
):
    adapter = scripted(stack.catalog, call_timeout_seconds=60)
    await stack.start()
    gate = Gate(completed())
    adapter.script("execute", UnknownEffect(code="REPLY_LOST", detail="no reply"))
    adapter.script("observe", gate)

    first = await control_plane.create(request("first"))
    second = await control_plane.create(request("second", depends_on=[first.operation_id], **elsewhere("b")))
    await blocked(control_plane, second.operation_id, "DEPENDENCY_UNKNOWN")
    gate.open()

    assert (await settled(control_plane, second.operation_id)).verification == "verified"
    assert (await settled(control_plane, first.operation_id)).verification == "verified"


async def test_the_sweep_finds_a_waiting_operation_whose_wake_up_was_lost(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog, call_timeout_seconds=60)
    await stack.start()
    gate = Gate(completed())
    adapter.script("execute", gate)
    first = await control_plane.create(request("first"))
    second = await control_plane.create(request("second", depends_on=[first.operation_id], **elsewhere("b")))
    await blocked(control_plane, second.operation_id, "DEPENDENCY_PENDING")

    async def lost(operation_id: str) -> None:
        raise OSError("the wake-up was lost")

    assert stack.unit is not None
    engine = stack.unit.activities._parts.engine
    wake, engine.wake = engine.wake, lost  # type: ignore[method-assign]
    gate.open()
    await settled(control_plane, first.operation_id)
    engine.wake = wake  # type: ignore[method-assign]
    assert (await control_plane.get(second.operation_id)).state == "queued"

    swept = await stack.sweep()

    assert swept.woken == 1
    assert (await settled(control_plane, second.operation_id)).verification == "verified"


async def test_a_revision_supersedes_what_was_sent_back_and_its_workflow_ends(
    stack: Stack, control_plane: ControlPlane
):
    adapter = scripted(stack.catalog, preparation=PreparationSupport.PURE)
    await stack.start()
    draft = await control_plane.create(request("draft", decision=QUESTION))
    asked = await settled(control_plane, draft.operation_id)
    await control_plane.decide(
        draft.operation_id, "revise", proposal_digest=asked.proposal_digest, notes="make it seven"
    )
    follower = await control_plane.create(request("next", depends_on=[draft.operation_id], **elsewhere("b")))

    revised = await control_plane.create(
        request("revised", decision=QUESTION, supersedes=draft.operation_id, plan_revision=1, input={"value": 7})
    )
    standing = await settled(control_plane, revised.operation_id)
    await control_plane.decide(revised.operation_id, "approve", proposal_digest=standing.proposal_digest)

    assert (await settled(control_plane, revised.operation_id)).verification == "verified"
    assert (await settled(control_plane, follower.operation_id)).verification == "verified"
    assert (await stack.handle(draft.operation_id).result())["state"] == "superseded"
    old = await control_plane.get(draft.operation_id)
    assert (old.state, old.superseded_by, old.decision.notes) == ("superseded", revised.operation_id, "make it seven")
    assert old.prepared is not None
    assert [operation_id for operation_id, _ in adapter.effects] == [revised.operation_id, follower.operation_id]
    with pytest.raises(Refusal) as late:
        await control_plane.decide(draft.operation_id, "approve", proposal_digest=asked.proposal_digest)
    assert late.value.code == "NOT_POSSIBLE"


async def test_the_sweep_ends_a_superseded_operation_whose_wake_up_was_lost(stack: Stack, control_plane: ControlPlane):
    scripted(stack.catalog)
    await stack.start()
    draft = await control_plane.create(request("draft", decision=QUESTION))
    await settled(control_plane, draft.operation_id)

    async def lost(operation_id: str) -> None:
        raise OSError("the wake-up was lost")

    assert stack.unit is not None
    engine = stack.unit.activities._parts.engine
    wake, engine.wake = engine.wake, lost  # type: ignore[method-assign]
    revised = await control_plane.create(request("revised", supersedes=draft.operation_id))
    await settled(control_plane, revised.operation_id)
    engine.wake = wake  # type: ignore[method-assign]
    clock = stack.unit.database.clock
    stack.unit.database.clock = lambda: clock() + timedelta(minutes=2)
    assert (await control_plane.get(draft.operation_id)).state == "superseded"

    for _ in range(50):  # what Temporal lists lags behind
        if (await stack.sweep()).woken:
            break
        await asyncio.sleep(0.1)

    assert (await asyncio.wait_for(stack.handle(draft.operation_id).result(), 30))["state"] == "superseded"


async def test_approving_a_draft_and_superseding_it_at_once_make_one_effect(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog)
    await stack.start()
    for number in range(5):
        draft = await control_plane.create(request(f"draft-{number}", decision=QUESTION))
        asked = await settled(control_plane, draft.operation_id)

        _, replaced = await asyncio.gather(
            control_plane.decide(draft.operation_id, "approve", proposal_digest=asked.proposal_digest),
            control_plane.create(request(f"revised-{number}", supersedes=draft.operation_id)),
            return_exceptions=True,
        )

        old = await settled(control_plane, draft.operation_id)
        if isinstance(replaced, BaseException):
            assert (replaced.code, old.state) == ("NOT_SUPERSEDABLE", "completed")
            assert _effects(adapter).count(draft.operation_id) == 1
        else:
            assert old.state == "superseded"
            assert (await settled(control_plane, replaced.operation_id)).state == "completed"
            assert _effects(adapter).count(draft.operation_id) == 0
            assert _effects(adapter).count(replaced.operation_id) == 1


def _effects(adapter: Any) -> list[str]:
    return [operation_id for operation_id, _ in adapter.effects]
