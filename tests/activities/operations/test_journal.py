"""Journal before effect: what a grant checks, what repeating it finds, and what a fence decides of a lost attempt."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from counterfoil.activities.operations.journal import AttemptKind
from counterfoil.models.operations.outcomes import (
    Evidence,
    Failed,
    NotApplied,
    Prepared,
    Running,
    UnknownEffect,
)
from counterfoil.models.operations.route import ReplayGuarantee
from support.scripted import completed

QUESTION = {"reason": "it costs", "question": "may I?"}
LOST = UnknownEffect(code="LOST", detail="no reply")


async def test_a_grant_journals_the_attempt_and_holds_the_resources_before_anything_is_sent(bench: Any) -> None:
    created = await bench.create()

    assert await bench.grant(created.id, token="first") is True

    operation = await bench.read(created.id)
    assert operation.state == "dispatching"
    assert [(a.generation, a.kind, a.adapter, a.adapter_version, a.outcome) for a in operation.attempts] == [
        (1, "execute", "scripted", "1", None)
    ]
    assert operation.attempts[0].journaled_at == bench.clock.now
    assert await bench.held(created.id) == 2, "the record, and the workspace it lies in"


async def test_repeating_a_doubtful_grant_finds_it(bench: Any) -> None:
    created = await bench.create()

    assert await bench.grant(created.id, token="mine")
    assert await bench.grant(created.id, token="mine")

    operation = await bench.read(created.id)
    assert (operation.revision, len(operation.attempts)) == (2, 1)


async def test_another_invocation_is_not_granted_the_same_attempt(bench: Any) -> None:
    created = await bench.create()
    assert await bench.grant(created.id, token="first")

    assert not await bench.grant(created.id, token="second")
    assert not await bench.grant(created.id, generation=2, token="second")


async def test_concurrent_invocations_are_granted_one_attempt_between_them(bench: Any) -> None:
    created = await bench.create()

    granted = await asyncio.gather(*[bench.grant(created.id, token=f"t{number}") for number in range(8)])

    assert granted.count(True) == 1
    assert len((await bench.read(created.id)).attempts) == 1


async def test_a_grant_is_not_found_again_once_its_attempt_was_fenced(bench: Any) -> None:
    """Its commit was doubtful, and while it was being repeated the attempt was called lost."""
    created = await bench.create()
    assert await bench.grant(created.id, token="slow")
    await bench.fence(created.id)

    assert not await bench.grant(created.id, token="slow")


async def test_a_grant_is_not_found_again_once_a_newer_attempt_was_made(bench: Any) -> None:
    bench.route(replay=ReplayGuarantee(kind="conditional"))
    created = await bench.create(constraints={"max_attempts": 2})
    await bench.grant(created.id, token="slow")
    await bench.fence(created.id)
    await bench.look(created.id, absent(bench))
    assert await bench.grant(created.id, generation=2, token="next")

    assert not await bench.grant(created.id, generation=1, token="slow")


async def test_a_grant_is_not_found_again_once_it_was_answered(bench: Any) -> None:
    created = await bench.create()
    await bench.grant(created.id)
    await bench.reply(created.id, completed())

    assert not await bench.grant(created.id)


async def test_an_attempt_that_was_fenced_before_it_began_can_never_begin(bench: Any) -> None:
    created = await bench.create()
    await bench.fence(created.id, 1)

    assert not await bench.grant(created.id, generation=1)
    assert (await bench.read(created.id)).state == "queued"
    assert await bench.grant(created.id, generation=2)


async def test_an_attempt_lost_after_its_journal_is_unknown_and_keeps_its_resources(bench: Any) -> None:
    created = await bench.create()
    await bench.grant(created.id)

    await bench.fence(created.id)
    await bench.fence(created.id)

    operation = await bench.read(created.id)
    assert (operation.state, operation.problem.code) == ("unknown", "DISPATCH_LOST")
    assert (operation.revision, await bench.held(created.id)) == (3, 2)


async def test_a_fence_leaves_an_attempt_alone_that_was_answered(bench: Any) -> None:
    created = await bench.create()
    await bench.grant(created.id)
    await bench.reply(created.id, Running(external_id="job-1"))

    await bench.fence(created.id)

    assert (await bench.read(created.id)).state == "running"


async def test_a_grant_and_a_fence_at_once_agree_on_who_won(bench: Any) -> None:
    created = await bench.create()

    granted, _ = await asyncio.gather(bench.grant(created.id), bench.fence(created.id))

    state = (await bench.read(created.id)).state
    assert (granted, state) in [(True, "unknown"), (False, "queued")]


async def test_nothing_is_granted_after_the_deadline(bench: Any) -> None:
    deadline = bench.clock.now.replace(hour=13)
    created = await bench.create(constraints={"deadline": deadline.isoformat()})
    bench.clock.now = deadline

    assert not await bench.grant(created.id)

    operation = await bench.read(created.id)
    assert (operation.state, operation.attempts) == ("expired", ())
    assert await bench.claims(created.id) == []


async def test_a_grant_just_before_the_deadline_is_made(bench: Any) -> None:
    deadline = bench.clock.now.replace(hour=13)
    created = await bench.create(constraints={"deadline": deadline.isoformat()})
    bench.clock.now = deadline.replace(hour=12, minute=59, second=59)

    assert await bench.grant(created.id)


@pytest.mark.parametrize("on_create", ["hold", "prepare"])
async def test_nothing_is_granted_that_was_not_asked_to_be_executed(bench: Any, on_create: str) -> None:
    created = await bench.create(on_create=on_create)

    assert not await bench.grant(created.id)
    assert await bench.claims(created.id) == []


async def test_nothing_is_granted_before_it_is_approved(bench: Any) -> None:
    created = await bench.create(decision=QUESTION)
    assert not await bench.grant(created.id)

    await bench.tell(created.id, "decide", {"proposal_digest": created.proposal_digest, "verdict": "approve"})

    assert await bench.grant(created.id)


async def test_an_approval_of_what_was_then_changed_grants_nothing(bench: Any) -> None:
    """Fault 11, forced: the row's proposal is another one than was approved."""
    created = await bench.create(decision=QUESTION)
    await bench.tell(created.id, "decide", {"proposal_digest": created.proposal_digest, "verdict": "approve"})

    async def tamper(work: Any, row: Any) -> None:
        row.proposal_digest = "sha256:" + "0" * 64

    await bench._on(created.id, tamper)

    assert not await bench.grant(created.id)
    assert (await bench.read(created.id)).attempts == ()


def absent(bench: Any) -> NotApplied:
    return NotApplied(detail="not there", evidence=Evidence(source="target", observed_at=bench.clock.now))


async def test_attempts_are_bounded(bench: Any) -> None:
    bench.route(replay=ReplayGuarantee(kind="conditional"))
    created = await bench.create(constraints={"max_attempts": 2})
    for generation in (1, 2):
        assert await bench.grant(created.id, generation=generation)
        await bench.reply(created.id, LOST, generation=generation)
        await bench.look(created.id, absent(bench))

    operation = await bench.read(created.id)
    assert (operation.state, len(operation.attempts)) == ("not_applied", 2)
    assert await bench.claims(created.id) == []


async def test_adapter_calls_are_bounded_and_what_was_proved_absent_is_then_failed(bench: Any) -> None:
    bench.route(replay=ReplayGuarantee(kind="conditional"))
    created = await bench.create(constraints={"max_attempts": 5, "max_adapter_calls": 2})
    await bench.grant(created.id)
    await bench.reply(created.id, LOST)
    await bench.look(created.id, absent(bench))
    assert (await bench.read(created.id)).state == "queued"

    assert not await bench.grant(created.id, generation=2)

    operation = await bench.read(created.id)
    assert (operation.state, operation.problem.code) == ("failed", "LIMIT_REACHED")
    assert await bench.claims(created.id) == []


async def test_a_second_attempt_is_not_looked_at_where_the_first_one_was(bench: Any) -> None:
    """An external id belongs to the attempt that was given it: of another one its absence proves nothing."""
    bench.route(replay=ReplayGuarantee(kind="conditional"))
    created = await bench.create(constraints={"max_attempts": 2})
    await bench.grant(created.id)
    await bench.reply(created.id, Running(external_id="job-1", poll_after_seconds=30))
    await bench.look(created.id, absent(bench))

    await bench.grant(created.id, generation=2)

    row = await bench.row(created.id)
    assert (row.external_id, row.poll_after_seconds) == (None, None)


async def test_a_route_that_prepares_with_effect_journals_its_preparation_too(bench: Any) -> None:
    bench.route(preparation="effectful")
    created = await bench.create()
    assert created.state == "preparing"

    assert not await bench.grant(created.id, kind=AttemptKind.EXECUTE)
    assert await bench.grant(created.id, kind=AttemptKind.PREPARE)
    assert not await bench.grant(created.id, generation=2, kind=AttemptKind.PREPARE)
    await bench.reply(created.id, Prepared(summary="drafted"))
    assert await bench.grant(created.id, generation=2)

    operation = await bench.read(created.id)
    assert [(a.generation, a.kind) for a in operation.attempts] == [(1, "prepare"), (2, "execute")]


async def test_a_preparation_lost_after_its_journal_is_unknown(bench: Any) -> None:
    bench.route(preparation="effectful")
    created = await bench.create()
    await bench.grant(created.id, kind=AttemptKind.PREPARE)

    await bench.fence(created.id)

    assert (await bench.read(created.id)).state == "unknown"


@pytest.mark.parametrize("verifies", [True, False])
async def test_whoever_fails_or_is_cancelled_gives_its_resources_to_the_next(bench: Any, verifies: bool) -> None:
    """Only a completed operation has something left to verify."""
    bench.route(verification=verifies)
    first, waiting, last = [await bench.create(key=key) for key in ("a", "b", "c")]
    assert await bench.grant(first.id)
    assert not await bench.grant(waiting.id)
    assert not await bench.grant(last.id)

    await bench.reply(first.id, Failed(code="REFUSED", detail="no"))
    await bench.tell(waiting.id, "cancel", {"reason": "changed my mind"})

    assert [claim.operation_id for claim in await bench.claims() if claim.held] == []
    assert last.id in bench.woken
    assert await bench.grant(last.id)
