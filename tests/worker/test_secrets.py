"""A deployment that was given secrets keeps them: none is in a history, a log, the database, a blob or an error."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from temporalio.client import Client

from counterfoil.control_plane.temporal import data_converter
from support.cli import Dev, file_request
from support.json_target import Fault, JsonTarget

SECRETS = {
    "the target's credential": "tok-4d7a-of-the-target",
    "the sealing key": "91c3a7" * 11,
    "the database's password": "pwd-66e0-of-the-database",
}
TOKEN, SEAL_KEY, PASSWORD = SECRETS.values()
PROFILE = """
name = "acme"
base_url = "{base_url}"
account_id = "acct-1"
settles_after_seconds = 4
call_timeout_seconds = 2
problem_field = "error.message"
kept_headers = ["X-Echo"]

[credential]
bearer_env = "ACME_TOKEN"

[idempotency]
retention_seconds = 3600

[entities.contact]
path = "contacts"
etags = true
reads = "strong"

[entities.contact.client_key]
field = "external_ref"
query = "external_ref"
items = "items"
lookup = "strong"
"""


@pytest.fixture
def target(tmp_path: Path) -> Iterator[JsonTarget]:
    """An API that sends back whatever it was sent."""
    with JsonTarget(tmp_path / "effects.jsonl").serving() as serving:
        serving.token = TOKEN
        serving.echoes = True
        yield serving


@dataclass
class Deployment:
    """A running stack, and everything it was told to keep to itself."""

    dev: Dev
    database_url: str
    errors: list[str]

    def create(self, request: str) -> dict[str, Any]:
        done = self.dev.run("operation", "create", "-", "--wait", "--json", stdin=request, **self.settings)
        self.errors.append(done.stderr)
        return json.loads(done.stdout) if done.stdout else {}

    @property
    def settings(self) -> dict[str, str]:
        return {"COUNTERFOIL_DATABASE_URL": self.database_url, "THE_SEAL_KEY": SEAL_KEY, "ACME_TOKEN": TOKEN} | SHARED


SHARED = {"COUNTERFOIL_SEAL_KEY": "env:THE_SEAL_KEY", "COUNTERFOIL_LOG_LEVEL": "debug"}


@pytest.fixture
def deployment(tmp_path: Path, target: JsonTarget, postgres: str) -> Iterator[Deployment]:
    profile = tmp_path / "acme.toml"
    profile.write_text(PROFILE.format(base_url=target.base_url))
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')  # type: ignore[call-overload]
    url = postgres.replace("postgres:@/postgres", f"postgres:{PASSWORD}@/{name}")
    assert PASSWORD in url
    made = Deployment(None, url, [])  # type: ignore[arg-type]
    dev = Dev(tmp_path, COUNTERFOIL_HTTP_PROFILES=str(profile), **made.settings)
    made.dev = dev
    try:
        dev.wait_until_ready()
        yield made
    finally:
        dev.end()


def contact(key: str, **fields: Any) -> str:
    request = {
        "owner": {"workspace": "w", "session": "s"},
        "idempotency_key": key,
        "capability": "record.create",
        "route_id": "http.json.v1:acme",
        "objective": "keep the contacts in order",
        "input": {"entity": "contact", "fields": {"name": key} | fields},
        "resources": [{"kind": "remote_entity", "system": "acme", "identity": "contacts", "account_id": "acct-1"}],
    }
    return json.dumps(request)


async def test_no_secret_is_in_any_history_log_row_blob_or_error(
    deployment: Deployment, target: JsonTarget, tmp_path: Path
):
    refusal = Fault("status", status=422, body={"error": {"message": f"who is {TOKEN}?"}})
    asked = {"decision": {"reason": "r", "question": "q"}}

    made = deployment.create(contact("made"))
    target.order(Fault("drop", commits=True))
    lost = deployment.create(contact("lost"))
    target.order(refusal)
    refused = deployment.create(contact("refused"))
    proposal = deployment.create(file_request("asks", "asks.txt", **asked))
    declined = deployment.dev.run(
        "operation", "decide", proposal["operation_id"], "decline", "--yes", "--json", **deployment.settings
    )
    foreign = deployment.settings | {"THE_SEAL_KEY": "00" * 32}
    forged = deployment.dev.run("operation", "cancel", made["operation_id"], "--reason", "no", "--json", **foreign)
    nowhere = deployment.settings | {"COUNTERFOIL_DATABASE_URL": f"postgresql://someone:{PASSWORD}@127.0.0.1:1/nowhere"}
    away = deployment.dev.run("operation", "list", **nowhere)
    deployment.errors += [declined.stderr, forged.stderr, away.stderr]

    assert (made["verification"], lost["verification"], refused["state"]) == ("verified", "verified", "failed")
    assert "***" in refused["problem"]["detail"], "the credential was sent back, and struck out"
    assert json.loads(declined.stdout)["status"] == "applied"
    assert "FORGED_SEAL" in forged.stderr
    assert "STORE_UNAVAILABLE" in away.stderr
    assert any(headers.get("authorization") == f"Bearer {TOKEN}" for _, _, headers in target.requests)
    histories = await histories_of(deployment.dev)
    assert len(histories) >= 4
    kept = {
        "a history": b"".join(histories),
        "a log": (deployment.dev.out + deployment.dev.err).encode(),
        "the database": rows_of(deployment.database_url),
        "a file": b"".join(path.read_bytes() for path in deployment.dev.state_dir.rglob("*") if path.is_file()),
        "an error": "".join(deployment.errors).encode(),
    }
    assert all(len(content) > 100 for content in kept.values())
    found = [
        (what, where)
        for where, content in kept.items()
        for what, secret in SECRETS.items()
        if secret.encode() in content
    ]
    assert found == []


async def histories_of(dev: Dev) -> list[bytes]:
    """Every workflow's history as the server keeps it: payloads are in it as they were sent."""
    client = await Client.connect(dev.stack["temporal"], data_converter=data_converter())
    found = []
    async for execution in client.list_workflows():
        handle = client.get_workflow_handle(execution.id, run_id=execution.run_id)
        history = await handle.fetch_history()
        found.append(b"".join(event.SerializeToString() for event in history.events))
    return found


def rows_of(url: str) -> bytes:
    """Every row of every table, as text."""
    with psycopg.connect(url) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        rows = [connection.execute(f"SELECT t::text FROM {name} t").fetchall() for (name,) in tables]  # type: ignore[call-overload]
    return "\n".join(row[0] for table in rows for row in table).encode()
