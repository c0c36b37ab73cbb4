"""A running stack for tests: its own database, blobs and task queue on a shared real Temporal server."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from google.protobuf.message import Message
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHandle

from counterfoil.activities.adapters.builtin import build_catalog
from counterfoil.activities.adapters.catalog import Catalog
from counterfoil.activities.documents.system import DocumentSystem
from counterfoil.activities.operations.sweeping import Swept
from counterfoil.activities.store.blobs import BlobStore
from counterfoil.activities.store.database import Database
from counterfoil.control_plane.client import ControlPlane
from counterfoil.models.operations.record import Operation
from counterfoil.worker.build import Unit
from counterfoil.worker.process import serve
from counterfoil.worker.settings import WorkerSettings


class Stack:
    """One worker in this process, and a control plane client of it."""

    def __init__(self, client: Client, folder: Path, **settings: Any) -> None:
        self.client = client
        self.folder = folder
        self.workspace = folder / "workspace"
        self.workspace.mkdir(parents=True, exist_ok=True)
        values: dict[str, Any] = {
            "state_dir": folder / "state",
            "workspace_root": self.workspace,
            "task_queue": f"test-{uuid.uuid4().hex[:12]}",
            "adapter_queues": "shared",
            "allow_unsealed": True,
            "heartbeat_seconds": 2,
            "drain_seconds": 5,
            "sweep_seconds": 3600,
            "connect_tries": 5,
            "entry_points": False,
            "principal": "tester",
        }
        self.settings = WorkerSettings(**(values | settings))
        self.catalog: Catalog = build_catalog(
            workspace_root=self.workspace, state_dir=self.settings.state_dir, with_entry_points=False
        )
        self.unit: Unit | None = None
        self._stop = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None
        self._control_planes: list[ControlPlane] = []

    async def start(self) -> None:
        """Start the worker."""
        self._stop = asyncio.Event()
        ready = asyncio.Event()

        def became_ready(unit: Unit) -> None:
            self.unit = unit
            ready.set()

        self._serving = asyncio.create_task(
            serve(self.settings, self._stop, client=self.client, catalog=self.catalog, ready=became_ready)
        )
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait([waiting, self._serving], return_when=asyncio.FIRST_COMPLETED)
        if self._serving.done():
            waiting.cancel()
            self._serving.result()

    async def stop(self) -> None:
        """Drain and stop the worker."""
        if self._serving is not None:
            self._stop.set()
            await self._serving
            self._serving = None

    async def close(self) -> None:
        await self.stop()
        for control_plane in self._control_planes:
            await control_plane.close()

    def control_plane(self, **changes: Any) -> ControlPlane:
        """A client of this stack."""
        values: dict[str, Any] = {
            "task_queue": self.settings.task_queue,
            "principal": self.settings.principal,
            "seal_key": self.settings.sealing_key(),
            "timeout_seconds": 30,
            "blobs": BlobStore(self.settings.blobs),
        }
        catalog = changes.pop("catalog", self.catalog)
        database = Database(self.settings.database)
        values["documents"] = DocumentSystem(database, self.settings.blobs)
        made = ControlPlane(self.client, database, catalog, **(values | changes))
        self._control_planes.append(made)
        return made

    def handle(self, operation_id: str) -> WorkflowHandle[Any, Any]:
        """The workflow of an operation."""
        return self.client.get_workflow_handle(operation_id)

    async def events(self, operation_id: str) -> list[str]:
        """The types of the history events of an operation's newest run, such as `ACTIVITY_TASK_SCHEDULED`."""
        history = await self.handle(operation_id).fetch_history()
        return [EventType.Name(event.event_type).removeprefix("EVENT_TYPE_") for event in history.events]

    async def payloads(self, operation_id: str) -> list[Payload]:
        """Every payload in the history of an operation's newest run, as the server keeps it."""
        history = await self.handle(operation_id).fetch_history()
        return [payload for event in history.events for payload in _payloads(event)]

    async def payload_sizes(self, operation_id: str) -> list[int]:
        """The sizes of those payloads in bytes."""
        return [len(payload.data) for payload in await self.payloads(operation_id)]

    async def sweep(self) -> Swept:
        """What the schedule would do now."""
        assert self.unit is not None
        return await self.unit.activities.sweep()


def _payloads(message: Message) -> Iterator[Payload]:
    if isinstance(message, Payload):
        yield message
        return
    for field, value in message.ListFields():
        if field.type != field.TYPE_MESSAGE:
            continue
        if field.message_type.GetOptions().map_entry:
            values = [one for one in value.values() if isinstance(one, Message)]
        else:
            values = list(value) if field.is_repeated else [value]
        for one in values:
            yield from _payloads(one)


async def settled(control_plane: ControlPlane, operation_id: str, timeout_seconds: float = 30) -> Operation:
    """The operation once it is settled or awaits a person."""
    return await control_plane.wait(operation_id, timeout_seconds=timeout_seconds)
