"""JSON APIs end to end, on a real Temporal server: the oracle is the target's own effect log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from counterfoil.activities.adapters.http_json.profile import HttpProfile
from counterfoil.activities.adapters.http_json.registration import register
from counterfoil.models.operations.contract import OperationRequest
from support.http_desk import TOKEN, profile_values
from support.json_target import Fault, JsonTarget
from support.stack import Stack, settled


@pytest.fixture
def target(tmp_path: Path) -> Iterator[JsonTarget]:
    with JsonTarget(tmp_path / "effects.jsonl").serving() as serving:
        serving.token = TOKEN
        yield serving


async def serving(stack: Stack, target: JsonTarget, **changes: Any) -> None:
    profile = HttpProfile.model_validate(profile_values(**{"base_url": target.base_url} | changes))
    register(stack.catalog, profile, environ={"ACME_TOKEN": TOKEN})
    await stack.start()


def request(session: str, capability: str = "create", **changes: Any) -> OperationRequest:
    input: dict[str, Any] = {"entity": "contact"}
    if capability != "delete":
        input["fields"] = {"name": "Ada Lovelace"}
    identity = "contacts"
    if capability != "create":
        input["id"], identity = "7", "contacts/7"
    return OperationRequest.model_validate(
        {
            "owner": {"workspace": "w", "session": session},
            "idempotency_key": "k1",
            "capability": f"record.{capability}",
            "route_id": "http.json.v1:acme",
            "objective": "keep the contacts in order",
            "input": input,
            "resources": [{"kind": "remote_entity", "system": "acme", "identity": identity, "account_id": "acct-1"}],
        }
        | changes
    )


async def run(stack: Stack, asked: OperationRequest) -> Any:
    control_plane = stack.control_plane()
    created = await control_plane.create(asked)
    return await settled(control_plane, created.operation_id)


async def test_a_record_is_created_and_verified(stack: Stack, target: JsonTarget, session: str):
    await serving(stack, target)
    operation = await run(stack, request(session))

    assert (operation.state, operation.verification) == ("completed", "verified")
    assert [effect["key"] for effect in target.effects()] == [operation.operation_id]


async def test_a_lost_reply_is_observed_by_its_key_and_the_effect_is_one(
    stack: Stack, target: JsonTarget, session: str
):
    await serving(stack, target)
    target.order(Fault("drop", commits=True))
    operation = await run(stack, request(session))
    (effect,) = target.effects()

    assert (operation.state, operation.verification) == ("completed", "verified")
    assert operation.result.data["id"] == effect["value"]["id"]
    assert target.changes_sent() == [("POST", "/v1/contacts")]


async def test_a_lost_reply_that_nothing_can_look_up_stays_unknown(stack: Stack, target: JsonTarget, session: str):
    await serving(stack, target, entities={"contact": {"path": "contacts"}})
    target.order(Fault("drop", commits=True))
    operation = await run(stack, request(session))

    assert (operation.state, operation.problem.code) == ("unknown", "REPLY_LOST")
    assert len(target.effects()) == 1
    assert target.changes_sent() == [("POST", "/v1/contacts")]


async def test_an_absence_proved_after_settling_is_made_good_once(stack: Stack, target: JsonTarget, session: str):
    await serving(stack, target, settles_after_seconds=2, call_timeout_seconds=1)
    target.order(Fault("drop"))
    operation = await run(stack, request(session, constraints={"max_attempts": 2}))

    assert (operation.state, operation.verification) == ("completed", "verified")
    assert len(target.effects()) == 1
    assert {headers["idempotency-key"] for method, _, headers in target.requests if method == "POST"} == {
        operation.operation_id
    }


async def test_a_stale_etag_fails_and_changes_nothing(stack: Stack, target: JsonTarget, session: str):
    await serving(stack, target)
    target.add("contacts", id="7", name="Ada")
    target.order(Fault("status", status=412))
    operation = await run(stack, request(session, "update"))

    assert (operation.state, operation.problem.code) == ("failed", "SOURCE_CHANGED")
    assert target.effects() == []


async def test_a_job_is_followed_to_a_verified_end(stack: Stack, target: JsonTarget, session: str):
    target.job_polls = 2
    await serving(stack, target, jobs={"result_id_field": "result.id", "poll_seconds": 0.1, "cancel": "DELETE"})
    operation = await run(stack, request(session))

    assert (operation.state, operation.verification) == ("completed", "verified")
    assert len(target.effects()) == 1


async def test_the_credential_is_in_no_file_and_no_history(
    stack: Stack, target: JsonTarget, session: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    target.echoes = True
    await serving(stack, target, kept_headers=["X-Echo"])
    target.order(Fault("drop", commits=True))
    operation = await run(stack, request(session))
    payloads = await stack.payloads(operation.operation_id)
    await stack.stop()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]

    assert operation.state == "completed"
    assert any(path.suffix == ".db" for path in files)
    assert [path.name for path in files if TOKEN.encode() in path.read_bytes()] == []
    assert all(TOKEN.encode() not in payload.data for payload in payloads)
    assert TOKEN not in operation.model_dump_json()
    assert TOKEN not in caplog.text
