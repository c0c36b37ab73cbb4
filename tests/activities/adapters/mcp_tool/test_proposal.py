"""What is proposed and bound before a call: arguments, schemas, descriptions, profiles, resources, keys."""

from __future__ import annotations

import time

import pytest

from counterfoil.activities.adapters.base import Phase
from counterfoil.activities.adapters.catalog import Catalog, promised
from counterfoil.activities.adapters.mcp_tool.adapter import McpTools, register_servers
from counterfoil.models.errors import Refusal
from counterfoil.models.operations.contract import Resource
from support.mcp_calls import DECISION, PAYMENT


async def test_the_proposal_shows_every_argument_and_answer_and_the_servers_hints(calls, profile, log):
    one = calls(profile(account_id="acme"))
    answer = {"message": "Really pay?", "fields": {"confirm": True}}
    request = one.request(
        "pay", PAYMENT | {"reference": "a\u202eb"}, input={"elicitation": [answer]}, decision=DECISION
    )

    prepared = (await one.prepared(request)).prepared

    assert prepared.preview.rows == (
        ("server", "pay", "acme"),
        ("tool", "pay", ""),
        ("argument", "amount", "7"),
        ("argument", "reference", "a\\u202eb"),
        ("answer", "Really pay?", "confirm = true"),
    )
    assert [bound.resource.identity for bound in prepared.versions] == ["pay", "pay/pay"]
    assert log.count("called") == 0


async def test_a_hint_is_shown_and_promises_nothing(calls, profile):
    one = calls(profile())
    request = one.request("find_payment", {"reference": "r"})
    prepared = (await one.prepared(request)).prepared

    assert ("server's hint", "readOnlyHint", "true") in prepared.preview.rows
    route = promised(one.adapter, one.adapter.validate_input(request))
    assert (route.observation, route.cancellation, route.verification, route.replay.kind) == (
        False,
        False,
        False,
        "none",
    )


@pytest.mark.parametrize(
    ("tool", "arguments", "why"),
    [
        ("pay", {"reference": "r"}, "'amount' is a required property"),
        ("pay", {"reference": "r", "amount": 0}, "0 is less than the minimum of 1"),
        ("pay", {"reference": "r", "amount": "7"}, "'7' is not of type 'integer'"),
        ("pay", {"reference": "r", "amount": True}, "True is not of type 'integer'"),
        ("pay", {"reference": "r", "amount": 1, "more": 1}, "Additional properties are not allowed"),
        ("elsewhere", {"text": "x"}, "the schema refers to something outside itself"),
        ("no_such_tool", {}, "has no tool 'no_such_tool'"),
    ],
)
async def test_arguments_that_do_not_fit_fail_before_anything_is_called(calls, profile, log, tool, arguments, why):
    one = calls(profile())

    outcome = await one.phase(Phase.PREPARE, one.order(one.request(tool, arguments)))

    assert (outcome.status, outcome.code) == ("failed", "INVALID_INPUT")
    assert why in outcome.detail
    assert log.count("called") == 0


@pytest.mark.slow
async def test_a_schema_that_takes_for_ever_is_given_up(calls, profile):
    one = calls(profile(call_timeout_seconds=40))
    began = time.monotonic()

    outcome = await one.phase(Phase.PREPARE, one.order(one.request("hostile", {"text": "a" * 60 + "b"})), 40)

    assert outcome.detail.endswith("the schema cannot be checked within 10 s")
    assert time.monotonic() - began < 20


async def test_null_in_arguments_is_sent_as_it_was_approved(calls, profile, log):
    one = calls(profile())

    await one.executed(one.request("pay", PAYMENT | {"key": None}))

    assert log.lines("paid")[0]["key"] is None


@pytest.mark.parametrize("mode", ["changing", "other_schema"])
async def test_a_tool_that_changed_since_it_was_prepared_is_not_called(calls, profile, log, mode):
    one = calls(profile(mode))

    outcome = await one.executed(one.request("pay", PAYMENT))

    assert (outcome.status, outcome.code) == ("failed", "TOOL_CHANGED")
    assert log.count("called") == 0


@pytest.mark.parametrize(
    "change",
    [{"account_id": "other"}, {"tools": {"pay": {"errors_mean": "not_applied"}}}, {"environment": ("HOME",)}],
)
async def test_a_profile_that_changed_since_the_call_was_prepared_stops_it(calls, profile, log, change):
    order = await calls(profile()).prepared((one := calls(profile(**change))).request("pay", PAYMENT))

    outcome = await one.phase(Phase.EXECUTE, order)

    assert (outcome.status, outcome.code) == ("failed", "TOOL_CHANGED")
    assert log.count("called") == 0


async def test_the_proposal_is_the_same_however_often_it_is_prepared(calls, profile):
    one = calls(profile())
    request = one.request("pay", PAYMENT)

    assert (await one.prepared(request)).prepared == (await one.prepared(request)).prepared


async def test_a_declared_key_argument_carries_the_operations_id(calls, profile, log):
    one = calls(profile(tools={"pay": {"key_argument": "key"}}))
    request = one.request("pay", PAYMENT)

    await one.executed(request)

    assert log.lines("paid")[0]["key"] == request.operation_id
    with pytest.raises(Refusal, match="'key' is given the operation's id"):
        one.adapter.validate_input(one.request("pay", PAYMENT | {"key": "mine"}))


def test_a_route_promises_of_a_tool_what_its_profile_declares(profile):
    readback = {"tool": "find_payment", "expected": {"count": 1}}
    declared = {"observe": readback, "verify": readback, "key_argument": "key", "key_retention_seconds": 60}
    tools = {"pay": declared, "slow": {"runs_as_task": True}, "find_payment": {"read_only": True}}
    adapter = McpTools([profile(tools=tools, call_timeout_seconds=33)])

    pay, slow = (adapter.route_for(adapter.validate_input(ask(tool))) for tool in ("pay", "slow"))

    assert (pay.observation, pay.cancellation, pay.verification, pay.replay.retention_seconds) == (
        True,
        False,
        True,
        60,
    )
    assert (slow.observation, slow.cancellation, slow.verification, slow.replay.kind) == (True, True, False, "none")
    assert {pay.call_timeout_seconds, slow.call_timeout_seconds} == {33}
    assert (pay.id, pay.adapter, pay.adapter_version) == (slow.id, slow.adapter, slow.adapter_version)


def ask(tool: str = "pay", **changes):
    from counterfoil.models.operations.contract import OperationRequest, Owner

    values = {
        "owner": Owner(workspace="w", session="s"),
        "idempotency_key": "k",
        "capability": "tool.call",
        "route_id": "mcp.tool.v1",
        "objective": "try it",
        "input": {"server": "pay", "tool": tool},
    }
    return OperationRequest(**(values | changes))


QUERY = Resource(kind="query", system="bank", identity="payments", account_id="acme")
ENTITY = Resource(kind="remote_entity", system="bank", identity="payment/1", account_id="acme")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"input": {"server": "other", "tool": "pay"}}, "INVALID_INPUT"),
        ({"input": {"server": "pay"}}, "INVALID_INPUT"),
        ({"input": {"server": "pay", "tool": "pay", "arguments": []}}, "INVALID_INPUT"),
        ({"input": {"server": "pay", "tool": "pay", "task": {}}}, "INVALID_INPUT"),
        ({"input": {"server": "pay", "tool": "pay", "elicitation": [{"fields": {"confirm": True}}]}}, "INVALID_INPUT"),
        ({"resources": (ENTITY.model_copy(update={"account_id": "other"}),)}, "ACCOUNT_MISMATCH"),
        ({"resources": (ENTITY.model_copy(update={"account_id": None}),)}, "ACCOUNT_MISMATCH"),
        ({"resources": (QUERY,)}, "RESOURCE_MISMATCH"),
    ],
)
def test_a_request_that_names_other_things_is_refused_purely(profile, changes, code):
    adapter = McpTools([profile(account_id="acme")])

    with pytest.raises(Refusal) as refused:
        adapter.validate_input(ask(**changes))

    assert refused.value.code == code


def test_only_a_tool_declared_read_only_may_lock_nothing_but_queries(profile):
    adapter = McpTools([profile(account_id="acme", tools={"pay": {"read_only": True}})])

    adapter.validate_input(ask(resources=(QUERY,)))
    McpTools([profile(account_id="acme")]).validate_input(ask(resources=(QUERY, ENTITY)))


def test_servers_are_registered_under_one_route_and_each_once(profile):
    catalog = Catalog()
    register_servers(catalog, [profile(), profile(name="other")])

    assert [route.id for route in catalog.routes()] == ["mcp.tool.v1"]
    with pytest.raises(Refusal, match="two MCP servers are named 'pay'"):
        register_servers(Catalog(), [profile(), profile()])
