"""What is put into the outbox: three kinds of news, once each, with the change, and nothing where nobody is told."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from sqlalchemy import select

from counterfoil.activities.operations import settlement
from counterfoil.activities.store.database import Database
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.operations.outcomes import (
    Contradicted,
    Evidence,
    Failed,
    NotApplied,
    Prepared,
    Running,
    UnknownEffect,
    VerificationUnavailable,
    Verified,
)
from counterfoil.models.operations.route import PreparationSupport
from counterfoil.models.tables import DELIVERIES, DeliveryRow
from support.scripted import completed

QUESTION = {"reason": "it is live data", "question": "Set the value to 2?"}
LOST = UnknownEffect(code="REPLY_LOST", detail="no answer")


@pytest.fixture
def rings() -> list[int]:
    """One entry for each commit after which the bell was rung."""
    return []


@pytest_asyncio.fixture
async def telling(
    database_url: str, tmp_path: Path, clock: Any, bench_class: Any, rings: list[int]
) -> AsyncIterator[Any]:
    """The engine with somebody to tell, on SQLite and on PostgreSQL in turn."""
    database = Database(database_url, enqueued=lambda: rings.append(1))
    yield bench_class(database, tmp_path, clock)
    await database.close()


async def outbox(bench: Any) -> list[dict[str, Any]]:
    async def read(work: UnitOfWork) -> list[DeliveryRow]:
        return await work.session.all(DeliveryRow, select(DELIVERIES).order_by(DELIVERIES.c.version))

    return [json.loads(row.body) for row in await bench.database.read(read)]


def news(bodies: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [(one["type"], one["state"], one["verification"]) for one in bodies]


async def test_an_operation_that_completes_is_told_of_once_when_its_verification_is_decided(
    telling: Any, rings: list[int], clock: Any
):
    operation = await telling.create()
    await telling.grant(operation.id)
    await telling.reply(operation.id, completed())
    assert await outbox(telling) == []

    await telling.verify(operation.id, Verified(evidence=fresh(clock)))
    await telling.verify(operation.id, Verified(evidence=fresh(clock)))
    await telling.reply(operation.id, completed())

    bodies = await outbox(telling)
    assert news(bodies) == [("operation.settled", "completed", "verified")]
    assert bodies[0] == {
        "schema_version": 1,
        "type": "operation.settled",
        "timestamp": "2026-07-01T12:00:00Z",
        "operation_id": operation.id,
        "workspace": "w",
        "session": "s",
        "turn": None,
        "capability": "record.update",
        "route_id": "scripted.v1",
        "state": "completed",
        "verification": "verified",
        "cancellation": "none",
        "revision": 3,
        "version": 5,
        "proposal_digest": None,
        "awaits_attestation": False,
    }
    assert rings == [1]


async def test_the_version_that_is_told_is_the_ledgers_when_the_change_was_made(telling: Any):
    operation = await telling.create()
    await telling.grant(operation.id)
    await telling.reply(operation.id, Failed(code="NO", detail="refused"))

    row, bodies = await telling.row(operation.id), await outbox(telling)

    assert (row.revision, row.ledger_version) == (bodies[0]["revision"], bodies[0]["version"])


async def test_a_question_is_told_of_with_the_proposal_an_answer_must_name(telling: Any, rings: list[int]):
    telling.route(preparation=PreparationSupport.PURE)
    operation = await telling.create(decision=QUESTION)
    assert await outbox(telling) == []

    await telling.prepared(operation.id, Prepared(summary="sets value to 2"))
    asked = await telling.row(operation.id)

    bodies = await outbox(telling)
    assert news(bodies) == [("operation.awaits_decision", "awaiting_decision", "pending")]
    assert bodies[0]["proposal_digest"] == asked.proposal_digest
    assert "Set the value" not in json.dumps(bodies)
    assert rings == [1]


async def test_an_unknown_effect_is_told_of_when_it_becomes_unknown_and_again_when_only_a_person_can_tell(
    telling: Any,
):
    operation = await telling.create(constraints={"max_polls": 2})
    await telling.grant(operation.id)
    await telling.reply(operation.id, LOST)
    await telling.look(operation.id, LOST)
    await telling.look(operation.id, LOST)
    await telling.look(operation.id, LOST)

    bodies = await outbox(telling)

    assert [(one["type"], one["awaits_attestation"]) for one in bodies] == [
        ("operation.unknown", False),
        ("operation.unknown", True),
    ]


async def test_an_effect_that_becomes_unknown_and_unobservable_in_one_step_is_told_of_once(telling: Any):
    operation = await telling.create(constraints={"max_polls": 1})
    await telling.grant(operation.id)
    await telling.reply(operation.id, Running(external_id="job-7"))
    await telling.look(operation.id, LOST)

    bodies = await outbox(telling)

    assert [(one["type"], one["awaits_attestation"]) for one in bodies] == [("operation.unknown", True)]


async def test_an_unknown_effect_on_a_route_that_cannot_observe_awaits_a_person_at_once(telling: Any):
    telling.route(observation=False)
    operation = await telling.create()
    await telling.grant(operation.id)
    await telling.fence(operation.id)
    await telling.fence(operation.id)

    bodies = await outbox(telling)

    assert [(one["type"], one["awaits_attestation"]) for one in bodies] == [("operation.unknown", True)]


@pytest.mark.parametrize(
    ("attested", "state"), [("applied", "completed"), ("not_applied", "not_applied"), ("stopped", "stopped")]
)
async def test_what_a_person_attests_settles_and_is_told_of(telling: Any, attested: str, state: str):
    telling.route(observation=False)
    operation = await telling.create()
    await telling.grant(operation.id)
    await telling.reply(operation.id, LOST)
    revision = (await telling.row(operation.id)).revision
    told = {"expected_revision": revision, "resolution_key": "r", "status": attested, "summary": "I looked"}
    await telling.tell(operation.id, "resolve_unknown", told)
    await telling.tell(operation.id, "resolve_unknown", told)

    assert news(await outbox(telling))[1:] == [("operation.settled", state, "unavailable")]


async def test_what_is_cancelled_declined_or_proved_absent_settles_and_is_told_of(telling: Any, clock: Any):
    cancelled = await telling.create(key="cancelled", on_create="hold")
    await telling.tell(cancelled.id, "cancel", {"reason": "no"})
    declined = await telling.create(key="declined", decision=QUESTION)
    digest = (await telling.row(declined.id)).proposal_digest
    await telling.tell(declined.id, "decide", {"verdict": "decline", "proposal_digest": digest})
    absent = await telling.create(key="absent")
    await telling.grant(absent.id)
    await telling.reply(absent.id, LOST)
    await telling.look(absent.id, NotApplied(detail="not there", evidence=fresh(clock)))

    told = await outbox(telling)

    settled = {one["operation_id"]: one["state"] for one in told if one["type"] == "operation.settled"}
    assert settled == {cancelled.id: "cancelled", declined.id: "declined", absent.id: "not_applied"}


async def test_a_later_verification_is_told_of_only_where_it_decides_otherwise(telling: Any, clock: Any):
    operation = await telling.create()
    await telling.grant(operation.id)
    await telling.reply(operation.id, completed())
    await telling.verify(operation.id, Verified(evidence=fresh(clock)))
    for key, seen in (
        ("same", Verified(evidence=fresh(clock))),
        ("away", VerificationUnavailable(detail="away")),
        ("other", Contradicted(detail="somebody changed it", evidence=fresh(clock))),
    ):
        await telling.tell(operation.id, "reconcile", {"key": key})
        await telling.verify(operation.id, seen)

    assert news(await outbox(telling)) == [
        ("operation.settled", "completed", "verified"),
        ("operation.settled", "completed", "contradicted"),
    ]


async def test_nothing_is_put_in_for_a_change_that_was_not_made(telling: Any, rings: list[int]):
    operation = await telling.create()
    await telling.grant(operation.id)

    async def fails(work: UnitOfWork, row: Any) -> None:
        await settlement.settle_attempt(work, row, 1, Failed(code="NO", detail="refused"))
        await work.session.flush()
        raise RuntimeError("and then it went wrong")

    with pytest.raises(RuntimeError):
        await telling._on(operation.id, fails)

    assert (await outbox(telling), rings) == ([], [])


async def test_nothing_is_put_in_where_nobody_is_to_be_told(bench: Any):
    operation = await bench.create(decision=QUESTION)
    await bench.tell(operation.id, "cancel", {"reason": "no"})

    assert (await bench.row(operation.id)).state == "cancelled"
    assert await outbox(bench) == []


def fresh(clock: Any) -> Evidence:
    return Evidence(source="scripted target", observed_at=clock(), version="2")
