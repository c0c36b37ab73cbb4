"""What is accepted, what is refused, and that one record has one spelling. None of it asks the target anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.activities.adapters.http_json.entity import Entity
from counterfoil.activities.adapters.http_json.spelling import RecordSpelling, check_segment, record_path
from counterfoil.models.errors import Refusal
from counterfoil.models.operations.contract import Resource, ResourceKind, resource_digest
from support.http_desk import CONTACTS, Desk
from support.json_target import JsonTarget


def code(desk: Desk, capability: str, **input: Any) -> str:
    with pytest.raises(Refusal) as refused:
        desk.order(capability, **input)
    return refused.value.code


HOSTILE_IDS = [
    "..", ".", "a/b", "../admin", "a\\b", "%2e%2e", "a%2Fb", "x\r\nHost: y", "x\n", "x\0", "", " x", "x ", "\u202ex",
    "x" * 201,
]  # fmt: skip


@pytest.mark.parametrize("value", HOSTILE_IDS)
@pytest.mark.parametrize("capability", ["update", "delete"])
def test_an_id_that_may_lead_elsewhere_is_refused(value: str, capability: str, desk: Desk, target: JsonTarget):
    fields = {"fields": {"name": "x"}} if capability == "update" else {}

    assert code(desk, capability, id=value, identity="contacts/7", **fields) == "INVALID_INPUT"
    assert target.requests == []


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "an unknown entity": ("create", {"entity": "user", "fields": {"a": 1}, "identity": "users"}, "INVALID_INPUT"),
    "no fields": ("create", {"fields": {}}, "INVALID_INPUT"),
    "an unknown member": ("create", {"fields": {"a": 1}, "force": True}, "INVALID_INPUT"),
    "an id where the target gives it": ("create", {"id": "7", "fields": {"a": 1}}, "INVALID_INPUT"),
    "the id as a field": ("create", {"fields": {"id": "7"}}, "INVALID_INPUT"),
    "the key as a field": ("create", {"fields": {"external_ref": "x"}}, "INVALID_INPUT"),
    "a parameter too many": ("delete", {"id": "7", "parameters": {"project": "p"}}, "INVALID_INPUT"),
    "no id": ("update", {"fields": {"a": 1}}, "INVALID_INPUT"),
    "an id that is no name": ("delete", {"id": True}, "INVALID_INPUT"),
    "too much": ("create", {"fields": {"a": "x" * 300_000}}, "INPUT_TOO_LARGE"),
    "too deep": ("create", {"fields": {"a": eval("[" * 40 + "]" * 40)}}, "INVALID_INPUT"),
    "another record": ("delete", {"id": "7", "identity": "contacts/8"}, "RESOURCE_MISMATCH"),
    "another collection": ("create", {"fields": {"a": 1}, "identity": "people"}, "RESOURCE_MISMATCH"),
    "a record elsewhere": (
        "delete", {"id": "7", "identity": "https://elsewhere.test/v1/contacts/7"}, "RESOURCE_MISMATCH",
    ),
    "a query": ("delete", {"id": "7", "identity": "contacts/7?x=1"}, "RESOURCE_MISMATCH"),
    "a way out": ("delete", {"id": "7", "identity": "contacts/../contacts/7"}, "RESOURCE_MISMATCH"),
    "another account in the input": ("delete", {"id": "7", "account_id": "acct-2"}, "ACCOUNT_MISMATCH"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str, desk: Desk, target: JsonTarget):
    capability, input, expected = REFUSED[name]

    assert code(desk, capability, **dict(input)) == expected
    assert target.requests == []


def test_a_resource_of_another_account_is_refused(desk: Desk):
    request = desk.request("delete", id="7")
    for account in (None, "acct-2"):
        other = request.resources[0].model_copy(update={"account_id": account})
        with pytest.raises(Refusal) as refused:
            desk.catalog.admit(request.model_copy(update={"resources": (other,)}))
        assert refused.value.code == "ACCOUNT_MISMATCH"


def test_a_request_names_exactly_its_record(desk: Desk):
    request = desk.request("delete", id="7")
    other = request.resources[0].model_copy(update={"identity": "contacts/8"})
    for resources in ((), (*request.resources, other)):
        with pytest.raises(Refusal) as refused:
            desk.catalog.admit(request.model_copy(update={"resources": resources}))
        assert refused.value.code == "RESOURCE_MISMATCH"


def test_an_action_or_a_field_that_the_profile_does_not_allow_is_refused(desk_of: Callable[..., Desk]):
    desk = desk_of(
        entities={
            "contact": CONTACTS | {"actions": ["create"], "writable": ["name"]},
            "note": {"path": "notes", "actions": ["delete"]},
        }
    )

    assert code(desk, "delete", id="7") == "INVALID_INPUT"
    assert code(desk, "create", fields={"name": "x", "admin": True}) == "INVALID_INPUT"
    assert desk.adapter.route.capabilities == ("record.create", "record.delete")
    assert desk.order("create", fields={"name": "x"}).typed_input


def test_a_key_inside_an_object_leaves_room_for_the_objects_other_fields(desk_of: Callable[..., Desk]):
    desk = desk_of(entities={"contact": CONTACTS | {"client_key": {"field": "meta.operation"}}})

    assert desk.order("create", fields={"meta": {"rank": 1}})
    assert code(desk, "create", fields={"meta": {"operation": "x"}}) == "INVALID_INPUT"
    assert code(desk, "create", fields={"meta": "text"}) == "INVALID_INPUT"


def test_a_whole_number_is_an_id(desk: Desk):
    assert desk.order("delete", id=7).typed_input.id == "7"


SPELLINGS = [
    "contacts/a%20b",
    "contacts/a b",
    "/contacts/a%20b/",
    "https://API.acme.test/v1/contacts/a%20b",
    "HTTPS://api.acme.test:443/v1/contacts/a%20b/",
    "https://api.acme.test./v1/%63ontacts/a%20b",
]


def test_all_spellings_of_a_record_are_one_resource():
    spelled = RecordSpelling("acme", "https://api.acme.test/v1")
    made = [
        spelled(Resource(kind=ResourceKind.REMOTE_ENTITY, system="acme", identity=spelling)) for spelling in SPELLINGS
    ]

    assert {one.identity for one in made} == {"contacts/a%20b"}
    assert len({resource_digest(one) for one in made}) == 1


@given(st.text(min_size=1, max_size=60))
def test_an_id_is_refused_or_comes_back_from_its_path(value: str):
    entity = Entity(path="contacts")
    try:
        check_segment(value)
        encoded = record_path(entity, {}, value)
    except (ValueError, UnicodeEncodeError):
        return
    prefix, _, last = encoded.rpartition("/")

    assert (prefix, unquote(last)) == ("contacts", value)
    assert encoded.isascii()
    assert encoded.isprintable()
    if len(encoded) <= 200:
        resource = Resource(kind=ResourceKind.REMOTE_ENTITY, system="acme", identity=encoded)
        assert RecordSpelling("acme", "https://api.acme.test")(resource).identity == encoded
