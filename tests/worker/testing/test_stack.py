"""What a host's test may set, and what its stack then does: every answer of the scripted adapter, for real."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from counterfoil import Refusal, connect
from counterfoil.testing import (
    Answer,
    Call,
    ScriptedAdapter,
    Stack,
    cancelled,
    completed,
    contradicted,
    failed,
    late,
    not_applied,
    partial,
    running,
    unknown,
    unverifiable,
)

QUESTION = {"reason": "it is money", "question": "Pay it back?"}


def test_an_operation_completes_and_is_verified_where_a_test_says_nothing(counterfoil_stack: Stack):
    operation = counterfoil_stack.settled()

    assert (operation.state, operation.verification, operation.result.summary) == ("completed", "verified", "done")
    assert counterfoil_stack.adapter.effects == [
        Call("execute", operation.operation_id, "k1", {"value": 2}, 1),
    ]
    assert [call.phase for call in counterfoil_stack.adapter.calls] == ["execute", "verify"]


@pytest.mark.parametrize(
    ("course", "state", "generations"),
    [
        ([running(), running(), completed("slowly")], "completed", [1]),
        ([unknown(), completed("found")], "completed", [1]),
        ([unknown(), not_applied()], "not_applied", [1]),
        ([running(), cancelled()], "cancelled", [1]),
        ([failed("NO_FUNDS", "there is none")], "failed", [1]),
        ([ConnectionError("reset"), completed()], "completed", [1]),
        ([lambda context, order: completed(context.operation_id)], "completed", [1]),
    ],
)
def test_an_operation_takes_its_course(
    counterfoil_stack: Stack, course: list[Answer], state: str, generations: list[int]
):
    counterfoil_stack.adapter.will(*course)

    operation = counterfoil_stack.settled()

    assert operation.state == state
    assert [call.generation for call in counterfoil_stack.adapter.effects] == generations


@pytest.mark.parametrize(
    ("verification", "status"),
    [(partial(), "partial"), (contradicted(), "contradicted"), (unverifiable(), "unavailable")],
)
def test_what_is_read_back_may_be_set(counterfoil_stack: Stack, verification: Answer, status: str):
    counterfoil_stack.adapter.will(completed(), verification=verification)

    operation = counterfoil_stack.settled()

    assert (operation.state, operation.verification) == ("completed", status)


def test_a_late_reply_comes_when_the_operation_is_unknown_already(counterfoil_stack: Stack):
    counterfoil_stack.adapter.will(late(completed("after all")))

    created = counterfoil_stack.create()
    unclear = counterfoil_stack.wait(created.operation_id, "unknown")
    operation = counterfoil_stack.wait(created.operation_id, "completed")

    assert unclear.problem.code == "ADAPTER_TIMED_OUT"
    assert operation.result.summary == "after all"
    assert len(counterfoil_stack.adapter.effects) == 1


def test_an_unknown_effect_stays_unknown_until_somebody_attests(counterfoil_stack: Stack):
    blind = counterfoil_stack.script("blind.v1", "scripted.change", observation=False)
    blind.will(unknown())

    unclear = counterfoil_stack.settled(counterfoil_stack.request(route_id="blind.v1"))
    counterfoil_stack.call(
        lambda counterfoil: counterfoil.resolve_unknown(
            unclear.operation_id,
            expected_revision=unclear.revision,
            resolution_key="looked",
            status="applied",
            summary="it is there",
        )
    )

    assert (unclear.state, counterfoil_stack.wait(unclear.operation_id).state) == ("unknown", "completed")


def test_courses_are_taken_in_order_but_for_those_with_a_key(counterfoil_stack: Stack):
    adapter = counterfoil_stack.adapter
    adapter.will(failed("FIRST"))
    adapter.will(failed("SECOND"))
    adapter.will(failed("NAMED"), key="named")

    codes = {key: counterfoil_stack.settled(counterfoil_stack.request(key)).problem for key in ("named", "a", "b", "c")}

    assert {key: problem and problem.code for key, problem in codes.items()} == {
        "named": "NAMED",
        "a": "FIRST",
        "b": "SECOND",
        "c": None,
    }


def test_a_route_that_is_not_ready_is_waited_for(counterfoil_stack: Stack):
    counterfoil_stack.adapter.not_ready("closed")

    created = counterfoil_stack.create()
    waiting = counterfoil_stack.wait(created.operation_id, "queued")
    counterfoil_stack.adapter.ready()
    operation = counterfoil_stack.wait(created.operation_id)

    assert waiting.state == "queued"
    assert operation.state == "completed"


def test_a_cancellation_is_answered_as_the_test_says(counterfoil_stack: Stack):
    counterfoil_stack.adapter.will(running(), running())

    created = counterfoil_stack.create()
    counterfoil_stack.wait(created.operation_id, "running")
    counterfoil_stack.call(lambda counterfoil: counterfoil.cancel(created.operation_id, "enough"))
    operation = counterfoil_stack.wait(created.operation_id)

    assert (operation.state, operation.cancellation) == ("cancelled", "confirmed")
    assert [call.phase for call in counterfoil_stack.adapter.calls].count("cancel") == 1


def test_a_proposal_is_prepared_and_decided_on(counterfoil_stack: Stack):
    drafts = counterfoil_stack.script("drafts.v1", "scripted.change", preparation="pure")

    asked = counterfoil_stack.settled(counterfoil_stack.request(route_id="drafts.v1", decision=QUESTION))
    counterfoil_stack.call(
        lambda counterfoil: counterfoil.decide(
            asked.operation_id, "approve", proposal_digest=str(asked.proposal_digest)
        )
    )
    operation = counterfoil_stack.wait(asked.operation_id)

    assert (asked.state, asked.prepared.summary, operation.state) == (
        "awaiting_decision",
        "a change under test",
        "completed",
    )
    assert [call.phase for call in drafts.calls] == ["prepare", "execute", "verify"]


async def test_an_asynchronous_test_uses_a_client_on_its_own_loop(counterfoil_stack: Stack):
    async with await connect() as counterfoil:
        created = await counterfoil.create(counterfoil_stack.request())
        operation = await counterfoil.wait(created.operation_id)

    assert operation.state == "completed"


def test_a_client_refuses_early_what_the_stack_would_refuse(counterfoil_stack: Stack):
    async def ask() -> None:
        async with await connect() as counterfoil:
            await counterfoil.create(counterfoil_stack.request(route_id="nobody.v1"))

    with pytest.raises(Refusal, match="UNKNOWN_ROUTE"):
        asyncio.run(ask())


def test_another_process_finds_the_stack_and_leaves_the_checking_to_its_worker(counterfoil_stack: Stack):
    asked = counterfoil_stack.request("from elsewhere").model_dump_json()
    program = Path(sys.executable).with_name("counterfoil")

    done = subprocess.run(
        [program, "operation", "create", "-", "--wait", "--json"],
        input=asked,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verification"] == "verified"
    assert [call.key for call in counterfoil_stack.adapter.effects] == ["from elsewhere"]


def test_files_are_written_below_the_stacks_own_workspace(counterfoil_stack: Stack):
    counterfoil_stack.settled(
        counterfoil_stack.request(
            route_id="local.files.v1",
            capability="file.create",
            input={"path": "note.txt", "text": "hello\n"},
            resources=[{"kind": "file", "system": "file", "identity": "note.txt"}],
        )
    )

    assert (counterfoil_stack.workspace / "note.txt").read_text() == "hello\n"


class TestAdaptersOfAHost:
    """A host's own adapters are served beside the scripted ones."""

    @pytest.fixture
    def counterfoil_adapters(self) -> list[Any]:
        def register(catalog: Any) -> None:
            catalog.register(ScriptedAdapter("registered.v1", "scripted.change"))

        return [ScriptedAdapter("brought.v1", "scripted.change"), register]

    @pytest.mark.parametrize("route_id", ["brought.v1", "registered.v1", "scripted.v1"])
    def test_is_served(self, counterfoil_stack: Stack, route_id: str):
        assert counterfoil_stack.settled(counterfoil_stack.request(route_id=route_id)).state == "completed"
