"""The command line: as its users run it, in a process of its own; or, where only what it says matters, in this one."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import psutil

from counterfoil.worker.cli import status_of

COUNTERFOIL = Path(sys.executable).parent / "counterfoil"
TESTS = Path(__file__).parent.parent
FOREIGN = ("COUNTERFOIL_", "TEMPORAL_")


def environment(state_dir: Path, **more: str) -> dict[str, str]:
    """This process's environment, with no setting but those a test gives."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    given = {"COUNTERFOIL_STATE_DIR": str(state_dir), "PYTHONPATH": str(TESTS), "COUNTERFOIL_PRINCIPAL": "tester"}
    return kept | given | more


def counterfoil(
    *arguments: str, state_dir: Path, stdin: str = "", timeout_seconds: float = 60, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run one command to its end."""
    return subprocess.run(
        [COUNTERFOIL, *arguments],
        env=environment(state_dir, **more),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout_seconds,
        check=False,
    )


def within(*arguments: str, state_dir: Path, stdin: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    """Run one command in this process: most of a short command's time is importing. It answers as a process does."""
    out, err = io.TextIOWrapper(io.BytesIO(), write_through=True), io.TextIOWrapper(io.BytesIO(), write_through=True)
    given = io.TextIOWrapper(io.BytesIO(stdin.encode()))
    with (
        ThreadPoolExecutor(1) as thread,  # with no event loop of its own yet
        mock.patch.dict(os.environ, environment(state_dir, **more), clear=True),
        mock.patch.multiple(sys, stdin=given, stdout=out, stderr=err),
    ):
        status = thread.submit(status_of, list(arguments)).result()
    told = [stream.buffer.getvalue().decode() for stream in (out, err)]  # type: ignore[attr-defined]
    return subprocess.CompletedProcess(arguments, status, *told)


class Running:
    """A long-running command, with what it wrote so far in files."""

    def __init__(self, folder: Path, *arguments: str, state_dir: Path, cwd: Path | None = None, **more: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        stamp = time.monotonic_ns()
        self._out, self._err = folder / f"{stamp}.out", folder / f"{stamp}.err"
        self.began = time.monotonic()
        with self._out.open("w") as out, self._err.open("w") as err:
            self.process = subprocess.Popen(
                [COUNTERFOIL, *arguments],
                env=environment(state_dir, **more),
                cwd=cwd or folder,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    def wait_for(self, text: str, timeout_seconds: float = 30) -> float:
        """Seconds from the start until `text` was written to stdout or stderr."""
        while text not in self.out + self.err:
            assert self.process.poll() is None, f"ended with {self.process.returncode}: {self.out}{self.err}"
            assert time.monotonic() - self.began < timeout_seconds, f"no '{text}' in: {self.out}{self.err}"
            time.sleep(0.02)
        return time.monotonic() - self.began

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self, timeout_seconds: float = 30) -> int:
        return self.process.wait(timeout_seconds)

    def end(self) -> None:
        """Whatever a test left running."""
        if self.process.poll() is None:
            left = [*self.children(), self.process]
            for process in left:
                process.kill()
            self.process.wait(10)


class Dev(Running):
    """A `counterfoil dev` on a state directory."""

    def __init__(self, folder: Path, *arguments: str, **more: str) -> None:
        self.folder = folder
        self.state_dir = folder / "state"
        self.workspace = folder / "workspace"
        super().__init__(
            folder / "logs", "dev", "--workspace", str(self.workspace), *arguments, state_dir=self.state_dir, **more
        )

    def wait_until_ready(self, timeout_seconds: float = 30) -> float:
        """Seconds from the start until the stack is announced."""
        taken = self.wait_for("Counterfoil is ready", timeout_seconds)
        assert (self.state_dir / "stack.json").exists()
        return taken

    @property
    def stack(self) -> dict[str, Any]:
        return dict(json.loads((self.state_dir / "stack.json").read_text()))

    def run(self, *arguments: str, stdin: str = "", **more: str) -> subprocess.CompletedProcess[str]:
        """A command against this stack."""
        return within(*arguments, state_dir=self.state_dir, stdin=stdin, **more)

    def json(self, *arguments: str, stdin: str = "", status: int | Sequence[int] = 0) -> Any:
        """The document a command answers with."""
        done = self.run(*arguments, "--json", stdin=stdin)
        wanted = [status] if isinstance(status, int) else status
        assert done.returncode in wanted, done.stderr
        return json.loads(done.stdout)


def file_request(key: str, path: str, text: str = "hello\n", **changes: Any) -> str:
    """A request for one new text file, as JSON."""
    request = {
        "owner": {"workspace": "w", "session": "s"},
        "idempotency_key": key,
        "capability": "file.create",
        "route_id": "local.files.v1",
        "objective": f"write {path}",
        "input": {"path": path, "text": text},
        "resources": [{"kind": "file", "system": "file", "identity": path}],
    }
    return json.dumps(request | changes)


QUESTION = {"reason": "a new file", "question": "Create it?"}
