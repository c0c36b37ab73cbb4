"""The tool gateway: every call of a registered tool passes here, whoever makes it and wherever from.

It looks the permission up anew for each call, in the transaction that lets the call go. Calls inside an operation run
in the adapter's own thread and are recorded with the operation; direct ones are in `direct_calls`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from concurrent.futures import TimeoutError as NotAdmittedInTime
from dataclasses import dataclass
from typing import Any

from counterfoil.activities.adapters.base import Phase
from counterfoil.activities.adapters.runner import AdapterRunner
from counterfoil.activities.adapters.tools import RegisteredTool, ToolContext, ToolRegistry
from counterfoil.activities.operations.direct_calls import DirectCalls
from counterfoil.activities.operations.engine import Engine
from counterfoil.activities.operations.permissions import is_approved, origin_of_effect, require_callable
from counterfoil.activities.operations.rows import load, note, request_of, resources_of
from counterfoil.activities.store.database import Database
from counterfoil.activities.store.ledger import Entry
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.common import SYSTEM, Actor, digest_of
from counterfoil.models.errors import ErrorCode, Refusal
from counterfoil.models.operations.contract import Owner
from counterfoil.models.operations.route import PreparationSupport, Route
from counterfoil.models.operations.tools import Origin, Tool
from counterfoil.models.tables import OperationRow


class Gateway:
    """The one way to a registered tool."""

    def __init__(self, database: Database, tools: ToolRegistry, engine: Engine) -> None:
        self._database = database
        self._tools = tools
        self._direct = DirectCalls(database, tools, engine, AdapterRunner())

    def of_operation(self, row: OperationRow, route: Route, phase: Phase, *, generation: int) -> OperationTools:
        """The tools as one adapter call of an operation sees them. Made on the worker's event loop."""
        return OperationTools(
            self._database,
            self._tools,
            Caller(
                operation_id=row.id,
                owner=request_of(row).owner,
                accounts=frozenset(one.account_id for one in resources_of(row) if one.account_id is not None),
                origin=_origin(route, phase),
                attempt=generation if _is_attempt(route, phase) else None,
                timeout_seconds=route.call_timeout_seconds,
            ),
        )

    async def direct(
        self,
        owner: Owner,
        name: str,
        arguments: dict[str, Any],
        *,
        account_id: str | None = None,
        actor: Actor = SYSTEM,
    ) -> Any:
        """Call a tool outside any operation; its answer.

        One that changes something has its workspace to itself meanwhile. Raises what `Tools.call` raises, and `Refusal`
        with `LOCKED`, `UNKNOWN_EFFECT_OPEN` or `ROUTE_BUSY`; nothing was called then.
        """
        return await self._direct.call(owner, name, arguments, account_id=account_id, actor=actor)

    async def end_lost_calls(self) -> int:
        """Give back what direct calls hold whose process is gone; how many there were."""
        return await self._direct.end_lost()


def _is_attempt(route: Route, phase: Phase) -> bool:
    return phase is Phase.EXECUTE or (phase is Phase.PREPARE and route.preparation is PreparationSupport.EFFECTFUL)


def _origin(route: Route, phase: Phase) -> Origin:
    acts = phase is Phase.CANCEL or _is_attempt(route, phase)
    return origin_of_effect(route) if acts else Origin.LOOK


@dataclass(frozen=True)
class Caller:
    """On whose behalf, and how far, an adapter call may use tools."""

    operation_id: str
    owner: Owner
    accounts: Collection[str]
    """Those its resources name."""
    origin: Origin
    attempt: int | None
    """The journaled attempt this call makes; None for a call that makes none."""
    timeout_seconds: float


class OperationTools:
    """`context.tools`: used in the adapter's thread, while permissions are looked up on the worker's loop."""

    def __init__(self, database: Database, tools: ToolRegistry, caller: Caller) -> None:
        self._database = database
        self._tools = tools
        self._caller = caller
        self._loop = asyncio.get_running_loop()

    def call(self, name: str, arguments: dict[str, Any], *, account_id: str | None = None) -> Any:
        """The tool's answer, from a blocking method."""
        _refuse_on_a_loop(name)
        admitting = asyncio.run_coroutine_threadsafe(self._admitted(name, arguments, account_id), self._loop)
        try:
            registered, fitting = admitting.result(self._caller.timeout_seconds)
        except NotAdmittedInTime:
            admitting.cancel()
            raise _not_in_time(name) from None
        return registered.run(self._context(registered.tool), fitting)

    async def acall(self, name: str, arguments: dict[str, Any], *, account_id: str | None = None) -> Any:
        """The tool's answer, from a coroutine."""
        admitting = asyncio.run_coroutine_threadsafe(self._admitted(name, arguments, account_id), self._loop)
        registered, fitting = await asyncio.wrap_future(admitting)
        return await registered.run_async(self._context(registered.tool), fitting)

    def _context(self, tool: Tool) -> ToolContext:
        caller = self._caller
        return ToolContext(caller.owner, tool.account_id, caller.operation_id, caller.timeout_seconds)

    async def _admitted(
        self, name: str, arguments: dict[str, Any], account_id: str | None
    ) -> tuple[RegisteredTool, dict[str, Any]]:
        """The tool and the arguments it is called with, where the call may be made now."""
        registered = self._tools.find(name, self._accounts(name, account_id))
        fitting = await registered.require_fitting_fully(arguments)
        tool = registered.tool

        async def allow(work: UnitOfWork) -> None:
            row = await load(work, self._caller.operation_id)
            await require_callable(
                work, [tool], session=row.session, origin=self._caller.origin, approved=is_approved(row)
            )
            self._refuse_given_up(row, tool)
            if not tool.read_only:
                note(work, row, _entry(tool, fitting, self._caller.attempt))

        await (self._database.read(allow) if tool.read_only else self._database.run(allow))
        return registered, fitting

    def _accounts(self, name: str, account_id: str | None) -> Collection[str]:
        if account_id is None:
            return self._caller.accounts
        if self._caller.accounts and account_id not in self._caller.accounts:
            raise Refusal(
                ErrorCode.ACCOUNT_MISMATCH,
                f"the operation's resources are not of the account '{account_id}'",
                subject=name,
                remedy="act for the account that the resources name",
            )
        return (account_id,)

    def _refuse_given_up(self, row: OperationRow, tool: Tool) -> None:
        """A call that the runner gave up on may still run, and must not start anything new."""
        attempt = self._caller.attempt
        if attempt is not None and not (row.attempt_open and row.generation == attempt):
            raise Refusal(
                ErrorCode.FENCED,
                f"attempt {attempt} was given up meanwhile, so '{tool.name}' was not called",
                subject=row.id,
                remedy="nothing: what became of the attempt is decided already",
            )


def _entry(tool: Tool, arguments: dict[str, Any], attempt: int | None) -> Entry:
    data = {
        "tool": tool.name,
        "account_id": tool.account_id,
        "arguments": digest_of(arguments),
        "generation": attempt,
    }
    return Entry(kind="tool_call", summary=f"calls '{tool.name}'", material=False, data=data)


def _refuse_on_a_loop(name: str) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise Refusal(
        ErrorCode.NOT_POSSIBLE,
        f"`call` blocks, and was used in a coroutine; '{name}' was not called",
        subject=name,
        remedy="await `acall` there",
    )


def _not_in_time(name: str) -> Refusal:
    return Refusal(
        ErrorCode.TIMED_OUT,
        f"whether '{name}' may be called could not be found out in time; it was not called",
        subject=name,
        remedy="check that the database answers",
    )
