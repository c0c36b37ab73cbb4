"""The stage: a whole deployment that can be hurt. A Temporal server on its file, a store, workers, and a control plane.

Everything runs in processes of its own and is ended by its id; nothing listens but on the loopback interface.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from temporalio.client import Client

from counterfoil.activities.store.blobs import BlobStore
from counterfoil.activities.store.database import Database
from counterfoil.activities.store.migration import migrate
from counterfoil.control_plane.client import ControlPlane
from counterfoil.control_plane.keys import ensure_key_file, resolve_key
from counterfoil.control_plane.temporal import data_converter
from counterfoil.worker.embedded import TemporalServer, temporal_server
from counterfoil.worker.faults.stores import Store

HEARTBEAT_SECONDS = 1.0
READY_SECONDS = 60
ANSWER_SECONDS = 20
FOREIGN = ("COUNTERFOIL_", "TEMPORAL_")


class TemporalHost:
    """A Temporal server on a file, always at the same address, that can be killed and started again."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._running = AsyncExitStack()
        self._server: TemporalServer | None = None
        self._port: int | None = None

    @property
    def address(self) -> str:
        assert self._server is not None
        return self._server.address

    async def start(self) -> None:
        """Start it, on the port it had."""
        for _ in range(20):
            server = await self._running.enter_async_context(temporal_server(self.file, port=self._port))
            port = int(server.address.rpartition(":")[2])
            if self._port in (None, port):
                self._server, self._port = server, port
                return
            await self._running.aclose()
            await asyncio.sleep(0.5)
        raise RuntimeError("the Temporal server's port is not free again")

    async def kill(self) -> None:
        """End it with SIGKILL."""
        assert self._server is not None
        with contextlib.suppress(ProcessLookupError):
            self._server.process.kill()
        await self._server.process.wait()
        await self._running.aclose()

    def save(self) -> None:
        """Copy its file, and what belongs to that. It must not run."""
        for part in self._parts():
            shutil.copy(part, part.with_name(f"saved-{part.name}"))

    def restore(self) -> None:
        """Put the copy back. It must not run."""
        self.forget()
        for saved in self.file.parent.glob(f"saved-{self.file.name}*"):
            shutil.copy(saved, saved.with_name(saved.name.removeprefix("saved-")))

    def forget(self) -> None:
        """Lose its file. It must not run."""
        for part in self._parts():
            part.unlink()

    def _parts(self) -> list[Path]:
        return list(self.file.parent.glob(f"{self.file.name}*"))

    async def close(self) -> None:
        await self._running.aclose()


class WorkerProcess:
    """A `counterfoil worker`, with what it said in files."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        name = f"worker-{time.monotonic_ns()}"
        self.out, self.err = folder / f"{name}.out", folder / f"{name}.err"
        with self.out.open("w") as out, self.err.open("w") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "counterfoil.worker.cli", "worker"],
                env=dict(environment),
                cwd=folder,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    async def until_ready(self) -> None:
        """Return once it serves."""
        deadline = time.monotonic() + READY_SECONDS
        while "ready" not in self.out.read_text():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"a worker did not start: {self.err.read_text()[-2000:]}")
            await asyncio.sleep(0.05)

    @property
    def lives(self) -> bool:
        return self.process.poll() is None

    async def until_ended(self, timeout_seconds: float = 60) -> int:
        """Its status, once it has ended by itself, which a fault point makes it do."""
        return await asyncio.to_thread(self.process.wait, timeout_seconds)

    def pause(self) -> None:
        """SIGSTOP."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL. Does nothing to one that has ended."""
        if self.lives:
            self.process.kill()
        self.process.wait()


class Stage:
    """One deployment: its store and state directory, its task queue, its workers, on a Temporal server."""

    def __init__(
        self,
        folder: Path,
        store: Store,
        temporal: TemporalHost,
        needs: Mapping[str, str],
        *,
        queue: str = "faults",
    ) -> None:
        """`needs` is what workers need for their targets, as environment variables."""
        self.folder = folder
        self.store = store
        self.temporal = temporal
        self.queue = queue
        self.workers: list[WorkerProcess] = []
        self._needs = needs
        self._everything = AsyncExitStack()
        self.client: Client
        self.control_plane: ControlPlane

    @property
    def state_dir(self) -> Path:
        return self.folder / "state"

    async def open(self) -> None:
        """Bring the store up to date, and connect."""
        self.state_dir.mkdir(parents=True, exist_ok=True)
        await asyncio.to_thread(_migrated, self.store.url)
        self.client = await Client.connect(self.temporal.address, data_converter=data_converter())
        self.control_plane = self._client_of()

    async def away_from_store(self) -> None:
        """Let go of the store, so that it can be restored."""
        await self.control_plane.close()

    async def back_at_store(self) -> None:
        """Connect to the store that was restored."""
        self.control_plane = self._client_of()

    def _client_of(self) -> ControlPlane:
        made = ControlPlane(
            self.client,
            Database(self.store.url),
            None,
            task_queue=self.queue,
            principal="person",
            seal_key=resolve_key(self._key),
            timeout_seconds=ANSWER_SECONDS,
            blobs=BlobStore((self.state_dir / "blobs").as_uri()),
        )
        self._everything.push_async_callback(made.close)
        return made

    @property
    def _key(self) -> str:
        return ensure_key_file(self.state_dir / "seal.key")

    async def start_worker(self, **settings: str) -> WorkerProcess:
        """Another worker, by these settings (`fault="journal.committed"` is COUNTERFOIL_FAULT), once it serves."""
        worker = self.begin_worker(**settings)
        await worker.until_ready()
        return worker

    def begin_worker(self, **settings: str) -> WorkerProcess:
        """The same, without waiting for it."""
        given = {f"COUNTERFOIL_{name.upper()}": value for name, value in settings.items()}
        worker = WorkerProcess(self.folder / "workers", self._environment() | given)
        self.workers.append(worker)
        return worker

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        return {
            **kept,
            "TEMPORAL_ADDRESS": self.temporal.address,
            "COUNTERFOIL_STATE_DIR": str(self.state_dir),
            "COUNTERFOIL_DATABASE_URL": self.store.url,
            "COUNTERFOIL_BLOB_URL": (self.state_dir / "blobs").as_uri(),
            "COUNTERFOIL_SEAL_KEY": self._key,
            "COUNTERFOIL_TASK_QUEUE": self.queue,
            "COUNTERFOIL_ADAPTER_QUEUES": "shared",
            "COUNTERFOIL_HEARTBEAT_SECONDS": str(HEARTBEAT_SECONDS),
            "COUNTERFOIL_SWEEP_SECONDS": "8",
            "COUNTERFOIL_DRAIN_SECONDS": "5",
            "COUNTERFOIL_ENTRY_POINTS": "false",
            "PYTHONPATH": os.pathsep.join([str(Path.cwd()), *filter(None, [os.environ.get("PYTHONPATH")])]),
            **self._needs,
        }

    async def close(self) -> None:
        """End every worker, and let go of the store."""
        for worker in self.workers:
            worker.kill()
        await self._everything.aclose()


_MIGRATING = threading.Lock()


def _migrated(url: str) -> None:
    """Migrations are for one thread of a process at a time."""
    with _MIGRATING:
        migrate(url)


@asynccontextmanager
async def opened(stage: Stage) -> AsyncIterator[Stage]:
    """A stage that is open while the block runs."""
    await stage.open()
    try:
        yield stage
    finally:
        await stage.close()
