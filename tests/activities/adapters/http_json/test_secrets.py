"""The credential is nowhere: not in answers, blobs, logs, errors, reprs, whatever the target sends back."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from counterfoil.activities.adapters.runner import AdapterRaised
from support.http_desk import CONTACTS, TOKEN, Desk
from support.json_target import Fault, JsonTarget


async def test_a_target_that_echoes_the_credential_gives_it_to_nobody(
    desk_of: Callable[..., Desk], target: JsonTarget, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    target.echoes = True
    desk = desk_of(kept_headers=["X-Echo"], entities={"contact": CONTACTS | {"kept_fields": ["echo", "name"]}})
    target.add("contacts", id="7", name=TOKEN)
    told = []
    for capability, fields in (("create", {"name": "Ada"}), ("update", {"name": "A. L."})):
        order = await desk.prepared(capability, fields=fields, **({"id": "7"} if capability == "update" else {}))
        told += [order.prepared, await desk.execute(order), await desk.observe(order), await desk.verify(order)]
    target.order(Fault("status", status=422, body={"error": {"message": f"who is {TOKEN}?"}}))
    told.append(await desk.execute(await desk.prepared("create", fields={"name": "x"})))
    said = "\n".join(answer.model_dump_json() for answer in told)

    assert "***" in said, "it was echoed, and struck out"
    assert TOKEN not in said
    assert TOKEN not in caplog.text
    kept = [path for path in (tmp_path / "blobs").rglob("*") if path.is_file()]
    assert kept
    assert all(TOKEN.encode() not in path.read_bytes() for path in kept)


@pytest.mark.parametrize("how", ["drop", "reset_in_body", "broken_json", "huge", "gzip"])
async def test_no_failure_tells_the_credential(
    how: str, desk: Desk, target: JsonTarget, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)
    target.echoes = True
    target.add("contacts", id="7", name="Ada")
    order = await desk.prepared("update", id="7", fields={"name": "A. L."})
    target.order(Fault(how, commits=True), Fault(how, on="read"))
    outcome = await desk.execute(order)
    with pytest.raises(AdapterRaised) as raised:
        await desk.verify(order)

    assert TOKEN not in outcome.model_dump_json()
    assert TOKEN not in str(raised.value)
    assert TOKEN not in caplog.text


@pytest.mark.parametrize(
    "secret", ["short", "with space in it", "line\r\nend: x", "nön-ascii-token", "", "tab\tinside1"]
)
async def test_what_no_header_can_carry_is_not_sent_and_not_told(secret: str, desk: Desk, target: JsonTarget):
    order = await desk.prepared("create", fields={"name": "Ada"})
    desk.environ["ACME_TOKEN"] = secret
    told = [await desk.readiness(), await desk.execute(order)]

    assert [answer.status for answer in told] == ["not_ready", "failed"]
    assert target.requests == []
    assert not secret or all(f"{secret}" not in answer.detail for answer in told)


def test_nothing_of_the_adapter_shows_it(desk: Desk):
    shown = [repr(desk.adapter), repr(desk.profile), desk.profile.model_dump_json(), repr(vars(desk.adapter).values())]

    assert all(TOKEN not in text for text in shown)


async def test_a_key_in_a_header_of_its_own_is_sent_and_kept_secret(desk_of: Callable[..., Desk], target: JsonTarget):
    target.token = None
    desk = desk_of(credential={"header": "X-Api-Key", "env": "ACME_TOKEN"})
    outcome = await desk.execute(await desk.prepared("create", fields={"name": "Ada"}))

    assert outcome.status == "completed"
    assert target.requests[0][2]["x-api-key"] == TOKEN
    assert "authorization" not in target.requests[0][2]


async def test_a_record_that_holds_the_credential_is_not_sent_back_without_it(
    desk_of: Callable[..., Desk], target: JsonTarget
):
    desk = desk_of(entities={"contact": CONTACTS | {"update_method": "PUT"}})
    target.add("contacts", id="7", name="Ada", key=TOKEN)
    proposal = await desk.prepare(desk.order("update", id="7", fields={"name": "A. L."}))

    assert (proposal.status, proposal.code) == ("failed", "TARGET_REFUSED")


async def test_another_origin_never_sees_it(desk: Desk, target: JsonTarget, tmp_path: Path):
    with JsonTarget(tmp_path / "other.jsonl").serving() as other:
        order = await desk.prepared("create", fields={"name": "Ada"})
        for number in (301, 302, 303, 307, 308):
            target.order(Fault("status", status=number, headers={"Location": f"{other.base_url}/contacts"}))
            await desk.execute(order)
            target.order(Fault("status", status=number, headers={"Location": f"{other.base_url}/x"}, on="read"))
            await desk.observe(order)

        assert other.requests == []
