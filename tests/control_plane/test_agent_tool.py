"""`application_operation` as a model meets it: nine actions, its own session only, and no way to decide or attest."""

from __future__ import annotations

import json
import uuid
from typing import Any

import jsonschema
import pytest
import pytest_asyncio

from counterfoil.activities.store.migration import migrate
from counterfoil.control_plane.agent_tool import ACTIONS, ApplicationOperationTool
from counterfoil.control_plane.client import ControlPlane
from counterfoil.models.operations.commands import CommandName
from counterfoil.models.operations.contract import DecisionRequest, OperationRequest, Owner, Resource
from counterfoil.models.operations.outcomes import Completed, Prepared, Preview, Running, TypedResult, UnknownEffect
from counterfoil.models.operations.route import PreparationSupport
from support.scripted import scripted
from support.stack import Stack, settled
from support.toolbox import Toolbox

ON_RECORD = [{"kind": "remote_entity", "system": "scripted", "identity": "record-1"}]


@pytest.fixture
def owner() -> Owner:
    return Owner(workspace="w", session=f"s-{uuid.uuid4().hex[:12]}", turn="t1")


@pytest.fixture
def tool(control_plane: ControlPlane, owner: Owner) -> ApplicationOperationTool:
    return ApplicationOperationTool(control_plane, owner)


@pytest.fixture
def store(stack: Stack) -> None:
    """The stack's database, where no worker is needed."""
    migrate(stack.settings.database)


@pytest_asyncio.fixture
async def adapter(stack: Stack) -> Any:
    return scripted(stack.catalog, preparation=PreparationSupport.PURE)


def wanted(key: str = "k", **changes: Any) -> dict[str, Any]:
    """What a model writes: no owner."""
    return {
        "idempotency_key": key,
        "capability": "record.update",
        "route_id": "scripted.v1",
        "objective": "set the value to 2",
        "input": {"value": 2},
        "resources": ON_RECORD,
    } | changes


ASKED = {"decision": {"reason": "It is the board's.", "question": "Change it?"}}


async def created(tool: ApplicationOperationTool, **changes: Any) -> dict[str, Any]:
    answer = await tool.call({"action": "create", "request": wanted(**changes)})
    assert "error" not in answer, answer
    return answer["operation"]


async def told(tool: ApplicationOperationTool, action: str, operation_id: str, **more: Any) -> dict[str, Any]:
    return await tool.call({"action": action, "operation_id": operation_id, **more})


async def test_an_operation_is_made_in_the_hosts_name_and_followed_to_its_proof(
    stack: Stack, control_plane: ControlPlane, adapter: Any, tool: ApplicationOperationTool, owner: Owner
):
    await stack.start()

    made = await created(tool)
    done = await settled(control_plane, made["operation_id"])
    answer = (await told(tool, "get", made["operation_id"]))["operation"]

    assert done.request.owner == owner
    assert adapter.effects == [(made["operation_id"], 1)]
    evidence = answer.pop("evidence")
    assert (evidence["source"], evidence["version"]) == ("scripted target", "2")
    assert answer == {
        "operation_id": made["operation_id"],
        "state": "completed",
        "verification": "verified",
        "cancellation": "none",
        "revision": done.revision,
        "capability": "record.update",
        "route_id": "scripted.v1",
        "objective": "set the value to 2",
        "waits_for": None,
        "next_actions": ["get", "reconcile"],
        "result": {"kind": "scripted", "summary": "done", "data": {"value": 2}},
    }
    assert (await created(tool))["operation_id"] == made["operation_id"]
    conflict = await tool.call({"action": "create", "request": wanted(input={"value": 3})})
    assert conflict["error"]["code"] == "IDEMPOTENCY_CONFLICT"


async def test_a_held_operation_is_prepared_and_executed_when_the_model_says_so(
    stack: Stack, control_plane: ControlPlane, adapter: Any, tool: ApplicationOperationTool
):
    await stack.start()

    held = await created(tool, on_create="hold")
    operation_id = held["operation_id"]
    assert (held["state"], held["waits_for"]) == ("held", "a push: prepare or execute")
    assert held["next_actions"] == ["get", "prepare", "execute", "cancel"]
    await told(tool, "prepare", operation_id)
    await control_plane.wait(operation_id, timeout_seconds=30)
    prepared = (await told(tool, "get", operation_id))["operation"]
    assert (prepared["state"], prepared["next_actions"]) == ("prepared", ["get", "execute", "cancel"])
    await told(tool, "execute", operation_id)

    assert (await settled(control_plane, operation_id)).verification == "verified"
    refreshed = await told(tool, "reconcile", operation_id)
    assert refreshed["operation"]["state"] == "completed"
    assert adapter.effects == [(operation_id, 1)]


async def test_review_shows_what_a_person_is_asked_and_nothing_the_model_says_answers_it(
    stack: Stack, control_plane: ControlPlane, adapter: Any, tool: ApplicationOperationTool
):
    await stack.start()
    operation_id = (await created(tool, **ASKED))["operation_id"]
    asked = await settled(control_plane, operation_id)

    shown = (await told(tool, "review", operation_id))["review"]
    assert shown == {
        "operation_id": operation_id,
        "state": "awaiting_decision",
        "awaits_answer": True,
        "question": "Change it?",
        "reason": "It is the board's.",
        "proposal_digest": asked.proposal_digest,
        "expires_at": None,
        "answered_by": "a person, through the host; this tool has no way to answer",
        "proposal": "sets value to 2",
        "preview": {"columns": ["Field", "Before", "After"], "rows": [["value", "1", "2"]], "omitted_rows": 0},
    }
    approval = {"verdict": "approve", "proposal_digest": asked.proposal_digest}
    attestation = {"status": "applied", "expected_revision": asked.revision, "resolution_key": "r", "summary": "yes"}
    names = [*CommandName, "approve", "attest", "permit", "decision", "resolve"]
    for name in names:
        for more in ({}, approval, attestation):
            answer = await tool.call({"action": str(name), "operation_id": operation_id} | more)
            if name not in ACTIONS or more:
                assert answer["error"]["code"] == "BAD_REQUEST"
            else:
                assert name in ("cancel", "prepare", "execute", "reconcile")
                assert answer["error"]["code"] in ("BAD_REQUEST", "NOT_POSSIBLE")
    for action in ACTIONS:
        answer = await tool.call({"action": action, "operation_id": operation_id, "reason": "r"} | approval)
        assert answer["error"]["code"] == "BAD_REQUEST"

    assert (await control_plane.get(operation_id)).state == "awaiting_decision"
    assert (await control_plane.get(operation_id)).revision == asked.revision
    assert adapter.effects == []
    await control_plane.decide(operation_id, "revise", proposal_digest=asked.proposal_digest, notes="rather 3")
    revised = (await told(tool, "review", operation_id))["review"]
    assert (revised["awaits_answer"], revised["decision"]) == (False, {"verdict": "revise", "notes": "rather 3"})


async def test_an_unknown_effect_can_be_looked_at_again_and_not_cleared(
    stack: Stack, control_plane: ControlPlane, tool: ApplicationOperationTool
):
    adapter = scripted(stack.catalog, observation=False)
    adapter.script("execute", UnknownEffect(code="LOST", detail="no reply"))
    await stack.start()
    operation_id = (await created(tool))["operation_id"]
    await settled(control_plane, operation_id)

    answer = (await told(tool, "get", operation_id))["operation"]
    assert (answer["state"], answer["waits_for"]) == ("unknown", "a person who looks, and attests what happened")
    assert answer["problem"] == {"code": "LOST", "detail": "no reply"}
    assert answer["next_actions"] == ["get", "cancel"]
    assert (await told(tool, "reconcile", operation_id))["error"]["code"] == "NOT_POSSIBLE"
    asked = (await told(tool, "cancel", operation_id, reason="no longer needed"))["operation"]
    assert (asked["state"], asked["cancellation"]) == ("unknown", "requested")


async def test_another_sessions_operations_cannot_be_seen_or_touched(
    stack: Stack, control_plane: ControlPlane, adapter: Any, tool: ApplicationOperationTool, owner: Owner
):
    await stack.start()
    mine = await created(tool, on_create="hold")
    strangers = [
        ApplicationOperationTool(control_plane, Owner(workspace="w", session="another")),
        ApplicationOperationTool(control_plane, Owner(workspace="another", session=owner.session)),
    ]

    for stranger in strangers:
        for action in ("prepare", "execute", "get", "reconcile", "cancel", "review"):
            more = {"reason": "r"} if action == "cancel" else {}
            answer = await told(stranger, action, mine["operation_id"], **more)
            absent = await told(stranger, action, "op-none", **more)
            assert answer["error"]["code"] == absent["error"]["code"] == "NOT_FOUND"
            assert answer["error"]["detail"] == absent["error"]["detail"]
        assert await stranger.call({"action": "list"}) == {"operations": []}
    listed = await tool.call({"action": "list", "states": ["held"]})
    assert [one["operation_id"] for one in listed["operations"]] == [mine["operation_id"]]
    assert await tool.call({"action": "list", "states": ["completed"]}) == {"operations": []}
    assert (await control_plane.get(mine["operation_id"])).state == "held"


@pytest.mark.parametrize("word", ["owner", "workspace", "session", "turn", "task"])
@pytest.mark.usefixtures("store")
async def test_whose_operation_it_is_the_model_cannot_say(
    stack: Stack, adapter: Any, tool: ApplicationOperationTool, control_plane: ControlPlane, word: str
):
    value = {"workspace": "w", "session": "another"} if word == "owner" else "another"

    inside = await tool.call({"action": "create", "request": wanted() | {word: value}})
    outside = await tool.call({"action": "create", "request": wanted(), word: value})

    assert (inside["error"]["code"], outside["error"]["code"]) == ("BAD_REQUEST", "BAD_REQUEST")
    assert await control_plane.operations(session="another") == []


def endless() -> list[Any]:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    return nested


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (None, "BAD_REQUEST"),
        ("create", "BAD_REQUEST"),
        ([], "BAD_REQUEST"),
        ({}, "BAD_REQUEST"),
        ({"action": "explode"}, "BAD_REQUEST"),
        ({"action": ["get"]}, "BAD_REQUEST"),
        ({"action": "get"}, "BAD_REQUEST"),
        ({"action": "get", "operation_id": 7}, "BAD_REQUEST"),
        ({"action": "get", "operation_id": "a\x00b"}, "BAD_REQUEST"),
        ({"action": "get", "operation_id": "\ud800"}, "BAD_REQUEST"),
        ({"action": "cancel", "operation_id": "op-1"}, "BAD_REQUEST"),
        ({"action": "list", "limit": 51}, "BAD_REQUEST"),
        ({"action": "list", "states": ["lost"]}, "BAD_REQUEST"),
        ({"action": "create"}, "BAD_REQUEST"),
        ({"action": "create", "request": {}}, "BAD_REQUEST"),
        ({"action": "create", "request": "{}"}, "BAD_REQUEST"),
        ({"action": "create", "request": wanted(route_id="none")}, "UNKNOWN_ROUTE"),
        ({"action": "create", "request": wanted(capability="none")}, "UNKNOWN_CAPABILITY"),
        ({"action": "create", "request": wanted(input={"x": float("nan")})}, "BAD_REQUEST"),
        ({"action": "create", "request": wanted(input={"x": {1}})}, "BAD_REQUEST"),
        ({"action": "create", "request": wanted(input={"x": endless()})}, "BAD_REQUEST"),
        ({"action": "create", "request": wanted(input={"x": "a" * 1_100_000})}, "INPUT_TOO_LARGE"),
        ({"action": "create", "request": wanted(input={"x": "a" * 3_000_000})}, "INPUT_TOO_LARGE"),
        ({"action": "capabilities", "route_id": "none"}, "UNKNOWN_ROUTE"),
    ],
    ids=lambda value: str(value)[:50] if not isinstance(value, dict) else None,
)
@pytest.mark.usefixtures("store")
async def test_bad_input_is_answered_with_what_is_wrong_and_never_raises(
    adapter: Any, tool: ApplicationOperationTool, arguments: Any, code: str
):
    answer = await tool.call(arguments)

    assert sorted(answer["error"]) == ["code", "detail", "remedy", "subject"]
    assert answer["error"]["code"] == code
    assert answer["error"]["remedy"]
    assert len(json.dumps(answer)) < 4000


async def test_answers_stay_small_however_large_the_operation_is(
    stack: Stack, control_plane: ControlPlane, adapter: Any, tool: ApplicationOperationTool
):
    large = Preview(columns=("a", "b"), rows=tuple((f"r{n}", "x" * 5000) for n in range(40)), omitted_rows=7)
    adapter.script("prepare", Prepared(summary="s" * 4000, preview=large))
    result = TypedResult(kind="large", summary="y" * 4000, data={"lines": ["z" * 100] * 1000})
    adapter.script("execute", Completed(result=result))
    adapter.script("verify", lambda context, order: RuntimeError("not now"))
    await stack.start()
    text = {"text": "i" * 500_000}
    made = await created(tool, input=text, objective="o" * 4000, **ASKED)
    asked = await settled(control_plane, made["operation_id"])

    review = await told(tool, "review", made["operation_id"])
    await control_plane.decide(made["operation_id"], "approve", proposal_digest=asked.proposal_digest)
    await control_plane.wait(made["operation_id"], asked.state.COMPLETED, timeout_seconds=30)
    got = await told(tool, "get", made["operation_id"])

    assert review["review"]["preview"]["omitted_rows"] == 27
    assert got["operation"]["result"]["data_left_out_bytes"] > 100_000
    assert "data" not in got["operation"]["result"]
    assert [len(json.dumps(one)) < 8192 for one in (made, review, got)] == [True, True, True]


async def test_running_work_can_be_cancelled_and_looked_at_again(
    stack: Stack, control_plane: ControlPlane, tool: ApplicationOperationTool
):
    adapter = scripted(stack.catalog)
    running = Running(external_id="job-1", poll_after_seconds=30)
    adapter.script("execute", running)
    adapter.script("observe", running)
    await stack.start()
    operation_id = (await created(tool))["operation_id"]
    await control_plane.wait(operation_id, (await control_plane.get(operation_id)).state.RUNNING, timeout_seconds=30)

    answer = (await told(tool, "get", operation_id))["operation"]

    assert answer["waits_for"] == "the application to finish; it is being observed"
    assert answer["next_actions"] == ["get", "reconcile", "cancel"]


@pytest.mark.usefixtures("store")
async def test_capabilities_names_the_routes_and_one_in_full(
    stack: Stack, adapter: Any, tool: ApplicationOperationTool, control_plane: ControlPlane, owner: Owner
):
    Toolbox(stack.catalog).add("note", read_only=True)
    await control_plane.permit(owner.session, "note", "ask", workspace="w")

    routes = {one["route_id"]: one for one in (await tool.call({"action": "capabilities"}))["routes"]}
    assert sorted(routes) == [
        "cowork.tool",
        "local.document.edit.v1",
        "local.files.v1",
        "local.workbook.edit.v1",
        "scripted.v1",
    ]
    assert routes["scripted.v1"] == {
        "route_id": "scripted.v1",
        "capabilities": ["record.update"],
        "supports": ["preparation", "observation", "verification", "background"],
    }
    assert routes["cowork.tool"]["supports"] == ["preparation"]

    files = (await tool.call({"action": "capabilities", "route_id": "local.files.v1"}))["route"]["inputs"]
    assert sorted(files) == ["file.append", "file.create", "file.replace"]
    assert sorted(files["file.create"]["properties"]) == ["path", "text"]
    bridge = (await tool.call({"action": "capabilities", "route_id": "cowork.tool"}))["route"]
    jsonschema.validate({"name": "note", "arguments": {"text": "x"}}, bridge["inputs"]["tool.call"])
    assert [(one["name"], one["permission"], one["read_only"]) for one in bridge["tools"]] == [("note", "ask", True)]
    assert bridge["tools"][0]["input_schema"]["required"] == ["text"]


async def test_a_client_without_adapters_says_so(stack: Stack, owner: Owner):
    blind = ApplicationOperationTool(stack.control_plane(catalog=None), owner)

    assert (await blind.call({"action": "capabilities"}))["error"]["code"] == "ADAPTER_UNAVAILABLE"


async def test_what_is_away_is_an_answer_too(stack: Stack, adapter: Any, owner: Owner):
    tool = ApplicationOperationTool(stack.control_plane(timeout_seconds=1), owner)
    await stack.start()
    operation_id = (await created(tool, on_create="hold"))["operation_id"]
    await stack.stop()

    answer = await told(tool, "execute", operation_id)

    assert answer["error"]["code"] == "TIMED_OUT"


def test_the_schema_is_one_flat_object_that_takes_every_action_and_nothing_else():
    schema = ApplicationOperationTool.input_schema
    jsonschema.Draft202012Validator.check_schema(schema)
    fits = jsonschema.Draft202012Validator(schema).is_valid

    assert schema["properties"]["action"]["enum"] == [
        "capabilities",
        "create",
        "prepare",
        "execute",
        "get",
        "list",
        "reconcile",
        "cancel",
        "review",
    ]
    assert not {"oneOf", "anyOf", "allOf"} & set(schema)
    assert len(json.dumps(schema)) < 4000
    assert fits({"action": "create", "request": wanted(**ASKED)})
    assert fits({"action": "cancel", "operation_id": "op-1", "reason": "r"})
    assert not fits({"action": "decide"})
    assert not fits({"action": "get", "verdict": "approve"})
    assert not fits({"action": "create", "request": wanted() | {"owner": {}}})


def test_the_schema_of_a_request_names_what_a_request_has_but_for_what_the_host_says():
    request = ApplicationOperationTool.input_schema["properties"]["request"]["properties"]

    assert set(request) == set(OperationRequest.model_fields) - {"owner", "schema_version"}
    assert set(request["decision"]["properties"]) == set(DecisionRequest.model_fields)
    assert set(request["resources"]["items"]["properties"]) == set(Resource.model_fields)
