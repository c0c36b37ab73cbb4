"""Ends a publication with SIGKILL before every system call it makes, and prints what was found afterwards.

Run as a program by test_publication.py, because only a single-threaded process can fork safely. One JSON line a crash.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from counterfoil.activities.adapters import exclusive_rename
from counterfoil.activities.adapters.base import AdapterContext, Phase
from counterfoil.activities.adapters.jail import WorkspaceRoot
from counterfoil.activities.adapters.publication import Publication, Publisher
from counterfoil.models.errors import Refusal

OLD, NEW = b"the old words\n", b"the new words, longer than the old ones\n"
SCENARIOS = ("create", "create_in_new_folder", "create_without_exclusive_rename", "replace")
COUNTED = ("open", "write", "replace", "unlink", "link", "mkdir", "fchmod")


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


class World:
    """One fresh workspace and what is to be published in it."""

    def __init__(self, folder: Path, scenario: str) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        self.root = folder / "root"
        self.root.mkdir(parents=True)
        self.path = "new/folder/note.txt" if scenario == "create_in_new_folder" else "note.txt"
        self.before = OLD if scenario == "replace" else None
        if self.before is not None:
            (self.root / self.path).write_bytes(self.before)
        self.publisher = Publisher(WorkspaceRoot(self.root), folder / "state", lock_wait_seconds=2)
        self.publication = Publication(
            path=self.path,
            content=NEW,
            content_digest=digest(NEW),
            expected_digest=None if self.before is None else digest(self.before),
        )

    def context(self, phase: Phase) -> AdapterContext:
        return AdapterContext(
            phase=phase,
            operation_id="op-crash",
            blobs=None,  # type: ignore[arg-type]  # a publisher needs no blobs
            now=datetime.now(UTC),
            timeout_seconds=30,
        )

    def publish(self, generation: int) -> str:
        try:
            self.publisher.publish(self.context(Phase.EXECUTE), self.publication, generation)
        except Refusal as refusal:
            return refusal.code
        return "published"

    def observe(self, generation: int) -> str:
        finding = self.publisher.observe(
            self.context(Phase.OBSERVE), path=self.path, content_digest=digest(NEW), generation=generation
        )
        return type(finding).__name__

    def content(self) -> str | None:
        file = self.root / self.path
        return file.read_text() if file.exists() else None

    def left_over(self) -> list[str]:
        return sorted(p.name for p in self.root.rglob("*") if p.name.startswith("."))


def killed_before_call(number: int, action: Callable[[], Any]) -> bool:
    """Run the action in a child that is killed before its `number`th system call; False if it made fewer."""
    child = os.fork()
    if child == 0:
        calls = 0

        def counted(function: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                nonlocal calls
                calls += 1
                if calls == number:
                    os.kill(os.getpid(), signal.SIGKILL)
                return function(*args, **kwargs)

            return call

        for name in COUNTED:
            setattr(os, name, counted(getattr(os, name)))
        fcntl.flock = counted(fcntl.flock)
        exclusive_rename._rename_atomically = counted(exclusive_rename._rename_atomically)
        action()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the child failed of itself"
    return os.WIFSIGNALED(status)


def sweep(folder: Path, scenario: str, observer_too: bool) -> None:
    writer_call = 0
    goes_on = True
    while goes_on:
        writer_call += 1
        observer_call = 0
        observer_killed = True
        while observer_killed:
            observer_call += 1
            world = World(folder, scenario)
            goes_on = killed_before_call(writer_call, partial(world.publish, 1))
            at_crash = world.content()
            observer_killed = observer_too and killed_before_call(observer_call, partial(world.observe, 1))
            finding = world.observe(1)
            report = {
                "scenario": scenario,
                "writer_call": writer_call,
                "writer_killed": goes_on,
                "observer_call": observer_call if observer_killed else None,
                "at_crash": at_crash,
                "observed": finding,
                "observed_again": world.observe(1),
                "after_observing": world.content(),
                "left_over": world.left_over(),
                "late_writer": world.publish(1),
                "after_late_writer": world.content(),
                "next_attempt": world.publish(2),
                "at_the_end": world.content(),
            }
            print(json.dumps(report))


def main() -> None:
    folder, scenario, observer_too = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "observer-too"
    os.fsync = lambda file: None  # a kill loses no page, so the disk may be left out
    if scenario == "create_without_exclusive_rename":

        def unsupported(*args: Any) -> None:
            raise OSError(errno.ENOSYS, "not here")

        exclusive_rename._rename_atomically = unsupported
    sweep(folder, scenario, observer_too)


if __name__ == "__main__":
    main()
