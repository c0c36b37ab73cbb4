"""Rows of the matrix about one dispatch: what is lost between the journal, the target, the reply and the store."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from counterfoil.activities.fault_points import EVERY_WRITE, TIME_OUT, WRITES, FaultPoint
from counterfoil.models.common import utc_now
from counterfoil.models.operations.contract import DecisionRequest
from counterfoil.worker.faults.desk import BRIEF_RETENTION_SECONDS, FOR_EVER, HOLD_SECONDS
from counterfoil.worker.faults.scene import QUESTION, Scene, expect, refused
from counterfoil.worker.faults.stage import HEARTBEAT_SECONDS


async def killed_before_the_journal(scene: Scene) -> None:
    asked = scene.parcel()
    await scene.begin(asked)
    await scene.worker_killed_at(FaultPoint.JOURNAL_BEFORE_COMMIT)
    expect("effects when killed", len(scene.effects(asked)), 0)
    await scene.worker()
    await scene.expect_end(asked, "completed", "verified", effects=1, attempts=(2,), unknown=False)


async def killed_after_the_journal(scene: Scene) -> None:
    asked = scene.parcel(max_attempts=2)
    await scene.begin(asked)
    await scene.worker_killed_at(FaultPoint.JOURNAL_COMMITTED)
    expect("effects when killed", len(scene.effects(asked)), 0)
    await scene.worker()
    await scene.expect_end(asked, "completed", "verified", effects=1, attempts=(1, 2), unknown=True)


async def connection_drops_after_the_effect(scene: Scene) -> None:
    asked = scene.record()
    scene.desk.order(asked.operation_id, "drop_after")
    scene.desk.order(asked.operation_id, "blind", times=5)
    await scene.worker()
    await scene.ask(asked)
    unknown = await scene.until(asked, "unknown")
    expect("effects while unknown", len(scene.effects(asked)), 1)
    expect("locks held while unknown", [claim.held for claim in unknown.claims], [True, True])
    await scene.expect_end(asked, "completed", "verified", effects=1, attempts=(1,), unknown=True)


async def location_lost(scene: Scene) -> None:
    found, untraceable = scene.record(), scene.record("note")
    for asked in (found, untraceable):
        scene.desk.order(asked.operation_id, "nameless")
    await scene.worker()
    for asked in (found, untraceable):
        await scene.ask(asked)
    await scene.expect_end(found, "completed", "verified", effects=1, attempts=(1,), unknown=True)
    unknown = await scene.expect_end(untraceable, "unknown", "pending", effects=1, attempts=(1,))
    await scene.attest(unknown, "applied")
    await scene.expect_end(untraceable, "completed", "unavailable", effects=1, attempts=(1,))


async def database_down_when_recording(scene: Scene) -> None:
    asked = scene.parcel()
    scene.desk.order(asked.operation_id, "hold")
    worker = await scene.worker()
    await scene.ask(asked)
    await scene.until_effect(asked)
    async with scene.stage.store.outage():
        await asyncio.sleep(2 * HOLD_SECONDS)  # the reply has arrived, and there is nowhere to write it down
        worker.kill()
    expect("effects when killed", len(scene.effects(asked)), 1)
    await scene.worker()
    await scene.expect_end(asked, "completed", "verified", effects=1, attempts=(1,), unknown=True)


async def every_write_times_out(scene: Scene) -> None:
    await scene.worker(fault=f"{TIME_OUT}{EVERY_WRITE}")
    question = QUESTION.model_copy(update={"expires_after_seconds": 1.0})
    limited = {"deadline": utc_now() + timedelta(hours=1)}
    line, parcel = scene.line(2, decision=QUESTION), scene.parcel(1, 2, constraints=limited)
    untold, told, late = scene.parcel(3, 2), scene.parcel(-1, 2), scene.parcel(decision=question)
    await scene.ask(line)
    await scene.approve(line)
    await scene.expect_end(line, "completed", "verified", effects=1)
    await scene.ask(parcel)
    await scene.expect_end(parcel, "completed", "verified", effects=1)
    for asked in (untold, told):
        await scene.ask(asked)
        await scene.until(asked, "running")
        await scene.control_plane.cancel(asked.operation_id, "not wanted")
    # Of the first nobody knows whether the courier was told, so it is not told again: the parcel arrives.
    ended = await scene.expect_end(untold, "completed", "verified", effects=1)
    expect("its cancellation", ended.cancellation.value, "too_late")
    await scene.expect_end(told, "cancelled", "unavailable", effects=0)
    await scene.ask(late)
    await scene.expect_end(late, "expired", "unavailable", effects=0)
    follows = scene.line(2, depends_on=(line.operation_id,))
    await scene.ask(follows)
    await scene.expect_end(follows, "completed", "verified", effects=1)
    await scene.control_plane.pause_session(follows.owner.session, "to look")
    await scene.control_plane.resume_session(follows.owner.session)
    marked = {path.name.removeprefix(f"fault.{TIME_OUT}") for path in scene.stage.state_dir.glob("fault.*")}
    # No adapter here takes back what it accepted.
    passed = {point.value for point in WRITES} - {FaultPoint.REFUSE_BEFORE_COMMIT.value}
    expect("writes that timed out", sorted(marked), sorted(passed))


async def stopped_past_the_lease(scene: Scene) -> None:
    asked = scene.parcel()
    scene.desk.order(asked.operation_id, "hold")
    first = await scene.worker()
    await scene.ask(asked)
    await scene.until_effect(asked)
    first.pause()
    try:
        await scene.worker()
        await asyncio.sleep(HEARTBEAT_SECONDS)
        await scene.expect_end(asked, "completed", "verified", effects=1, attempts=(1,), unknown=True)
    finally:
        first.resume()

    async def recorded() -> bool:
        return "late_reply" in await scene.kinds(asked)

    await scene.until_true("the late reply is recorded", recorded)
    await scene.expect_end(asked, "completed", "verified", effects=1, attempts=(1,))


async def clock_moved(scene: Scene) -> None:
    asked = scene.parcel()
    hurried = scene.parcel(constraints={"deadline": utc_now() + timedelta(minutes=30)})
    await scene.begin(asked)
    await scene.worker_killed_at(FaultPoint.ADAPTER_RETURNED, clock_shift_seconds="3600")
    second = await scene.worker(clock_shift_seconds="-3600")
    # An hour's evidence is missing: it happened once, and is not called verified.
    await scene.expect_end(asked, "completed", "expired", effects=1, attempts=(1,), unknown=True)
    second.kill()
    await scene.worker(clock_shift_seconds="3600")
    expect("a deadline within the hour", await refused(scene.ask(hurried)), "DEADLINE_PASSED")
    expect("its effects", len(scene.effects(hurried)), 0)


async def key_past_its_retention(scene: Scene) -> None:
    brief = scene.record(max_attempts=2, profile="brief")
    note = scene.record("note", max_attempts=2)
    await scene.begin(brief)
    await scene.worker_killed_at(FaultPoint.JOURNAL_COMMITTED)
    await asyncio.sleep(BRIEF_RETENTION_SECONDS)
    await scene.worker()
    await scene.expect_end(brief, "not_applied", "unavailable", effects=0, attempts=(1,), unknown=True)
    scene.desk.order(note.operation_id, "drop")
    await scene.ask(note)
    unknown = await scene.expect_end(note, "unknown", "pending", effects=0, attempts=(1,))
    await scene.attest(unknown, "not_applied")
    await scene.expect_end(note, "not_applied", "unavailable", effects=0, attempts=(1,))


async def polls_tell_nothing(scene: Scene) -> None:
    failing = scene.record(constraints={"max_polls": 5})
    endless = scene.parcel(-1, constraints={"max_polls": 5})
    scene.desk.order(failing.operation_id, "drop_after")
    scene.desk.order(failing.operation_id, "blind", times=FOR_EVER)
    await scene.worker()
    for asked, effects in ((failing, 1), (endless, 0)):
        await scene.ask(asked)
        unknown = await scene.expect_end(asked, "unknown", "pending", effects=effects, attempts=(1,))
        expect("polls", unknown.polls, 5)
        await asyncio.sleep(1)
        expect("polls a second later", (await scene.get(asked)).polls, 5)
        await scene.attest(unknown, "applied" if effects else "stopped")


async def own_write_or_somebody_elses(scene: Scene) -> None:
    own, foreign = scene.record(record="own"), scene.record(record="foreign")
    for asked, record in ((own, "own"), (foreign, "foreign")):
        scene.desk.call("PUT", f"/seed/v1/shelves/{_shelf(asked.input)}/contacts/{record}", {"name": "nobody"})
    scene.desk.order(own.operation_id, "drop_after")
    scene.desk.order(foreign.operation_id, "drop")
    await scene.worker()
    await scene.ask(own)
    await scene.expect_end(own, "completed", "verified", effects=1, attempts=(1,), unknown=True)
    await scene.ask(foreign)
    await scene.until(foreign, "unknown")
    scene.desk.call("PUT", f"/seed/v1/shelves/{_shelf(foreign.input)}/contacts/foreign", {"name": "somebody else"})
    unknown = await scene.expect_end(foreign, "unknown", "pending", effects=0, attempts=(1,))
    await scene.attest(unknown, "not_applied")


def _shelf(given: dict[str, object]) -> str:
    parameters = given["parameters"]
    assert isinstance(parameters, dict)
    return str(parameters["shelf"])


async def look_up_lags(scene: Scene) -> None:
    lagging, absent = scene.record("lead"), scene.record("lead")
    scene.desk.order(lagging.operation_id, "drop_after")
    scene.desk.order(lagging.operation_id, "lagging")
    scene.desk.order(absent.operation_id, "drop")
    await scene.worker()
    for asked in (lagging, absent):
        await scene.ask(asked)
    seen = await scene.expect_end(lagging, "completed", "verified", effects=1, attempts=(1,), unknown=True)
    expect("looks that found nothing, at least one", seen.polls > 1, True)
    unknown = await scene.expect_end(absent, "unknown", "pending", effects=0, attempts=(1,))
    await scene.attest(unknown, "not_applied")


async def three_of_five(scene: Scene) -> None:
    asked = scene.record(fields={f"cell_{number}": f"value {number}" for number in range(5)})
    scene.desk.order(asked.operation_id, "partly")
    await scene.worker()
    await scene.ask(asked)
    await scene.expect_end(asked, "completed", "partial", effects=1, attempts=(1,), unknown=False)


async def changed_after_approval(scene: Scene) -> None:
    line, change = scene.line(decision=QUESTION), scene.record(record="bound", decision=QUESTION)
    place = f"/seed/v1/shelves/{_shelf(change.input)}/contacts/bound"
    scene.desk.call("PUT", place, {"name": "nobody"})
    worker = await scene.worker()
    await scene.ask(line)
    other = await scene.ask(change)
    asked = await scene.until(line, "awaiting_decision")
    expect(
        "an approval of other arguments",
        await refused(
            scene.control_plane.decide(line.operation_id, "approve", proposal_digest=str(other.request_digest))
        ),
        "PROPOSAL_MISMATCH",
    )
    planned = line.model_copy(update={"plan_revision": 1})
    expect("another plan under its key", await refused(scene.control_plane.create(planned)), "IDEMPOTENCY_CONFLICT")
    with (scene.files.workspace / "journal-0.txt").open("a") as journal:
        journal.write("somebody else was here\n")
    await scene.until(change, "awaiting_decision")
    scene.desk.call("PUT", place, {"name": "somebody else"})
    await scene.decide(asked, "approve")
    await scene.approve(change)
    for one in (line, change):
        ended = await scene.expect_end(one, "failed", "unavailable", effects=0)
        expect("why", ended.problem and ended.problem.code, "SOURCE_CHANGED")
    worker.kill()


async def late_before_dispatch(scene: Scene) -> None:
    question = DecisionRequest(reason="by the matrix", question="Do it?", expires_after_seconds=1)
    unanswered = scene.parcel(decision=question)
    holder = scene.parcel(7, locker="row-27")
    await scene.worker()
    await scene.ask(holder)
    await scene.until(holder, "running")
    hurried = scene.parcel(locker="row-27", constraints={"deadline": utc_now() + timedelta(seconds=3)})
    await scene.ask(hurried)
    await scene.ask(unanswered)
    await scene.expect_end(hurried, "expired", "unavailable", effects=0, attempts=())
    expired = await scene.expect_end(unanswered, "expired", "unavailable", effects=0, attempts=())
    expect("an approval that comes late", await refused(scene.decide(expired, "approve")), "NOT_POSSIBLE")
    await scene.expect_end(holder, "completed", "verified", effects=1)
    await _assumption_changed(scene)
    await _owner_paused_and_cancelled(scene)


async def _assumption_changed(scene: Scene) -> None:
    subject = scene.parcel(decision=QUESTION)
    await scene.ask(subject)
    version = (await scene.until(subject, "awaiting_decision")).version
    assumes = scene.parcel(decision=QUESTION, assumptions=({"subject": subject.operation_id, "version": version},))
    await scene.ask(assumes)
    await scene.until(assumes, "awaiting_decision")
    await scene.control_plane.cancel(subject.operation_id, "changed")
    await scene.approve(assumes)
    stale = await scene.expect_end(assumes, "failed", "unavailable", effects=0, attempts=())
    expect("why it was not granted", stale.problem and stale.problem.code, "STALE_ASSUMPTIONS")


async def _owner_paused_and_cancelled(scene: Scene) -> None:
    waits = scene.parcel(decision=QUESTION)
    await scene.ask(waits)
    await scene.until(waits, "awaiting_decision")
    await scene.control_plane.pause_session(waits.owner.session, "to look")
    await scene.approve(waits)

    async def held_back() -> bool:
        blocked = (await scene.get(waits)).blocked
        return blocked is not None and blocked.code == "OWNER_PAUSED"

    await scene.until_true("it is held back", held_back)
    expect("effects while paused", len(scene.effects(waits)), 0)
    await scene.control_plane.cancel_session(waits.owner.session, "enough")
    await scene.expect_end(waits, "cancelled", "unavailable", effects=0, attempts=())
