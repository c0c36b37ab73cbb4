"""From request to verified evidence: records created, updated and deleted at a target that behaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from counterfoil.models.operations.outcomes import (
    Completed,
    Contradicted,
    Failed,
    Partial,
    Prepared,
    VerificationUnavailable,
    Verified,
)
from support.http_desk import CONTACTS, Desk
from support.json_target import JsonTarget


async def test_a_record_is_created_once_with_the_operation_as_its_key_and_verified(desk: Desk, target: JsonTarget):
    order = await desk.prepared("create", fields={"name": "Ada"})
    assert target.requests == [], "preparing a new record asks the target nothing"
    outcome = await desk.execute(order)
    verdict = await desk.verify(order)

    (effect,) = target.effects()
    assert isinstance(outcome, Completed)
    assert outcome.result.data["id"] == effect["value"]["id"]
    assert effect["key"] == "op-test"
    assert effect["value"]["external_ref"] == "op-test"
    assert isinstance(verdict, Verified)
    assert (verdict.evidence.version, verdict.evidence.facts["fields_as_asked"]) == ('"1"', ["name"])
    assert verdict.evidence.observed_at >= order.dispatched_at


async def test_a_new_record_is_found_by_its_key_where_its_id_is_forgotten(
    desk: Desk, desk_of: Callable[..., Desk], target: JsonTarget
):
    order = await desk.prepared("create", fields={"name": "Ada"})
    await desk.execute(order)
    another_process = desk_of()

    assert isinstance(await another_process.verify(order), Verified)
    assert len(target.effects()) == 1


async def test_a_new_record_that_no_look_up_finds_is_verified_by_the_id_in_the_recorded_result(
    desk_of: Callable[..., Desk], target: JsonTarget
):
    entity = {"path": "contacts", "etags": True, "reads": "strong"}
    desk, another_process = desk_of(entities={"contact": entity}), desk_of(entities={"contact": entity})
    order = await desk.prepared("create", fields={"name": "Ada"})
    outcome = await desk.execute(order)

    assert isinstance(await another_process.verify(order), VerificationUnavailable)
    assert isinstance(await another_process.verify(replace(order, result=outcome.result)), Verified)


async def test_an_update_shows_before_and_after_and_binds_the_etag(desk: Desk, target: JsonTarget):
    target.add("contacts", id="7", name="Ada", role="author")
    order = await desk.prepared("update", id="7", fields={"name": "Ada Lovelace"})
    assert order.prepared is not None
    assert order.prepared.preview is not None
    assert order.prepared.preview.rows == (("name", "Ada", "Ada Lovelace"),)
    assert [(bound.resource.identity, bound.version) for bound in order.prepared.versions] == [("contacts/7", '"1"')]

    assert isinstance(await desk.execute(order), Completed)
    assert target.requests[-1][2]["if-match"] == '"1"'
    assert target.records["contacts/7"].value == {"id": "7", "name": "Ada Lovelace", "role": "author"}
    assert isinstance(await desk.verify(order), Verified)


async def test_an_update_of_a_record_that_changed_since_is_refused_by_the_target(desk: Desk, target: JsonTarget):
    target.add("contacts", id="7", name="Ada")
    order = await desk.prepared("update", id="7", fields={"name": "A. L."})
    target.records["contacts/7"].version = 2
    outcome = await desk.execute(order)

    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.detail) == (
        "SOURCE_CHANGED",
        "the target answered 412: stale: the record is another by now",
    )
    assert target.effects() == []


async def test_without_etags_a_record_that_changed_since_is_noticed_before_sending(
    desk_of: Callable[..., Desk], target: JsonTarget
):
    target.etags = False
    desk = desk_of(entities={"contact": {"path": "contacts"}})
    target.add("contacts", id="7", name="Ada")
    order = await desk.prepared("update", id="7", fields={"name": "A. L."})
    assert order.prepared is not None
    assert "no fence" in order.prepared.data["note"]
    target.records["contacts/7"].value["name"] = "Augusta"
    outcome = await desk.execute(order)

    assert isinstance(outcome, Failed)
    assert outcome.code == "SOURCE_CHANGED"
    assert target.changes_sent() == []


async def test_a_version_the_request_was_not_written_against_is_refused(desk: Desk, target: JsonTarget):
    target.add("contacts", id="7", name="Ada")
    proposal = await desk.prepare(desk.order("update", id="7", fields={"name": "x"}, expected_version='"9"'))

    assert isinstance(proposal, Failed)
    assert proposal.code == "SOURCE_CHANGED"


async def test_what_does_not_exist_can_be_neither_updated_nor_deleted(desk: Desk):
    for order in (desk.order("update", id="7", fields={"name": "x"}), desk.order("delete", id="7")):
        proposal = await desk.prepare(order)
        assert isinstance(proposal, Failed)
        assert proposal.code == "RECORD_NOT_FOUND"


async def test_a_record_is_deleted_and_its_absence_verified(desk: Desk, target: JsonTarget):
    target.add("contacts", id="7", name="Ada")
    order = await desk.prepared("delete", id="7")
    assert isinstance(await desk.execute(order), Completed)
    verdict = await desk.verify(order)

    assert isinstance(verdict, Verified)
    assert verdict.evidence.facts == {"status": 404, "deleted_version": '"1"'}
    assert [effect["action"] for effect in target.effects()] == ["delete"]


async def test_a_client_gives_the_id_and_an_existing_record_is_never_overwritten(
    desk_of: Callable[..., Desk], target: JsonTarget
):
    desk = desk_of(entities={"contact": CONTACTS | {"ids": "client"}})
    order = await desk.prepared("create", id="ada", fields={"name": "Ada"})
    raced = replace(order)
    assert isinstance(await desk.execute(order), Completed)
    assert isinstance(await desk.verify(order), Verified)
    again = await desk.execute(replace(raced, request=raced.request))
    target._keys.clear()
    refused = await desk.execute(raced)

    assert isinstance(again, Completed), "the target recognises the key"
    assert isinstance(refused, Failed)
    assert refused.code == "TARGET_EXISTS"
    assert len(target.effects()) == 1
    proposal = await desk.prepare(desk.order("create", id="ada", fields={"name": "Ada"}))
    assert isinstance(proposal, Failed)
    assert proposal.code == "TARGET_EXISTS"


async def test_put_sends_the_whole_record(desk_of: Callable[..., Desk], target: JsonTarget):
    desk = desk_of(entities={"contact": CONTACTS | {"update_method": "PUT"}})
    target.add("contacts", id="7", name="Ada", role="author")
    order = await desk.prepared("update", id="7", fields={"name": "A. L."})
    await desk.execute(order)

    assert target.records["contacts/7"].value == {"id": "7", "name": "A. L.", "role": "author"}


async def test_verification_keeps_partial_and_contradicted_apart(desk: Desk, target: JsonTarget):
    target.add("contacts", id="7", name="Ada", role="author")
    order = await desk.prepared("update", id="7", fields={"name": "A. L.", "role": "countess"})
    await desk.execute(order)

    target.records["contacts/7"].value["role"] = "author"
    partial = await desk.verify(order)
    target.records["contacts/7"].value["name"] = "Ada"
    contradicted = await desk.verify(order)
    del target.records["contacts/7"]
    gone = await desk.verify(order)

    assert isinstance(partial, Partial)
    assert partial.detail == "not as asked: role"
    assert isinstance(contradicted, Contradicted)
    assert contradicted.detail == "not as asked: name, role"
    assert isinstance(gone, Contradicted)
    assert gone.detail == "there is no record of this id"


async def test_a_target_that_forbids_the_reading_leaves_verification_unavailable(desk: Desk, target: JsonTarget):
    target.add("contacts", id="7", name="Ada")
    order = await desk.prepared("update", id="7", fields={"name": "A. L."})
    await desk.execute(order)
    target.token = "another"

    verdict = await desk.verify(order)
    assert isinstance(verdict, VerificationUnavailable)
    assert verdict.detail == "the target answered 401"


async def test_a_lagging_read_is_tried_again_rather_than_believed(desk_of: Callable[..., Desk], target: JsonTarget):
    target.read_lag_seconds = 60
    desk = desk_of(entities={"contact": CONTACTS | {"reads": "eventual"}})
    order = await desk.prepared("create", fields={"name": "Ada"})
    assert isinstance(await desk.execute(order), Completed)

    try:
        verdict = await desk.verify(order)
    except Exception as error:
        assert str(error) == "VerifyAgain: there is no record of this id, so far"  # noqa: PT017
    else:
        raise AssertionError(verdict)


async def test_results_keep_what_the_profile_names_and_nothing_else(desk_of: Callable[..., Desk], target: JsonTarget):
    desk = desk_of(
        entities={"contact": CONTACTS | {"kept_fields": ["name", "meta.rank", "absent"]}}, kept_headers=["ETag"]
    )
    order = await desk.prepared("create", fields={"name": "Ada", "secret_note": "x", "meta": {"rank": 1}})
    outcome = await desk.execute(order)

    assert isinstance(outcome, Completed)
    assert outcome.result.data["fields"] == {"name": "Ada", "meta.rank": 1}
    assert outcome.result.data["headers"] == {"ETag": '"1"'}


async def test_a_path_with_parameters_and_odd_ids_stays_one_path(desk_of: Callable[..., Desk], target: JsonTarget):
    desk = desk_of(entities={"task": {"path": "projects/{project}/tasks"}})
    target.add("projects/p%201/tasks", id="ä?#;x")
    target.records["projects/p%201/tasks/%C3%A4%3F%23%3Bx"] = target.records.pop("projects/p%201/tasks/ä?#;x")
    order = desk.order(
        "delete",
        entity="task",
        parameters={"project": "p 1"},
        id="ä?#;x",
        identity=target.origin.upper().replace("HTTP", "http") + "/v1/projects/p%201/tasks/%c3%a4%3f%23%3Bx/",
    )
    proposal = await desk.prepare(order)

    assert isinstance(proposal, Prepared)
    assert proposal.versions[0].resource.identity  # bound to the declared resource
    assert target.requests[-1][1] == "/v1/projects/p%201/tasks/%C3%A4%3F%23%3Bx"
