"""A server over HTTP that misbehaves: what is claimed, and what it really did."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from counterfoil.activities.adapters.base import Phase
from counterfoil.activities.adapters.mcp_tool.profile import ServerProfile
from support.mcp_calls import PAYMENT
from support.mcp_http import HttpServer


@pytest.fixture
def server() -> Iterator[HttpServer]:
    made = HttpServer()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def one(calls, server: HttpServer):
    return calls(profile_of(server))


def profile_of(server: HttpServer, **more) -> ServerProfile:
    transport = {"kind": "http", "url": server.url} | more
    return ServerProfile.model_validate({"name": "pay", "transport": transport, "call_timeout_seconds": 20})


async def test_a_call_is_made_once(one, server):
    outcome = await one.executed(one.request("pay", PAYMENT))

    assert outcome.status == "completed"
    assert server.paid == [PAYMENT]


@pytest.mark.parametrize(
    "behaviour",
    [
        "pay then drop",
        "pay then half an answer",
        "pay then 500",
        "pay then a page",
        "pay then too much",
        "pay then 202",
    ],
)
async def test_a_payment_whose_answer_is_lost_is_unknown_and_never_sent_again(one, server, behaviour):
    server.behaviour = behaviour

    outcome = await one.executed(one.request("pay", PAYMENT))

    assert outcome.status == "unknown", outcome
    assert (server.calls, server.paid) == (1, [PAYMENT])


@pytest.mark.parametrize("behaviour", ["refuse", "elsewhere"])
async def test_a_status_of_http_is_no_proof_that_nothing_happened(one, server, behaviour):
    server.behaviour = behaviour

    outcome = await one.executed(one.request("pay", PAYMENT))

    assert outcome.status == "unknown"
    assert (server.calls, server.paid) == (1, [])


async def test_a_typed_refusal_is(one, server):
    server.behaviour = "wrong params"

    outcome = await one.executed(one.request("pay", PAYMENT))

    assert (outcome.status, outcome.code) == ("failed", "INVALID_INPUT")


async def test_a_server_that_is_gone_before_the_call_was_not_called(one, server):
    order = await one.prepared(one.request("pay", PAYMENT))
    server.behaviour = "gone before the call"

    outcome = await one.phase(Phase.EXECUTE, order)

    assert (outcome.status, outcome.code) == ("failed", "TARGET_UNREACHABLE")
    assert outcome.detail.startswith("the call was not sent")
    assert server.calls == 0


async def test_headers_come_from_the_workers_environment(calls, server, monkeypatch):
    monkeypatch.setenv("PAYMENTS_TOKEN", "t0ken-4711")
    one = calls(profile_of(server, headers={"Authorization": "Bearer ${PAYMENTS_TOKEN}"}))

    outcome = await one.executed(one.request("pay", PAYMENT))

    assert outcome.status == "completed"
    assert {headers["authorization"] for headers in map(lowered, server.headers)} == {"Bearer t0ken-4711"}


def lowered(headers: dict[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
