"""A store restored from before: noticed, listed, repaired and settled with the command line alone."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.cli import Dev, file_request


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[tuple[Path, list[Dev]]]:
    """Where a test's stacks live, and those it started."""
    started: list[Dev] = []
    yield tmp_path, started
    for running in started:
        running.end()


def start(folder: tuple[Path, list[Dev]]) -> Dev:
    path, started = folder
    started.append(Dev(path, "--adapters", "support.unhurried:register"))
    started[-1].wait_until_ready()
    return started[-1]


def held(dev: Dev, key: str, **changes: Any) -> str:
    created = dev.json(
        "operation",
        "create",
        "-",
        "--wait",
        stdin=file_request(key, f"{key}.txt", on_create="hold", **changes),
        status=11,
    )
    return str(created["operation_id"])


def backed_up(dev: Dev, copy: Path) -> None:
    with sqlite3.connect(dev.state_dir / "counterfoil.db") as store, sqlite3.connect(copy) as target:
        store.backup(target)


def restored(dev: Dev, copy: Path, folder: tuple[Path, list[Dev]]) -> Dev:
    """The same stack, started again on an older database."""
    dev.signal(signal.SIGTERM)
    dev.wait()
    for name in ("counterfoil.db", "counterfoil.db-wal", "counterfoil.db-shm"):
        (dev.state_dir / name).unlink(missing_ok=True)
    shutil.copy(copy, dev.state_dir / "counterfoil.db")
    return start(folder)


def test_a_store_that_was_restored_from_before_is_repaired_row_by_row(folder: tuple[Path, list[Dev]], tmp_path: Path):
    dev = start(folder)
    log = tmp_path / "log"
    undispatched = held(dev, "undispatched")
    dispatched = held(
        dev,
        "dispatched",
        capability="line.add",
        route_id="speechless.v1",
        input={"log": str(log)},
        resources=[{"kind": "remote_entity", "system": "lines", "identity": "1"}],
    )
    backed_up(dev, tmp_path / "backup.db")
    dev.json("operation", "prepare", undispatched)
    assert dev.run("operation", "watch", undispatched).returncode == 11
    dev.json("operation", "execute", dispatched)
    assert dev.run("operation", "watch", dispatched).returncode == 12

    dev = restored(dev, tmp_path / "backup.db", folder)
    refused = [dev.run("operation", "execute", one, "--json").returncode for one in (undispatched, dispatched)]
    listed = listed_when(dev, undispatched, dispatched)
    dev.json("repair", undispatched, "--reason", "an old backup")
    repaired = dev.run("repair", dispatched, "--reason", "an old backup")
    [abandon] = [line.split()[1:-1] for line in repaired.stdout.splitlines() if line.startswith("  abandon")]
    dev.run(*abandon[1:], "the line is there, and nobody needs it")
    dev.json("operation", "execute", undispatched)

    assert refused == [9, 9]
    assert f"counterfoil repair {undispatched} --reason '…'" in listed
    assert f"counterfoil repair {dispatched} --reason '…'" in listed
    assert dev.json("operation", "show", dispatched)["state"] == "stopped"
    assert log.read_text() == "began\nacted\n"
    assert dev.run("operation", "watch", undispatched).returncode == 0
    assert listed_when(dev) == "The store is behind no operation.\n"


def listed_when(dev: Dev, *expected: str) -> str:
    """What `repair` lists, once it lists exactly so many: Temporal's index follows its histories within moments."""
    deadline = time.monotonic() + 20
    while {one["operation_id"] for one in dev.json("repair")["operations"]} != set(expected):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    return dev.run("repair").stdout
