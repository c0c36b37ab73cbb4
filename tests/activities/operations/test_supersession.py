"""Supersession: a draft is replaced as a whole, or has been dispatched; and what was superseded can still be read."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from counterfoil.models.errors import ErrorCode, Refusal
from counterfoil.models.operations.lifecycle import Event, State, possible
from counterfoil.models.operations.outcomes import Completed, Prepared, TypedResult, Verified
from counterfoil.models.operations.route import PreparationSupport
from support.scripted import request

ASKED = {"decision": {"reason": "r", "question": "Really?"}}
DONE = Completed(result=TypedResult(kind="scripted", summary="done"))


async def test_a_revised_proposal_takes_the_place_of_one_that_awaits_a_decision(bench: Any) -> None:
    draft = await bench.create(key="draft", **ASKED)
    asked = await bench.read(draft.id)
    await bench.tell(draft.id, "decide", {"proposal_digest": asked.proposal_digest, "verdict": "revise", "notes": "7"})
    bench.woken.clear()

    revised = await bench.create(key="revised", supersedes=draft.id, plan_revision=1, input={"value": 7}, **ASKED)

    old = await bench.read(draft.id)
    assert (old.state, old.verification, old.superseded_by) == ("superseded", "unavailable", revised.id)
    assert (old.decision.verdict, old.decision.notes) == ("revise", "7")
    assert old.proposal_digest == asked.proposal_digest
    assert bench.woken == [draft.id]
    assert await bench.kinds(draft.id) == ["created", "ask", "revise", "supersede"]
    assert (await bench.read(revised.id)).state == "awaiting_decision"


async def test_an_answer_to_what_was_superseded_authorises_nothing_and_is_recorded(bench: Any) -> None:
    draft = await bench.create(key="draft", **ASKED)
    digest = (await bench.read(draft.id)).proposal_digest
    revised = await bench.create(key="revised", supersedes=draft.id, **ASKED)

    for operation_id in (draft.id, revised.id):
        answer = await bench.tell(operation_id, "decide", {"proposal_digest": digest, "verdict": "approve"})
        assert answer.status == "refused"

    assert not await bench.grant(draft.id)
    assert (await bench.read(revised.id)).state == "awaiting_decision"
    assert (await bench.kinds(draft.id))[-1] == "command_refused"


async def test_the_same_superseding_request_is_the_same_operation_again(bench: Any) -> None:
    draft = await bench.create(key="draft", **ASKED)
    revised = await bench.create(key="revised", supersedes=draft.id)

    again = await bench.create(key="revised", supersedes=draft.id)

    assert again.id == revised.id
    assert (await bench.kinds(draft.id)).count("supersede") == 1


async def test_what_was_superseded_cannot_be_superseded_again(bench: Any, refused: Any) -> None:
    draft = await bench.create(key="draft", **ASKED)
    await bench.create(key="revised", supersedes=draft.id)

    with refused(ErrorCode.NOT_SUPERSEDABLE):
        await bench.create(key="again", supersedes=draft.id)


async def test_an_older_plan_cannot_take_the_place_of_a_newer_one(bench: Any, refused: Any) -> None:
    draft = await bench.create(key="draft", plan_revision=4, **ASKED)

    with refused(ErrorCode.NOT_SUPERSEDABLE):
        await bench.create(key="older", supersedes=draft.id, plan_revision=3)


@pytest.mark.parametrize("owner", [{"workspace": "w", "session": "another"}])
async def test_another_session_cannot_supersede(bench: Any, refused: Any, owner: dict[str, str]) -> None:
    draft = await bench.create(key="draft", **ASKED)

    with refused(ErrorCode.NOT_FOUND):
        await bench.create(key="theirs", supersedes=draft.id, owner=owner)


async def dispatched(bench: Any, operation_id: str) -> None:
    assert await bench.grant(operation_id)


async def replied(bench: Any, operation_id: str) -> None:
    await dispatched(bench, operation_id)
    await bench.reply(operation_id, DONE)


async def cancelled(bench: Any, operation_id: str) -> None:
    await bench.tell(operation_id, "cancel", {"reason": "no"})


@pytest.mark.parametrize("reach", [dispatched, replied, cancelled])
async def test_what_was_dispatched_or_has_ended_cannot_be_erased_by_replanning(
    bench: Any, refused: Any, reach: Any
) -> None:
    draft = await bench.create(key="draft")
    await reach(bench, draft.id)
    before = await bench.read(draft.id)

    with refused(ErrorCode.NOT_SUPERSEDABLE):
        await bench.create(key="revised", supersedes=draft.id)

    after = await bench.read(draft.id)
    assert (after.state, after.superseded_by, after.version) == (before.state, None, before.version)
    with refused(ErrorCode.NOT_FOUND):
        await bench.row(request("revised").operation_id)


async def test_a_preparation_that_had_effects_cannot_be_erased_by_replanning(bench: Any, refused: Any) -> None:
    bench.route(preparation=PreparationSupport.EFFECTFUL)
    draft = await bench.create(key="draft", **ASKED)
    assert await bench.grant(draft.id, kind="prepare")
    await bench.reply(draft.id, Prepared(summary="a remote draft was made"))
    assert (await bench.read(draft.id)).state == "awaiting_decision"

    with refused(ErrorCode.NOT_SUPERSEDABLE):
        await bench.create(key="revised", supersedes=draft.id)


async def test_superseding_and_executing_at_once_have_exactly_one_winner(bench: Any) -> None:
    for number in range(10):
        draft = await bench.create(key=f"draft-{number}")

        granted, replaced = await asyncio.gather(
            bench.grant(draft.id), bench.create(key=f"revised-{number}", supersedes=draft.id), return_exceptions=True
        )

        state = (await bench.read(draft.id)).state
        if isinstance(replaced, Refusal):
            assert (replaced.code, granted, state) == (ErrorCode.NOT_SUPERSEDABLE, True, "dispatching")
            await bench.reply(draft.id, DONE)
            await bench.verify(draft.id, Verified(evidence={"source": "t", "observed_at": bench.clock.now}))
        else:
            assert (granted, state) == (False, "superseded")
            await bench.tell(replaced.id, "cancel", {"reason": "next round"})


async def test_whoever_waited_for_a_draft_waits_for_its_verified_replacement(bench: Any) -> None:
    draft = await bench.create(key="draft", **ASKED)
    after = await bench.create(
        key="after", depends_on=[draft.id], resources=[{"kind": "file", "system": "scripted", "identity": "other"}]
    )
    assert not await bench.grant(after.id)
    revised = await bench.create(key="revised", supersedes=draft.id)
    again = await bench.create(key="again", supersedes=revised.id)

    assert not await bench.grant(after.id)
    blocked = (await bench.read(after.id)).blocked
    assert blocked.detail == f"it waits for {again.id}, which took the place of {draft.id}: that is 'queued'"
    assert await bench.grant(again.id)
    await bench.reply(again.id, DONE)
    bench.woken.clear()
    await bench.verify(again.id, Verified(evidence={"source": "t", "observed_at": bench.clock.now}))

    assert bench.woken == [after.id]
    assert await bench.grant(after.id)
    (shown,) = (await bench.read(after.id)).dependencies
    assert (shown.named, shown.operation_id, shown.verification) == (draft.id, again.id, "verified")


async def test_depending_on_what_was_superseded_means_its_replacement(bench: Any) -> None:
    draft = await bench.create(key="draft", **ASKED)
    revised = await bench.create(key="revised", supersedes=draft.id)

    after = await bench.create(key="after", depends_on=[draft.id])

    (shown,) = (await bench.read(after.id)).dependencies
    assert (shown.named, shown.operation_id) == (draft.id, revised.id)


async def test_a_superseded_operation_gives_back_its_place_in_every_line(bench: Any) -> None:
    holder = await bench.create(key="holder")
    draft = await bench.create(key="draft")
    behind = await bench.create(key="behind")
    assert await bench.grant(holder.id)
    assert not await bench.grant(draft.id)
    assert not await bench.grant(behind.id)

    other = [{"kind": "file", "system": "scripted", "identity": "elsewhere"}]
    await bench.create(key="revised", supersedes=draft.id, resources=other)
    bench.woken.clear()
    await bench.reply(holder.id, DONE)
    await bench.verify(holder.id, Verified(evidence={"source": "t", "observed_at": bench.clock.now}))

    assert bench.woken == [behind.id]
    assert await bench.claims(draft.id) == []


@pytest.mark.parametrize("state", list(State))
def test_the_lifecycle_lets_only_undispatched_operations_be_superseded(state: State) -> None:
    undispatched = {"held", "preparing", "prepared", "awaiting_decision", "revision_requested", "queued"}

    assert possible(state, Event.SUPERSEDE) == (state in undispatched)
