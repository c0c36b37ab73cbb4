"""Work that goes on after 202: followed, finished, failed, cancelled, lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from counterfoil.activities.adapters.base import Order
from support.http_desk import Desk
from support.json_target import Fault, JsonTarget

JOBS: dict[str, Any] = {"cancel": "DELETE", "ends_clean": True, "result_id_field": "result.id", "poll_seconds": 0.5}


@pytest.fixture
def working(desk_of: Callable[..., Desk], target: JsonTarget) -> Callable[..., Desk]:
    """A desk whose target works in jobs: `working(**changes of what the profile says of jobs)`."""
    target.job_polls = 1
    return lambda **changes: desk_of(jobs=JOBS | changes)


async def started(desk: Desk) -> Order:
    """A creation that runs as a job."""
    order = await desk.prepared("create", fields={"name": "Ada"})
    outcome = await desk.execute(order)
    assert outcome.status == "running", outcome
    return replace(order, external_id=outcome.external_id)


async def test_a_job_is_followed_to_its_record(working: Callable[..., Desk], target: JsonTarget):
    desk = working()
    order = await started(desk)
    first, second = await desk.observe(order), await desk.observe(order)

    (effect,) = target.effects()
    assert order.external_id == f"/v1/jobs/{next(iter(target.jobs))}"
    assert (first.status, first.summary, first.poll_after_seconds) == ("running", "the job is running", 0.5)
    assert (second.status, second.result.data["id"]) == ("completed", effect["value"]["id"])
    assert (await desk.verify(order)).status == "verified"
    assert (await working().verify(order)).status == "verified", "another process asks the job for the id"


@pytest.mark.parametrize(("said", "waited"), [("3", 3), ("0", 0.5), ("999999999", 3600), ("soon", 0.5)])
async def test_the_target_says_when_to_look_again(
    said: str, waited: float, working: Callable[..., Desk], target: JsonTarget
):
    target.job_retry_after = said
    desk = working()

    assert (await desk.observe(await started(desk))).poll_after_seconds == waited


UNSEEN: dict[str, Fault] = {
    "reset": Fault("drop", on="read"),
    "500": Fault("status", status=500, on="read"),
    "429": Fault("status", status=429, on="read"),
    "broken JSON": Fault("broken_json", on="read"),
}


@pytest.mark.parametrize("name", UNSEEN)
async def test_a_job_that_was_not_seen_goes_on(name: str, working: Callable[..., Desk], target: JsonTarget):
    desk = working()
    order = await started(desk)
    target.order(UNSEEN[name])
    seen = await desk.observe(order)

    assert (seen.status, seen.external_id) == ("running", order.external_id)


WORDS: dict[str, tuple[Any, str, str | None]] = {
    "an unknown word": ({"status": "paused"}, "unknown", "REPLY_UNCLEAR"),
    "no word": ({}, "unknown", "REPLY_UNCLEAR"),
    "no object": ([], "unknown", "REPLY_UNCLEAR"),
    "a word that is no text": ({"status": ["done"]}, "unknown", "REPLY_UNCLEAR"),
    "failed": ({"status": "failed"}, "failed", "JOB_FAILED"),
    "cancelled": ({"status": "cancelled"}, "cancelled", None),
}


@pytest.mark.parametrize("name", WORDS)
async def test_what_a_jobs_word_means(name: str, working: Callable[..., Desk], target: JsonTarget):
    body, expected, code = WORDS[name]
    desk = working()
    order = await started(desk)
    target.order(Fault("status", status=200, body=body, on="read"))
    seen = await desk.observe(order)

    assert (seen.status, getattr(seen, "code", None)) == (expected, code)


@pytest.mark.parametrize("ends", ["failed", "cancelled"])
async def test_a_job_that_may_have_done_a_part_leaves_the_effect_unknown(
    ends: str, working: Callable[..., Desk], target: JsonTarget
):
    target.job_ends = ends
    desk = working(ends_clean=False)
    order = await started(desk)
    await desk.observe(order)
    seen = await desk.observe(order)

    assert (seen.status, seen.code) == ("unknown", "JOB_FAILED")
    assert seen.detail == f"the job ended as '{ends}': as ordered, and may have done a part of its work"
    assert seen.external_id == order.external_id


async def test_a_job_that_is_gone_is_looked_for_by_its_key(working: Callable[..., Desk], target: JsonTarget):
    desk = working()
    order = await started(desk)
    await desk.observe(order)
    await desk.observe(order)
    target.jobs.clear()

    assert (await desk.observe(order)).status == "completed"
    target.records.clear()
    assert (await desk.observe(order)).status == "unknown", "the key is not found, and that proves nothing yet"


async def test_a_finished_job_may_point_to_its_record(working: Callable[..., Desk], target: JsonTarget):
    desk = working(result_id_field=None, result_location_field="where")
    order = await started(desk)
    record_id = target.add("contacts", name="Ada")
    target.order(
        Fault(
            "status", status=200, on="read", body={"status": "done", "where": f"{target.base_url}/contacts/{record_id}"}
        )
    )
    by_field = await desk.observe(order)
    target.order(Fault("status", status=303, on="read", headers={"Location": f"/v1/contacts/{record_id}"}))
    by_redirect = await desk.observe(order)

    assert (by_field.status, by_field.result.data["id"]) == ("completed", record_id)
    assert (by_redirect.status, by_redirect.result.data["id"]) == ("completed", record_id)


LOCATIONS: dict[str, str | None] = {
    "https://elsewhere.test/v1/jobs/1": None,
    "//elsewhere.test/v1/jobs/1": None,
    "http://127.0.0.1:1/v1/jobs/1": None,
    "/v1/%2e%2e/admin": None,
    "/v1/jobs/" + "x" * 300: None,
    "javascript:alert(1)": None,
    "": None,
    "/v1/jobs/1?part=2#top": "/v1/jobs/1?part=2",
    "jobs/1": "/v1/jobs/1",
    "/v1/../jobs/1": "/jobs/1",
}


@pytest.mark.parametrize("location", LOCATIONS)
async def test_only_a_job_on_the_same_origin_is_followed(
    location: str, working: Callable[..., Desk], target: JsonTarget
):
    desk = working()
    order = await desk.prepared("create", fields={"name": "Ada"})
    target.order(Fault("status", status=202, headers={"Location": location}))
    outcome = await desk.execute(order)

    if LOCATIONS[location] is None:
        assert (outcome.status, outcome.code) == ("unknown", "REPLY_UNCLEAR")
    else:
        assert (outcome.status, outcome.external_id) == ("running", LOCATIONS[location])


async def test_a_jobs_address_may_be_in_the_body(working: Callable[..., Desk], target: JsonTarget):
    desk = working(location_field="links.self")
    order = await desk.prepared("create", fields={"name": "Ada"})
    target.order(Fault("status", status=202, body={"links": {"self": f"{target.base_url}/jobs/9"}}))

    assert (await desk.execute(order)).external_id == "/v1/jobs/9"


# cancelling


async def test_a_job_is_cancelled_once_and_the_end_is_observed(working: Callable[..., Desk], target: JsonTarget):
    desk = working()
    order = await started(desk)
    answer = await desk.cancel(order)
    seen = await desk.observe(order)

    assert (answer.status, seen.status) == ("accepted", "cancelled")
    assert [method for method, _ in target.changes_sent()] == ["POST", "DELETE"]
    assert "idempotency-key" not in target.requests[1][2], "the key would replay the answer of the creation"
    assert target.effects() == []


CANCELS: dict[str, tuple[Fault, str]] = {
    "409": (Fault("status", status=409), "too_late"),
    "404": (Fault("status", status=404), "unknown"),
    "410": (Fault("status", status=410), "unknown"),
    "405": (Fault("status", status=405), "unknown"),
    "500": (Fault("status", status=500), "unknown"),
    "303": (Fault("status", status=303), "unknown"),
    "reset": (Fault("drop"), "unknown"),
    "204": (Fault("status", status=204), "accepted"),
    "done already": (Fault("status", status=200, body={"status": "done"}), "too_late"),
    "cancelled at once": (Fault("status", status=200, body={"status": "cancelled"}), "cancelled"),
}


@pytest.mark.parametrize("name", CANCELS)
async def test_what_an_answer_to_a_cancellation_means(name: str, working: Callable[..., Desk], target: JsonTarget):
    fault, expected = CANCELS[name]
    desk = working()
    order = await started(desk)
    target.order(fault)

    assert (await desk.cancel(order)).status == expected


async def test_a_cancellation_may_have_an_address_of_its_own(working: Callable[..., Desk], target: JsonTarget):
    desk = working(cancel="POST", cancel_suffix="/cancel")
    order = await started(desk)

    assert (await desk.cancel(order)).status == "accepted"
    assert target.changes_sent()[-1] == ("POST", f"{order.external_id}/cancel")


async def test_a_route_cancels_where_the_profile_says_how(desk_of: Callable[..., Desk]):
    told = [desk_of(jobs=jobs).adapter.route.cancellation for jobs in (None, {}, {"cancel": "DELETE"})]

    assert told == [False, False, True]
