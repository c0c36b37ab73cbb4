"""Dependencies: waited for until they are completed and verified, and reported as soon as they cannot be any more."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from counterfoil.activities.operations import guards
from counterfoil.activities.operations.rows import load
from counterfoil.models.errors import ErrorCode, Refusal
from counterfoil.models.operations.outcomes import (
    Completed,
    Contradicted,
    Evidence,
    Failed,
    NotApplied,
    Partial,
    TypedResult,
    UnknownEffect,
    VerificationUnavailable,
    Verified,
)
from counterfoil.models.operations.route import PreparationSupport
from support.scripted import request

DONE = Completed(result=TypedResult(kind="scripted", summary="done"))
LOST = UnknownEffect(code="REPLY_LOST", detail="no reply")


def on(*names: str) -> dict[str, Any]:
    """A request on a resource of its own that depends on operations."""
    return {"depends_on": list(names), "resources": [resource("of-its-own")]}


def resource(identity: str) -> dict[str, str]:
    return {"kind": "remote_entity", "system": "scripted", "identity": identity}


def seen(bench: Any) -> Evidence:
    return Evidence(source="target", observed_at=bench.clock.now)


async def completed(bench: Any, operation_id: str) -> None:
    assert await bench.grant(operation_id)
    await bench.reply(operation_id, DONE)


async def verified(bench: Any, operation_id: str) -> None:
    await completed(bench, operation_id)
    await bench.verify(operation_id, Verified(evidence=seen(bench)))


async def test_an_operation_is_granted_only_once_what_it_depends_on_is_completed_and_verified(bench: Any) -> None:
    first = await bench.create(key="first")
    second = await bench.create(key="second", **on(first.id))

    assert not await bench.grant(second.id)
    pending = (await bench.read(second.id)).blocked
    await completed(bench, first.id)
    assert not await bench.grant(second.id)
    unverified = (await bench.read(second.id)).blocked
    bench.woken.clear()
    await bench.verify(first.id, Verified(evidence=seen(bench)))

    assert pending.code == unverified.code == ErrorCode.DEPENDENCY_PENDING
    assert pending.detail == f"it waits for {first.id}: that is 'queued'"
    assert unverified.detail == f"it waits for {first.id}: that is 'completed' and its verification 'pending'"
    assert bench.woken == [second.id]
    assert await bench.grant(second.id)
    (shown,) = (await bench.read(second.id)).dependencies
    assert (shown.operation_id, shown.state, shown.verification) == (first.id, "completed", "verified")


async def test_a_waiting_operation_holds_no_resource_from_others(bench: Any) -> None:
    first = await bench.create(key="first")
    waiting = await bench.create(key="second", **on(first.id))
    other = await bench.create(key="other", resources=[resource("of-its-own")])

    assert not await bench.grant(waiting.id)

    assert await bench.claims(waiting.id) == []
    assert await bench.grant(other.id)


async def end_as(bench: Any, operation_id: str, how: str) -> None:
    match how:
        case "cancelled":
            await bench.tell(operation_id, "cancel", {"reason": "no"})
        case "expired":
            await bench.expire(operation_id)
        case "failed":
            assert await bench.grant(operation_id)
            await bench.reply(operation_id, Failed(code="NO", detail="no"))
        case "not_applied":
            assert await bench.grant(operation_id)
            await bench.reply(operation_id, LOST)
            await bench.look(operation_id, NotApplied(detail="absent", evidence=seen(bench)))
        case "partial":
            await completed(bench, operation_id)
            await bench.verify(operation_id, Partial(evidence=seen(bench), detail="half of it"))
        case "contradicted":
            await completed(bench, operation_id)
            await bench.verify(operation_id, Contradicted(evidence=seen(bench), detail="something else"))
        case "unverifiable":
            await completed(bench, operation_id)
            await bench.verify(operation_id, VerificationUnavailable(detail="nobody can look"))
        case "attested":
            assert await bench.grant(operation_id)
            await bench.reply(operation_id, LOST)
            bench.clock.forward(3600)
            revision = (await bench.read(operation_id)).revision
            attested = {"expected_revision": revision, "resolution_key": "k", "status": "applied", "summary": "seen"}
            assert (await bench.tell(operation_id, "resolve_unknown", attested)).status == "applied"


@pytest.mark.parametrize(
    "how",
    ["cancelled", "expired", "failed", "not_applied", "partial", "contradicted", "unverifiable", "attested"],
)
async def test_a_dependency_that_cannot_come_to_be_verified_ends_who_waits_for_it_with_its_reason(
    bench: Any, refused: Any, how: str
) -> None:
    first = await bench.create(key="first")
    second = await bench.create(key="second", **on(first.id))
    assert not await bench.grant(second.id)
    bench.woken.clear()

    await end_as(bench, first.id, how)

    assert second.id in bench.woken
    assert not await bench.grant(second.id)
    ended = await bench.read(second.id)
    assert (ended.state, ended.problem.code) == ("failed", "DEPENDENCY_FAILED")
    assert first.id in ended.problem.detail
    assert ended.attempts == ()
    with refused(ErrorCode.DEPENDENCY_FAILED):
        await bench.create(key="third", **on(first.id))


async def test_an_unknown_dependency_is_reported_as_such_and_waited_for_until_someone_knows(bench: Any) -> None:
    first = await bench.create(key="first")
    second = await bench.create(key="second", **on(first.id))
    assert await bench.grant(first.id)
    bench.woken.clear()
    await bench.reply(first.id, LOST)

    assert bench.woken == [second.id]
    assert not await bench.grant(second.id)
    blocked = (await bench.read(second.id)).blocked
    assert blocked.code == ErrorCode.DEPENDENCY_UNKNOWN
    assert blocked.detail == f"it depends on {first.id}: whether that had its effect is unknown"

    await bench.look(first.id, DONE)
    await bench.verify(first.id, Verified(evidence=seen(bench)))
    assert await bench.grant(second.id)


async def test_of_several_dependencies_the_worst_is_told(bench: Any) -> None:
    names = [(await bench.create(key=key, resources=[resource(key)])).id for key in ("verified", "pending", "unknown")]
    await verified(bench, names[0])
    assert await bench.grant(names[2])
    await bench.reply(names[2], LOST)
    waiting = await bench.create(key="waits", **on(*names))

    assert not await bench.grant(waiting.id)

    assert (await bench.read(waiting.id)).blocked.code == ErrorCode.DEPENDENCY_UNKNOWN
    await bench.tell(names[1], "cancel", {"reason": "no"})
    assert not await bench.grant(waiting.id)
    assert (await bench.read(waiting.id)).state == "failed"


async def test_a_dependency_that_is_contradicted_later_stops_what_was_not_dispatched_yet(bench: Any) -> None:
    first = await bench.create(key="first")
    await verified(bench, first.id)
    second = await bench.create(key="second", **on(first.id))
    await bench.tell(first.id, "reconcile", {})
    await bench.verify(first.id, Contradicted(evidence=seen(bench), detail="it is gone"))

    assert not await bench.grant(second.id)

    assert (await bench.read(second.id)).problem.code == "DEPENDENCY_FAILED"


async def test_a_preparation_waits_too_for_it_would_bind_what_is_about_to_change(bench: Any) -> None:
    bench.route(preparation=PreparationSupport.PURE)
    first = await bench.create(key="first")
    second = await bench.create(key="second", **on(first.id))

    async def prepare(work: Any) -> bool:
        return await guards.may_prepare(work, await load(work, second.id))

    assert not await bench.run(prepare)
    waiting = await bench.read(second.id)

    assert (waiting.state, waiting.blocked.code) == ("preparing", ErrorCode.DEPENDENCY_PENDING)


@pytest.mark.parametrize("workspace", ["w", "another"])
async def test_only_what_exists_in_the_same_workspace_can_be_depended_on(
    bench: Any, refused: Any, workspace: str
) -> None:
    bench.route()
    name = "op-nothing"
    if workspace == "another":
        name = (await bench.create(key="theirs", owner={"workspace": "another", "session": "t"})).id

    with refused(ErrorCode.DEPENDENCY_NOT_FOUND):
        await bench.create(key="mine", **on(name))


async def test_another_session_of_the_workspace_may_be_depended_on(bench: Any) -> None:
    first = await bench.create(key="theirs", owner={"workspace": "w", "session": "t"})

    second = await bench.create(key="mine", **on(first.id))

    assert not await bench.grant(second.id)
    await verified(bench, first.id)
    assert await bench.grant(second.id)


async def test_a_route_that_cannot_verify_cannot_be_depended_on(bench: Any, refused: Any) -> None:
    bench.route(verification=False)
    first = await bench.create(key="first")

    with refused(ErrorCode.DEPENDENCY_FAILED):
        await bench.create(key="second", **on(first.id))


async def test_an_operation_cannot_depend_on_itself(bench: Any, refused: Any) -> None:
    with refused(ErrorCode.DEPENDENCY_CYCLE):
        await bench.create(key="self", **on(request("self").operation_id))


async def test_a_replacement_cannot_wait_for_whoever_waits_for_what_it_replaces(bench: Any, refused: Any) -> None:
    first = await bench.create(key="first")
    second = await bench.create(key="second", **on(first.id))
    third = await bench.create(key="third", **on(second.id))

    with refused(ErrorCode.DEPENDENCY_CYCLE):
        await bench.create(key="revised", supersedes=first.id, **on(third.id))
    with refused(ErrorCode.DEPENDENCY_CYCLE):
        await bench.create(key="revised", supersedes=first.id, **on(first.id))

    assert (await bench.read(first.id)).state == "queued"


async def test_two_supersessions_at_once_cannot_close_a_cycle_that_neither_sees_alone(bench: Any) -> None:
    one, other = await bench.create(key="one"), await bench.create(key="other")
    after_one = await bench.create(key="after-one", **on(one.id))
    after_other = await bench.create(key="after-other", **on(other.id))

    ended = await asyncio.gather(
        bench.create(key="new-one", supersedes=one.id, **on(after_other.id)),
        bench.create(key="new-other", supersedes=other.id, **on(after_one.id)),
        return_exceptions=True,
    )

    refusals = [one for one in ended if isinstance(one, Refusal)]
    assert [refusal.code for refusal in refusals] == [ErrorCode.DEPENDENCY_CYCLE]


async def test_a_deadline_passes_while_a_dependency_is_waited_for(bench: Any) -> None:
    first = await bench.create(key="first")
    limits = {"deadline": (bench.clock.now + timedelta(minutes=1)).isoformat()}
    second = await bench.create(key="second", constraints=limits, **on(first.id))
    assert not await bench.grant(second.id)

    bench.clock.forward(61)
    assert not await bench.grant(second.id)

    assert (await bench.read(second.id)).state == "expired"


async def test_an_assumption_that_has_changed_ends_the_operation_before_anything_is_dispatched(
    bench: Any, refused: Any
) -> None:
    subject = await bench.create(key="subject")
    version = (await bench.read(subject.id)).version
    assumed = {"assumptions": [{"subject": subject.id, "version": version}], "resources": [resource("other")]}
    unchanged = await bench.create(key="unchanged", **assumed)
    changed = await bench.create(key="changed", **assumed)
    assert await bench.grant(unchanged.id)

    await bench.tell(subject.id, "decide", {"bad": "command"})  # recorded, and not material
    await bench.reply(unchanged.id, Failed(code="NO", detail="no"))
    assert (await bench.read(subject.id)).version > version
    assert await bench.free(changed.id)
    await bench.tell(subject.id, "cancel", {"reason": "changed"})

    assert not await bench.grant(changed.id)
    ended = await bench.read(changed.id)
    assert (ended.state, ended.problem.code, ended.attempts) == ("failed", "STALE_ASSUMPTIONS", ())
    assert ended.problem.detail == f"{subject.id} has changed since version {version}, which the request assumed"
    with refused(ErrorCode.BAD_REQUEST):
        await bench.create(key="ahead", assumptions=[{"subject": subject.id, "version": 99}])
