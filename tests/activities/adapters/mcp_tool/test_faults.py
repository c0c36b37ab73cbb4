"""A server that misbehaves: what is claimed, what the server's own log says happened, and what is left running."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time

import psutil
import pytest

from counterfoil.activities.adapters.base import Phase
from counterfoil.activities.adapters.runner import AdapterRaised, AdapterTimedOut
from support.mcp_calls import PAYMENT, none_left


async def test_a_tool_that_answers_is_completed_and_ran_once(calls, profile, log):
    outcome = await (one := calls(profile())).executed(one.request("pay", PAYMENT))

    assert outcome.status == "completed"
    assert outcome.result.summary == "pay on pay says it is done"
    assert outcome.result.data["structured"] == {"paid": 7}
    assert [(line["reference"], line["amount"]) for line in log.lines("paid")] == [("r-1", 7)]
    assert await none_left(log.processes()) == []


@pytest.mark.parametrize(
    ("tool", "code"),
    [
        ("pay_then_die", "REPLY_LOST"),
        ("pay_then_error", "TOOL_FAILED"),
        ("pay_then_internal_error", "TOOL_FAILED"),
    ],
)
async def test_a_payment_whose_reply_is_lost_or_bad_is_unknown_and_happened_once(calls, profile, log, tool, code):
    one = calls(profile())

    outcome = await one.executed(one.request(tool, PAYMENT))

    assert (outcome.status, outcome.code) == ("unknown", code)
    assert log.count("paid") == 1
    assert await none_left(log.processes()) == []


@pytest.mark.parametrize(("tool", "code"), [("die", "REPLY_LOST"), ("timeout_error", "ADAPTER_TIMED_OUT")])
async def test_a_call_that_was_sent_and_had_no_effect_is_unknown_too(calls, profile, log, tool, code):
    one = calls(profile())

    outcome = await one.executed(one.request(tool))

    assert (outcome.status, outcome.code) == ("unknown", code)
    assert (log.count("called"), log.count("paid")) == (1, 0)


async def test_a_tool_that_never_answers_is_unknown_in_time_and_its_server_is_ended(calls, profile, log):
    one = calls(profile())
    request = one.request("pay_then_silence", PAYMENT)
    began = time.monotonic()

    outcome = await one.executed(request, timeout_seconds=8)

    assert (outcome.status, outcome.code) == ("unknown", "ADAPTER_TIMED_OUT")
    assert time.monotonic() - began < 12
    assert log.count("paid") == 1
    assert await none_left(log.processes()) == []


async def test_a_call_the_runner_gives_up_leaves_no_process_behind(calls, profile, log):
    one = calls(profile())
    order = await one.prepared(one.request("pay_then_silence", PAYMENT))

    with pytest.raises(AdapterTimedOut):
        await asyncio.wait_for(_give_up(one, order), 15)

    assert await none_left(log.processes()) == []


async def _give_up(one, order):
    context = one._make_context(Phase.EXECUTE, order.request.operation_id, timeout_seconds=60)
    async with one._runner.slot(one.adapter.route) as slot:
        return await slot.call(one.adapter.execute, context, order, timeout_seconds=2)


@pytest.mark.parametrize("tool", ["flood_then_pay", "garbage_then_pay"])
async def test_noise_before_the_answer_is_passed_over(calls, profile, log, tool):
    outcome = await (one := calls(profile())).executed(one.request(tool, PAYMENT))

    assert outcome.status == "completed"
    assert log.count("paid") == 1


async def test_an_endless_flood_ends_the_connection_before_the_deadline(calls, profile, log):
    one = calls(profile())
    began = time.monotonic()

    outcome = await one.executed(one.request("endless_flood"))

    assert (outcome.status, outcome.code) == ("unknown", "REPLY_LOST")
    assert time.monotonic() - began < 19
    assert await none_left(log.processes()) == []


async def test_children_of_a_server_end_with_it(calls, profile, log):
    outcome = await (one := calls(profile())).executed(one.request("pay_with_child", PAYMENT))

    assert outcome.status == "completed"
    assert log.count("child") == 1
    assert await none_left(log.processes()) == []


async def test_an_answer_of_five_megabytes_is_kept_as_a_blob(calls, profile, log, blobs):
    outcome = await (one := calls(profile())).executed(one.request("pay_then_big_answer", PAYMENT))

    assert outcome.status == "completed"
    assert outcome.result.data == {}
    kept = json.loads(blobs.get(outcome.result.blob))
    assert len(kept["content"][0]["text"]) == 5_000_000


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("silent", "did not answer the handshake in 2 s"),
        ("leaves", "ended the handshake"),
        ("gone_at_once", "ended the handshake"),
    ],
)
async def test_a_server_without_a_handshake_is_not_ready_and_nothing_was_called(calls, profile, log, mode, why):
    one = calls(profile(mode, start_timeout_seconds=2))
    request = one.request("pay", PAYMENT)

    with pytest.raises(AdapterRaised, match=why):
        await one.phase(Phase.PREPARE, one.order(request))

    assert log.count("called") == 0
    assert await none_left(log.processes()) == []


async def test_a_server_that_is_gone_when_the_call_is_made_has_certainly_not_been_called(calls, profile, log):
    one = calls(profile())
    order = await one.prepared(one.request("pay", PAYMENT))
    log.path.unlink()
    log.path.mkdir()  # the server cannot write its log, and ends before the handshake

    outcome = await one.phase(Phase.EXECUTE, order)

    assert (outcome.status, outcome.code) == ("failed", "TARGET_UNREACHABLE")


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's help is Linux's")
async def test_a_server_goes_with_a_worker_that_is_killed(profile, log):
    """The server would not leave by itself: it sleeps, and does not look at its input."""
    program = f"""
import asyncio
from counterfoil.activities.adapters.mcp_tool.calling import Call, call_once
from counterfoil.activities.adapters.mcp_tool.profile import ServerProfile
from counterfoil.activities.adapters.mcp_tool.questions import Questions
from counterfoil.activities.adapters.mcp_tool.station import Station
profile = ServerProfile.model_validate_json({profile().model_dump_json()!r})
station = Station()
call = Call("pay_then_silence", {PAYMENT!r})
asyncio.run(station.run(call_once(profile, call, Questions((), approved=False), 100, station)))
"""
    worker = subprocess.Popen([sys.executable, "-c", program])
    for _ in range(600):
        if log.count("paid"):
            break
        await asyncio.sleep(0.05)
    assert await none_left(log.processes(), 0.2) == log.processes()

    worker.kill()
    worker.wait(10)

    assert await none_left(log.processes()) == []


async def test_a_command_that_does_not_exist_is_not_ready(calls, profile):
    missing = profile(transport={"kind": "stdio", "command": "no-such-program-here"})
    one = calls(missing)

    with pytest.raises(AdapterRaised, match="NOT_READY: the server cannot be started"):
        await one.phase(Phase.PREPARE, one.order(one.request("pay", PAYMENT)))


async def test_a_refused_call_certainly_did_not_happen(calls, profile, log):
    outcome = await (one := calls(profile())).executed(one.request("invalid_params"))

    assert (outcome.status, outcome.code) == ("failed", "INVALID_INPUT")
    assert log.count("paid") == 0


async def test_an_answer_that_is_no_result_is_unknown(calls, profile):
    outcome = await (one := calls(profile())).executed(one.request("not_a_result"))

    assert (outcome.status, outcome.code) == ("unknown", "REPLY_UNCLEAR")


@pytest.mark.parametrize(
    ("declared", "status"),
    [({"read_only": True}, "failed"), ({"errors_mean": "not_applied"}, "failed"), ({}, "unknown")],
)
async def test_what_an_error_means_is_for_the_profile_to_say(calls, profile, declared, status):
    one = calls(profile(tools={"pay_then_error": declared}))

    outcome = await one.executed(one.request("pay_then_error", PAYMENT))

    assert (outcome.status, outcome.code) == (status, "TOOL_FAILED")
    assert "out of paper" in outcome.detail


async def test_a_read_only_tool_that_is_lost_has_failed(calls, profile):
    one = calls(profile(tools={"die": {"read_only": True}}))

    assert (await one.executed(one.request("die"))).status == "failed"


async def test_the_threads_and_files_of_many_calls_are_given_back(calls, profile):
    one = calls(profile())
    order = await one.prepared(one.request("pay", PAYMENT))
    await one.phase(Phase.EXECUTE, order)
    before = psutil.Process().num_fds()

    for _ in range(5):
        await one.phase(Phase.EXECUTE, order)

    assert psutil.Process().num_fds() <= before + 1
