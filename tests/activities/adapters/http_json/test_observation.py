"""What may be said of a request whose reply was lost: applied or absent, each with its proof, else unknown."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from counterfoil.activities.adapters.base import Order
from counterfoil.models.operations.route import ReplayGuarantee
from support.http_desk import CONTACTS, Desk
from support.json_target import Fault, JsonTarget

SETTLES = 4
"""Of the profile the fixtures make, in seconds."""


async def lost(desk: Desk, target: JsonTarget, capability: str, *, commits: bool, **input: Any) -> Order:
    """A change whose reply was lost, and a first look at it."""
    order = await desk.prepared(capability, **input)
    target.order(Fault("drop", commits=commits))
    assert (await desk.execute(order)).status == "unknown"
    return order


async def later(desk: Desk, order: Order) -> Any:
    """What is seen once everything has settled."""
    await desk.observe(order)
    desk.clock.seconds += SETTLES
    return await desk.observe(order)


async def test_an_absence_is_proved_only_after_watching_for_so_long(desk: Desk, target: JsonTarget):
    order = await lost(desk, target, "create", commits=False, fields={"name": "Ada"})
    told = []
    for _ in range(4):
        told.append((await desk.observe(order)).status)
        desk.clock.seconds += 1.5

    assert told == ["unknown", "unknown", "unknown", "not_applied"]


async def test_a_request_that_takes_effect_late_is_found(desk: Desk, target: JsonTarget):
    order = await desk.prepared("create", fields={"name": "Ada"})
    target.order(Fault("drop", commits_after_seconds=0.3))
    await desk.execute(order)
    early = await desk.observe(order)
    time.sleep(0.5)  # noqa: ASYNC251  the target acts in a thread of its own

    assert early.status == "unknown"
    assert (await desk.observe(order)).status == "completed"
    assert len(target.effects()) == 1


ABSENCES: dict[str, tuple[dict[str, Any], str]] = {
    "everything declared": ({}, "not_applied"),
    "nobody says when a request settles": ({"settles_after_seconds": None}, "unknown"),
    "a look-up that may lag": (
        {"entities": {"contact": CONTACTS | {"client_key": CONTACTS["client_key"] | {"lookup": "eventual"}}}},
        "unknown",
    ),
    "no look-up": (
        {"entities": {"contact": CONTACTS | {"client_key": {"field": "external_ref"}}}},
        "unknown",
    ),
    "no key": ({"entities": {"contact": CONTACTS | {"client_key": None}}}, "unknown"),
}


@pytest.mark.parametrize("name", ABSENCES)
async def test_what_it_takes_to_call_a_creation_absent(name: str, desk_of: Callable[..., Desk], target: JsonTarget):
    changes, expected = ABSENCES[name]
    desk = desk_of(**changes)
    order = await lost(desk, target, "create", commits=False, fields={"name": "Ada"})

    assert (await later(desk, order)).status == expected


async def test_a_target_that_ignores_the_filter_proves_nothing(desk: Desk, target: JsonTarget):
    target.ignores_filter = True
    target.add("contacts", name="somebody else", external_ref="op-other")
    order = await lost(desk, target, "create", commits=False, fields={"name": "Ada"})

    assert (await later(desk, order)).status == "unknown"


async def test_a_target_that_ignores_the_filter_is_not_taken_to_have_found_it(desk: Desk, target: JsonTarget):
    target.ignores_filter = True
    target.add("contacts", id="7", name="somebody else", external_ref="op-other")
    order = await lost(desk, target, "create", commits=True, fields={"name": "Ada"})
    seen = await desk.observe(order)

    assert seen.result.data["id"] == target.effects()[0]["value"]["id"] != "7"


async def test_two_records_with_one_key_are_for_a_person(desk: Desk, target: JsonTarget):
    order = await lost(desk, target, "create", commits=True, fields={"name": "Ada"})
    target.add("contacts", name="Ada", external_ref="op-test")
    seen = await later(desk, order)

    assert (seen.status, seen.code, seen.detail) == (
        "unknown",
        "REPLY_UNCLEAR",
        "2 records carry the operation's key",
    )


async def test_a_lagging_lookup_is_no_absence_and_then_finds_it(desk_of: Callable[..., Desk], target: JsonTarget):
    target.read_lag_seconds = 0.5
    desk = desk_of(**ABSENCES["a look-up that may lag"][0])
    order = await lost(desk, target, "create", commits=True, fields={"name": "Ada"})
    at_once = await later(desk, order)
    time.sleep(0.6)  # noqa: ASYNC251  the lag is the target's own

    assert at_once.status == "unknown"
    assert (await desk.observe(order)).status == "completed"


async def test_evidence_of_an_absence_is_fresh_and_says_how_long_was_watched(desk: Desk, target: JsonTarget):
    target.add("contacts", id="7", name="Ada")
    order = await lost(desk, target, "update", commits=False, id="7", fields={"name": "A. L."})
    seen = await later(desk, order)

    assert seen.status == "not_applied"
    assert (seen.evidence.source, seen.evidence.version) == ("acme:contacts/7", '"1"')
    assert seen.evidence.facts == {"status": 200, "watched_at_least_seconds": 4.0}
    assert seen.evidence.observed_at >= order.dispatched_at


async def test_a_proved_absence_may_be_made_good_once(desk: Desk, target: JsonTarget):
    target.add("contacts", id="7", name="Ada")
    order = await lost(desk, target, "update", commits=False, id="7", fields={"name": "A. L."})
    assert (await later(desk, order)).status == "not_applied"
    again = desk.again(order)

    assert (await desk.execute(again)).status == "completed"
    assert len(target.effects()) == 1


# what became of an update and of a deletion


async def test_an_update_that_was_made_is_seen(desk: Desk, target: JsonTarget):
    target.add("contacts", id="7", name="Ada")
    order = await lost(desk, target, "update", commits=True, id="7", fields={"name": "A. L."})
    seen = await desk.observe(order)

    assert (seen.status, seen.result.data["version"]) == ("completed", '"2"')


async def test_an_update_and_then_somebody_elses_is_for_a_person(desk: Desk, target: JsonTarget):
    target.add("contacts", id="7", name="Ada")
    order = await lost(desk, target, "update", commits=True, id="7", fields={"name": "A. L."})
    target.records["contacts/7"].value["name"] = "Augusta"
    target.records["contacts/7"].version = 3
    seen = await later(desk, order)

    assert (seen.status, seen.detail) == (
        "unknown",
        "somebody changed the record since; this change may have come first",
    )


async def test_an_update_of_a_record_that_is_gone_is_for_a_person(desk: Desk, target: JsonTarget):
    target.add("contacts", id="7", name="Ada")
    order = await lost(desk, target, "update", commits=True, id="7", fields={"name": "A. L."})
    del target.records["contacts/7"]

    assert (await later(desk, order)).code == "REPLY_UNCLEAR"


async def test_reads_that_may_lag_prove_no_absence_of_an_update(desk_of: Callable[..., Desk], target: JsonTarget):
    desk = desk_of(entities={"contact": CONTACTS | {"reads": "eventual"}})
    target.add("contacts", id="7", name="Ada")
    order = await lost(desk, target, "update", commits=False, id="7", fields={"name": "A. L."})

    assert (await later(desk, order)).status == "unknown"


@pytest.mark.parametrize(("commits", "expected"), [(True, "completed"), (False, "not_applied")])
async def test_what_became_of_a_deletion(commits: bool, expected: str, desk: Desk, target: JsonTarget):
    target.add("contacts", id="7", name="Ada")
    order = await lost(desk, target, "delete", commits=commits, id="7")

    assert (await later(desk, order)).status == expected


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (None, "not_applied"),
        ({"name": "Ada", "external_ref": "op-test"}, "completed"),
        ({"name": "Ada", "external_ref": "op-other"}, "unknown"),
        ({"name": "Bob", "external_ref": "op-test"}, "unknown"),
    ],
)
async def test_what_became_of_a_creation_under_an_id_of_the_clients(
    record: dict[str, str] | None, expected: str, desk_of: Callable[..., Desk], target: JsonTarget
):
    desk = desk_of(entities={"contact": CONTACTS | {"ids": "client"}})
    order = await lost(desk, target, "create", commits=False, id="ada", fields={"name": "Ada"})
    if record is not None:
        target.add("contacts", id="ada", **record)

    assert (await later(desk, order)).status == expected


# what a route promises


PROMISES: dict[str, tuple[dict[str, Any], str, ReplayGuarantee, bool]] = {
    "a key": ({}, "create", ReplayGuarantee(kind="by_key", retention_seconds=3600), True),
    "an ETag": ({}, "update", ReplayGuarantee(kind="conditional"), True),
    "an id of the client's": (
        {"entities": {"contact": CONTACTS | {"ids": "client"}}},
        "create",
        ReplayGuarantee(kind="conditional"),
        True,
    ),
    "no ETag, a key": (
        {"entities": {"contact": {"path": "contacts"}}},
        "update",
        ReplayGuarantee(kind="by_key", retention_seconds=3600),
        True,
    ),
    "nothing": (
        {"entities": {"contact": {"path": "contacts"}}, "idempotency": None},
        "update",
        ReplayGuarantee(),
        True,
    ),
    "a key for other actions": (
        {"idempotency": {"retention_seconds": 9, "actions": ["create"]}, "entities": {"contact": {"path": "contacts"}}},
        "delete",
        ReplayGuarantee(),
        True,
    ),
    "nothing to look by": (
        {"entities": {"contact": {"path": "contacts"}}, "idempotency": None},
        "create",
        ReplayGuarantee(),
        False,
    ),
}


@pytest.mark.parametrize("name", PROMISES)
async def test_what_a_route_promises_of_a_change(name: str, desk_of: Callable[..., Desk]):
    changes, capability, replay, observable = PROMISES[name]
    desk = desk_of(**changes)
    named = {} if capability == "create" and "ids" not in str(changes) else {"id": "7"}
    fields = {} if capability == "delete" else {"fields": {"name": "x"}}
    route = desk.adapter.route_for(desk.order(capability, **named, **fields).typed_input)

    assert (route.replay, route.observation) == (replay, observable)
    assert (route.id, route.adapter_version) == (desk.adapter.route.id, desk.adapter.route.adapter_version)
