"""A cost limit bounds the route's estimates, added up over attempts."""

from __future__ import annotations

from typing import Any

from counterfoil.models.errors import ErrorCode
from counterfoil.models.operations.outcomes import Evidence, NotApplied, UnknownEffect

PRICE = {"amount": "1.10", "currency": "EUR"}


def limited(amount: str, **more: Any) -> dict[str, Any]:
    return {"constraints": {"max_cost": {"amount": amount, "currency": "EUR"}, "max_attempts": 5} | more}


async def lost_and_proved_absent(bench: Any, operation_id: str, generation: int) -> None:
    assert await bench.grant(operation_id, generation)
    await bench.reply(operation_id, UnknownEffect(code="REPLY_LOST", detail="no reply"), generation)
    evidence = Evidence(source="target", observed_at=bench.clock.now)
    await bench.look(operation_id, NotApplied(detail="absent", evidence=evidence))


async def test_attempts_are_made_only_while_their_estimates_together_stay_within_the_limit(bench: Any) -> None:
    bench.route(cost_estimate=PRICE, replay={"kind": "conditional"})
    row = await bench.create(**limited("3.29"))

    await lost_and_proved_absent(bench, row.id, 1)
    again = await bench.read(row.id)
    await lost_and_proved_absent(bench, row.id, 2)
    ended = await bench.read(row.id)

    assert (again.state, f"{again.estimated_cost.amount}", again.estimated_cost.currency) == ("queued", "1.10", "EUR")
    assert (ended.state, len(ended.attempts), f"{ended.estimated_cost.amount}") == ("not_applied", 2, "2.20")


async def test_a_limit_that_covers_one_attempt_exactly_allows_exactly_one(bench: Any) -> None:
    bench.route(cost_estimate=PRICE, replay={"kind": "conditional"})
    row = await bench.create(**limited("1.10"))

    await lost_and_proved_absent(bench, row.id, 1)

    assert (await bench.read(row.id)).state == "not_applied"


async def test_the_estimate_counts_that_is_pinned_for_the_input_and_not_the_adapters_newest(
    bench: Any, refused: Any
) -> None:
    bench.route(cost_estimate=PRICE)
    bench.route("dear.v1", cost_estimate={"amount": "9", "currency": "EUR"})

    row = await bench.create(**limited("2"))
    with refused(ErrorCode.LIMIT_REACHED):
        await bench.create(key="dear", route_id="dear.v1", **limited("2"))

    assert await bench.grant(row.id)


async def test_without_a_limit_no_estimate_is_needed(bench: Any) -> None:
    row = await bench.create()

    assert await bench.grant(row.id)
    assert (await bench.read(row.id)).estimated_cost is None
