"""The deployment topology of docker-compose.yml: checked against the settings, and run natively, without containers.

Native: a real PostgreSQL set up by the same script, a real Temporal server with a namespace made by the same script, an
S3 server (moto's, on loopback), `counterfoil migrate`, `counterfoil register`, and two `counterfoil worker` processes.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import psycopg
import pytest
import pytest_asyncio
import yaml
from moto.server import ThreadedMotoServer
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from counterfoil.control_plane.temporal import data_converter
from counterfoil.worker.embedded import temporal_server
from counterfoil.worker.settings import WorkerSettings

REPOSITORY = Path(__file__).parents[1]
COMPOSE: dict[str, Any] = yaml.safe_load((REPOSITORY / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = [name for name, service in SERVICES.items() if str(service["image"]).startswith("counterfoil:")]
VARIABLE = re.compile(r"\$\{(\w+)(?::?[?-][^}]*)?\}")
NAMESPACE = "deployment"
STEP_SECONDS = 90


# what the files say


def values_for_variables() -> dict[str, str]:
    """A value for every variable that deploy/env.example asks for."""
    names = re.findall(r"^(\w+)=$", (REPOSITORY / "deploy" / "env.example").read_text(), re.MULTILINE)
    return {name: secrets.token_hex(16) for name in names}


def filled_in(text: str, variables: dict[str, str]) -> str:
    return VARIABLE.sub(lambda found: variables[found[1]], text)


def test_the_example_environment_names_exactly_the_variables_that_are_used():
    used = set(VARIABLE.findall((REPOSITORY / "docker-compose.yml").read_text()))

    assert used == set(values_for_variables())


def test_no_secret_has_a_default():
    text = (REPOSITORY / "docker-compose.yml").read_text()

    defaults = set(re.findall(r"\$\{(\w+)(?!\w)(?!:\?)", text))

    assert defaults == {"COUNTERFOIL_PRINCIPAL"}


@pytest.mark.parametrize("name", OURS)
def test_every_setting_in_the_file_is_a_real_one_with_a_valid_value(name: str, monkeypatch: pytest.MonkeyPatch):
    variables = values_for_variables()
    environment = {key: filled_in(value, variables) for key, value in SERVICES[name]["environment"].items()}
    ours = {key for key in environment if key.startswith("COUNTERFOIL_")}
    for key in [key for key in os.environ if key.startswith("COUNTERFOIL_")]:
        monkeypatch.delenv(key)
    for key, value in environment.items():
        monkeypatch.setenv(key, value)

    settings = WorkerSettings()

    assert ours <= {f"COUNTERFOIL_{field.upper()}" for field in WorkerSettings.model_fields}
    assert settings.database.startswith("postgresql://counterfoil:")
    assert settings.blobs == "s3://counterfoil/blobs"
    assert settings.sealing_key() == bytes.fromhex(variables["SEAL_KEY"])
    assert settings.allow_unsealed is False
    assert {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL", "TEMPORAL_ADDRESS"} <= environment.keys()


@pytest.mark.parametrize("name", SERVICES)
def test_images_are_pinned_and_ports_are_on_loopback(name: str):
    service = SERVICES[name]
    _, _, tag = service["image"].partition(":")

    assert re.search(r"\d+\.\d+|\d{4}-\d{2}-\d{2}", tag), f"{service['image']} is not pinned"
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


@pytest.mark.parametrize("name", SERVICES)
def test_a_unit_that_stays_up_is_checked_and_restarted(name: str):
    service = SERVICES[name]
    once = any(
        other.get("depends_on", {}).get(name, {}).get("condition") == "service_completed_successfully"
        for other in SERVICES.values()
    )
    if once or "profiles" in service:
        assert "restart" not in service
    else:
        assert service["restart"] == "unless-stopped"
        assert "healthcheck" in service


def test_everything_that_is_waited_for_exists_and_files_that_are_mounted_do():
    waited = {one for service in SERVICES.values() for one in service.get("depends_on", {})}
    mounted = [mount.split(":")[0] for service in SERVICES.values() for mount in service.get("volumes", [])]

    assert waited <= SERVICES.keys()
    assert [m for m in mounted if not (REPOSITORY / m).exists() and m not in COMPOSE["volumes"]] == []


@pytest.mark.parametrize("script", sorted((REPOSITORY / "deploy").glob("*.sh")), ids=lambda path: path.name)
def test_scripts_are_well_formed_and_may_be_run(script: Path):
    subprocess.run(["sh", "-n", script], check=True)

    assert os.access(script, os.X_OK)


def test_workers_have_longer_to_stop_than_to_drain():
    worker = SERVICES["worker"]

    assert int(worker["stop_grace_period"].rstrip("s")) > int(worker["environment"]["COUNTERFOIL_DRAIN_SECONDS"])


def test_the_image_installs_the_lock_with_hashes_and_runs_as_nobody_special():
    dockerfile = (REPOSITORY / "Dockerfile").read_text()
    bases = re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)

    assert all(re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", base) for base in bases)
    assert "--require-hashes -r requirements/run.txt" in dockerfile
    assert re.search(r"^USER counterfoil$", dockerfile, re.MULTILINE)
    assert re.search(r'^ENTRYPOINT \["counterfoil"\]$', dockerfile, re.MULTILINE)


def test_what_the_package_is_built_from_goes_into_the_image():
    let_in = {line[1:] for line in (REPOSITORY / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    rooms = re.findall(r'"(\w+)"', (REPOSITORY / "setup.py").read_text().split("ROOMS")[1].split("\n")[0])

    assert let_in >= {
        *rooms,
        "counterfoil",
        "setup.py",
        "pyproject.toml",
        "requirements/run.txt",
        "README.md",
        "LICENSE",
    }
    assert all((REPOSITORY / name).exists() for name in let_in)


# the topology, run natively


@dataclass
class Deployment:
    """The parts that run, and the environment that compose would give to our units."""

    environment: dict[str, str]
    client: Client
    folder: Path
    workers: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def workspace(self) -> Path:
        return Path(self.environment["COUNTERFOIL_WORKSPACE_ROOT"])

    async def run(self, *arguments: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
        """One `counterfoil` command, as in a container of its own."""
        return await asyncio.to_thread(
            subprocess.run,
            [counterfoil(), *arguments],
            env=self.environment,
            cwd=self.folder,
            input=given,
            capture_output=True,
            text=True,
            timeout=STEP_SECONDS,
            check=False,
        )

    def start_worker(self) -> None:
        log = (self.folder / f"worker-{len(self.workers)}.log").open("w")
        process = subprocess.Popen(
            [counterfoil(), "worker"], env=self.environment, cwd=self.folder, stdout=log, stderr=log, text=True
        )
        log.close()
        self.workers.append(process)

    def stop_workers(self) -> list[int]:
        for process in self.workers:
            process.send_signal(signal.SIGTERM)
        statuses = [process.wait(STEP_SECONDS) for process in self.workers]
        self.workers.clear()
        return statuses


def counterfoil() -> Path:
    return Path(sys.executable).with_name("counterfoil")


@pytest.fixture
def deployed_database_url(postgres: str) -> str:
    """A database set up by the script that compose gives to PostgreSQL."""
    variables = values_for_variables()
    with psycopg.connect(postgres, autocommit=True) as connection:
        host, port = connection.info.host, connection.info.port
        program = Path(str(connection.execute("SELECT setting FROM pg_config() WHERE name = 'BINDIR'").fetchone()[0]))
    path = f"{program}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | variables | {"PATH": path, "PGHOST": host, "PGPORT": str(port)}
    subprocess.run([REPOSITORY / "deploy" / "postgres-init.sh"], env=environment, check=True)
    return f"postgresql://counterfoil:{variables['COUNTERFOIL_DB_PASSWORD']}@/counterfoil?host={host}&port={port}"


@pytest.fixture
def objects() -> Iterator[dict[str, str]]:
    """An S3-compatible server with the bucket, and how to reach it."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    reached = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "access",
        "AWS_SECRET_ACCESS_KEY": secrets.token_hex(16),
    }
    try:
        bucket_of(reached).create()
        yield reached
    finally:
        server.stop()


def bucket_of(reached: dict[str, str]) -> Any:
    return boto3.resource(
        "s3",
        endpoint_url=reached["AWS_ENDPOINT_URL"],
        aws_access_key_id=reached["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=reached["AWS_SECRET_ACCESS_KEY"],
        region_name="us-east-1",
    ).Bucket("counterfoil")


@pytest_asyncio.fixture
async def deployment(deployed_database_url: str, objects: dict[str, str], tmp_path: Path) -> AsyncIterator[Deployment]:
    folder = tmp_path
    (folder / "workspace").mkdir()
    variables = values_for_variables()
    composed = {key: filled_in(value, variables) for key, value in SERVICES["worker"]["environment"].items()}
    inherited = {
        key: value for key, value in os.environ.items() if not key.startswith(("COUNTERFOIL_", "TEMPORAL_", "AWS_"))
    }
    async with temporal_server(folder / "temporal.db") as server:
        here = {
            "TEMPORAL_ADDRESS": server.address,
            "TEMPORAL_NAMESPACE": NAMESPACE,
            "COUNTERFOIL_DATABASE_URL": deployed_database_url,
            "COUNTERFOIL_WORKSPACE_ROOT": str(folder / "workspace"),
            "COUNTERFOIL_STATE_DIR": str(folder / "state"),
            "COUNTERFOIL_PRINCIPAL": "ada",
        }
        environment = inherited | composed | objects | here
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        making = environment | {"PATH": path, "NAMESPACE": NAMESPACE}
        for _ in range(2):  # safe to repeat
            subprocess.run(
                [REPOSITORY / "deploy" / "temporal-namespace.sh"], env=making, check=True, capture_output=True
            )
        client = await Client.connect(server.address, namespace=NAMESPACE, data_converter=data_converter())
        running = Deployment(environment, client, folder)
        try:
            yield running
        finally:
            running.stop_workers()


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.timeout(300)
async def test_the_topology_takes_an_operation_from_a_request_to_sealed_approval_and_evidence(
    deployment: Deployment, objects: dict[str, str]
):
    await an_unprepared_namespace_is_refused(deployment)
    await what_the_setup_service_does(deployment)
    for _ in range(SERVICES["worker"]["deploy"]["replicas"]):
        deployment.start_worker()

    operation = await proposed(deployment)
    await nobody_approves_without_a_seal(deployment, operation)
    await approved_it_is_done_and_verified(deployment, operation)

    assert len(list(bucket_of(objects).objects.filter(Prefix="blobs/sha256/"))) == 1
    assert await adapter_queues(deployment, operation["operation_id"]) == {"counterfoil/local/local.files@1"}
    await workers_drain_and_end_well(deployment)


async def an_unprepared_namespace_is_refused(deployment: Deployment) -> None:
    refused = await deployment.run("worker")

    assert refused.returncode == 9
    assert "SEARCH_ATTRIBUTES_MISSING" in refused.stderr


async def what_the_setup_service_does(deployment: Deployment) -> None:
    assert SERVICES["setup"]["command"] == ["counterfoil migrate && counterfoil register"]
    for command in ("migrate", "register"):
        done = await deployment.run(command)
        assert done.returncode == 0, done.stderr


async def proposed(deployment: Deployment) -> dict[str, Any]:
    created = await deployment.run("operation", "create", "-", "--wait", "--json", given=json.dumps(REQUEST))

    assert created.returncode == 11, created.stderr
    operation: dict[str, Any] = json.loads(created.stdout)
    return operation


async def nobody_approves_without_a_seal(deployment: Deployment, operation: dict[str, Any]) -> None:
    """Whoever can only reach Temporal is refused, and that is recorded."""
    answer = {"proposal_digest": operation["proposal_digest"], "verdict": "approve"}
    await deployment.client.get_workflow_handle(operation["operation_id"]).signal("decide", answer)
    refused = await until_recorded(deployment, operation["operation_id"], "command_refused")

    assert refused["data"]["code"] == "UNAUTHENTICATED"
    assert refused["actor"] == {"principal": "unauthenticated", "authenticated": False, "scope": None}


async def approved_it_is_done_and_verified(deployment: Deployment, operation: dict[str, Any]) -> None:
    named = (operation["operation_id"], "approve", "--digest", operation["proposal_digest"])
    decided = await deployment.run("operation", "decide", *named)
    watched = await deployment.run("operation", "watch", operation["operation_id"], "--json")

    assert decided.returncode == 0, decided.stderr
    assert watched.returncode == 0, watched.stderr
    done = json.loads(watched.stdout.splitlines()[-1])["operation"]
    assert (done["state"], done["verification"]) == ("completed", "verified")
    assert done["decision"]["actor"] == {"principal": "ada", "authenticated": True, "scope": "review"}
    assert (deployment.workspace / "hello.txt").read_text() == "hello\n"


async def workers_drain_and_end_well(deployment: Deployment) -> None:
    alive = [process.poll() for process in deployment.workers]
    statuses = await asyncio.to_thread(deployment.stop_workers)

    logs = [log.read_text() for log in sorted(deployment.folder.glob("worker-*.log"))]
    assert (alive, statuses) == ([None, None], [0, 0])
    assert all("draining" in log and log.endswith("counterfoil worker: stopped\n") for log in logs), logs


REQUEST = {
    "owner": {"workspace": "w", "session": "deployment"},
    "idempotency_key": "hello",
    "capability": "file.create",
    "route_id": "local.files.v1",
    "objective": "say hello",
    "input": {"path": "hello.txt", "text": "hello\n"},
    "resources": [{"kind": "file", "system": "file", "identity": "hello.txt"}],
    "decision": {"reason": "a new file", "question": "Create it?"},
}


async def until_recorded(deployment: Deployment, operation_id: str, kind: str) -> dict[str, Any]:
    for _ in range(30):
        watched = await deployment.run("operation", "watch", operation_id, "--json")
        entries = [line["entry"] for line in map(json.loads, watched.stdout.splitlines()) if "entry" in line]
        found = [entry for entry in entries if entry["kind"] == kind]
        if found:
            return found[0]
        await asyncio.sleep(0.5)
    raise AssertionError(f"no '{kind}' was recorded")


async def adapter_queues(deployment: Deployment, operation_id: str) -> set[str]:
    """The task queues of the regular activities in an operation's history."""
    history = await deployment.client.get_workflow_handle(operation_id).fetch_history()
    scheduled = [event for event in history.events if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED]
    return {event.activity_task_scheduled_event_attributes.task_queue.name for event in scheduled}
