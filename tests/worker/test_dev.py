"""`counterfoil dev`: quick to start, clean to stop, alone on its state directory, lasting across restarts."""

from __future__ import annotations

import os
import signal
import socket
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from support.cli import Dev, counterfoil, file_request

pytestmark = pytest.mark.xdist_group("usual ports")

Start = Callable[..., Dev]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts stacks on the test's state directory, and ends what a failing test leaves."""
    started: list[Dev] = []

    def begin(*arguments: str, folder: Path = tmp_path, **more: str) -> Dev:
        started.append(Dev(folder, *arguments, **more))
        return started[-1]

    yield begin
    for running in started:
        running.end()


def stopped_cleanly(running: Dev, number: signal.Signals = signal.SIGTERM) -> bool:
    """Stop it, and see that nothing of it is left."""
    children = running.children()
    running.signal(number)
    status = running.wait()
    _, alive = psutil.wait_procs(children, timeout=5)
    return status == 0 and not alive and not (running.state_dir / "stack.json").exists()


def test_it_is_ready_within_five_seconds_of_the_command(start: Start, tmp_path: Path):
    for number in range(3):  # other tests want the processors too: the best of three is what the command takes
        running = start(folder=tmp_path / str(number))
        seconds = running.wait_until_ready()
        running.end()
        if seconds < 5:
            return

    pytest.fail(f"the last of three took {seconds:.1f} s")


def test_the_summary_names_every_address_once_and_they_answer(dev: Dev):
    stack = dev.stack

    assert stack["pid"] == dev.process.pid
    assert stack["workspace_root"] == str(dev.workspace)
    assert stack["task_queue"] == "counterfoil"
    assert dev.out.count(stack["ui"]) == 1
    assert dev.out.count(stack["temporal"]) == 1
    with urllib.request.urlopen(stack["ui"], timeout=5) as answer:
        assert answer.status == 200


def test_it_listens_on_the_loopback_interface_only(dev: Dev):
    listening = [
        connection.laddr.ip
        for process in [psutil.Process(dev.process.pid), *dev.children()]
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]

    assert set(listening) == {"127.0.0.1"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_stops_cleanly_and_quietly_when_told_to(start: Start, number: signal.Signals):
    running = start()
    running.wait_until_ready()

    assert stopped_cleanly(running, number)

    assert running.err.strip().splitlines()[-1] == "The worker has drained; stopping the Temporal server."
    assert "ERROR" not in running.err
    assert "Traceback" not in running.err


def test_it_can_be_stopped_while_it_starts(start: Start):
    running = start()
    running.wait_for("starting the Temporal server")

    assert stopped_cleanly(running, signal.SIGINT)


def test_a_second_signal_ends_it_at_once_and_leaves_no_server(start: Start, tmp_path: Path):
    running = start("--adapters", "support.unhurried:register")
    running.wait_until_ready()
    log = tmp_path / "log"
    running.json("operation", "create", "-", stdin=slow_request(log, seconds=15))
    wait_until(lambda: log.exists())
    children = running.children()

    running.signal(signal.SIGINT)
    running.wait_for("Stopping: running activities have")
    running.signal(signal.SIGINT)

    assert running.wait(5) == 130
    _, alive = psutil.wait_procs(children, timeout=5)
    assert alive == []
    assert not (running.state_dir / "stack.json").exists()


def test_ports_that_are_taken_are_replaced_by_free_ones(start: Start):
    holders = [taken(port) for port in (7233, 8233)]
    try:
        running = start()
        running.wait_until_ready()
        stack = running.stack
    finally:
        for holder in holders:
            holder.close()

    assert stack["temporal"] != "127.0.0.1:7233"
    assert stack["ui"] != "http://127.0.0.1:8233"
    assert running.json("operation", "list") == {"operations": []}


def test_a_port_that_was_asked_for_and_is_taken_is_refused(start: Start):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        running = start("--port", str(port))
        status = running.wait()

    assert status == 2
    assert f"the port {port} is taken" in running.err


def test_a_second_stack_on_the_same_state_directory_is_refused(dev: Dev, start: Start):
    second = start(folder=dev.folder)

    assert second.wait() == 3
    assert f"a stack runs on this state directory already (process {dev.process.pid})" in second.err
    assert dev.run("operation", "list").returncode == 0


def test_operations_outlive_a_restart_and_go_on(start: Start):
    first = start()
    first.wait_until_ready()
    asked = file_request("k1", "kept.txt", decision={"reason": "r", "question": "Create it?"})
    created = first.json("operation", "create", "-", "--wait", stdin=asked, status=11)
    assert stopped_cleanly(first)

    second = start()
    second.wait_until_ready()
    second.json("operation", "decide", created["operation_id"], "approve", "--yes")
    ended = second.run("operation", "watch", created["operation_id"])

    assert ended.returncode == 0, ended.stderr
    assert (second.workspace / "kept.txt").read_text() == "hello\n"


def test_after_a_kill_it_starts_again_and_ends_the_server_that_was_left(start: Start):
    first = start()
    first.wait_until_ready()
    created = first.json("operation", "create", "-", "--wait", stdin=file_request("k1", "a.txt"))
    left = first.children()
    os.kill(first.process.pid, signal.SIGKILL)
    first.wait()

    second = start()
    second.wait_until_ready()

    _, alive = psutil.wait_procs(left, timeout=5)
    assert alive == []
    assert second.json("operation", "show", created["operation_id"])["state"] == "completed"


def test_it_says_so_and_ends_when_the_temporal_server_dies(start: Start):
    running = start()
    running.wait_until_ready()
    [server] = running.children()

    server.kill()

    assert running.wait() == 7
    assert "the Temporal server ended by itself" in running.err
    assert not (running.state_dir / "stack.json").exists()


def test_an_adapter_that_cannot_be_imported_is_named_and_nothing_is_left_running(start: Start):
    running = start("--adapters", "no_such_module:register")

    assert running.wait() == 2
    assert "no adapters can be had from 'no_such_module:register'" in running.err
    assert "Traceback" not in running.err


def test_what_was_recorded_can_be_read_when_nothing_runs_and_no_other_stack_is_asked(start: Start):
    running = start()
    running.wait_until_ready()
    created = running.json("operation", "create", "-", "--wait", stdin=file_request("k1", "a.txt"))
    assert stopped_cleanly(running)

    shown = running.json("operation", "show", created["operation_id"])
    asked = counterfoil("operation", "cancel", created["operation_id"], "--reason", "x", state_dir=running.state_dir)

    assert shown["state"] == "completed"
    assert asked.returncode == 7
    assert "no stack runs on this state directory" in asked.stderr


def slow_request(log: Path, seconds: float) -> str:
    return file_request(
        "slow",
        "x",
        capability="line.add",
        route_id="slow.v1",
        resources=[],
        input={"log": str(log), "seconds": seconds},
    )


def taken(port: int) -> socket.socket:
    """The port in use: by us, or by whoever has it already."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        holder.bind(("127.0.0.1", port))
        holder.listen()
    except OSError:
        pass
    return holder


def wait_until(condition: Callable[[], bool], timeout_seconds: float = 20) -> None:
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
