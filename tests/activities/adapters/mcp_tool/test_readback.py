"""Looking at the target by a tool the profile names: for observing, and for verifying."""

from __future__ import annotations

import pytest

from counterfoil.activities.adapters.base import Phase
from support.mcp_calls import PAYMENT

EXPECTED = {"count": 1, "payment.amount": "$arguments.amount", "payment.key": "$operation_id"}
READBACK = {"tool": "find_payment", "arguments": {"reference": "$arguments.reference"}, "expected": EXPECTED}
TOOLS = {"find_payment": {"read_only": True}}


def declared(tool: str, **readbacks):
    return TOOLS | {tool: {"key_argument": "key"} | readbacks}


async def test_what_the_profile_expects_and_the_server_shows_is_verified(calls, profile):
    one = calls(profile(tools=declared("pay", verify=READBACK)))
    order = await one.prepared(one.request("pay", PAYMENT))
    await one.phase(Phase.EXECUTE, order)

    seen = await one.phase(Phase.VERIFY, order)

    assert seen.status == "verified"
    assert seen.evidence.source == "mcp:pay/find_payment"
    assert seen.evidence.facts["found"]["payment.amount"] == 7


@pytest.mark.parametrize(
    ("expected", "status"),
    [({"count": 1, "payment.amount": 8}, "partial"), ({"count": 2}, "contradicted"), ({"count": True}, "contradicted")],
)
async def test_what_the_server_shows_otherwise_is_not(calls, profile, expected, status):
    one = calls(profile(tools=declared("pay", verify=READBACK | {"expected": expected})))
    order = await one.prepared(one.request("pay", PAYMENT))
    await one.phase(Phase.EXECUTE, order)

    assert (await one.phase(Phase.VERIFY, order)).status == status


async def test_without_a_declaration_nothing_is_verified_or_observed(calls, profile, log):
    one = calls(profile())
    order = await one.prepared(one.request("pay", PAYMENT))
    before = log.count("started")

    assert (await one.phase(Phase.VERIFY, order)).status == "unavailable"
    assert (await one.phase(Phase.OBSERVE, order)).code == "NOT_OBSERVABLE"
    assert log.count("started") == before


async def test_a_lost_payment_is_found_again_by_its_key(calls, profile, log):
    one = calls(profile(tools=declared("pay_then_die", observe=READBACK)))
    order = await one.prepared(one.request("pay_then_die", PAYMENT))
    assert (await one.phase(Phase.EXECUTE, order)).status == "unknown"

    seen = await one.phase(Phase.OBSERVE, order)

    assert seen.status == "completed"
    assert seen.result.kind == "mcp.readback"
    assert log.count("paid") == 1


async def test_a_payment_that_is_not_there_is_not_proved_absent(calls, profile):
    one = calls(profile(tools=declared("die", observe=READBACK)))

    seen = await one.phase(Phase.OBSERVE, one.order(one.request("die", PAYMENT)))

    assert (seen.status, seen.code) == ("unknown", "OBSERVATION_PENDING")
    assert seen.detail == "the readback differs in count, payment.amount, payment.key"


async def test_a_payment_that_the_profile_knows_to_be_ruled_out_is_not_applied(calls, profile):
    one = calls(profile(tools=declared("die", observe=READBACK | {"ruled_out": {"open": True, "count": 0}})))

    seen = await one.phase(Phase.OBSERVE, one.order(one.request("die", PAYMENT)))

    assert seen.status == "not_applied"
    assert seen.evidence.facts["found"] == {"open": True, "count": 0}


async def test_a_readback_that_fails_shows_nothing(calls, profile):
    tools = {"die": {"read_only": True}, "pay": {"verify": {"tool": "die", "expected": {"a": 1}}}}
    one = calls(profile(tools=tools))

    seen = await one.phase(Phase.VERIFY, one.order(one.request("pay", PAYMENT)))

    assert seen.status == "unavailable"
    assert "gave no answer" in seen.detail
