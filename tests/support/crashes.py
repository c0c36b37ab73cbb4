"""One operation, served by worker processes that kill themselves with SIGKILL on the way, and what became of it."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio.client import Client

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


@dataclass(frozen=True)
class Ended:
    """What is found when an operation's workflow has returned."""

    operation: Operation
    ledger: list[LedgerEntry]
    publications: int
    """How many files took the target's name, by the kernel's record."""
    answer: Answer | None
    """What the approval's update returned, across the crashes."""

    @property
    def generations(self) -> list[int]:
        return [attempt.generation for attempt in self.operation.attempts]

    @property
    def was_unknown(self) -> bool:
        return any((entry.data or {}).get("to") == "unknown" for entry in self.ledger)


class CrashStage:
    """A workspace, a store and a task queue of its own on the session's Temporal server."""

    def __init__(self, client: Client, address: str, folder: Path) -> None:
        self._stack = Stack(client, folder, heartbeat_seconds=HEARTBEAT_SECONDS)
        self._client = client
        self._address = address
        self._folder = folder
        self._workers: list[Running] = []
        self.workspace = self._stack.workspace
        self.state_dir = self._stack.settings.state_dir
        self.state_dir.mkdir(parents=True)
        migrate(self._stack.settings.database)
        self.control_plane: ControlPlane = self._stack.control_plane()

    async def run(self, request: OperationRequest, target: str, faults: Sequence[FaultPoint]) -> Ended:
        """Take an operation to its end, the worker being killed at each of `faults` in turn and started again."""
        with Renames(self.workspace) as renames:
            # As a host starts it that has nothing of ours; a client would not set a time-out of its own.
            handle = await self._client.start_workflow(
                "ApplicationOperation",
                request.model_dump(mode="json"),
                id=request.operation_id,
                task_queue=self._stack.settings.task_queue,
                task_timeout=WORKFLOW_TASK_TIMEOUT,
            )
            approving = asyncio.create_task(self._approve(request)) if request.decision is not None else None
            try:
                for fault in faults:
                    await self._until_killed(fault)
                self._start_worker()
                await asyncio.wait_for(handle.result(), END_SECONDS)
                answer = None if approving is None else await approving
            finally:
                if approving is not None:
                    approving.cancel()
            operation = await self.control_plane.get(request.operation_id)
            ledger = await self.control_plane.history(request.operation_id)
            assert isinstance(ledger, list)
            return Ended(operation, ledger, renames.of(target), answer)

    async def _approve(self, request: OperationRequest) -> Answer:
        while True:
            try:
                operation = await self.control_plane.get(request.operation_id)
            except Refusal:  # not created yet
                operation = None
            if operation is not None and operation.state == "awaiting_decision":
                assert operation.proposal_digest is not None
                digest = operation.proposal_digest
                return await self.control_plane.decide(request.operation_id, "approve", proposal_digest=digest)
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

    def _start_worker(self, fault: FaultPoint | None = None) -> Running:
        settings = {
            "TEMPORAL_ADDRESS": self._address,
            "COUNTERFOIL_WORKSPACE_ROOT": str(self.workspace),
            "COUNTERFOIL_TASK_QUEUE": self._stack.settings.task_queue,
            "COUNTERFOIL_ADAPTER_QUEUES": "shared",
            "COUNTERFOIL_ALLOW_UNSEALED": "true",
            "COUNTERFOIL_HEARTBEAT_SECONDS": str(HEARTBEAT_SECONDS),
            "COUNTERFOIL_SWEEP_SECONDS": "3600",
            # A dead worker's cache is no cache: Temporal would first wait ten seconds for it to answer.
            "COUNTERFOIL_MAX_CACHED_WORKFLOWS": "0",
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

    async def close(self) -> None:
        for worker in self._workers:
            await asyncio.to_thread(worker.end)
        await self._stack.close()


@asynccontextmanager
async def crash_stage(client: Client, address: str, folder: Path) -> AsyncIterator[CrashStage]:
    stage = CrashStage(client, address, folder)
    try:
        yield stage
    finally:
        await stage.close()
