"""Tools through the real server: `cowork.tool` end to end, permissions that change meanwhile, the unknown gate."""

from __future__ import annotations

import asyncio
import json
import threading
from datetime import timedelta

import pytest
import pytest_asyncio

from counterfoil.activities.adapters.base import AdapterContext, Order
from counterfoil.activities.operations import direct_calls
from counterfoil.activities.store.blobs import BlobStore
from counterfoil.control_plane.client import ControlPlane
from counterfoil.models.common import SYSTEM, Scope
from counterfoil.models.errors import ErrorCode, Refusal
from counterfoil.models.operations.contract import Owner
from counterfoil.models.operations.outcomes import Completed, UnknownEffect, Verified
from counterfoil.models.operations.record import Operation
from support.scripted import completed, evidence, request, scripted
from support.stack import Stack, settled
from support.toolbox import Toolbox, tool_request


@pytest_asyncio.fixture
async def toolbox(stack: Stack) -> Toolbox:
    return Toolbox(stack.catalog)


@pytest.mark.parametrize("read_only", [True, False])
async def test_a_tools_answer_is_kept_as_the_result_and_stays_unverified(
    stack: Stack, control_plane: ControlPlane, toolbox: Toolbox, session: str, read_only: bool
):
    toolbox.add("note", {"kept": 1}, read_only=read_only)
    await stack.start()

    created = await control_plane.create(tool_request("k", session, "note", {"text": "hello"}))
    done = await settled(control_plane, created.operation_id)

    assert (done.state, done.verification) == ("completed", "unavailable")
    assert (done.result.kind, done.result.data) == ("tool", {"answer": {"kept": 1}})
    assert toolbox.calls == [("note", {"text": "hello"})]
    assert toolbox.contexts[0].operation_id == created.operation_id
    assert done.prepared.preview.rows == (
        ("tool", "note", "reads" if read_only else "changes"),
        ("argument", "text", "hello"),
    )


async def test_a_person_sees_the_arguments_and_approves_exactly_this_call(
    stack: Stack, control_plane: ControlPlane, toolbox: Toolbox, session: str
):
    toolbox.add("send", "sent", permission="ask", account_id="a")
    await stack.start()
    asked = await asked_for(control_plane, session, "send")
    assert asked.prepared.preview.rows == (
        ("tool", "send", "changes"),
        ("account", "a", ""),
        ("argument", "text", "hello"),
    )
    assert toolbox.calls == []

    done = await approved(control_plane, asked)

    assert (done.state, done.result.data) == ("completed", {"answer": "sent"})
    assert toolbox.calls == [("send", {"text": "hello"})]
    assert [entry.kind for entry in await control_plane.history(done.operation_id)][-3:] == [
        "grant",
        "tool_call",
        "report_completed",
    ]


@pytest.mark.parametrize(
    ("read_only", "state"), [(True, "failed"), (False, "unknown")], ids=["one that reads", "one that changes"]
)
@pytest.mark.parametrize("how", ["raises", "takes too long"])
async def test_a_tool_that_gives_no_answer_fails_or_leaves_the_effect_unknown(
    stack: Stack, control_plane: ControlPlane, toolbox: Toolbox, session: str, read_only: bool, state: str, how: str
):
    go_on = threading.Event()
    answers = {"raises": RuntimeError("broke"), "takes too long": lambda _: go_on.wait(20)}
    toolbox.add("tool", answers[how], read_only=read_only, call_timeout_seconds=1)
    await stack.start()

    created = await control_plane.create(tool_request("k", session, "tool", {"text": "x"}))
    ended = await settled(control_plane, created.operation_id)
    go_on.set()

    code = {"raises": "TOOL_FAILED", "takes too long": "ADAPTER_TIMED_OUT"}[how]
    assert (ended.state, ended.problem.code) == (state, code)
    assert len(ended.claims) == (0 if read_only else 1)
    assert len(toolbox.calls) == 1


async def test_a_tool_that_says_that_nothing_changed_is_believed(
    stack: Stack, control_plane: ControlPlane, toolbox: Toolbox, session: str
):
    toolbox.add("send", Refusal(ErrorCode.TARGET_BUSY, "the line is busy"))
    await stack.start()

    created = await control_plane.create(tool_request("k", session, "send", {"text": "x"}))
    ended = await settled(control_plane, created.operation_id)

    assert (ended.state, ended.problem.code, ended.problem.detail) == ("failed", "TARGET_BUSY", "the line is busy")


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"name": "nothing", "arguments": {}}, "TOOL_UNKNOWN"),
        ({"name": "send", "arguments": {}}, "INVALID_INPUT"),
        ({"name": "send", "arguments": {"text": "x", "more": 1}}, "INVALID_INPUT"),
        ({"name": "send", "arguments": []}, "INVALID_INPUT"),
        ({"name": "send"}, "INVALID_INPUT"),
        ({"name": "send", "arguments": {"text": "x"}, "account_id": "b"}, "INVALID_INPUT"),
    ],
    ids=str,
)
@pytest.mark.parametrize("checked_by", ["client", "worker"])
async def test_a_call_that_cannot_be_made_is_refused_and_makes_no_operation(
    stack: Stack, toolbox: Toolbox, session: str, wrong: dict, code: str, checked_by: str
):
    toolbox.add("send")
    await stack.start()
    control_plane = stack.control_plane(**({} if checked_by == "client" else {"catalog": None}))

    with pytest.raises(Refusal) as caught:
        await control_plane.create(tool_request("k", session, "send", {}, input=wrong))

    assert caught.value.code == code
    assert await control_plane.operations(session=session) == []


async def test_what_it_cannot_promise_is_not_promised(
    stack: Stack, control_plane: ControlPlane, toolbox: Toolbox, session: str
):
    toolbox.add("send")
    await stack.start()
    in_background = tool_request("k", session, "send", {"text": "x"}, constraints={"background_required": True})
    with pytest.raises(Refusal) as caught:
        await control_plane.create(in_background)
    assert caught.value.code == "NOT_POSSIBLE"

    created = await control_plane.create(tool_request("k2", session, "send", {"text": "x"}))
    route = (await settled(control_plane, created.operation_id)).route
    assert (route.observation, route.cancellation, route.verification, route.background, route.replay.kind) == (
        False,
        False,
        False,
        False,
        "none",
    )


async def test_a_large_answer_is_kept_as_a_blob(
    stack: Stack, control_plane: ControlPlane, toolbox: Toolbox, session: str
):
    toolbox.add("read", {"lines": ["x" * 100] * 100}, read_only=True)
    await stack.start()

    created = await control_plane.create(tool_request("k", session, "read", {"text": "x"}))
    result = (await settled(control_plane, created.operation_id)).result

    kept = json.loads(BlobStore(stack.settings.blobs).get(result.blob))
    assert (result.data, len(kept["answer"]["lines"])) == ({}, 100)


async def test_a_permission_that_was_taken_away_after_the_approval_stops_the_dispatch(
    stack: Stack, control_plane: ControlPlane, toolbox: Toolbox, session: str
):
    toolbox.add("send", permission="ask")
    await stack.start()
    asked = await asked_for(control_plane, session, "send")

    await control_plane.permit(session, "send", "deny")
    ended = await approved(control_plane, asked)

    assert (ended.state, ended.problem.code, ended.attempts) == ("failed", "TOOL_DENIED", ())
    assert toolbox.calls == []


async def test_an_operator_who_pushes_it_is_bound_by_the_sessions_permission_too(
    stack: Stack, control_plane: ControlPlane, toolbox: Toolbox, session: str
):
    toolbox.add("send")
    await stack.start()
    held = await control_plane.create(tool_request("k", session, "send", {"text": "x"}, on_create="hold"))
    await control_plane.permit(session, "send", "ask")

    operator = stack.control_plane(principal="operator", catalog=None)
    await operator.execute(held.operation_id)
    ended = await settled(control_plane, held.operation_id)

    assert (ended.state, ended.problem.code) == ("failed", "TOOL_NEEDS_DECISION")
    assert toolbox.calls == []


async def test_a_tool_that_is_another_than_the_approved_one_is_not_called(
    stack: Stack, control_plane: ControlPlane, toolbox: Toolbox, session: str
):
    toolbox.add("send", permission="ask")
    await stack.start()
    asked = await asked_for(control_plane, session, "send")

    stack.catalog.tools._tools.clear()
    toolbox.add("send", permission="ask", schema={"type": "object"})
    ended = await approved(control_plane, asked)

    assert (ended.state, ended.problem.code) == ("failed", "TOOL_CHANGED")
    assert toolbox.calls == []


async def test_only_an_administrator_permits_and_a_name_that_no_tool_has_is_noticed(
    stack: Stack, control_plane: ControlPlane, toolbox: Toolbox, session: str
):
    toolbox.add("send", account_id="a")
    reviewer = stack.control_plane(scopes=(Scope.READ, Scope.OPERATE, Scope.REVIEW, Scope.ATTEST))
    await stack.start()

    refused = []
    for client, tool, permission, more in [
        (reviewer, "send", "allow", {"workspace": "w"}),
        (control_plane, "sned", "deny", {"workspace": "w"}),
        (control_plane, "send", "deny", {"workspace": "w", "account_id": "b"}),
        (control_plane, "send", "maybe", {"workspace": "w"}),
        (control_plane, "send", "deny", {}),
    ]:
        with pytest.raises(Refusal) as caught:
            await client.permit(session, tool, permission, **more)
        refused.append(caught.value.code.value)

    assert refused == ["SCOPE_MISSING", "TOOL_UNKNOWN", "ACCOUNT_MISMATCH", "BAD_COMMAND", "NOT_FOUND"]
    assert await control_plane.permissions(session) == []
    said = await control_plane.permit(session, "send", "deny", workspace="w")
    assert await control_plane.permissions(session) == [said]
    assert (said.permission, said.actor.principal, said.actor.scope) == ("deny", "tester", "admin")
    assert [one.permission for one in await control_plane.tools(session)] == ["deny"]


async def test_an_adapter_calls_tools_where_it_acts_and_only_reads_where_it_looks(
    stack: Stack, control_plane: ControlPlane, toolbox: Toolbox
):
    toolbox.add("write", "written")
    toolbox.add("read", "seen", read_only=True)
    adapter = scripted(stack.catalog)
    refused = []

    def acts(context: AdapterContext, order: Order) -> Completed:
        return completed(context.tools.call("write", {"text": "x"}))

    async def looks(context: AdapterContext, order: Order) -> Verified:
        assert await context.tools.acall("read", {"text": "x"}) == "seen"
        try:
            await context.tools.acall("write", {"text": "again"})
        except Refusal as refusal:
            refused.append(refusal.code.value)
        return Verified(evidence=evidence())

    adapter.script("execute", acts)
    adapter.script("verify", looks)
    await stack.start()

    created = await control_plane.create(request())
    done = await settled(control_plane, created.operation_id)

    assert (done.verification, done.result.summary, refused) == ("verified", "written", ["TOOL_MUTATES"])
    assert toolbox.calls == [("write", {"text": "x"}), ("read", {"text": "x"})]


async def test_a_refused_call_that_the_adapter_lets_through_leaves_the_effect_unknown(
    stack: Stack, control_plane: ControlPlane, toolbox: Toolbox
):
    toolbox.add("write", permission="deny")
    adapter = scripted(stack.catalog, observation=False)
    adapter.script("execute", lambda context, order: context.tools.call("write", {"text": "x"}))
    await stack.start()

    created = await control_plane.create(request())
    ended = await settled(control_plane, created.operation_id)

    assert (ended.state, ended.problem.code) == ("unknown", "ADAPTER_RAISED")
    assert "TOOL_DENIED" in ended.problem.detail
    assert toolbox.calls == []


async def test_the_unknown_gate_closes_for_direct_changes_only_and_opens_after_the_attestation(
    stack: Stack, control_plane: ControlPlane, toolbox: Toolbox, session: str
):
    toolbox.add("write", "written")
    toolbox.add("read", "seen", read_only=True)
    lost = scripted(stack.catalog, "lost.v1", observation=False)
    looked_at = scripted(stack.catalog, "looked.v1")
    lost.script("execute", UnknownEffect(code="LOST", detail="no reply"))
    looked_at.script("execute", UnknownEffect(code="LOST", detail="no reply"))
    looked_at.script("observe", lambda context, order: completed(context.tools.call("read", {"text": "x"})))
    await stack.start()
    owner = Owner(workspace="w", session=session)
    elsewhere = Owner(workspace="another", session=session)

    unknown = await settled(control_plane, (await control_plane.create(request(route_id="lost.v1"))).operation_id)
    assert unknown.state == "unknown"
    for whose in (owner, elsewhere):
        with pytest.raises(Refusal) as caught:
            await stack.unit.gateway.direct(whose, "write", {"text": "x"})
        assert (caught.value.code, caught.value.subject) == ("UNKNOWN_EFFECT_OPEN", unknown.operation_id)
    assert await stack.unit.gateway.direct(owner, "read", {"text": "x"}) == "seen"

    other = [{"kind": "remote_entity", "system": "scripted", "identity": "record-2"}]
    readback = await control_plane.create(request("k2", "looked.v1", resources=other))
    assert (await settled(control_plane, readback.operation_id)).result.summary == "seen"
    third = [{"kind": "remote_entity", "system": "scripted", "identity": "record-3"}]
    effectful = await control_plane.create(tool_request("k3", session, "write", {"text": "y"}, resources=third))
    assert (await settled(control_plane, effectful.operation_id)).state == "completed"

    await control_plane.resolve_unknown(
        unknown.operation_id,
        expected_revision=unknown.revision,
        resolution_key="r",
        status="not_applied",
        summary="I looked",
    )
    for whose in (owner, elsewhere):
        assert await stack.unit.gateway.direct(whose, "write", {"text": "z"}) == "written"


async def test_the_sweep_gives_back_what_a_dead_process_held_and_wakes_who_waits(
    stack: Stack, control_plane: ControlPlane, toolbox: Toolbox, session: str
):
    tool = toolbox.add("write")
    adapter = scripted(stack.catalog, verification=False)
    await stack.start()
    database = stack.unit.database
    owner = Owner(workspace="w", session=session)
    call = direct_calls._new_call(owner, tool, {"text": "x"}, database)
    call.lease_until = database.clock() - timedelta(seconds=1)
    await database.run(lambda work: direct_calls._begin(work, call, owner, tool, SYSTEM))
    created = await control_plane.create(request())
    waiting = await control_plane.get(created.operation_id)
    for _ in range(100):
        if waiting.blocked is not None:
            break
        await asyncio.sleep(0.05)
        waiting = await control_plane.get(created.operation_id)
    assert (waiting.state, waiting.blocked.code, adapter.effects) == ("queued", "LOCKED", [])

    assert (await stack.sweep()).lost_calls == 1

    assert (await settled(control_plane, created.operation_id)).state == "completed"


async def asked_for(control_plane: ControlPlane, session: str, name: str) -> Operation:
    """An operation that awaits a person's answer before it calls a tool."""
    decision = {"reason": "It leaves the house.", "question": "Send it?"}
    created = await control_plane.create(tool_request("asked", session, name, {"text": "hello"}, decision=decision))
    asked = await settled(control_plane, created.operation_id)
    assert asked.state == "awaiting_decision"
    return asked


async def approved(control_plane: ControlPlane, asked: Operation) -> Operation:
    await control_plane.decide(asked.operation_id, "approve", proposal_digest=asked.proposal_digest)
    return await settled(control_plane, asked.operation_id)


async def test_a_session_that_is_paused_or_cancelled_changes_nothing_directly_and_may_still_read(
    stack: Stack, control_plane: ControlPlane, toolbox: Toolbox, session: str
):
    toolbox.add("write", "written")
    toolbox.add("read", "seen", read_only=True)
    scripted(stack.catalog)
    await stack.start()
    await control_plane.create(request(on_create="hold"))
    owner = Owner(workspace="w", session=session)

    await control_plane.pause_session(session, "a person wants to look")
    with pytest.raises(Refusal) as paused:
        await stack.unit.gateway.direct(owner, "write", {"text": "x"})
    await control_plane.resume_session(session)
    await control_plane.cancel_session(session, "enough")
    with pytest.raises(Refusal) as cancelled:
        await stack.unit.gateway.direct(owner, "write", {"text": "x"})

    assert (paused.value.code, cancelled.value.code) == ("OWNER_PAUSED", "OWNER_CANCELLED")
    assert await stack.unit.gateway.direct(owner, "read", {"text": "x"}) == "seen"
    assert await stack.unit.gateway.direct(owner.model_copy(update={"epoch": 1}), "write", {"text": "x"}) == "written"
    assert [name for name, _ in toolbox.calls] == ["read", "write"]
