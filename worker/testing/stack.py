"""A deployment for one test: its own namespace, database and worker, on the session's Temporal server.

Nothing that one test leaves behind (an unknown effect, a held resource, a used key) is there for another.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import sys
import uuid
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any, TypeVar

from google.protobuf.duration_pb2 import Duration
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError

from counterfoil.activities.adapters.base import ApplicationAdapter
from counterfoil.activities.adapters.builtin import build_catalog
from counterfoil.activities.adapters.catalog import Catalog
from counterfoil.activities.documents.system import DocumentSystem
from counterfoil.activities.store.blobs import BlobStore
from counterfoil.activities.store.database import Database
from counterfoil.control_plane.client import ControlPlane
from counterfoil.control_plane.settings import STACK_FILE
from counterfoil.control_plane.temporal import data_converter
from counterfoil.models.errors import ErrorCode, Refusal
from counterfoil.models.operations.contract import OperationRequest
from counterfoil.models.operations.lifecycle import State
from counterfoil.models.operations.record import Operation
from counterfoil.worker.build import Unit
from counterfoil.worker.process import serve
from counterfoil.worker.registration import register_search_attributes
from counterfoil.worker.settings import WorkerSettings
from counterfoil.worker.testing.background import START_SECONDS, STOP_SECONDS, Background
from counterfoil.worker.testing.scripting import ScriptedAdapter

T = TypeVar("T")

RETENTION_SECONDS = 86_400
TRIES = 100
WAIT_SECONDS = 30.0
ADAPTERS = "counterfoil.worker.testing.stack:register"
"""How a host's client in this process comes to know the adapters of the stack it talks to."""

Registration = Callable[[Catalog], None] | ApplicationAdapter


class TestSettings(WorkerSettings):
    """Settings that look at no environment: a test must never reach what the environment names."""

    __test__ = False

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)


class Stack:
    """A running deployment, a scripted adapter in it, and the few calls that a synchronous test needs."""

    present: Stack | None = None
    """The one of the test that runs now."""

    def __init__(self, background: Background, folder: Path, registrations: Iterable[Registration] = ()) -> None:
        self._background = background
        self._registrations = tuple(registrations)
        self._scripted: dict[str, ScriptedAdapter] = {}
        self.namespace = f"test-{uuid.uuid4().hex[:12]}"
        self.workspace = folder / "workspace"
        """Where the file and workbook adapters act."""
        self.settings = TestSettings(
            state_dir=folder / "state",
            workspace_root=self.workspace,
            task_queue=self.namespace,
            adapter_queues="shared",
            adapters=(),
            http_profiles=(),
            mcp_servers=(),
            entry_points=False,
            drain_seconds=0,
            sweep_seconds=3600,
            connect_tries=5,
        )
        self._control_plane: ControlPlane | None = None
        self._serving: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self.workspace.mkdir(parents=True)
        self.settings.state_dir.mkdir(parents=True)
        self._catalog = build_catalog(
            workspace_root=self.workspace, state_dir=self.settings.state_dir, with_entry_points=False
        )
        self.script("scripted.v1")
        self._bring(self._catalog)

    # scripting

    @property
    def adapter(self) -> ScriptedAdapter:
        """The adapter of the route `scripted.v1`, whose capability is `scripted.change`."""
        return self.script("scripted.v1")

    def script(self, route_id: str, *capabilities: str, **route: Any) -> ScriptedAdapter:
        """The scripted adapter of a route, made on first use: to stand in for one of your own.

        `route` changes fields of the route, such as `observation=False`. Name a route before anything connects that
        is to know it.
        """
        if route_id not in self._scripted:
            made = ScriptedAdapter(route_id, *capabilities, **route)
            self._catalog.register(made)
            self._scripted[route_id] = made
        return self._scripted[route_id]

    def request(self, key: str = "k1", **changes: Any) -> OperationRequest:
        """A request for `scripted.v1` on a resource named like the key; `changes` replace whole fields."""
        values: dict[str, Any] = {
            "owner": {"workspace": "test", "session": "test"},
            "idempotency_key": key,
            "capability": "scripted.change",
            "route_id": "scripted.v1",
            "objective": "a change under test",
            "input": {"value": 2},
            "resources": [{"kind": "remote_entity", "system": "scripted", "identity": key}],
        }
        return OperationRequest.model_validate(values | changes)

    # acting, from a synchronous test

    def call(self, act: Callable[[ControlPlane], Coroutine[Any, Any, T]], timeout_seconds: float = WAIT_SECONDS) -> T:
        """Do something with a client of this stack, and wait for its answer."""
        assert self._control_plane is not None
        return self._background.run(act(self._control_plane), timeout_seconds + 1)

    def create(self, request: OperationRequest | dict[str, Any] | None = None) -> Operation:
        """Create an operation; `request()` where none is given."""
        asked = self.request() if request is None else request
        return self.call(lambda counterfoil: counterfoil.create(asked))

    def wait(self, operation_id: str, *states: str, timeout_seconds: float = WAIT_SECONDS) -> Operation:
        """The operation once it is in one of `states`; by default, once it is settled or needs a person."""
        return self.call(
            lambda counterfoil: counterfoil.wait(
                operation_id, *(State(state) for state in states), timeout_seconds=timeout_seconds
            ),
            timeout_seconds,
        )

    def settled(
        self, request: OperationRequest | dict[str, Any] | None = None, *, timeout_seconds: float = WAIT_SECONDS
    ) -> Operation:
        """Create an operation, and wait until it is settled or needs a person."""
        return self.wait(self.create(request).operation_id, timeout_seconds=timeout_seconds)

    @property
    def environment(self) -> dict[str, str]:
        """What makes `counterfoil.connect()` and the command line find this stack, and nothing else."""
        assert self._background.server is not None
        return {
            "COUNTERFOIL_STATE_DIR": str(self.settings.state_dir),
            "COUNTERFOIL_ENTRY_POINTS": "false",
            "TEMPORAL_ADDRESS": self._background.server.address,
            "TEMPORAL_NAMESPACE": self.namespace,
            "TEMPORAL_CONFIG_FILE": str(self.settings.state_dir / "temporal.toml"),
        }

    # running it

    def start(self) -> None:
        """Have it run; returns when the worker is ready."""
        self._background.run(self._start(), START_SECONDS)
        Stack.present = self

    def close(self) -> None:
        """Stop it; what its adapters are still at is given up."""
        Stack.present = None
        self._background.run(self._close(), STOP_SECONDS)

    async def _start(self) -> None:
        assert self._background.server is not None
        client = await _in_namespace(self._background.server.address, self.namespace)
        self._announce()
        await self._serve(client)
        database = Database(self.settings.database)
        self._control_plane = ControlPlane(
            client,
            database,
            self._catalog,
            task_queue=self.settings.task_queue,
            principal=self.settings.principal,
            seal_key=self.settings.sealing_key(),
            timeout_seconds=WAIT_SECONDS,
            blobs=BlobStore(self.settings.blobs),
            documents=DocumentSystem(database, self.settings.blobs),
        )

    async def _serve(self, client: Client) -> None:
        self._stop = asyncio.Event()
        ready = asyncio.Event()
        # A worker tunes the interpreter of a process that is its own; this one is the test session's.
        thresholds, without_bytecode = gc.get_threshold(), sys.dont_write_bytecode

        def became_ready(_: Unit) -> None:
            gc.unfreeze()
            gc.set_threshold(*thresholds)
            sys.dont_write_bytecode = without_bytecode
            ready.set()

        self._serving = asyncio.create_task(
            serve(self.settings, self._stop, client=client, catalog=self._catalog, ready=became_ready)
        )
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait([waiting, self._serving], return_when=asyncio.FIRST_COMPLETED)
        if self._serving.done():
            waiting.cancel()
            self._serving.result()

    async def _close(self) -> None:
        self._stop.set()
        if self._control_plane is not None:
            await self._control_plane.close()
        if self._serving is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await self._serving

    def register(self, catalog: Catalog) -> None:
        """Register what a test brought, and what it scripted so far."""
        self._bring(catalog)
        for adapter in self._scripted.values():
            catalog.register(adapter)

    def _bring(self, catalog: Catalog) -> None:
        for one in self._registrations:
            if isinstance(one, ApplicationAdapter):
                catalog.register(one)
            else:
                one(catalog)

    def _announce(self) -> None:
        (self.settings.state_dir / "temporal.toml").touch()
        said = {
            "workspace_root": str(self.workspace),
            "task_queue": self.settings.task_queue,
            "adapters": [ADAPTERS],
            "pid": os.getpid(),
        }
        (self.settings.state_dir / STACK_FILE).write_text(json.dumps(said))


def register(catalog: Catalog) -> None:
    """Register the adapters of the stack that runs in this process, for a client that checks requests by itself."""
    if Stack.present is None:
        raise Refusal(
            ErrorCode.SETTINGS_INVALID,
            "the stack under test runs in another process, whose adapters cannot be had here",
            subject=ADAPTERS,
            remedy="leave the checking to the worker",
        )
    Stack.present.register(catalog)


async def _in_namespace(address: str, namespace: str) -> Client:
    """A client in a namespace made for it, once the server has got to know that and its search attributes."""
    first = await Client.connect(address)
    await first.workflow_service.register_namespace(
        RegisterNamespaceRequest(
            namespace=namespace, workflow_execution_retention_period=Duration(seconds=RETENTION_SECONDS)
        )
    )
    client = await Client.connect(address, namespace=namespace, data_converter=data_converter())
    for attempt in range(1, TRIES + 1):
        try:
            await register_search_attributes(client)
            return client
        except RPCError:
            if attempt == TRIES:
                raise
            await asyncio.sleep(0.05)
    raise AssertionError("unreachable")
