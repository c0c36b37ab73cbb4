"""Servers from npm that others wrote: the one that does everything (both transports), files, and memory."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx2
import psutil
import pytest

from counterfoil.activities.adapters.base import Phase
from counterfoil.activities.adapters.mcp_tool.profile import ServerProfile
from counterfoil.activities.adapters.runner import AdapterRaised
from support.mcp_calls import DECISION, none_left

TASK = {"simulate-research-query": {"runs_as_task": True}}


@pytest.fixture(params=["stdio", "http"])
def either(request, everything, everything_url):
    """`either(tools={})`: the server that does everything, over each transport in turn."""

    def make(tools=None, **more):
        if request.param == "http":
            more["transport"] = {"kind": "http", "url": everything_url}
        return everything(tools, **more)

    return make


async def test_a_tool_is_called_over_either_transport(calls, either):
    one = calls(either())

    outcome = await one.executed(one.request("get-sum", {"a": 2, "b": 3}))

    assert outcome.status == "completed"
    assert outcome.result.data["content"] == [{"type": "text", "text": "The sum of 2 and 3 is 5."}]


async def test_arguments_are_checked_against_the_schema_of_a_foreign_server(calls, either):
    one = calls(either())

    outcome = await one.phase(Phase.PREPARE, one.order(one.request("get-sum", {"a": 2, "b": "3"})))

    assert (outcome.status, outcome.code) == ("failed", "INVALID_INPUT")
    assert "b: '3' is not of type 'number'" in outcome.detail


async def test_structured_content_and_pictures_of_a_foreign_server(calls, everything, blobs):
    one = calls(everything())

    weather = await one.executed(one.request("get-structured-content", {"location": "Chicago"}))
    picture = await one.executed(one.request("get-tiny-image"))

    assert set(weather.result.data["structured"]) == {"temperature", "conditions", "humidity"}
    assert "misfits" not in weather.result.data
    assert [block["type"] for block in picture.result.data["content"]] == ["text", "image", "text"]
    assert picture.result.data["content"][1]["blob"]["media_type"] == "image/png"


async def test_an_approved_answer_reaches_a_foreign_server(calls, either):
    one = calls(either())
    answer = {"fields": {"name": "Ada", "check": True, "integer": 7}}
    request = one.request("trigger-elicitation-request", input={"elicitation": [answer]}, decision=DECISION)

    outcome = await one.executed(request)

    assert outcome.status == "completed", outcome
    told = " ".join(block["text"] for block in outcome.result.data["content"])
    assert "Ada" in told
    assert "Favorite Integer: 7" in told or '"integer": 7' in told


async def test_without_an_answer_a_foreign_server_is_declined_and_its_question_told(calls, either):
    one = calls(either(tools={"trigger-elicitation-request": {"declined_means": "not_applied"}}))

    outcome = await one.executed(one.request("trigger-elicitation-request"))

    assert (outcome.status, outcome.code) == ("failed", "ANSWER_NEEDED")
    assert "Please provide inputs for the following fields:" in outcome.detail


async def test_progress_does_not_prolong_a_call(calls, everything):
    one = calls(everything())
    arguments = {"duration": 30, "steps": 60}

    outcome = await one.executed(one.request("trigger-long-running-operation", arguments), timeout_seconds=10)

    assert (outcome.status, outcome.code) == ("unknown", "ADAPTER_TIMED_OUT")


async def test_a_task_runs_and_is_polled_until_its_result_is_there(calls, either):
    one = calls(either(tools=TASK))
    order = await one.prepared(one.request("simulate-research-query", {"topic": "bees"}))

    begun = await one.phase(Phase.EXECUTE, order)
    assert (begun.status, begun.poll_after_seconds) == ("running", 1.0)
    seen = await until_over(one, order, begun.external_id)

    assert seen.status == "completed"
    assert "Research Report: bees" in seen.result.data["content"][0]["text"]


async def test_a_task_is_cancelled_and_what_it_did_before_stays_unknown(calls, either):
    one = calls(either(tools=TASK))
    order = await one.prepared(one.request("simulate-research-query", {"topic": "bees"}))
    begun = await one.phase(Phase.EXECUTE, order)
    running = one.order(order.request, prepared=order.prepared, external_id=begun.external_id)

    answer = await one.phase(Phase.CANCEL, running)
    seen = await one.phase(Phase.OBSERVE, running)

    assert answer.status == "accepted"
    assert (seen.status, seen.code) == ("unknown", "TOOL_FAILED")


async def test_a_task_of_a_tool_that_changes_nothing_is_cancelled_for_good(calls, everything):
    one = calls(everything(tools={"simulate-research-query": {"runs_as_task": True, "read_only": True}}))
    order = await one.prepared(one.request("simulate-research-query", {"topic": "bees"}))
    begun = await one.phase(Phase.EXECUTE, order)

    answer = await one.phase(Phase.CANCEL, one.order(order.request, external_id=begun.external_id))

    assert answer.status == "cancelled"
    assert answer.evidence.facts["status"] == "cancelled"


async def test_a_question_of_a_task_is_given_its_approved_answer(calls, everything):
    one = calls(everything(tools=TASK))
    answer = {"fields": {"interpretation": "snake"}}
    arguments = {"topic": "python", "ambiguous": True}
    request = one.request("simulate-research-query", arguments, input={"elicitation": [answer]}, decision=DECISION)
    order = await one.prepared(request)

    begun = await one.phase(Phase.EXECUTE, order)
    seen = await until_over(one, order, begun.external_id)

    assert seen.status == "completed"
    assert "python (snake)" in seen.result.data["content"][0]["text"]


async def test_a_tool_that_runs_only_as_a_task_must_be_declared_so(calls, everything):
    one = calls(everything())

    outcome = await one.phase(Phase.PREPARE, one.order(one.request("simulate-research-query", {"topic": "x"})))

    assert (outcome.status, outcome.code) == ("failed", "NOT_POSSIBLE")
    assert "declare runs_as_task" in outcome.detail


async def test_a_tool_that_is_no_task_must_not_be_declared_one(calls, everything):
    one = calls(everything(tools={"echo": {"runs_as_task": True}}))

    outcome = await one.phase(Phase.PREPARE, one.order(one.request("echo", {"message": "x"})))

    assert outcome.code == "NOT_POSSIBLE"


async def test_a_task_whose_server_process_is_gone_cannot_be_looked_at(calls, everything):
    one = calls(everything(tools=TASK))
    others = set(psutil.Process().children(recursive=True))
    order = await one.prepared(one.request("simulate-research-query", {"topic": "bees"}))
    begun = await one.phase(Phase.EXECUTE, order)
    servers = set(psutil.Process().children(recursive=True)) - others
    one.adapter.station.close()

    seen = await one.phase(Phase.OBSERVE, one.order(order.request, external_id=begun.external_id))

    assert (seen.status, seen.code) == ("unknown", "NOT_OBSERVABLE")
    assert "has ended" in seen.detail
    assert servers
    assert await none_left([server.pid for server in servers]) == []


async def until_over(one, order, external_id):
    running = one.order(order.request, approved=order.approved, prepared=order.prepared, external_id=external_id)
    async with asyncio.timeout(40):
        while True:
            seen = await one.phase(Phase.OBSERVE, running)
            if seen.status != "running":
                return seen
            await asyncio.sleep(0.5)


@pytest.fixture
def files(npm: Path, tmp_path: Path) -> ServerProfile:
    """The file server, allowed one folder; what it writes is read back by its own reader."""
    folder = tmp_path / "shared"
    folder.mkdir()
    readback = {"tool": "read_text_file", "arguments": {"path": "$arguments.path"}}
    readback["expected"] = {"content": "$arguments.content"}
    return ServerProfile.model_validate(
        {
            "name": "files",
            "transport": {"kind": "stdio", "command": str(npm / "mcp-server-filesystem"), "args": (str(folder),)},
            "tools": {
                "write_file": {"verify": readback, "observe": readback, "errors_mean": "not_applied"},
                "read_text_file": {"read_only": True},
            },
        }
    )


async def test_a_file_is_written_by_a_foreign_server_and_verified(calls, files, tmp_path):
    one = calls(files)
    path = tmp_path / "shared" / "note.txt"
    order = await one.prepared(one.request("write_file", {"path": str(path), "content": "hello"}))

    outcome = await one.phase(Phase.EXECUTE, order)
    verified = await one.phase(Phase.VERIFY, order)
    path.write_text("by somebody else")
    contradicted = await one.phase(Phase.VERIFY, order)

    assert (outcome.status, verified.status, contradicted.status) == ("completed", "verified", "contradicted")


async def test_a_foreign_servers_own_refusal_is_what_the_profile_says(calls, files, tmp_path):
    one = calls(files)
    outside = tmp_path / "outside.txt"

    outcome = await one.executed(one.request("write_file", {"path": str(outside), "content": "x"}))

    assert (outcome.status, outcome.code) == ("failed", "TOOL_FAILED")
    assert "Access denied" in outcome.detail
    assert not outside.exists()


async def test_entities_are_remembered_by_a_foreign_server(calls, npm, tmp_path, monkeypatch):
    memory = tmp_path / "memory.jsonl"
    monkeypatch.setenv("MEMORY_FILE_PATH", str(memory))
    readback = {"tool": "open_nodes", "arguments": {"names": ["$arguments.entities.0.name"]}}
    readback["expected"] = {"entities.0.observations": "$arguments.entities.0.observations"}
    transport = {"kind": "stdio", "command": str(npm / "mcp-server-memory"), "environment": ["MEMORY_FILE_PATH"]}
    tools = {"create_entities": {"verify": readback}, "open_nodes": {"read_only": True}}
    one = calls(ServerProfile.model_validate({"name": "memory", "transport": transport, "tools": tools}))
    entity = {"name": "Ada", "entityType": "person", "observations": ["wrote the first program"]}
    order = await one.prepared(one.request("create_entities", {"entities": [entity]}))

    outcome = await one.phase(Phase.EXECUTE, order)
    seen = await one.phase(Phase.VERIFY, order)

    assert (outcome.status, seen.status) == ("completed", "verified")
    assert [json.loads(line)["name"] for line in memory.read_text().splitlines()] == ["Ada"]


async def test_nobody_listening_is_not_ready(calls, everything):
    one = calls(everything(transport={"kind": "http", "url": "http://127.0.0.1:9/mcp"}))

    with pytest.raises(AdapterRaised, match="NOT_READY: the server cannot be reached: ConnectError"):
        await one.phase(Phase.PREPARE, one.order(one.request("echo", {"message": "x"})))


async def test_a_session_is_ended_at_the_server_when_a_call_is_over(calls, everything, everything_url):
    """The server's sessions are what it says of them itself: one that was ended is unknown to it."""
    ended: list[str] = []
    send = httpx2.AsyncHTTPTransport.handle_async_request

    async def noting(transport, request):
        if request.method == "DELETE":
            ended.append(request.headers["mcp-session-id"])
        return await send(transport, request)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(httpx2.AsyncHTTPTransport, "handle_async_request", noting)
        one = calls(everything(transport={"kind": "http", "url": everything_url}))
        await one.executed(one.request("echo", {"message": "x"}))

    assert len(ended) == 2
    async with httpx2.AsyncClient() as client:
        headers = {"mcp-session-id": ended[0], "accept": "application/json, text/event-stream"}
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        assert (await client.post(everything_url, json=ping, headers=headers)).status_code in (400, 404)
