"""`counterfoil worker`: it waits for what it needs, refuses what cannot work, and drains when it is told to stop."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client

from counterfoil.worker.embedded import TemporalServer, temporal_server
from support.cli import Running, counterfoil, file_request

Start = Callable[..., Running]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts workers on the test's state directory, and ends what a failing test leaves."""
    started: list[Running] = []

    def begin(*arguments: str, **more: str) -> Running:
        given = {"COUNTERFOIL_WORKSPACE_ROOT": str(tmp_path), "COUNTERFOIL_CONNECT_TRIES": "40"} | more
        started.append(Running(tmp_path / "logs", "worker", *arguments, state_dir=tmp_path / "state", **given))
        return started[-1]

    yield begin
    for running in started:
        running.end()


def command(tmp_path: Path, address: str, *arguments: str, stdin: str = "", **more: str) -> Any:
    """The document a command answers with, and its status."""
    given = {"TEMPORAL_ADDRESS": address, "COUNTERFOIL_WORKSPACE_ROOT": str(tmp_path)} | more
    done = counterfoil(*arguments, "--json", state_dir=tmp_path / "state", stdin=stdin, **given)
    return json.loads(done.stdout or done.stderr), done.returncode


def slow_request(log: Path, seconds: float) -> str:
    """A request of its own for each log: the stores of these tests share one namespace, and ids come from keys."""
    return file_request(
        f"slow in {log.parent.name}",
        "x",
        capability="line.add",
        route_id="slow.v1",
        resources=[],
        input={"log": str(log), "seconds": seconds},
    )


async def test_it_drains_on_sigterm_so_that_a_running_effect_is_recorded(
    start: Start, server: TemporalServer, tmp_path: Path
):
    queue = {"COUNTERFOIL_TASK_QUEUE": "drained", "COUNTERFOIL_ADAPTERS": "support.unhurried:register"}
    worker = start(TEMPORAL_ADDRESS=server.address, **queue)
    worker.wait_for("ready: task queue 'drained'")
    log = tmp_path / "log"
    created, _ = command(
        tmp_path, server.address, "operation", "create", "-", stdin=slow_request(log, seconds=2), **queue
    )
    wait_until(log.exists)

    worker.signal(signal.SIGTERM)
    status = worker.wait()

    operation, _ = command(tmp_path, server.address, "operation", "show", created["operation_id"], **queue)
    assert status == 0
    assert operation["state"] == "completed"
    assert log.read_text() == "began\nacted\n"
    assert [line.split(":")[1].strip() for line in worker.out.splitlines()] == ["ready", "draining", "stopped"]
    assert "Traceback" not in worker.err


async def test_a_second_signal_ends_it_at_once_and_the_effect_is_unknown_to_the_next(
    start: Start, server: TemporalServer, tmp_path: Path
):
    queue = {
        "COUNTERFOIL_TASK_QUEUE": "at-once",
        "COUNTERFOIL_ADAPTERS": "support.unhurried:register",
        "COUNTERFOIL_HEARTBEAT_SECONDS": "2",
    }
    worker = start(TEMPORAL_ADDRESS=server.address, **queue)
    worker.wait_for("ready")
    log = tmp_path / "log"
    command(tmp_path, server.address, "operation", "create", "-", stdin=slow_request(log, seconds=15), **queue)
    wait_until(log.exists)

    worker.signal(signal.SIGTERM)
    worker.wait_for("draining")
    began = time.monotonic()
    worker.signal(signal.SIGTERM)
    status = worker.wait()
    took = time.monotonic() - began
    start(TEMPORAL_ADDRESS=server.address, **queue).wait_for("ready")
    _, ended = command(
        tmp_path, server.address, "operation", "create", "-", "--wait", stdin=slow_request(log, seconds=15), **queue
    )

    assert status == 143
    assert took < 2
    assert ended == 12
    assert log.read_text() == "began\n"


async def test_temporal_may_come_later_than_the_worker(start: Start, tmp_path: Path):
    port = free_port()
    worker = start(TEMPORAL_ADDRESS=f"127.0.0.1:{port}")
    worker.wait_for("does not answer yet, trying again")

    async with temporal_server(tmp_path / "temporal.db", port=port):
        await asyncio.to_thread(worker.wait_for, "ready")
        worker.signal(signal.SIGTERM)
        status = await asyncio.to_thread(worker.wait)

    assert status == 0
    assert "Traceback" not in worker.err


async def test_the_database_may_come_later_than_the_worker(
    start: Start, server: TemporalServer, postgres: str, tmp_path: Path
):
    named = postgres.replace("/postgres?", "/later?")
    worker = start(
        TEMPORAL_ADDRESS=server.address, COUNTERFOIL_DATABASE_URL=named, COUNTERFOIL_TASK_QUEUE="database-later"
    )
    worker.wait_for("the database does not answer yet, trying again")

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute('CREATE DATABASE "later"')
    worker.wait_for("ready")
    worker.signal(signal.SIGTERM)

    assert worker.wait() == 0
    assert "Traceback" not in worker.err


async def test_it_gives_up_with_a_clear_message_when_temporal_stays_away(start: Start):
    worker = start(TEMPORAL_ADDRESS=f"127.0.0.1:{free_port()}", COUNTERFOIL_CONNECT_TRIES="2")

    assert worker.wait() == 7
    assert "TEMPORAL_UNAVAILABLE" in worker.err
    assert "Traceback" not in worker.err


async def test_it_can_be_stopped_while_it_waits(start: Start):
    worker = start(TEMPORAL_ADDRESS=f"127.0.0.1:{free_port()}")
    worker.wait_for("does not answer yet, trying again")

    worker.signal(signal.SIGTERM)

    assert worker.wait(5) == 0
    assert worker.out.splitlines()[-1] == "counterfoil worker: stopped"


@asynccontextmanager
async def namespace(server: TemporalServer, name: str) -> AsyncIterator[Client]:
    """A namespace nobody has set up for us."""
    client = await Client.connect(server.address)
    registration = RegisterNamespaceRequest(namespace=name)
    registration.workflow_execution_retention_period.FromSeconds(86400)
    await client.workflow_service.register_namespace(registration)
    for _ in range(100):
        try:
            there = await Client.connect(server.address, namespace=name)
            await there.count_workflows()
        except Exception:
            await asyncio.sleep(0.2)
        else:
            break
    yield there


async def test_a_namespace_without_search_attributes_is_refused_until_they_are_registered(
    start: Start, server: TemporalServer, tmp_path: Path
):
    async with namespace(server, "bare"):
        where = {"TEMPORAL_ADDRESS": server.address, "TEMPORAL_NAMESPACE": "bare"}
        refused = start(**where)
        status = refused.wait()
        registered, _ = command(tmp_path, server.address, "register", TEMPORAL_NAMESPACE="bare")
        again, _ = command(tmp_path, server.address, "register", TEMPORAL_NAMESPACE="bare")
        accepted = start(**where)
        accepted.wait_for("ready")

    assert status == 9
    assert "SEARCH_ATTRIBUTES_MISSING (bare)" in refused.err
    assert "`counterfoil register` does" in refused.err
    assert "Traceback" not in refused.err
    assert registered["added"] == [
        "AwaitingDecision",
        "OperationResources",
        "OperationSession",
        "OperationStatus",
        "UnknownEffect",
    ]
    assert again["added"] == []


async def test_a_search_attribute_of_another_type_is_not_taken_for_ours(server: TemporalServer, tmp_path: Path):
    async with namespace(server, "taken") as client:
        await client.operator_service.add_search_attributes(
            AddSearchAttributesRequest(
                namespace="taken",
                search_attributes={"OperationStatus": IndexedValueType.INDEXED_VALUE_TYPE_INT},
            )
        )
        error, status = command(tmp_path, server.address, "register", TEMPORAL_NAMESPACE="taken")

    assert (error["code"], status) == ("SEARCH_ATTRIBUTES_MISSING", 9)
    assert "OperationStatus" in error["detail"]


async def test_a_namespace_that_does_not_exist_is_named(server: TemporalServer, tmp_path: Path):
    error, status = command(tmp_path, server.address, "register", TEMPORAL_NAMESPACE="nowhere")

    assert (error["code"], status) == ("SETTINGS_INVALID", 2)
    assert "nowhere" in error["detail"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(condition: Callable[[], bool], timeout_seconds: float = 20) -> None:
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
