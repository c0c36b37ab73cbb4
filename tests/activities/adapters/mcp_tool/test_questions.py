"""A server that asks during a call is given approved answers only, each once; what is declined is told."""

from __future__ import annotations

import json

import pytest

from counterfoil.activities.adapters.base import Phase
from support.mcp_calls import DECISION, PAYMENT

ANSWER = {"message": "Really pay?", "fields": {"confirm": True, "cents": 5}}


@pytest.mark.parametrize("answer", [ANSWER, {"fields": {"confirm": True, "cents": 5}}])
@pytest.mark.parametrize("mode", ["", "modern"])
async def test_an_approved_answer_is_given(calls, profile, log, answer, mode):
    one = calls(profile(mode))
    request = one.request("ask_then_pay", PAYMENT, input={"elicitation": [answer]}, decision=DECISION)

    outcome = await one.executed(request)

    assert outcome.status == "completed"
    (given,) = log.lines("answered")
    assert (given["answer"]["action"], given["answer"]["content"]) == ("accept", {"confirm": True, "cents": 5})
    assert log.count("paid") == 1


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"message": "Something else?", "fields": {"confirm": True}}, "no approved answer is for it"),
        ({"fields": {"cents": 5}}, "no approved answer is for it"),
        ({"fields": {"confirm": True, "more": 1}}, "no approved answer is for it"),
        ({"message": "Really pay?", "fields": {"confirm": "yes"}}, "does not fit: confirm: 'yes' is not of type"),
        ({"message": "Really pay?", "fields": {"confirm": True, "cents": 501}}, "greater than the maximum of 500"),
    ],
)
async def test_an_answer_that_is_for_something_else_is_not_given(calls, profile, log, answer, why):
    one = calls(profile())
    request = one.request("ask_then_pay", PAYMENT, input={"elicitation": [answer]}, decision=DECISION)

    outcome = await one.executed(request)

    assert (outcome.status, outcome.code) == ("unknown", "ANSWER_NEEDED")
    assert why in outcome.detail
    assert log.lines("answered")[0]["answer"]["action"] == "decline"
    assert log.count("paid") == 0


async def test_an_answer_nobody_approved_is_not_given(calls, profile, log):
    one = calls(profile())
    request = one.request("ask_then_pay", PAYMENT, input={"elicitation": [ANSWER]}, decision=DECISION)
    prepared = (await one.prepared(request)).prepared

    outcome = await one.phase(Phase.EXECUTE, one.order(request, prepared=prepared, approved=False))

    assert outcome.code == "ANSWER_NEEDED"
    assert log.count("paid") == 0


@pytest.mark.parametrize("mode", ["", "modern"])
async def test_a_question_without_an_answer_is_told_with_its_schema_and_the_remedy(calls, profile, log, mode):
    one = calls(profile(mode))

    outcome = await one.executed(one.request("ask_then_pay", PAYMENT))

    assert (outcome.status, outcome.code) == ("unknown", "ANSWER_NEEDED")
    assert "ask again under a new key" in outcome.detail
    told = json.loads(outcome.detail[outcome.detail.index("{") :])
    (question,) = told["asked"]
    assert (question["message"], question["kind"]) == ("Really pay?", "form")
    assert question["schema"]["required"] == ["confirm"]
    assert len(outcome.detail) <= 1500
    assert log.count("paid") == 0


async def test_a_tool_declared_to_ask_first_has_failed_when_it_is_declined(calls, profile):
    one = calls(profile(tools={"ask_then_pay": {"declined_means": "not_applied"}}))

    outcome = await one.executed(one.request("ask_then_pay", PAYMENT))

    assert (outcome.status, outcome.code) == ("failed", "ANSWER_NEEDED")


async def test_a_person_is_never_sent_to_an_address(calls, profile, log):
    one = calls(profile())
    answer = {"message": "Sign in", "fields": {}}
    request = one.request("ask_address_then_pay", PAYMENT, input={"elicitation": [answer]}, decision=DECISION)

    outcome = await one.executed(request)

    assert outcome.code == "ANSWER_NEEDED"
    assert '"kind":"url"' in outcome.detail
    assert log.lines("answered")[0]["answer"]["action"] == "decline"


async def test_requests_for_a_model_and_for_roots_are_refused(calls, profile, log):
    await (one := calls(profile())).executed(one.request("ask_model_then_pay", PAYMENT))

    assert [line["answer"]["code"] for line in log.lines("answered")] == [-32600, -32600]
