"""What strangers, hosts and people may send an operation, in any order and any shape."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import WithStartWorkflowOperation, WorkflowFailureError, WorkflowUpdateFailedError
from temporalio.common import RawValue, WorkflowIDConflictPolicy
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from counterfoil.control_plane.client import ControlPlane
from counterfoil.models.errors import Refusal
from counterfoil.models.operations.commands import Answer
from counterfoil.models.operations.outcomes import Prepared, UnknownEffect
from counterfoil.models.operations.route import PreparationSupport
from counterfoil.models.operations.rules import proposal_digest
from counterfoil.worker.embedded import TemporalServer, find_temporal
from support import scripted as scripts
from support.gate import Gate
from support.scripted import request, scripted
from support.stack import Stack

QUESTION = {"reason": "it is live data", "question": "Set the value to 2?"}
PROTOBUF = {"encoding": b"json/protobuf", "messageType": b"temporal.api.common.v1.Payload"}


def raw(data: bytes, encoding: bytes = b"json/plain") -> RawValue:
    return RawValue(Payload(metadata={"encoding": encoding}, data=data))


async def asked(control_plane: ControlPlane, key: str = "k1"):
    """An operation that awaits its decision."""
    created = await control_plane.create(request(key, decision=QUESTION))
    return await control_plane.wait(created.operation_id, "awaiting_decision", timeout_seconds=30)


async def refusals(control_plane: ControlPlane, operation_id: str, count: int) -> list[tuple[str, str]]:
    """(command, code) of the refused commands in the ledger, once there are so many."""
    for _ in range(300):
        entries = await control_plane.history(operation_id)
        found = [(e.data["command"], e.data["code"]) for e in entries if e.kind == "command_refused"]
        if len(found) >= count:
            return found
        await asyncio.sleep(0.1)
    raise AssertionError(f"{len(found)} of {count} refusals were recorded: {found}")


def approval(operation) -> dict[str, str]:
    return {"proposal_digest": operation.proposal_digest, "verdict": "approve"}


# signals


async def test_a_bare_signal_decides_and_is_recorded_as_unauthenticated(stack: Stack, control_plane: ControlPlane):
    scripted(stack.catalog)
    await stack.start()
    operation = await asked(control_plane)

    await stack.handle(operation.operation_id).signal("decide", approval(operation))
    done = await control_plane.wait(operation.operation_id, "completed", timeout_seconds=30)

    assert (done.decision.actor.principal, done.decision.actor.authenticated) == ("unauthenticated", False)


async def test_the_temporal_command_line_alone_approves(
    stack: Stack, control_plane: ControlPlane, server: TemporalServer
):
    scripted(stack.catalog)
    await stack.start()
    operation = await asked(control_plane)

    signalling = await asyncio.create_subprocess_exec(
        str(find_temporal()), "workflow", "signal", "--address", server.address,
        "--workflow-id", operation.operation_id, "--name", "decide", "--input", json.dumps(approval(operation)),
    )  # fmt: skip
    assert await signalling.wait() == 0
    done = await control_plane.wait(operation.operation_id, "completed", timeout_seconds=30)

    assert done.decision.verdict == "approve"


async def test_a_bare_signal_is_refused_where_only_sealed_commands_count(stack: Stack, control_plane: ControlPlane):
    stack.settings = stack.settings.model_copy(update={"allow_unsealed": False})
    adapter = scripted(stack.catalog)
    await stack.start()
    operation = await asked(control_plane)

    await stack.handle(operation.operation_id).signal("decide", approval(operation))
    assert await refusals(control_plane, operation.operation_id, 1) == [("decide", "UNAUTHENTICATED")]
    assert adapter.effects == []
    await control_plane.decide(operation.operation_id, "approve", proposal_digest=operation.proposal_digest)
    await control_plane.wait(operation.operation_id, "completed", timeout_seconds=30)


async def test_a_seal_made_with_another_key_is_refused_as_forged(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog)
    await stack.start()
    operation = await asked(control_plane)

    forger = stack.control_plane(seal_key=b"another key of sufficient length")
    with pytest.raises(Refusal, match="FORGED_SEAL"):
        await forger.decide(operation.operation_id, "approve", proposal_digest=operation.proposal_digest)

    assert await refusals(control_plane, operation.operation_id, 1) == [("decide", "FORGED_SEAL")]
    assert adapter.effects == []


async def test_bare_signals_cancel_and_attest_too(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog, observation=False)
    adapter.script("execute", UnknownEffect(code="LOST", detail="no reply"))
    await stack.start()
    waiting = await asked(control_plane, "k1")
    created = await control_plane.create(request("k2"))
    unknown = await control_plane.wait(created.operation_id, "unknown", timeout_seconds=30)

    await stack.handle(waiting.operation_id).signal("cancel", {"reason": "no more"})
    attestation = {
        "expected_revision": unknown.revision, "resolution_key": "r1", "status": "applied", "summary": "seen it",
    }  # fmt: skip
    await stack.handle(unknown.operation_id).signal("resolve_unknown", attestation)

    assert (await control_plane.wait(waiting.operation_id, "cancelled", timeout_seconds=30)).state == "cancelled"
    assert (await control_plane.wait(unknown.operation_id, "completed", timeout_seconds=30)).attested


HOSTILE_SIGNALS = {
    "no argument": ("decide", []),
    "two arguments": ("decide", [{"verdict": "approve"}, 2]),
    "three arguments": ("cancel", [1, 2, 3]),
    "a bare string": ("decide", ["approve"]),
    "a number": ("resolve_unknown", [7]),
    "null": ("cancel", [None]),
    "a list": ("decide", [["approve"]]),
    "wrong types": ("decide", [{"proposal_digest": 5, "verdict": ["approve"]}]),
    "an extra field": ("cancel", [{"reason": "x", "sudo": True}]),
    "bytes that are no JSON": ("decide", [raw(b"\xff\xfe{")]),
    "a lone surrogate": ("decide", [raw(b'{"verdict": "\\ud800"}')]),
    "not a number": ("decide", [raw(b'{"verdict": NaN}')]),
    "deep nesting": ("decide", [raw(b"[" * 190 + b"]" * 190)]),
    "deeper nesting": ("decide", [raw(b"[" * 5000 + b"]" * 5000)]),
    "an unknown encoding": ("decide", [raw(b"x", b"json/unheard-of")]),
    "no encoding": ("decide", [RawValue(Payload(data=b"x"))]),
    "raw bytes": ("decide", [raw(b"\xff\x00\x80", b"binary/plain")]),
    "a protobuf message": ("cancel", [RawValue(Payload(metadata=PROTOBUF, data=b"{}"))]),
    "an encrypted payload": ("decide", [raw(b"0123456789abcdefghij", b"binary/encrypted")]),
    "100 KB": ("decide", [{"verdict": "approve", "notes": "x" * 100_000}]),
    "an unknown name": ("approve_everything", [{"yes": True}]),
    "an unknown name without argument": ("approve", []),
    "a name of control characters": ("a\x01\nb", [1]),
    "a name of spaces": (" ", [1]),
    "a long name": ("n" * 900, [1]),
    "a huge number": ("decide", [raw(b'{"proposal_digest": ' + b"9" * 4000 + b"}")]),
}


async def test_no_signal_whatever_its_shape_wedges_an_operation(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog)
    await stack.start()
    operation = await asked(control_plane)
    handle = stack.handle(operation.operation_id)

    for name, arguments in HOSTILE_SIGNALS.values():
        await handle.signal(name, args=arguments)
    await handle.signal("wake", args=[1, 2])
    found = await refusals(control_plane, operation.operation_id, len(HOSTILE_SIGNALS))

    assert [code for _, code in found] == ["BAD_COMMAND"] * len(HOSTILE_SIGNALS)
    assert "WORKFLOW_TASK_FAILED" not in await stack.events(operation.operation_id)
    assert adapter.effects == []
    await control_plane.decide(operation.operation_id, "approve", proposal_digest=operation.proposal_digest)
    await control_plane.wait(operation.operation_id, "completed", timeout_seconds=30)


async def test_no_update_whatever_its_shape_wedges_an_operation(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog)
    await stack.start()
    operation = await asked(control_plane)
    handle = stack.handle(operation.operation_id)

    shapes = [arguments for name, arguments in HOSTILE_SIGNALS.values() if name in ("decide", "cancel")]
    for arguments in shapes:
        answer = await handle.execute_update("decide", args=arguments, result_type=Answer)
        assert (answer.status, answer.code) == ("refused", "BAD_COMMAND")
    with pytest.raises(WorkflowUpdateFailedError):
        await handle.execute_update("approve_everything", 1)
    await handle.execute_update("opened", args=[1, 2, 3])

    assert "WORKFLOW_TASK_FAILED" not in await stack.events(operation.operation_id)
    assert len(await refusals(control_plane, operation.operation_id, len(shapes))) == len(shapes)
    assert adapter.effects == []
    await control_plane.decide(operation.operation_id, "approve", proposal_digest=operation.proposal_digest)
    await control_plane.wait(operation.operation_id, "completed", timeout_seconds=30)


# early, late, twice, at once


async def test_a_command_that_comes_before_the_operation_exists_is_taken_when_it_does(
    stack: Stack, control_plane: ControlPlane
):
    adapter = scripted(stack.catalog)
    await stack.start()
    asked_for = request(decision=QUESTION)

    await stack.client.start_workflow(
        "ApplicationOperation",
        asked_for.model_dump(mode="json"),
        id=asked_for.operation_id,
        task_queue=stack.settings.task_queue,
        start_signal="cancel",
        start_signal_args=[{"reason": "changed my mind"}],
    )
    operation = await control_plane_when_there(control_plane, asked_for.operation_id, "cancelled")

    assert operation.cancellation == "confirmed"
    assert adapter.effects == []


async def control_plane_when_there(control_plane: ControlPlane, operation_id: str, *states: str):
    """Like `wait`, for an operation that may not exist yet."""
    for _ in range(200):
        try:
            return await control_plane.wait(operation_id, *states, timeout_seconds=30)
        except Refusal:
            await asyncio.sleep(0.1)
    raise AssertionError("it never came to exist")


async def test_a_decision_that_comes_while_the_proposal_is_prepared_is_kept_for_it(
    stack: Stack, control_plane: ControlPlane
):
    adapter = scripted(stack.catalog, preparation=PreparationSupport.PURE)
    proposal = Prepared(summary="sets value to 2")
    gate = Gate(proposal)
    adapter.script("prepare", gate)
    await stack.start()
    created = await control_plane.create(request(decision=QUESTION))
    await gate.reached()

    digest = proposal_digest(
        request_digest=created.request_digest, route=created.route, request=created.request, prepared=proposal
    )
    await stack.handle(created.operation_id).signal("decide", {"proposal_digest": digest, "verdict": "approve"})
    await stack.handle(created.operation_id).signal("nonsense", 1)
    assert await refusals(control_plane, created.operation_id, 1) == [("nonsense", "BAD_COMMAND")]
    gate.open()
    operation = await control_plane.wait(created.operation_id, "completed", timeout_seconds=30)

    assert operation.decision.verdict == "approve"
    assert adapter.effects == [(created.operation_id, 1)]


async def test_a_decision_that_comes_after_closing_is_recorded_and_changes_nothing(
    stack: Stack, control_plane: ControlPlane
):
    adapter = scripted(stack.catalog)
    await stack.start()
    operation = await asked(control_plane)
    await control_plane.decide(operation.operation_id, "decline", proposal_digest=operation.proposal_digest)
    await stack.handle(operation.operation_id).result()

    with pytest.raises(Refusal, match="NOT_POSSIBLE"):
        await control_plane.decide(operation.operation_id, "approve", proposal_digest=operation.proposal_digest)

    assert await refusals(control_plane, operation.operation_id, 1) == [("decide", "NOT_POSSIBLE")]
    assert (await control_plane.get(operation.operation_id)).state == "declined"
    assert adapter.effects == []


async def test_the_same_approval_twice_dispatches_once(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog)
    await stack.start()
    operation = await asked(control_plane)

    answers = await asyncio.gather(
        *(
            control_plane.decide(operation.operation_id, "approve", proposal_digest=operation.proposal_digest)
            for _ in range(4)
        )
    )
    await control_plane.wait(operation.operation_id, "completed", timeout_seconds=30)

    assert sorted(answer.status for answer in answers) == ["applied", "repeated", "repeated", "repeated"]
    assert adapter.effects == [(operation.operation_id, 1)]


async def test_of_an_approval_and_a_decline_at_once_exactly_one_wins(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog)
    await stack.start()
    operation = await asked(control_plane)

    outcomes = await asyncio.gather(
        *(
            control_plane.decide(operation.operation_id, verdict, proposal_digest=operation.proposal_digest)
            for verdict in ("approve", "decline")
        ),
        return_exceptions=True,
    )
    done = await control_plane.wait(operation.operation_id, "completed", "declined", timeout_seconds=30)

    assert [type(outcome) for outcome in outcomes].count(Refusal) == 1
    assert len(await refusals(control_plane, operation.operation_id, 1)) == 1
    approved = done.decision.verdict == "approve"
    assert (done.state, len(adapter.effects)) == (("completed", 1) if approved else ("declined", 0))


# starts


def start_arguments(**changes):
    asked_for = request(**changes)
    return asked_for.model_dump(mode="json"), asked_for.operation_id


MALFORMED = {
    "an extra field": (lambda given: [given | {"sudo": True}], "BAD_REQUEST"),
    "no argument": (lambda _: [], "BAD_REQUEST"),
    "two arguments": (lambda given: [given, given], "BAD_REQUEST"),
    "undecodable bytes": (lambda _: [raw(b"\xff\xfe")], "BAD_REQUEST"),
    "raw bytes": (lambda _: [raw(b"\xff\xfe", b"binary/plain")], "BAD_REQUEST"),
    "a string": (lambda _: ["please"], "BAD_REQUEST"),
    "an unknown route": (lambda given: [given | {"route_id": "nobody.v1"}], "UNKNOWN_ROUTE"),
    "an unknown capability": (lambda given: [given | {"capability": "record.fly"}], "UNKNOWN_CAPABILITY"),
    "a deadline in the past": (
        lambda given: [given | {"constraints": {"deadline": "2020-01-01T00:00:00Z"}}],
        "DEADLINE_PASSED",
    ),
    "an oversized input": (lambda given: [given | {"input": {"text": "x" * 1_200_000}}], "INPUT_TOO_LARGE"),
    "another operation's id": (lambda given: [given | {"idempotency_key": "other"}], "WORKFLOW_ID_MISMATCH"),
    "nothing to resume": (lambda _: [{"resume": "op-nothing"}], "NOT_FOUND"),
    "a dependency on nothing": (lambda given: [given | {"depends_on": ["op-1"]}], "DEPENDENCY_NOT_FOUND"),
}


@pytest.mark.parametrize("shape", MALFORMED)
async def test_a_malformed_start_ends_at_once_with_its_typed_reason(stack: Stack, shape: str):
    adapter = scripted(stack.catalog)
    await stack.start()
    given, operation_id = start_arguments()
    shaped, code = MALFORMED[shape]

    handle = await stack.client.start_workflow(
        "ApplicationOperation", args=shaped(given), id=operation_id, task_queue=stack.settings.task_queue
    )
    with pytest.raises(WorkflowFailureError) as failure:
        await asyncio.wait_for(handle.result(), 30)

    assert isinstance(failure.value.cause, ApplicationError)
    assert failure.value.cause.type == code
    assert "WORKFLOW_TASK_FAILED" not in await stack.events(operation_id)
    assert adapter.calls == []


async def test_a_start_of_3_mb_is_refused_and_nothing_runs(stack: Stack):
    scripted(stack.catalog)
    await stack.start()
    given, operation_id = start_arguments(input={"text": "x" * 3_000_000})

    with pytest.raises(RPCError):
        await stack.client.start_workflow(
            "ApplicationOperation", given, id=operation_id, task_queue=stack.settings.task_queue
        )

    with pytest.raises(RPCError, match="not found"):
        await stack.handle(operation_id).describe()


@pytest.mark.parametrize("raised", [ValueError("no"), SystemExit(1), KeyboardInterrupt()], ids=repr)
async def test_an_adapter_that_breaks_on_an_input_refuses_it_and_the_worker_lives(
    stack: Stack, control_plane: ControlPlane, raised: BaseException
):
    scripted(stack.catalog)
    broken = scripted(stack.catalog, "broken.v1")

    def validate_input(_request):
        raise raised

    broken.validate_input = validate_input
    await stack.start()

    with pytest.raises(Refusal, match="INVALID_INPUT"):
        await control_plane.create(request("k1", "broken.v1"))
    with pytest.raises(Refusal, match="INVALID_INPUT"):
        await stack.control_plane(catalog=None).create(request("k1", "broken.v1"))
    created = await control_plane.create(request("k2"))
    assert (await control_plane.wait(created.operation_id, "completed", timeout_seconds=30)).state == "completed"


REFUSED_EARLY = {
    "an extra field": ({"sudo": True}, "BAD_REQUEST"),
    "an unknown route": ({"route_id": "nobody.v1"}, "UNKNOWN_ROUTE"),
    "an unknown capability": ({"capability": "record.fly"}, "UNKNOWN_CAPABILITY"),
    "a deadline in the past": ({"constraints": {"deadline": "2020-01-01T00:00:00Z"}}, "DEADLINE_PASSED"),
    "3 MB": ({"input": {"text": "x" * 3_000_000}}, "INPUT_TOO_LARGE"),
    "a cost limit on a route without an estimate": (
        {"constraints": {"max_cost": {"amount": "1", "currency": "EUR"}}},
        "COST_UNKNOWN",
    ),
    "a dependency on nothing": ({"depends_on": ["op-1"]}, "DEPENDENCY_NOT_FOUND"),
    "something superseded that is not there": ({"supersedes": "op-1"}, "NOT_FOUND"),
    "an assumption about nothing": ({"assumptions": [{"subject": "op-1", "version": 1}]}, "NOT_FOUND"),
    "an epoch that was never reached": (
        {"owner": {"workspace": "w", "session": "s", "epoch": 1}},
        "BAD_REQUEST",
    ),
}


async def test_the_control_plane_refuses_a_bad_request_before_anything_starts(
    stack: Stack, control_plane: ControlPlane
):
    scripted(stack.catalog)
    await stack.start()
    given, operation_id = start_arguments()

    for changes, code in REFUSED_EARLY.values():
        with pytest.raises(Refusal) as refusal:
            await control_plane.create(given | changes)
        assert refusal.value.code == code

    with pytest.raises(RPCError, match="not found"):
        await stack.handle(operation_id).describe()
    assert await control_plane.operations(session=scripts.SESSION) == []


async def test_a_client_without_the_catalog_gets_the_same_refusal_from_the_worker(stack: Stack):
    scripted(stack.catalog)
    await stack.start()
    blind = stack.control_plane(catalog=None)

    with pytest.raises(Refusal, match="UNKNOWN_ROUTE"):
        await blind.create(request(route_id="nobody.v1"))


async def test_the_same_key_with_another_request_is_refused_however_it_comes(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog)
    await stack.start()
    operation = await asked(control_plane)
    other, operation_id = start_arguments(objective="something else")

    with pytest.raises(Refusal, match="IDEMPOTENCY_CONFLICT"):
        await control_plane.create(other)
    starting = WithStartWorkflowOperation(
        "ApplicationOperation",
        other,
        id=operation_id,
        task_queue=stack.settings.task_queue,
        id_conflict_policy=WorkflowIDConflictPolicy.TERMINATE_EXISTING,
    )
    with pytest.raises((WorkflowUpdateFailedError, RPCError)):
        await stack.client.execute_update_with_start_workflow("opened", start_workflow_operation=starting)

    await stack.sweep()
    await control_plane.decide(operation_id, "approve", proposal_digest=operation.proposal_digest)
    await control_plane.wait(operation_id, "completed", timeout_seconds=30)
    assert adapter.effects == [(operation_id, 1)]


async def test_the_same_request_is_the_same_operation_even_when_closed(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog)
    await stack.start()

    first = await control_plane.create(request())
    await control_plane.wait(first.operation_id, "completed", timeout_seconds=30)
    await stack.handle(first.operation_id).result()
    again = await control_plane.create(request())

    assert (again.operation_id, again.state) == (first.operation_id, "completed")
    assert adapter.effects == [(first.operation_id, 1)]


async def test_the_same_request_started_by_hand_when_closed_returns_the_same_conclusion(
    stack: Stack, control_plane: ControlPlane
):
    adapter = scripted(stack.catalog)
    await stack.start()
    given, operation_id = start_arguments()

    results = []
    for _ in range(2):
        handle = await stack.client.start_workflow(
            "ApplicationOperation", given, id=operation_id, task_queue=stack.settings.task_queue
        )
        results.append(await handle.result())

    assert results[0] == results[1]
    assert adapter.effects == [(operation_id, 1)]


async def test_a_deadline_between_now_and_dispatch_is_kept(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog, readiness=True)
    gate = Gate(None)
    adapter.script("readiness", gate)
    await stack.start()

    deadline = (datetime.now(UTC) + timedelta(seconds=1.5)).isoformat()
    created = await control_plane.create(request(constraints={"deadline": deadline}))
    operation = await control_plane.wait(created.operation_id, "expired", timeout_seconds=30)
    gate.open()

    assert operation.state == "expired"
    assert adapter.effects == []
