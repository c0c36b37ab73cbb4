"""The gateway on a real database: whose permission counts when, what is recorded, what direct calls hold."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio
from sqlalchemy import select

from counterfoil.activities.adapters.base import Phase
from counterfoil.activities.adapters.tools import ToolContext, ToolFailed
from counterfoil.activities.operations import direct_calls, permissions
from counterfoil.activities.operations.gateway import Gateway
from counterfoil.activities.operations.rows import route_of
from counterfoil.models.common import Actor
from counterfoil.models.errors import ErrorCode, Refusal, Unavailable
from counterfoil.models.operations.contract import Owner
from counterfoil.models.operations.outcomes import Prepared, UnknownEffect
from counterfoil.models.operations.route import PreparationSupport
from counterfoil.models.operations.tools import Permission, Tool
from counterfoil.models.tables import LEDGER, TOOL_CALLS, LedgerRow, ToolCallRow
from support.scripted import completed
from support.toolbox import Toolbox

LOST = UnknownEffect(code="LOST", detail="no reply")
OWNER = Owner(workspace="w", session="s")
ADA = Actor(principal="ada", authenticated=True, scope="admin")
HELLO = {"text": "hello"}


class Wakes:
    """Remembers who was woken."""

    def __init__(self) -> None:
        self.woken: list[str] = []

    async def wake(self, operation_id: str) -> None:
        self.woken.append(operation_id)

    async def doubt(self, operation_id: str) -> None:
        raise AssertionError(operation_id)

    async def status(self, operation_id: str) -> Any:
        raise AssertionError(operation_id)


class Desk:
    """A gateway on a bench, and everything around it that a test asks about."""

    def __init__(self, bench: Any) -> None:
        self.bench = bench
        self.toolbox = Toolbox(bench.catalog)
        self.engine = Wakes()
        self.gateway = Gateway(bench.database, bench.catalog.tools, self.engine)
        bench.route(verification=False, cancellation=True)

    async def permit(self, tool: str, permission: str, account_id: str | None = None, session: str = "s") -> None:
        async def say(work: Any) -> None:
            await permissions.permit(
                work,
                session=session,
                workspace="w",
                tool=tool,
                account_id=account_id,
                permission=Permission(permission),
                actor=ADA,
            )

        await self.bench.database.run(say)

    async def executing(self, key: str = "k1", **changes: Any) -> str:
        """An operation whose attempt is journaled."""
        operation_id = (await self.bench.create(key=key, **changes)).id
        assert await self.bench.grant(operation_id)
        return operation_id

    async def tools(self, operation_id: str, phase: Phase = Phase.EXECUTE, generation: int = 1) -> Any:
        row = await self.bench.row(operation_id)
        return self.gateway.of_operation(row, route_of(row), phase, generation=generation)

    async def call(self, operation_id: str, name: str, phase: Phase = Phase.EXECUTE, **more: Any) -> Any:
        """As a blocking adapter would, from a thread."""
        tools = await self.tools(operation_id, phase)
        return await asyncio.to_thread(tools.call, name, more.pop("arguments", HELLO), **more)

    async def direct(self, name: str, **more: Any) -> Any:
        return await self.gateway.direct(more.pop("owner", OWNER), name, more.pop("arguments", HELLO), **more)

    async def entries(self, subject: str) -> list[LedgerRow]:
        query = select(LEDGER).where(LEDGER.c.subject_kind == subject).order_by(LEDGER.c.timeline)
        return await self.bench.database.read(lambda work: work.session.all(LedgerRow, query))

    async def kinds(self, subject: str = "tool_call") -> list[str]:
        return [entry.kind for entry in await self.entries(subject)]

    async def calls(self) -> list[ToolCallRow]:
        return await self.bench.database.read(lambda work: work.session.all(ToolCallRow, select(TOOL_CALLS)))


@pytest_asyncio.fixture
async def desk(bench: Any) -> AsyncIterator[Desk]:
    yield Desk(bench)


Refused = Callable[[ErrorCode], Any]


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(500):
        if await holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come to pass within five seconds")


# permissions


async def test_a_permission_binds_its_session_from_the_next_call_on(desk: Desk, refused: Refused) -> None:
    desk.toolbox.add("read", "text", read_only=True)

    assert await desk.direct("read") == "text"
    await desk.permit("read", "deny")
    with refused(ErrorCode.TOOL_DENIED):
        await desk.direct("read")
    assert await desk.direct("read", owner=Owner(workspace="w", session="another")) == "text"
    await desk.permit("read", "allow")
    assert await desk.direct("read") == "text"


async def test_every_permission_is_recorded_with_who_said_it_and_what_stood_before(desk: Desk) -> None:
    await desk.permit("send", "deny")
    await desk.permit("send", "allow")
    await desk.permit("send", "ask", account_id="a")

    said = await desk.bench.database.read(lambda work: permissions.said_in(work, "s"))
    entries = await desk.entries("permission")
    assert [(one.tool, one.account_id, one.permission, one.actor.principal) for one in said] == [
        ("send", None, "allow", "ada"),
        ("send", "a", "ask", "ada"),
    ]
    assert [(entry.version, entry.timeline, entry.scope, entry.summary) for entry in entries] == [
        (1, 1, "admin", "ada sets 'send' to deny"),
        (2, 2, "admin", "ada sets 'send' to allow"),
        (1, 3, "admin", "ada sets 'send' for account a to ask"),
    ]
    assert '"from":"deny"' in (entries[1].data or "")


async def test_what_is_not_recorded_is_not_permitted(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> int:
        raise RuntimeError("no room")

    desk.toolbox.add("read", read_only=True, permission="deny")
    monkeypatch.setattr(permissions.ledger, "append", full)
    with pytest.raises(RuntimeError):
        await desk.permit("read", "allow")

    assert await desk.bench.database.read(lambda work: permissions.said_in(work, "s")) == []


async def test_an_account_is_permitted_by_itself_and_the_strictest_word_counts(desk: Desk, refused: Refused) -> None:
    for account in ("work", "private"):
        desk.toolbox.add("send", account, account_id=account)
    await desk.permit("send", "deny", account_id="private")

    assert await desk.direct("send", account_id="work") == "work"
    with refused(ErrorCode.TOOL_DENIED):
        await desk.direct("send", account_id="private")
    await desk.permit("send", "deny")
    with refused(ErrorCode.TOOL_DENIED):
        await desk.direct("send", account_id="work")


async def test_a_session_that_nothing_is_known_of_needs_its_workspace_named(desk: Desk, refused: Refused) -> None:
    def say(session: str, workspace: str | None) -> Any:
        return desk.bench.database.run(
            lambda work: permissions.permit(
                work,
                session=session,
                workspace=workspace,
                tool="t",
                account_id=None,
                permission=Permission.DENY,
                actor=ADA,
            )
        )

    with refused(ErrorCode.NOT_FOUND):
        await say("nobody", None)
    await say("s", "w")
    assert (await say("s", None)).permission == "deny"
    with refused(ErrorCode.BAD_COMMAND):
        await say("s", "another")


# inside an operation


async def test_execute_may_call_what_changes_and_the_call_is_recorded_with_the_operation(desk: Desk) -> None:
    desk.toolbox.add("write", {"id": 7})
    operation_id = await desk.executing()

    assert await desk.call(operation_id, "write") == {"id": 7}
    entry = (await desk.bench.ledger(operation_id))[-1]
    assert (entry.kind, entry.summary) == ("tool_call", "calls 'write'")
    assert entry.data == {
        "tool": "write",
        "generation": 1,
        "account_id": None,
        # of {"text":"hello"}
        "arguments": "sha256:cbbbdcd27692344de5dbab3abcaba413fb0f45307267de7081401576df1cb176",
    }
    assert desk.toolbox.contexts == [ToolContext(OWNER, None, operation_id, 2.0)]


@pytest.mark.parametrize("phase", [Phase.READINESS, Phase.PREPARE, Phase.OBSERVE, Phase.VERIFY])
async def test_a_phase_that_only_looks_may_read_and_not_change(desk: Desk, phase: Phase, refused: Refused) -> None:
    desk.toolbox.add("write")
    desk.toolbox.add("read", "text", read_only=True)
    operation_id = await desk.executing()

    assert await desk.call(operation_id, "read", phase) == "text"
    with refused(ErrorCode.TOOL_MUTATES):
        await desk.call(operation_id, "write", phase)
    assert desk.toolbox.calls == [("read", HELLO)]


async def test_an_effectful_preparation_and_a_cancel_may_change(desk: Desk) -> None:
    desk.toolbox.add("write")
    desk.bench.route("drafts.v1", preparation=PreparationSupport.EFFECTFUL)
    preparing = (await desk.bench.create(key="draft", route_id="drafts.v1")).id
    assert await desk.bench.grant(preparing, kind="prepare")

    assert await desk.call(preparing, "write", Phase.PREPARE) == "done"
    assert await desk.call(preparing, "write", Phase.CANCEL) == "done"


async def test_asking_is_satisfied_by_the_approval_of_this_proposal_and_by_nothing_else(
    desk: Desk, refused: Refused
) -> None:
    desk.toolbox.add("write", permission="ask")
    free = await desk.executing("free", resources=[{"kind": "file", "system": "scripted", "identity": "a"}])
    with refused(ErrorCode.TOOL_NEEDS_DECISION):
        await desk.call(free, "write")
    with refused(ErrorCode.TOOL_NEEDS_DECISION):
        await desk.direct("write")

    asked = await desk.bench.create(key="asked", decision={"reason": "r", "question": "q"})
    approval = {"proposal_digest": asked.proposal_digest, "verdict": "approve"}
    assert (await desk.bench.tell(asked.id, "decide", approval)).status == "applied"
    assert await desk.bench.grant(asked.id)

    assert await desk.call(asked.id, "write") == "done"
    await desk.permit("write", "deny")
    with refused(ErrorCode.TOOL_DENIED):
        await desk.call(asked.id, "write")
    assert desk.toolbox.calls == [("write", HELLO)]


async def test_an_attempt_that_was_given_up_calls_nothing_more(desk: Desk, refused: Refused) -> None:
    desk.toolbox.add("write")
    desk.toolbox.add("read", read_only=True)
    operation_id = await desk.executing()
    tools = await desk.tools(operation_id)
    await desk.bench.reply(operation_id, LOST)

    for name in ("write", "read"):
        with refused(ErrorCode.FENCED):
            await asyncio.to_thread(tools.call, name, HELLO)
    assert desk.toolbox.calls == []


async def test_a_call_acts_for_the_account_that_the_resources_name(desk: Desk, refused: Refused) -> None:
    for account in ("a", "b"):
        desk.toolbox.add("send", account, account_id=account)
    of_a = [{"kind": "remote_entity", "system": "scripted", "identity": "x", "account_id": "a"}]
    operation_id = await desk.executing(resources=of_a)
    of_nobody = await desk.executing("k2", resources=[{"kind": "file", "system": "scripted", "identity": "y"}])

    assert await desk.call(operation_id, "send") == "a"
    with refused(ErrorCode.ACCOUNT_MISMATCH):
        await desk.call(operation_id, "send", account_id="b")
    with refused(ErrorCode.ACCOUNT_MISMATCH):
        await desk.call(of_nobody, "send")
    assert await desk.call(of_nobody, "send", account_id="b") == "b"


async def test_a_tool_of_no_account_serves_whoever_has_one(desk: Desk) -> None:
    desk.toolbox.add("read", "text", read_only=True)
    desk.toolbox.add("read", "of c", read_only=True, account_id="c")
    of_a = [{"kind": "remote_entity", "system": "scripted", "identity": "x", "account_id": "a"}]

    assert await desk.call(await desk.executing(resources=of_a), "read") == "text"
    assert await desk.direct("read") == "text"
    assert await desk.direct("read", account_id="c") == "of c"


async def test_coroutines_await_tools_and_blocking_calls_refuse_to_block_them(desk: Desk, refused: Refused) -> None:
    async def slowly(context: ToolContext, arguments: dict[str, Any]) -> str:
        await asyncio.sleep(0)
        return arguments["text"].upper()

    schema = {"type": "object"}
    desk.bench.catalog.register_tool(
        Tool(name="shout", input_schema=schema, read_only=True, permission=Permission.ALLOW), slowly
    )
    desk.toolbox.add("read", "text", read_only=True)
    tools = await desk.tools(await desk.executing())

    async def both() -> tuple[Any, Any]:
        with refused(ErrorCode.NOT_POSSIBLE):
            tools.call("shout", HELLO)
        return await tools.acall("shout", HELLO), await tools.acall("read", HELLO)

    assert await asyncio.to_thread(asyncio.run, both()) == ("HELLO", "text")
    assert await asyncio.to_thread(tools.call, "shout", HELLO) == "HELLO"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({}, "INVALID_INPUT"),
        ({"text": 1}, "INVALID_INPUT"),
        ({"text": "a", "more": 1}, "INVALID_INPUT"),
        ([], "INVALID_INPUT"),
        ({"text": {1, 2}}, "INVALID_INPUT"),
        ({"text": float("nan")}, "INVALID_INPUT"),
        ({"text": "a" * (1024 * 1024)}, "INPUT_TOO_LARGE"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_arguments_that_do_not_fit_reach_no_tool(desk: Desk, arguments: Any, code: str) -> None:
    desk.toolbox.add("read", read_only=True)
    operation_id = await desk.executing()

    for calling in (desk.call(operation_id, "read", arguments=arguments), desk.direct("read", arguments=arguments)):
        with pytest.raises(Refusal) as caught:
            await calling
        assert caught.value.code == code
    assert desk.toolbox.calls == []


async def test_a_pattern_that_would_take_for_ever_is_checked_for_a_bounded_time(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counterfoil.activities.adapters.mcp_tool.schemas.CHECK_SECONDS", 5.0)
    slow = {"type": "object", "properties": {"text": {"type": "string", "pattern": "^(a+)+$"}}}
    desk.toolbox.add("read", "text", read_only=True, schema=slow)

    assert await desk.direct("read", arguments={"text": "aaa"}) == "text"
    with pytest.raises(Refusal) as caught:
        await desk.direct("read", arguments={"text": "a" * 60 + "b"})
    assert caught.value.code == "INVALID_INPUT"
    assert len(desk.toolbox.calls) == 1


# direct calls


async def test_a_direct_change_has_the_workspace_to_itself_and_is_recorded_from_beginning_to_end(desk: Desk) -> None:
    inside = []

    def look(arguments: Any) -> str:
        inside.append(asyncio.run_coroutine_threadsafe(desk.bench.claims(), loop).result(10))
        return "written"

    loop = asyncio.get_running_loop()
    desk.toolbox.add("write", look)

    assert await desk.direct("write", actor=Actor(principal="model of s")) == "written"
    (claim,) = inside[0]
    assert (claim.exclusive, claim.held, claim.operation_id.startswith("call-")) == (True, True, True)
    assert await desk.bench.claims() == []
    begun, ended = await desk.entries("tool_call")
    assert (begun.kind, begun.summary, begun.session) == ("tool_call", "calls 'write' directly", "s")
    assert '"principal":"model of s"' in begun.actor
    assert '"tool":"write"' in (begun.data or "")
    assert '"arguments":"sha256:' in (begun.data or "")
    assert "hello" not in (begun.data or "")
    assert (ended.kind, ended.summary, ended.version) == ("tool_call_ended", "'write': answered", 2)


async def test_a_direct_change_does_not_wait_for_operations_but_fails(desk: Desk, refused: Refused) -> None:
    desk.toolbox.add("write")
    desk.toolbox.add("read", "text", read_only=True)
    operation_id = await desk.executing()

    with refused(ErrorCode.LOCKED) as caught:
        await desk.direct("write")
    assert caught.value.detail == f"workspace:w is held by {operation_id}"
    assert await desk.direct("read") == "text"
    assert await desk.direct("write", owner=Owner(workspace="elsewhere", session="s2")) == "done"
    await desk.bench.reply(operation_id, completed())
    assert await desk.direct("write") == "done"


async def test_reading_fails_where_somebody_has_the_workspace_to_themselves(desk: Desk, refused: Refused) -> None:
    desk.toolbox.add("read", "text", read_only=True)
    operation_id = await desk.executing(resources=[])

    with refused(ErrorCode.LOCKED):
        await desk.direct("read")
    await desk.bench.reply(operation_id, completed())
    assert await desk.direct("read") == "text"


async def test_an_operation_waits_for_a_direct_change_and_is_woken_when_it_has_ended(desk: Desk) -> None:
    reached, go_on = threading.Event(), threading.Event()

    def hold(arguments: Any) -> str:
        reached.set()
        go_on.wait(20)
        return "done"

    desk.toolbox.add("write", hold)
    calling = asyncio.create_task(desk.direct("write"))
    await asyncio.to_thread(reached.wait, 20)
    operation_id = (await desk.bench.create()).id

    assert not await desk.bench.grant(operation_id)
    blocked = (await desk.bench.read(operation_id)).blocked
    assert (blocked.code, blocked.detail.startswith("workspace:w is held by call-")) == ("LOCKED", True)
    assert not await desk.bench.free(operation_id)
    go_on.set()
    assert await calling == "done"
    assert desk.engine.woken == [operation_id]
    assert await desk.bench.grant(operation_id)


async def test_of_two_direct_changes_at_once_one_is_refused(desk: Desk) -> None:
    both = threading.Barrier(2, timeout=0.5)

    def overlap(arguments: Any) -> str:
        try:
            both.wait()
        except threading.BrokenBarrierError:
            return "alone"
        return "together"

    desk.toolbox.add("write", overlap)

    answers = await asyncio.gather(desk.direct("write"), desk.direct("write"), return_exceptions=True)
    refusals = [one for one in answers if isinstance(one, Refusal)]
    assert [one.code for one in refusals] == [ErrorCode.LOCKED]
    assert "alone" in answers


async def test_an_unknown_effect_holds_up_its_sessions_direct_changes_and_nothing_else(
    desk: Desk, refused: Refused
) -> None:
    desk.toolbox.add("write")
    desk.toolbox.add("read", "text", read_only=True)
    lost = await desk.executing()
    await desk.bench.reply(lost, LOST)

    elsewhere = Owner(workspace="another", session="s")
    with refused(ErrorCode.UNKNOWN_EFFECT_OPEN) as caught:
        await desk.direct("write", owner=elsewhere)
    assert caught.value.subject == lost
    assert await desk.direct("read") == "text"
    assert await desk.call(lost, "read", Phase.OBSERVE) == "text"
    others = [{"kind": "file", "system": "scripted", "identity": "b"}]
    effectful = await desk.executing("k2", resources=others)
    assert await desk.call(effectful, "write") == "done"
    assert await desk.direct("write", owner=Owner(workspace="another", session="s2")) == "done"

    await desk.bench.look(lost, completed())
    assert await desk.direct("write", owner=elsewhere) == "done"


@pytest.mark.parametrize(
    ("answer", "code", "ended"),
    [
        (RuntimeError("broke half-way"), "TOOL_FAILED", "'write': in doubt"),
        (SystemExit(3), "TOOL_FAILED", "'write': in doubt"),
        (object(), "TOOL_FAILED", "'write': in doubt"),
        (Refusal(ErrorCode.TARGET_BUSY, "later"), "TARGET_BUSY", "'write': refused"),
    ],
    ids=["raises", "exits", "answers with no JSON", "refuses"],
)
async def test_a_direct_change_that_fails_says_whether_something_may_have_happened(
    desk: Desk, answer: Any, code: str, ended: str
) -> None:
    desk.toolbox.add("write", answer)

    with pytest.raises((Refusal, ToolFailed)) as caught:
        await desk.direct("write")

    assert caught.value.code == code
    assert (await desk.entries("tool_call"))[-1].summary == ended
    assert await desk.bench.claims() == []


async def test_a_direct_change_that_takes_too_long_holds_its_workspace_until_it_has_ended(desk: Desk) -> None:
    go_on = threading.Event()
    desk.toolbox.add("write", lambda arguments: go_on.wait(20), call_timeout_seconds=1)

    with pytest.raises(ToolFailed) as caught:
        await desk.direct("write")
    assert caught.value.code == "TIMED_OUT"
    assert len(await desk.bench.claims()) == 1
    go_on.set()

    await until(lambda: _is_empty(desk.bench.claims()))
    assert await desk.kinds() == ["tool_call", "tool_call_given_up", "tool_call_ended"]


async def test_a_direct_change_goes_on_though_whoever_asked_is_gone(desk: Desk) -> None:
    reached, go_on = threading.Event(), threading.Event()

    def hold(arguments: Any) -> str:
        reached.set()
        go_on.wait(20)
        return "done"

    desk.toolbox.add("write", hold)
    calling = asyncio.create_task(desk.direct("write"))
    await asyncio.to_thread(reached.wait, 20)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling

    assert len(await desk.bench.claims()) == 1
    go_on.set()
    await until(lambda: _is_empty(desk.bench.claims()))
    assert (await desk.entries("tool_call"))[-1].summary == "'write': answered"


async def test_a_direct_change_whose_caller_is_gone_before_it_began_is_not_made(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.toolbox.add("write")
    begin, reached, go_on = direct_calls._begin, asyncio.Event(), asyncio.Event()

    async def held_up(*arguments: Any) -> None:
        await begin(*arguments)
        reached.set()
        await go_on.wait()

    monkeypatch.setattr(direct_calls, "_begin", held_up)
    calling = asyncio.create_task(desk.direct("write"))
    await reached.wait()
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    go_on.set()

    async def is_ended() -> bool:
        return await desk.kinds() == ["tool_call", "tool_call_ended"]

    await until(is_ended)
    assert (await desk.entries("tool_call"))[-1].summary == "'write': not called"
    assert await desk.bench.claims() == []
    assert desk.toolbox.calls == []


async def test_an_answer_is_given_though_its_end_cannot_be_recorded_now(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: Any, **__: Any) -> None:
        raise Unavailable(ErrorCode.STORE_UNAVAILABLE, "not now")

    desk.toolbox.add("write")
    with monkeypatch.context() as patched:
        patched.setattr(direct_calls, "_end", away)
        assert await desk.direct("write") == "done"

    assert len(await desk.bench.claims()) == 1
    desk.bench.clock.forward(91)
    assert await desk.gateway.end_lost_calls() == 1
    assert await desk.bench.claims() == []


async def _is_empty(finding: Awaitable[list[Any]]) -> bool:
    return await finding == []


async def test_what_a_dead_process_holds_is_given_back_when_its_lease_has_run_out(desk: Desk) -> None:
    tool = desk.toolbox.add("write")
    call = direct_calls._new_call(OWNER, tool, HELLO, desk.bench.database)
    await desk.bench.database.run(lambda work: direct_calls._begin(work, call, OWNER, tool, ADA))
    waiting = (await desk.bench.create()).id
    assert not await desk.bench.grant(waiting)

    desk.bench.clock.forward(89)
    assert await desk.gateway.end_lost_calls() == 0
    desk.bench.clock.forward(2)
    assert await desk.gateway.end_lost_calls() == 1
    assert await desk.gateway.end_lost_calls() == 0

    assert (await desk.entries("tool_call"))[-1].summary == "'write': lost"
    assert desk.engine.woken == [waiting]
    assert await desk.bench.grant(waiting)


async def test_a_doubted_commit_begins_a_call_once(desk: Desk) -> None:
    tool = desk.toolbox.add("write")
    call = direct_calls._new_call(OWNER, tool, HELLO, desk.bench.database)
    for _ in range(2):
        await desk.bench.database.run(lambda work: direct_calls._begin(work, call, OWNER, tool, ADA))

    assert await desk.kinds() == ["tool_call"]
    assert len(await desk.bench.claims()) == 1


# operations that cannot do without a tool


async def test_what_a_session_may_not_call_is_refused_when_the_operation_is_created(
    desk: Desk, refused: Refused
) -> None:
    desk.toolbox.add("write", permission="ask")
    asked = {
        "capability": "tool.call",
        "route_id": "cowork.tool",
        "input": {"name": "write", "arguments": HELLO},
        "resources": [],
    }

    with refused(ErrorCode.TOOL_NEEDS_DECISION):
        await desk.bench.create(key="k1", **asked)
    created = await desk.bench.create(key="k2", decision={"reason": "r", "question": "q"}, **asked)
    assert created.state == "preparing"
    await desk.permit("write", "deny")
    with refused(ErrorCode.TOOL_DENIED):
        await desk.bench.create(key="k3", decision={"reason": "r", "question": "q"}, **asked)


async def test_tools_that_read_share_the_workspace_and_those_that_change_have_it_to_themselves(desk: Desk) -> None:
    desk.toolbox.add("write")
    desk.toolbox.add("read", read_only=True)

    async def granted(key: str, name: str) -> bool:
        asked = {"capability": "tool.call", "route_id": "cowork.tool", "input": {"name": name, "arguments": HELLO}}
        row = await desk.bench.create(key=key, resources=[], **asked)
        await desk.bench.prepared(row.id, Prepared(summary="p"))
        return await desk.bench.grant(row.id)

    assert [await granted("r1", "read"), await granted("r2", "read")] == [True, True]
    assert not await granted("w1", "write")


async def test_a_lost_call_of_a_tool_that_reads_is_a_failure(desk: Desk) -> None:
    desk.toolbox.add("read", read_only=True)
    asked = {"capability": "tool.call", "route_id": "cowork.tool", "input": {"name": "read", "arguments": HELLO}}
    states = []
    for key, lose in (("fenced", desk.bench.fence), ("lost", lambda one: desk.bench.reply(one, LOST))):
        operation_id = (await desk.bench.create(key=key, resources=[], **asked)).id
        await desk.bench.prepared(operation_id, Prepared(summary="p"))
        assert await desk.bench.grant(operation_id)
        await lose(operation_id)
        operation = await desk.bench.read(operation_id)
        states.append((operation.state.value, operation.problem.code, await desk.bench.held(operation_id)))

    assert states == [("failed", "DISPATCH_LOST", 0), ("failed", "LOST", 0)]
