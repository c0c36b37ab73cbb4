"""Calls of `mcp.tool.v1` as a worker makes them, and the log of the server that misbehaves."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from counterfoil.activities.adapters.base import AdapterContext, Order, Phase
from counterfoil.activities.adapters.mcp_tool.adapter import McpTools
from counterfoil.activities.adapters.mcp_tool.profile import ServerProfile
from counterfoil.activities.adapters.runner import AdapterRunner, checked
from counterfoil.models.operations.contract import DecisionRequest, OperationRequest, Owner
from counterfoil.models.operations.outcomes import (
    CancelOutcome,
    Observation,
    Outcome,
    PreparationOutcome,
    VerificationOutcome,
)

SERVER = Path(__file__).with_name("mcp_server.py")
DECISION = DecisionRequest(reason="it costs money", question="Pay?")
PAYMENT = {"reference": "r-1", "amount": 7}
ALLOWED = {
    Phase.PREPARE: PreparationOutcome,
    Phase.EXECUTE: Outcome,
    Phase.OBSERVE: Observation,
    Phase.CANCEL: CancelOutcome,
    Phase.VERIFY: VerificationOutcome,
}


def misbehaving(log: Path, mode: str = "", tools: dict[str, Any] | None = None, **more: Any) -> ServerProfile:
    """A profile of the server that misbehaves."""
    environment = more.pop("environment", ())
    transport = {"kind": "stdio", "command": sys.executable, "environment": environment}
    transport["args"] = (str(SERVER), str(log), *((mode,) if mode else ()))
    values = {"name": "pay", "transport": transport, "tools": tools or {}, "call_timeout_seconds": 20}
    return ServerProfile.model_validate(values | more)


class EffectLog:
    """The misbehaving server's own log."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self, what: str) -> list[dict[str, Any]]:
        """The entries of one kind: `started`, `listed`, `called`, `paid`, `answered`, `child`."""
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        return [entry for entry in map(json.loads, lines) if entry["what"] == what]

    def count(self, what: str) -> int:
        return len(self.lines(what))

    def processes(self) -> list[int]:
        """Every process that the server started or was."""
        pids = [entry["pid"] for entry in self.lines("started")]
        return pids + [entry["child"] for entry in self.lines("child")]


class Calls:
    """Calls the adapter through the runner, as a worker does."""

    def __init__(self, adapter: McpTools, make_context: Callable[..., AdapterContext], blobs: Any) -> None:
        self.adapter = adapter
        self._make_context = make_context
        self._blobs = blobs
        self._runner = AdapterRunner()

    def request(self, tool: str, arguments: dict[str, Any] | None = None, **changes: Any) -> OperationRequest:
        given = {"server": next(iter(self.adapter._profiles)), "tool": tool, "arguments": arguments or {}}
        given |= changes.pop("input", {})
        values: dict[str, Any] = {
            "owner": Owner(workspace="w", session="s"),
            "idempotency_key": "k",
            "capability": "tool.call",
            "route_id": "mcp.tool.v1",
            "objective": "try it",
            "input": given,
        }
        return OperationRequest(**(values | changes))

    def order(self, request: OperationRequest, **changes: Any) -> Order:
        typed = self.adapter.validate_input(request)
        values: dict[str, Any] = {"request": request, "resources": request.resources, "typed_input": typed}
        return Order(**(values | {"prepared": None, "generation": 1} | changes))

    async def phase(self, phase: Phase, order: Order, timeout_seconds: float = 40) -> Any:
        context = self._make_context(phase, order.request.operation_id, timeout_seconds=timeout_seconds)
        async with self._runner.slot(self.adapter.route) as slot:
            return await slot.call(
                getattr(self.adapter, phase.value),
                context,
                order,
                timeout_seconds=timeout_seconds,
                check=lambda value: checked(value, ALLOWED[phase], self._blobs.put),
            )

    async def prepared(self, request: OperationRequest, **changes: Any) -> Order:
        """The order as it is when it may be executed."""
        order = self.order(request, approved=request.decision is not None, **changes)
        prepared = await self.phase(Phase.PREPARE, order)
        assert prepared.status == "prepared", prepared
        return self.order(request, approved=order.approved, prepared=prepared, **changes)

    async def executed(self, request: OperationRequest, timeout_seconds: float = 40) -> Any:
        """What became of preparing and executing."""
        return await self.phase(Phase.EXECUTE, await self.prepared(request), timeout_seconds)


async def none_left(pids: list[int], seconds: float = 5) -> list[int]:
    """Those of these processes that still live after so long."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not (left := [pid for pid in pids if _lives(pid)]):
            return []
        await asyncio.sleep(0.05)
    return left


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
