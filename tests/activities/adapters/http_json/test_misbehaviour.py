"""Every misbehaviour of a target in every phase: the answer is literal, the oracle is the target's own effect log."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.activities.adapters.http_json.answers import Meaning, meaning_of
from counterfoil.activities.adapters.http_json.sending import Call, NotSent, Sender
from counterfoil.activities.adapters.runner import AdapterRaised
from support.http_desk import Desk
from support.json_target import Fault, JsonTarget


def status(number: int, *, commits: bool = False, body: Any = None, **headers: str) -> Fault:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Fault("status", status=number, commits=commits, body=body, headers=named)


LOST = ("unknown", "REPLY_LOST")
UNCLEAR = ("unknown", "REPLY_UNCLEAR")
REFUSED = ("failed", "TARGET_REFUSED")

# fault → what `execute` says of creating a record, how many records there are
CREATING: dict[str, tuple[Fault, tuple[str, str], int]] = {
    "reset before it reads": (Fault("drop_before_reading"), LOST, 0),
    "reset after it read": (Fault("drop"), LOST, 0),
    "reset after it acted": (Fault("drop", commits=True), LOST, 1),
    "reset in the reply's body": (Fault("reset_in_body", commits=True), UNCLEAR, 1),
    "broken JSON": (Fault("broken_json", commits=True), UNCLEAR, 1),
    "bottomless JSON": (Fault("deep_json", commits=True), UNCLEAR, 1),
    "half a character": (Fault("lone_surrogate", commits=True), UNCLEAR, 1),
    "compressed unasked": (Fault("gzip", commits=True), UNCLEAR, 1),
    "a reply without end": (Fault("huge", commits=True), UNCLEAR, 1),
    "201 and nothing else": (Fault("empty", commits=True), UNCLEAR, 1),
    "a dripping body": (Fault("drip_body", commits=True), UNCLEAR, 1),
    "dripping headers": (Fault("drip_headers", commits=True), LOST, 1),
    "200 without the record": (status(200, body={"errors": ["no"]}), UNCLEAR, 0),
    "200 with an id no path can hold": (status(200, body={"id": "../x"}), UNCLEAR, 0),
    "200 with a list": (status(200, body=[{"id": "x"}]), UNCLEAR, 0),
    "201 and a Location elsewhere": (
        status(201, commits=True, Location="http://elsewhere.test/v1/contacts/9"),
        UNCLEAR,
        1,
    ),
    "202 and no way to follow": (status(202, commits=True, Location="/v1/jobs/1"), UNCLEAR, 1),
    "207": (status(207, commits=True, body={"id": "x"}), UNCLEAR, 1),
    "301": (status(301, commits=True, Location="/v1/contacts/x"), UNCLEAR, 1),
    "302": (status(302, commits=True, Location="/v1/contacts/x"), UNCLEAR, 1),
    "303": (status(303, commits=True, Location="/v1/contacts/x"), UNCLEAR, 1),
    "307": (status(307, Location="/v2/contacts"), REFUSED, 0),
    "308": (status(308, Location="/v2/contacts"), REFUSED, 0),
    "400": (status(400), REFUSED, 0),
    "401": (status(401), REFUSED, 0),
    "403": (status(403), REFUSED, 0),
    "404": (status(404), REFUSED, 0),
    "405": (status(405), REFUSED, 0),
    "408": (status(408, commits=True), UNCLEAR, 1),
    "409": (status(409), REFUSED, 0),
    "412": (status(412), ("failed", "SOURCE_CHANGED"), 0),
    "413": (status(413), REFUSED, 0),
    "422": (status(422, body={"error": {"message": "no such country"}}), REFUSED, 0),
    "429": (status(429), ("failed", "TARGET_BUSY"), 0),
    "429 and when": (status(429, Retry_After="7"), ("failed", "TARGET_BUSY"), 0),
    "499": (status(499, commits=True), UNCLEAR, 1),
    "500 before it acted": (status(500), UNCLEAR, 0),
    "500 after it acted": (status(500, commits=True), UNCLEAR, 1),
    "502": (status(502, commits=True), UNCLEAR, 1),
    "503": (status(503, commits=True), UNCLEAR, 1),
    "503 and when": (status(503, Retry_After="7"), UNCLEAR, 0),
    "504": (status(504, commits=True), UNCLEAR, 1),
}


@pytest.mark.parametrize("name", CREATING)
async def test_creating_at_a_target_that_misbehaves(name: str, desk: Desk, target: JsonTarget):
    fault, expected, effects = CREATING[name]
    order = await desk.prepared("create", fields={"name": "Ada"})
    target.order(fault)
    began = time.monotonic()
    outcome = await desk.execute(order)

    assert (outcome.status, outcome.code) == expected, outcome
    assert time.monotonic() - began < 2.0
    assert len(target.effects()) == effects
    assert len(target.changes_sent()) == (0 if fault.how == "drop_before_reading" else 1), "exactly one request"


@pytest.mark.parametrize("name", [name for name, (_, expected, _) in CREATING.items() if expected[0] == "unknown"])
async def test_observing_finds_by_its_key_what_was_created_and_never_claims_an_absence(
    name: str, desk: Desk, target: JsonTarget
):
    fault, _, effects = CREATING[name]
    order = await desk.prepared("create", fields={"name": "Ada"})
    target.order(fault)
    await desk.execute(order)
    seen = await desk.observe(order)

    assert seen.status == ("completed" if effects else "unknown"), seen
    if effects:
        assert seen.result.data["id"] == target.effects()[0]["value"]["id"]
        assert (await desk.verify(order)).status == "verified"
    assert len(target.effects()) == effects


# fault → what `execute` says of updating and of deleting a record
CHANGING: dict[str, tuple[Fault, tuple[str, str | None]]] = {
    "reset after it acted": (Fault("drop", commits=True), LOST),
    "broken JSON": (Fault("broken_json", commits=True), UNCLEAR),
    "404": (status(404), ("failed", "RECORD_NOT_FOUND")),
    "410": (status(410), ("failed", "RECORD_NOT_FOUND")),
    "412": (status(412), ("failed", "SOURCE_CHANGED")),
    "303": (status(303, commits=True), UNCLEAR),
    "500": (status(500, commits=True), UNCLEAR),
    "another record": (status(200, body={"id": "8"}), UNCLEAR),
    "no body": (status(204), ("completed", None)),
    "a body without the id": (status(200, body={"ok": True}), ("completed", None)),
}


@pytest.mark.parametrize(
    ("capability", "name"),
    [("update", name) for name in CHANGING] + [("delete", name) for name in CHANGING if name != "broken JSON"],
)
async def test_changing_at_a_target_that_misbehaves(capability: str, name: str, desk: Desk, target: JsonTarget):
    fault, expected = CHANGING[name]
    target.add("contacts", id="7", name="Ada")
    input = {"fields": {"name": "A. L."}} if capability == "update" else {}
    order = await desk.prepared(capability, id="7", **input)
    target.order(fault)
    outcome = await desk.execute(order)

    assert (outcome.status, getattr(outcome, "code", None)) == expected, outcome
    assert len(target.effects()) == fault.commits
    if outcome.status == "unknown":
        seen = await desk.observe(order)
        assert seen.status == ("completed" if fault.commits else "unknown")
    elif outcome.status == "completed":
        assert (await desk.verify(order)).status == "contradicted", "said done, and was not"


# fault → what `prepare`, `observe` and `verify` say when the reading goes wrong (raised: it is tried again)
READING: dict[str, tuple[Fault, str, str, str]] = {
    "reset": (Fault("drop", on="read"), "raised", "unknown", "raised"),
    "reset in the body": (Fault("reset_in_body", on="read"), "raised", "unknown", "raised"),
    "broken JSON": (Fault("broken_json", on="read"), "raised", "unknown", "raised"),
    "a reply without end": (Fault("huge", on="read"), "raised", "unknown", "raised"),
    "a dripping body": (Fault("drip_body", on="read"), "raised", "unknown", "raised"),
    "dripping headers": (Fault("drip_headers", on="read"), "raised", "unknown", "raised"),
    "500": (Fault("status", status=500, on="read"), "raised", "unknown", "raised"),
    "429": (Fault("status", status=429, headers={"Retry-After": "9"}, on="read"), "raised", "unknown", "raised"),
    "301": (Fault("status", status=301, headers={"Location": "/x"}, on="read"), "failed", "unknown", "unavailable"),
    "401": (Fault("status", status=401, on="read"), "failed", "unknown", "unavailable"),
    "200 and a list": (Fault("status", status=200, body=[], on="read"), "raised", "unknown", "raised"),
    "404": (Fault("status", status=404, on="read"), "failed", "unknown", "contradicted"),
}


@pytest.mark.parametrize("name", READING)
async def test_reading_from_a_target_that_misbehaves(name: str, desk: Desk, target: JsonTarget):
    fault, preparing, observing, verifying = READING[name]
    target.add("contacts", id="7", name="Ada")
    order = await desk.prepared("update", id="7", fields={"name": "A. L."})
    told = {}
    for phase, method in (("prepare", desk.prepare), ("observe", desk.observe), ("verify", desk.verify)):
        target.order(fault)
        try:
            told[phase] = (await method(order)).status
        except AdapterRaised:
            told[phase] = "raised"

    assert told == {"prepare": preparing, "observe": observing, "verify": verifying}
    assert target.changes_sent() == [], "reading changes nothing"


async def test_a_5xx_that_the_profile_declares_proves_that_nothing_happened(
    desk_of: Callable[..., Desk], target: JsonTarget
):
    desk = desk_of(refuses_before_acting=[503])
    order = await desk.prepared("create", fields={"name": "Ada"})
    target.order(status(503, Retry_After="7"))
    outcome = await desk.execute(order)

    assert (outcome.status, outcome.code) == ("failed", "TARGET_BUSY")
    assert outcome.detail == "the target answered 503, and did nothing; ask again in 7 s"


async def test_a_target_that_wants_to_be_left_alone_is_not_ready(desk: Desk, target: JsonTarget):
    assert (await desk.readiness()).status == "ready"
    order = await desk.prepared("create", fields={"name": "Ada"})
    target.order(status(429, Retry_After="7"))
    await desk.execute(order)
    readiness = await desk.readiness()
    desk.clock.seconds += 7

    assert (readiness.status, readiness.retry_after_seconds) == ("not_ready", 7)
    assert (await desk.readiness()).status == "ready"


async def test_a_refusal_says_why_where_the_profile_allows_it(desk: Desk, target: JsonTarget):
    order = await desk.prepared("create", fields={"name": "Ada"})
    target.order(status(422, body={"error": {"message": "no such\ncountry"}}))

    assert (await desk.execute(order)).detail == "the target answered 422: no such\\ncountry: it did nothing"


@pytest.mark.parametrize("generation", [2, 3])
@pytest.mark.parametrize("number", [404, 409, 410, 412])
async def test_a_conflict_of_a_repeated_attempt_proves_nothing(
    generation: int, number: int, desk: Desk, target: JsonTarget
):
    target.add("contacts", id="7", name="Ada")
    order = await desk.prepared("update", id="7", fields={"name": "A. L."}, generation=generation)
    target.order(status(number))

    assert (await desk.execute(order)).code == "REPLY_UNCLEAR"


# never sent


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_a_target_that_refuses_the_connection_got_nothing(desk_of: Callable[..., Desk], target: JsonTarget):
    desk = desk_of(base_url=f"http://127.0.0.1:{closed_port()}/v1")
    outcome = await desk.execute(await desk.prepared("create", fields={"name": "Ada"}))

    assert (outcome.status, outcome.code) == ("failed", "TARGET_UNREACHABLE")
    assert outcome.detail == "nothing was sent: no connection to the target (ConnectionRefusedError)"


async def test_a_failed_handshake_sent_nothing(desk_of: Callable[..., Desk], target: JsonTarget):
    desk = desk_of(base_url=target.base_url.replace("http:", "https:"))
    outcome = await desk.execute(await desk.prepared("create", fields={"name": "Ada"}))

    assert (outcome.status, outcome.code) == ("failed", "TARGET_UNREACHABLE")
    assert target.requests == []


async def test_a_name_that_does_not_resolve_sent_nothing(desk_of: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch):
    def unknown_name(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown_name)
    desk = desk_of(base_url="https://api.acme.test/v1")
    outcome = await desk.execute(await desk.prepared("create", fields={"name": "Ada"}))

    assert (outcome.status, outcome.code) == ("failed", "TARGET_UNREACHABLE")


async def test_a_target_that_never_takes_the_connection_got_nothing(desk_of: Callable[..., Desk]):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
        desk = desk_of(base_url=f"http://127.0.0.1:{listener.getsockname()[1]}/v1", connect_timeout_seconds=0.3)
        outcome = await desk.execute(await desk.prepared("create", fields={"name": "Ada"}))
        for one in waiting:
            one.close()

    assert (outcome.status, outcome.code) == ("failed", "TARGET_UNREACHABLE")


async def test_an_attempt_that_wakes_up_too_late_sends_nothing(desk: Desk, target: JsonTarget):
    order = await desk.prepared("create", fields={"name": "Ada"})
    slept = replace(order, dispatched_at=order.dispatched_at - timedelta(seconds=2.1))
    outcome = await desk.execute(slept)

    assert (outcome.status, outcome.code) == ("failed", "FENCED")
    assert target.requests == []


async def test_a_comparison_that_takes_all_the_time_leaves_none_to_send(
    desk_of: Callable[..., Desk], target: JsonTarget
):
    target.etags = False
    desk = desk_of(entities={"contact": {"path": "contacts"}})
    target.add("contacts", id="7", name="Ada")
    order = await desk.prepared("update", id="7", fields={"name": "A. L."})
    target.order(Fault("drip_body", on="read"))
    outcome = await desk.execute(order)

    assert (outcome.status, outcome.code) == ("failed", "TARGET_UNREACHABLE")
    assert target.changes_sent() == []


async def test_no_time_at_all_sends_nothing(desk: Desk, target: JsonTarget):
    sender = Sender(desk.profile, desk.environ)
    answer = await sender.send(Call("POST", "contacts", body={"name": "Ada"}), seconds=0)

    assert answer == NotSent("no connection in time")
    assert target.requests == []


async def test_without_its_variable_nothing_is_sent(desk: Desk, target: JsonTarget):
    order = await desk.prepared("create", fields={"name": "Ada"})
    desk.environ.clear()
    readiness = await desk.readiness()
    outcome = await desk.execute(order)

    assert (readiness.status, readiness.detail) == ("not_ready", "the variable ACME_TOKEN is not set")
    assert (outcome.status, outcome.detail) == ("failed", "nothing was sent: the variable ACME_TOKEN is not set")
    assert target.requests == []


async def test_a_probed_target_that_is_down_makes_operations_wait(desk_of: Callable[..., Desk], target: JsonTarget):
    desk = desk_of(probe_path="health")
    target.order(Fault("status", status=503, on="read"), Fault("drop", on="read"))
    told = [(await desk.readiness()).status for _ in range(3)]

    assert told == ["not_ready", "not_ready", "ready"]


# the rule


@given(st.integers(100, 599), st.sets(st.integers(500, 599), max_size=3), st.integers(1, 3))
def test_only_a_refusal_proves_that_nothing_happened(number: int, declared: set[int], generation: int):
    proved = meaning_of(number, declared, generation) in (Meaning.REFUSED, Meaning.STALE, Meaning.BUSY)
    doubtful = generation > 1 and number in (404, 409, 410, 412)
    may = number in declared or number in (307, 308) or (400 <= number <= 499 and number not in (408, 499))

    assert proved == (may and not doubtful)


async def test_entities_without_a_lookup_leave_a_lost_creation_unknown(
    desk_of: Callable[..., Desk], target: JsonTarget
):
    desk = desk_of(entities={"contact": {"path": "contacts"}})
    order = await desk.prepared("create", fields={"name": "Ada"})
    target.order(Fault("drop", commits=True))
    await desk.execute(order)
    desk.clock.seconds += 10_000
    seen = await desk.observe(order)

    assert (seen.status, seen.detail) == ("unknown", "the profile declares no look-up by key")
    assert desk.adapter.route_for(order.typed_input).observation is False
