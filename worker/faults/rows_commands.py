"""Rows of the matrix about what people and hosts send: repeated, late, forged, contradictory, malformed."""

from __future__ import annotations

import asyncio

from counterfoil.models.common import Scope, utc_now
from counterfoil.models.errors import CounterfoilError
from counterfoil.models.operations.commands import Answer, CommandName, Decide, seal
from counterfoil.worker.faults.scene import QUESTION, Scene, expect, refused


async def same_key_another_request(scene: Scene) -> None:
    asked = scene.parcel()
    await scene.worker()
    first = await scene.ask(asked)
    other = asked.model_copy(update={"input": {"value": "another", "seconds": 0}})
    elsewhere = scene.line().model_copy(update={"idempotency_key": asked.idempotency_key})
    for changed in (other, elsewhere):
        expect("another request", await refused(scene.control_plane.create(changed)), "IDEMPOTENCY_CONFLICT")
    again = await scene.ask(asked)
    expect("the same request", again.operation_id, first.operation_id)
    await scene.expect_end(asked, "completed", "verified", effects=1, attempts=(1,))


async def approved_twice_at_once(scene: Scene) -> None:
    asked = scene.parcel(decision=QUESTION)
    await scene.worker()
    await scene.ask(asked)
    waiting = await scene.until(asked, "awaiting_decision")
    answers = await asyncio.gather(*(scene.decide(waiting, "approve") for _ in range(2)))
    expect("answers", sorted(answer.status.value for answer in answers), ["applied", "repeated"])
    await scene.expect_end(asked, "completed", "verified", effects=1, attempts=(1,))
    expect("approvals", (await scene.kinds(asked)).count("approve"), 1)


async def cancelled_at_each_time(scene: Scene) -> None:
    before, during, after = scene.parcel(decision=QUESTION), scene.parcel(-1), scene.parcel()
    uncertain = scene.parcel(8)
    await scene.worker()
    for asked in (before, during, after, uncertain):
        await scene.ask(asked)
    await scene.until(before, "awaiting_decision")
    await scene.until(during, "running")
    await scene.until(uncertain, "running")
    await scene.settled(after)
    # The courier stops what it is told to, and the answer is lost.
    scene.desk.order(uncertain.operation_id, "drop_after")
    for asked in (before, during, after, uncertain):
        await scene.control_plane.cancel(asked.operation_id, "not wanted")
    told = []
    for asked, state, effects in ((before, "cancelled", 0), (during, "cancelled", 0), (after, "completed", 1)):
        ended = await scene.settled(asked)
        expect("state", ended.state.value, state)
        expect("effects", len(scene.effects(asked)), effects)
        told.append(ended.cancellation.value)
    expect("cancellation", told, ["confirmed", "confirmed", "too_late"])
    await scene.expect_end(uncertain, "cancelled", "unavailable", effects=0)
    expect("times the courier was told", (await scene.kinds(uncertain)).count("cancel_sent"), 1)


async def late_duplicate_reordered_signals(scene: Scene) -> None:
    asked = scene.parcel(decision=QUESTION)
    await scene.worker(allow_unsealed="true")
    await scene.ask(asked)
    waiting = await scene.until(asked, "awaiting_decision")
    approval = {"proposal_digest": str(waiting.proposal_digest), "verdict": "approve"}
    await scene.signal(asked, "resolve_unknown", _attestation(waiting.revision + 3))  # before there is anything unknown
    await asyncio.gather(*(scene.signal(asked, "decide", approval) for _ in range(3)))
    await scene.expect_end(asked, "completed", "verified", effects=1, attempts=(1,))
    kinds = await scene.kinds(asked)
    recorded = [kinds.count(kind) for kind in ("approve", "command_repeated", "command_refused")]
    expect("approvals, repetitions and refusals", recorded, [1, 2, 1])
    code = await refused(
        scene.control_plane.decide(asked.operation_id, "decline", proposal_digest=approval["proposal_digest"])
    )
    expect("a late decision", code, "NOT_POSSIBLE")
    expect("what is recorded of them", (await scene.refusals(asked))[-1], "NOT_POSSIBLE")
    expect("the state", (await scene.get(asked)).state.value, "completed")


def _attestation(revision: int) -> dict[str, object]:
    return {"expected_revision": revision, "resolution_key": "r", "status": "not_applied", "summary": "too early"}


async def two_attestations(scene: Scene) -> None:
    asked = scene.record("note")
    scene.desk.order(asked.operation_id, "drop_after")
    await scene.worker()
    await scene.ask(asked)
    unknown = await scene.expect_end(asked, "unknown", "pending", effects=1)
    outcomes = await asyncio.gather(
        scene.attest(unknown, "applied", "a"), scene.attest(unknown, "applied", "b"), return_exceptions=True
    )
    won = [one for one in outcomes if isinstance(one, Answer)]
    lost = [one.code.value for one in outcomes if isinstance(one, CounterfoilError)]
    expect("how many won", len(won), 1)
    expect("why the other lost", lost, ["STALE_REVISION"])
    key = "a" if isinstance(outcomes[0], Answer) else "b"
    repeated = await scene.attest(unknown, "applied", key)
    expect("the same key again", repeated.status.value, "repeated")
    other = await refused(scene.attest(unknown, "applied", key, summary="looked elsewhere"))
    expect("the same key for other content", other, "RESOLUTION_KEY_CONFLICT")
    await scene.expect_end(asked, "completed", "unavailable", effects=1, attempts=(1,))


async def malformed_signals(scene: Scene) -> None:
    asked = scene.parcel(decision=QUESTION)
    await scene.worker()
    await scene.ask(asked)
    await scene.until(asked, "awaiting_decision")
    await scene.signal(asked, "decide")
    await scene.signal(asked, "decide", {}, {})
    await scene.signal(asked, "decide", "nonsense")
    await scene.signal(asked, "no_such_command", {})

    async def recorded() -> bool:
        return len(await scene.refusals(asked)) == 4

    await scene.until_true("four refusals are recorded", recorded)
    await scene.approve(asked)
    await scene.expect_end(asked, "completed", "verified", effects=1, attempts=(1,))


async def unsealed_or_forged(scene: Scene) -> None:
    asked = scene.parcel(decision=QUESTION)
    allowing = scene.parcel(decision=QUESTION)
    worker = await scene.worker()
    await scene.ask(asked)
    waiting = await scene.until(asked, "awaiting_decision")
    command = Decide(proposal_digest=str(waiting.proposal_digest), verdict="approve")
    forged = seal(
        b"not the deployment's key",
        operation_id=asked.operation_id,
        name=CommandName.DECIDE,
        command=command,
        principal="mallory",
        scope=Scope.ADMIN,
        at=utc_now(),
    )
    await scene.signal(asked, "decide", forged)
    await scene.signal(asked, "decide", command.model_dump(mode="json"))

    async def recorded() -> bool:
        return len(await scene.refusals(asked)) == 2

    await scene.until_true("two refusals are recorded", recorded)
    expect("state", (await scene.get(asked)).state.value, "awaiting_decision")
    expect("effects", len(scene.effects(asked)), 0)
    await scene.approve(asked)
    await scene.expect_end(asked, "completed", "verified", effects=1, attempts=(1,))
    worker.kill()
    await scene.worker(allow_unsealed="true")
    await scene.ask(allowing)
    waiting = await scene.until(allowing, "awaiting_decision")
    command = Decide(proposal_digest=str(waiting.proposal_digest), verdict="approve")
    await scene.signal(allowing, "decide", command.model_dump(mode="json"))
    decided = await scene.expect_end(allowing, "completed", "verified", effects=1, attempts=(1,))
    expect("who decided", decided.decision and decided.decision.actor.principal, "unauthenticated")
