"""The way out of a store restored from before a dispatch: nothing it says is believed, nothing is dispatched."""

from __future__ import annotations

from typing import Any

import pytest

from counterfoil.activities.operations.repair import repair
from counterfoil.models.errors import ErrorCode
from counterfoil.models.operations.outcomes import Evidence, NotApplied
from counterfoil.models.operations.route import ReplayGuarantee
from counterfoil.models.operations.sealing import Received
from counterfoil.models.operations.view import ApplyInput
from support.scripted import completed, request


async def mend(bench: Any, *, seen_revision: int, seen_generation: int, asked: Any = None, payload: Any = None) -> Any:
    """What the workflow does when an operator repairs its operation."""
    wanted = asked or request()
    given = ApplyInput(
        operation_id=wanted.operation_id,
        command=None,
        seen_revision=seen_revision,
        seen_generation=seen_generation,
        request=None if payload == "no request" else wanted.model_dump(mode="json"),
    )
    received = Received(name="repair", payload={"reason": "restored a backup"}, channel="update")

    async def work(unit: Any) -> Any:
        return await repair(unit, given, received, bench.policy, bench.creator)

    _, answer = await bench.run(work)
    return answer


async def test_a_row_older_than_its_dispatch_becomes_unknown_and_holds_its_resources(bench: Any) -> None:
    row = await bench.create()

    answer = await mend(bench, seen_revision=5, seen_generation=1)

    operation = await bench.read(row.id)
    assert (answer.status, operation.state, operation.problem.code) == ("applied", "unknown", "STORE_BEHIND")
    assert operation.revision == 6
    assert await bench.held(row.id) == 2
    other = await bench.create(key="other")
    assert not await bench.grant(other.id), "what may be under way must be in nobody's way"


async def test_a_row_that_was_lost_is_made_again_from_the_request_and_dispatches_nothing(bench: Any) -> None:
    bench.route()

    answer = await mend(bench, seen_revision=3, seen_generation=1)

    operation_id = request().operation_id
    assert (answer.state, (await bench.read(operation_id)).revision) == ("unknown", 4)
    assert not await bench.grant(operation_id, generation=1)
    await bench.look(operation_id, completed())
    assert (await bench.read(operation_id)).state == "completed"


async def test_a_row_from_before_anything_was_dispatched_goes_on(bench: Any) -> None:
    row = await bench.create(on_create="hold")

    answer = await mend(bench, seen_revision=3, seen_generation=0, asked=request(on_create="hold"))

    assert (answer.state, answer.revision) == ("held", 4)
    assert (await bench.kinds(row.id))[-1] == "repaired"


async def test_a_store_that_is_not_behind_needs_no_repair(bench: Any) -> None:
    row = await bench.create()

    answer = await mend(bench, seen_revision=1, seen_generation=0)

    assert (answer.status, answer.code) == ("refused", "NOT_POSSIBLE")
    assert (await bench.kinds(row.id))[-1] == "command_refused"


async def test_without_a_row_and_without_the_request_there_is_nothing_to_repair(bench: Any, refused: Any) -> None:
    bench.route()

    with refused(ErrorCode.NOT_FOUND):
        await mend(bench, seen_revision=3, seen_generation=1, payload="no request")


async def test_a_repair_is_recorded_with_who_asked_for_it(bench: Any) -> None:
    row = await bench.create()

    await mend(bench, seen_revision=5, seen_generation=1)

    entry = (await bench.ledger(row.id))[-1]
    assert (entry.kind, entry.actor.principal, entry.actor.scope) == ("doubt", "unauthenticated", "admin")
    assert "restored a backup" in entry.summary


@pytest.mark.parametrize(
    "changes",
    [
        {"on_create": "hold"},
        {"on_create": "hold", "decision": {"reason": "r", "question": "q"}},
        {"decision": {"reason": "r", "question": "q"}},
    ],
)
async def test_what_was_restored_from_before_its_approval_is_never_dispatched_again_by_itself(
    bench: Any, changes: dict[str, Any]
) -> None:
    """Its absence is proved and its route could replay it, but the store has lost the permission to."""
    bench.route(replay=ReplayGuarantee(kind="conditional"))
    asked = request(constraints={"max_attempts": 5}, **changes)
    await bench.create(asked)
    await mend(bench, seen_revision=5, seen_generation=1, asked=asked)

    evidence = Evidence(source="target", observed_at=bench.clock.now)
    await bench.look(asked.operation_id, NotApplied(detail="not there", evidence=evidence))

    assert (await bench.read(asked.operation_id)).state == "not_applied"
    assert not await bench.grant(asked.operation_id, generation=2)
