"""Tools of MCP servers through a real Temporal server: one call whatever is repeated, and nothing secret kept."""

from __future__ import annotations

import asyncio
import json
import uuid
from typing import Any

import pytest

from counterfoil.activities.adapters.mcp_tool.adapter import register_servers
from counterfoil.models.errors import Refusal
from counterfoil.models.operations.contract import OperationRequest
from counterfoil.models.operations.record import Operation
from support.mcp_calls import EffectLog
from support.stack import Stack, settled

SECRET = "s3cr3t-4711-token"
FOUND = {"count": 1, "payment.amount": "$arguments.amount"}
READBACK = {"tool": "find_payment", "arguments": {"reference": "$arguments.reference"}, "expected": FOUND}
TOOLS = {"find_payment": {"read_only": True}}
PATIENCE_SECONDS = 90


def request(tool: str = "pay", arguments: dict[str, Any] | None = None, **changes: Any) -> OperationRequest:
    given = {"server": "pay", "tool": tool, "arguments": arguments or {"reference": "r-1", "amount": 7}}
    values = {
        "owner": {"workspace": "w", "session": f"s-{uuid.uuid4().hex[:12]}"},
        "idempotency_key": "k1",
        "capability": "tool.call",
        "route_id": "mcp.tool.v1",
        "objective": "pay the bill",
        "input": given | changes.pop("input", {}),
    }
    return OperationRequest.model_validate(values | changes)


ASKED = {"decision": {"reason": "it costs money", "question": "Pay?"}}


async def started(stack: Stack, *profiles: Any) -> Any:
    register_servers(stack.catalog, profiles)
    await stack.start()
    return stack.control_plane()


async def asked(control_plane: Any, wanted: OperationRequest) -> Operation:
    created = await control_plane.create(wanted)
    operation = await settled(control_plane, created.operation_id, PATIENCE_SECONDS)
    assert operation.state == "awaiting_decision", operation.problem
    return operation


async def test_a_repeated_key_and_a_repeated_approval_pay_once(stack: Stack, profile, log: EffectLog):
    control_plane = await started(stack, profile(tools=TOOLS | {"pay": {"verify": READBACK}}))
    wanted = request(**ASKED)
    operation = await asked(control_plane, wanted)
    assert log.count("called") == 0

    await asyncio.gather(
        *(
            control_plane.decide(operation.operation_id, "approve", proposal_digest=operation.proposal_digest)
            for _ in range(3)
        ),
        *(control_plane.create(wanted) for _ in range(2)),
        return_exceptions=True,
    )
    done = await settled(control_plane, operation.operation_id, PATIENCE_SECONDS)
    await control_plane.create(wanted)
    with pytest.raises(Refusal):
        await control_plane.create(wanted.model_copy(update={"objective": "pay it again"}))
    again = await control_plane.get(operation.operation_id)

    assert (done.state, done.verification, again.revision) == ("completed", "verified", done.revision)
    assert [call["tool"] for call in log.lines("called")].count("pay") == 1
    assert log.count("paid") == 1


async def test_the_approved_answer_is_given_after_the_decision_and_not_before(stack: Stack, profile, log: EffectLog):
    control_plane = await started(stack, profile())
    answer = {"message": "Really pay?", "fields": {"confirm": True}}
    operation = await asked(control_plane, request("ask_then_pay", input={"elicitation": [answer]}, **ASKED))
    assert ("answer", "Really pay?", "confirm = true") in operation.prepared.preview.rows
    assert log.count("called") == 0

    await control_plane.decide(operation.operation_id, "approve", proposal_digest=operation.proposal_digest)
    done = await settled(control_plane, operation.operation_id, PATIENCE_SECONDS)

    assert done.state == "completed"
    assert [line["answer"]["action"] for line in log.lines("answered")] == ["accept"]
    assert log.count("paid") == 1


async def test_a_declined_operation_calls_nothing(stack: Stack, profile, log: EffectLog):
    control_plane = await started(stack, profile())
    operation = await asked(control_plane, request(**ASKED))

    await control_plane.decide(operation.operation_id, "decline", proposal_digest=operation.proposal_digest)

    assert (await settled(control_plane, operation.operation_id, PATIENCE_SECONDS)).state == "declined"
    assert log.count("called") == 0


async def test_a_tool_that_changes_after_the_approval_is_not_called(stack: Stack, profile, log: EffectLog):
    control_plane = await started(stack, profile("changing"))
    operation = await asked(control_plane, request(**ASKED))

    await control_plane.decide(operation.operation_id, "approve", proposal_digest=operation.proposal_digest)
    done = await settled(control_plane, operation.operation_id, PATIENCE_SECONDS)

    assert (done.state, done.problem.code) == ("failed", "TOOL_CHANGED")
    assert log.count("called") == 0


async def test_a_lost_payment_is_observed_and_verified_where_the_profile_says_how(
    stack: Stack, profile, log: EffectLog
):
    declared = {"observe": READBACK, "verify": READBACK}
    control_plane = await started(stack, profile(tools=TOOLS | {"pay_then_die": declared}))

    created = await control_plane.create(request("pay_then_die"))
    done = await control_plane.wait(created.operation_id, "completed", timeout_seconds=PATIENCE_SECONDS)
    done = await settled(control_plane, created.operation_id, PATIENCE_SECONDS)

    assert (done.state, done.verification) == ("completed", "verified")
    assert log.count("paid") == 1


async def test_a_lost_payment_nobody_can_look_at_is_for_a_person_at_once(stack: Stack, profile, log: EffectLog):
    control_plane = await started(stack, profile())
    created = await control_plane.create(request("pay_then_die"))
    lost = await settled(control_plane, created.operation_id, PATIENCE_SECONDS)
    assert (lost.state, lost.problem.code, lost.route.observation) == ("unknown", "REPLY_LOST", False)
    before = log.count("started")

    await control_plane.resolve_unknown(
        lost.operation_id,
        expected_revision=lost.revision,
        resolution_key="r1",
        status="applied",
        summary="the bank's statement shows it",
    )
    done = await settled(control_plane, lost.operation_id, PATIENCE_SECONDS)

    assert (done.state, done.verification) == ("completed", "unavailable")
    assert (log.count("paid"), log.count("started")) == (1, before)


async def test_a_task_is_polled_until_it_is_done(stack: Stack, everything):
    control_plane = await started(stack, everything(tools={"simulate-research-query": {"runs_as_task": True}}))
    wanted = request("simulate-research-query", {"topic": "bees"}, input={"server": "everything"})

    created = await control_plane.create(wanted)
    done = await control_plane.wait(created.operation_id, "completed", timeout_seconds=PATIENCE_SECONDS)

    assert done.external_id is not None
    assert "running" in {entry.data.get("to") for entry in await control_plane.history(created.operation_id)}


async def test_no_secret_is_in_history_rows_ledger_or_blobs(stack: Stack, profile, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PAYMENTS_TOKEN", SECRET)
    control_plane = await started(stack, profile(environment=("PAYMENTS_TOKEN",)))
    ids = []
    for key, tool in enumerate(("tell_environment", "invalid_params", "timeout_error")):
        created = await control_plane.create(request(tool, idempotency_key=str(key)))
        await settled(control_plane, created.operation_id, PATIENCE_SECONDS)
        ids.append(created.operation_id)
    await stack.stop()

    kept = [payload.data for operation_id in ids for payload in await stack.payloads(operation_id)]
    kept += [path.read_bytes() for path in stack.settings.state_dir.rglob("*") if path.is_file()]
    assert len(kept) > 10
    assert any(b"[secret]" in data for data in kept)
    assert not [data[:200] for data in kept if SECRET.encode() in data]
    assert SECRET not in json.dumps([(await control_plane.get(one)).model_dump(mode="json") for one in ids])
