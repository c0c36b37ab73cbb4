"""Tool calls that no operation makes: a turn's own.

Reading sees the workspace as shared and fails where somebody has it to themselves. A call that changes something takes
the whole workspace, for itself, under a lease: it is refused rather than made to wait, journaled before the function is
called and again when it has ended, and ended by the sweep where its process died.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from functools import partial
from typing import Any

from sqlalchemy import select

from counterfoil.activities.adapters.runner import AdapterRaised, AdapterRunner, AdapterTimedOut, Slot
from counterfoil.activities.adapters.tools import RegisteredTool, ToolContext, ToolFailed, ToolRegistry
from counterfoil.activities.operations import claims, guards
from counterfoil.activities.operations.engine import Engine
from counterfoil.activities.operations.permissions import require_callable
from counterfoil.activities.store import ledger
from counterfoil.activities.store.database import Database
from counterfoil.activities.store.ledger import Entry
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.common import SYSTEM, Actor, digest_of
from counterfoil.models.errors import CounterfoilError, ErrorCode, Refusal, Unavailable
from counterfoil.models.operations.contract import Owner
from counterfoil.models.operations.tools import Origin, Tool
from counterfoil.models.tables import TOOL_CALLS, ToolCallRow

log = logging.getLogger(__name__)

PLACES = 16
"""Direct calls that one process makes at a time."""
GRACE = timedelta(seconds=60)
"""How much longer than its time-out a call may hold its workspace, if nobody hears of it any more."""


class DirectCalls:
    """Direct calls of one process."""

    def __init__(self, database: Database, tools: ToolRegistry, engine: Engine, runner: AdapterRunner) -> None:
        self._database = database
        self._tools = tools
        self._engine = engine
        self._runner = runner
        self._issued: set[asyncio.Task[Any]] = set()
        """Calls that were begun and have not ended: whoever asked may be gone."""

    async def call(
        self, owner: Owner, name: str, arguments: dict[str, Any], *, account_id: str | None, actor: Actor
    ) -> Any:
        """The tool's answer."""
        registered = self._tools.find(name, () if account_id is None else (account_id,))
        fitting = await registered.require_fitting_fully(arguments)
        tool = registered.tool
        context = ToolContext(owner, tool.account_id, None, tool.call_timeout_seconds)
        function = partial(_outcome, registered, context, fitting)
        async with self._runner.place("direct", PLACES) as slot:
            if tool.read_only:
                await self._database.read(lambda work: _allow_reading(work, owner, tool))
                return _told(await _called(slot, tool, function))
            row = _new_call(owner, tool, fitting, self._database)
            await self._begun(row, owner, tool, actor)
            # From here on something may change. That the caller gives up must not lose what became of it.
            return await asyncio.shield(self._keep(self._changed(slot, row, tool, function)))

    async def _begun(self, row: ToolCallRow, owner: Owner, tool: Tool, actor: Actor) -> None:
        beginning = asyncio.ensure_future(self._database.run(lambda work: _begin(work, row, owner, tool, actor)))
        try:
            await asyncio.shield(beginning)
        except asyncio.CancelledError:
            # It may be committed all the same, and nobody will make the call that holds the workspace.
            self._keep(self._taken_back(beginning, row.id))
            raise

    async def _taken_back(self, beginning: asyncio.Future[None], call_id: str) -> None:
        await beginning
        await self._record(partial(_end, call_id=call_id, how="not called"))

    async def _changed(self, slot: Slot, row: ToolCallRow, tool: Tool, function: Callable[[], Outcome]) -> Any:
        outcome = await _called(slot, tool, function)
        try:
            if isinstance(outcome, NotInTime):
                self._keep(self._end_late(row.id, outcome.late))
                await self._record(partial(_give_up, call_id=row.id))
            else:
                await self._record(partial(_end, call_id=row.id, how=_in_a_word(outcome)))
        except Unavailable as error:
            # What the tool said is true all the same; the sweep ends the call when its lease has run out.
            log.warning("the end of %s could not be recorded: %s", row.id, error)
        return _told(outcome)

    async def _end_late(self, call_id: str, late: asyncio.Future[Any]) -> None:
        """Whoever was given up on still holds the workspace until they have ended."""
        try:
            how = _in_a_word(await late)
        except AdapterRaised:
            how = "in doubt"
        await self._record(partial(_end, call_id=call_id, how=how))

    async def end_lost(self) -> int:
        """End calls that nobody has heard of until their lease ran out; how many there were."""

        async def find(work: UnitOfWork) -> list[str]:
            query = select(TOOL_CALLS.c.id).where(TOOL_CALLS.c.ended_at.is_(None), TOOL_CALLS.c.lease_until < work.now)
            found: list[str] = (await work.session.execute(query.order_by(TOOL_CALLS.c.id).limit(200))).scalars()
            return found

        lost = await self._database.read(find)
        for call_id in lost:
            await self._record(partial(_end, call_id=call_id, how="lost"))
        return len(lost)

    async def _record(self, change: Callable[[UnitOfWork], Awaitable[None]]) -> None:
        wakes: list[str] = []

        async def run(work: UnitOfWork) -> None:
            wakes.clear()
            await change(work)
            wakes.extend(work.wakes)

        await self._database.run(run)
        for operation_id in wakes:
            try:
                await self._engine.wake(operation_id)
            except Exception as error:
                # What was committed stays committed; the sweep is the net for lost wake-ups.
                log.warning("could not wake %s, the sweep will: %s", operation_id, error)

    def _keep(self, call: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(call)
        self._issued.add(task)

        def ended(task: asyncio.Task[Any]) -> None:
            self._issued.discard(task)
            if not task.cancelled() and (error := task.exception()) is not None:
                log.info("a direct tool call ended with: %s", error)

        task.add_done_callback(ended)
        return task


class Answered:
    """What the function returned."""

    def __init__(self, value: Any) -> None:
        self.value = value


class NotInTime:
    """The function has not returned; `late` is what it comes to."""

    def __init__(self, error: CounterfoilError, late: asyncio.Future[Any]) -> None:
        self.error = error
        self.late = late


Outcome = Answered | Refusal | CounterfoilError | NotInTime


def _outcome(registered: RegisteredTool, context: ToolContext, arguments: dict[str, Any]) -> Outcome:
    try:
        return Answered(registered.run(context, arguments))
    except CounterfoilError as error:
        return error


async def _called(slot: Slot, tool: Tool, function: Callable[[], Outcome]) -> Outcome:
    remedy = "call it again" if tool.read_only else "it may have changed something: look before calling it again"
    try:
        outcome: Outcome = await slot.call(function, timeout_seconds=tool.call_timeout_seconds)
        return outcome
    except AdapterTimedOut as error:
        detail = f"'{tool.name}' gave {error.detail}"
        return NotInTime(ToolFailed(ErrorCode.TIMED_OUT, detail, subject=tool.name, remedy=remedy), error.late)
    except AdapterRaised as error:
        return ToolFailed(ErrorCode.TOOL_FAILED, error.detail, subject=tool.name, remedy=remedy)


def _told(outcome: Outcome) -> Any:
    match outcome:
        case Answered():
            return outcome.value
        case NotInTime():
            raise outcome.error
        case _:
            raise outcome


def _in_a_word(outcome: Outcome) -> str:
    match outcome:
        case Answered():
            return "answered"
        case Refusal():
            return "refused"
        case _:
            return "in doubt"


async def _allow_reading(work: UnitOfWork, owner: Owner, tool: Tool) -> None:
    await require_callable(work, [tool], session=owner.session, origin=Origin.DIRECT, approved=False)
    await claims.require_not_held(work, claims.whole_workspace(owner.workspace, exclusive=False))


def _new_call(owner: Owner, tool: Tool, arguments: dict[str, Any], database: Database) -> ToolCallRow:
    now = database.clock()
    return ToolCallRow(
        id=f"call-{uuid.uuid4().hex}",
        workspace=owner.workspace,
        session=owner.session,
        tool=tool.name,
        account=tool.account_id,
        arguments_digest=digest_of(arguments),
        begun_at=now,
        lease_until=now + timedelta(seconds=tool.call_timeout_seconds) + GRACE,
    )


async def _begin(work: UnitOfWork, call: ToolCallRow, owner: Owner, tool: Tool, actor: Actor) -> None:
    if await work.session.get(ToolCallRow, call.id) is not None:
        return  # an earlier commit of this was only doubted
    await guards.refuse_direct_change(work, owner)
    await require_callable(work, [tool], session=call.session, origin=Origin.DIRECT, approved=False)
    await claims.take_at_once(work, call.id, claims.whole_workspace(call.workspace, exclusive=True))
    row = call.model_copy()
    work.session.add(row)
    _note(work, row, "tool_call", f"calls '{tool.name}' directly", actor)


async def _give_up(work: UnitOfWork, call_id: str) -> None:
    row = await work.session.get(ToolCallRow, call_id, lock=True)
    if row is not None and row.ended_at is None:
        _note(work, row, "tool_call_given_up", f"'{row.tool}' has not answered in time; it may still act")


async def _end(work: UnitOfWork, call_id: str, how: str) -> None:
    row = await work.session.get(ToolCallRow, call_id, lock=True)
    if row is None or row.ended_at is not None:
        return
    row.ended_at = work.now
    await claims.release(work, call_id)
    _note(work, row, "tool_call_ended", f"'{row.tool}': {how}", outcome=how)


def _note(work: UnitOfWork, row: ToolCallRow, kind: str, summary: str, actor: Actor = SYSTEM, **more: str) -> None:
    data = {"tool": row.tool, "account_id": row.account, "arguments": row.arguments_digest} | more
    entry = Entry(kind=kind, summary=summary, actor=actor, material=kind != "tool_call_given_up", data=data)
    ledger.append(work, row, entry)
