"""One operation, served by worker processes that kill themselves with SIGKILL on the way, and what became of it."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowHandle

from counterfoil.activities.fault_points import FaultPoint
from counterfoil.activities.store.migration import migrate
from counterfoil.control_plane.client import ControlPlane
from counterfoil.models.errors import Refusal
from counterfoil.models.operations.commands import Answer
from counterfoil.models.operations.contract import OperationRequest
from counterfoil.models.operations.record import LedgerEntry, Operation
from support.cli import Running
from support.renames import Renames
from support.stack import Stack

HEARTBEAT_SECONDS = 2
WORKFLOW_TASK_TIMEOUT = timedelta(seconds=3)
"""A workflow task lost with its worker costs this; ten seconds are Temporal's own, and nothing of ours sets less."""
END_SECONDS = 90

Person = Callable[[str], Awaitable[Answer]]
"""Whoever has a part to play in an operation, given its id; returns what their command was answered."""


@dataclass(frozen=True)
class Ended:
    """What is found when an operation's workflow has returned."""

    operation: Operation
    ledger: list[LedgerEntry]
    publications: int
    """How many files took the target's name, by the kernel's record."""
    answer: Answer | None
    """What the person's command was answered, across the crashes."""

    @property
    def generations(self) -> list[int]:
        return [attempt.generation for attempt in self.operation.attempts]

    @property
    def was_unknown(self) -> bool:
        return any((entry.data or {}).get("to") == "unknown" for entry in self.ledger)


class CrashStage:
    """A workspace, a store and a task queue of its own on the session's Temporal server."""

    def __init__(self, client: Client, address: str, folder: Path, adapters: str = "", **settings: str) -> None:
        self._stack = Stack(client, folder, heartbeat_seconds=HEARTBEAT_SECONDS)
        self._client = client
        self._address = address
        self._folder = folder
        self._adapters = adapters
        self._settings = settings
        self._workers: list[Running] = []
        self.workspace = self._stack.workspace
        self.state_dir = self._stack.settings.state_dir
        self.state_dir.mkdir(parents=True)
        migrate(self._stack.settings.database)
        self.control_plane: ControlPlane = self._stack.control_plane()

    async def run(
        self, request: OperationRequest, faults: Sequence[FaultPoint], *, person: Person | None = None
    ) -> Ended:
        """Take an operation to its end, the worker being killed at each of `faults` in turn and started again.

        Meanwhile a `person` may do their part.
        """
        with Renames(self.workspace) as renames:
            handle = await self.begin(request)
            acting = None if person is None else asyncio.ensure_future(person(request.operation_id))
            try:
                for fault in faults:
                    await self._until_killed(fault)
                self._start_worker()
                await asyncio.wait_for(handle.result(), END_SECONDS)
                answer = None if acting is None else await acting
            finally:
                if acting is not None:
                    acting.cancel()
            operation = await self.control_plane.get(request.operation_id)
            ledger = await self.control_plane.history(request.operation_id)
            assert isinstance(ledger, list)
            return Ended(operation, ledger, renames.of(request.resources[0].identity), answer)

    async def begin(self, request: OperationRequest) -> WorkflowHandle[Any, Any]:
        """Start it as a host does that has nothing of ours; a client would not set a time-out of its own."""
        return await self._client.start_workflow(
            "ApplicationOperation",
            request.model_dump(mode="json"),
            id=request.operation_id,
            task_queue=self._stack.settings.task_queue,
            task_timeout=WORKFLOW_TASK_TIMEOUT,
        )

    async def until_blocked(self, operation_id: str) -> Operation:
        """The operation as soon as it waits for a resource."""
        while True:
            operation = await self.once(operation_id, "queued")
            if operation.blocked is not None:
                return operation
            await asyncio.sleep(0.1)

    async def approver(self, operation_id: str) -> Answer:
        """A person who approves what is proposed."""
        asked = await self.once(operation_id, "awaiting_decision")
        assert asked.proposal_digest is not None
        return await self.control_plane.decide(operation_id, "approve", proposal_digest=asked.proposal_digest)

    async def once(self, operation_id: str, state: str) -> Operation:
        """The operation as soon as it exists and is in this state."""
        while True:
            with suppress(Refusal):  # not created yet
                operation = await self.control_plane.get(operation_id)
                if operation.state == state:
                    return operation
            await asyncio.sleep(0.1)

    async def once_told(self, operation_id: str) -> Operation:
        """The operation as soon as every callback about it was delivered."""
        while True:
            operation = await self.control_plane.get(operation_id)
            if operation.deliveries and all(one.state == "delivered" for one in operation.deliveries):
                return operation
            await asyncio.sleep(0.1)

    async def _until_killed(self, fault: FaultPoint) -> None:
        worker = self._start_worker(fault)
        status = await asyncio.to_thread(worker.wait, END_SECONDS)
        assert status == -signal.SIGKILL, f"{fault}: the worker ended with {status}: {worker.err}"
        assert self.has_been_at(fault)

    def has_been_at(self, fault: FaultPoint) -> bool:
        """Whether a worker killed itself at this point."""
        marker = self.state_dir / f"fault.{fault}"
        return marker.exists() and marker.read_text() == fault

    async def until_been_at(self, fault: FaultPoint) -> None:
        while True:
            if self.has_been_at(fault):
                return
            await asyncio.sleep(0.05)

    def _start_worker(self, fault: FaultPoint | None = None) -> Running:
        settings = {
            "TEMPORAL_ADDRESS": self._address,
            "COUNTERFOIL_WORKSPACE_ROOT": str(self.workspace),
            "COUNTERFOIL_TASK_QUEUE": self._stack.settings.task_queue,
            "COUNTERFOIL_ADAPTER_QUEUES": "shared",
            "COUNTERFOIL_ADAPTERS": self._adapters,
            "COUNTERFOIL_ALLOW_UNSEALED": "true",
            "COUNTERFOIL_HEARTBEAT_SECONDS": str(HEARTBEAT_SECONDS),
            "COUNTERFOIL_SWEEP_SECONDS": "3600",
            # A dead worker's cache is no cache: Temporal would first wait ten seconds for it to answer.
            "COUNTERFOIL_MAX_CACHED_WORKFLOWS": "0",
            **self._settings,
            **({} if fault is None else {"COUNTERFOIL_FAULT": fault}),
        }
        worker = Running(self._folder / "workers", "worker", state_dir=self.state_dir, **settings)
        self._workers.append(worker)
        return worker

    def staged_leftovers(self) -> list[str]:
        return [path.name for path in self.workspace.rglob(".counterfoil-*")]

    def published_generations(self) -> list[int]:
        """The attempts that published, by the adapters' own records."""
        records = (self.state_dir / "publication" / "records").glob("*.json")
        documents: list[dict[str, Any]] = [json.loads(record.read_text()) for record in records]
        return [document["published"]["generation"] for document in documents if document["published"]]

    def ledger_versions(self) -> tuple[list[int], list[int]]:
        """Every version of every subject, and every place in the session's timeline, as the database has them."""
        with sqlite3.connect(self.state_dir / "counterfoil.db") as store:
            rows = store.execute("SELECT version, timeline FROM ledger ORDER BY version").fetchall()
        return [version for version, _ in rows], sorted(timeline for _, timeline in rows)

    def claims(self) -> int:
        with sqlite3.connect(self.state_dir / "counterfoil.db") as store:
            return int(store.execute("SELECT count(*) FROM claims").fetchone()[0])

    def end_workers(self) -> None:
        """End whatever workers still run."""
        for worker in self._workers:
            worker.end()

    async def close(self) -> None:
        await asyncio.to_thread(self.end_workers)
        await self._stack.close()
