"""What a request may ask of a JSON API: typed inputs, checked against the profile without any I/O."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StringConstraints, ValidationError

from counterfoil.activities.adapters.http_json.entity import Action, Entity
from counterfoil.activities.adapters.http_json.fields import DEEPEST, MISSING, depth_of, pick
from counterfoil.activities.adapters.http_json.profile import HttpProfile
from counterfoil.activities.adapters.http_json.spelling import (
    RecordSpelling,
    check_segment,
    collection_path,
    record_path,
)
from counterfoil.activities.adapters.text_preview import visible
from counterfoil.models.common import Contract, Identifier, canonical_json
from counterfoil.models.errors import ErrorCode, Refusal
from counterfoil.models.operations.contract import OperationRequest


def _written_out(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Segment = Annotated[str, BeforeValidator(_written_out), StringConstraints(min_length=1, max_length=200)]
"""An id or a path parameter. A whole number counts as its digits."""


class _Record(Contract):
    entity: Annotated[str, Field(max_length=40)]
    parameters: dict[str, Segment] = Field(default_factory=dict)
    """Values of the collection path's parameters."""
    account_id: Identifier | None = None
    """The account the request was written for; it must be the profile's."""


class CreateRecord(_Record):
    """`record.create`: a new record. `id` only where the profile says that clients give ids."""

    id: Segment | None = None
    fields: Annotated[dict[str, Any], Field(min_length=1, max_length=500)]


class UpdateRecord(_Record):
    """`record.update`: these fields of an existing record, if it is at `expected_version`."""

    id: Segment
    fields: Annotated[dict[str, Any], Field(min_length=1, max_length=500)]
    expected_version: Identifier | None = None


class DeleteRecord(_Record):
    """`record.delete`: an existing record, if it is at `expected_version`."""

    id: Segment
    expected_version: Identifier | None = None


RecordChange = CreateRecord | UpdateRecord | DeleteRecord

INPUTS: dict[str, type[CreateRecord] | type[UpdateRecord] | type[DeleteRecord]] = {
    "record.create": CreateRecord,
    "record.update": UpdateRecord,
    "record.delete": DeleteRecord,
}

ACTIONS: dict[type[RecordChange], Action] = {CreateRecord: "create", UpdateRecord: "update", DeleteRecord: "delete"}


def action_of(change: RecordChange) -> Action:
    """Which action a typed input asks for."""
    return ACTIONS[type(change)]


def target_path(entity: Entity, change: RecordChange) -> str:
    """The path of what a change touches below the base address: its record, or the collection a new one goes into."""
    if change.id is None:
        return collection_path(entity, change.parameters)
    return record_path(entity, change.parameters, change.id)


def validated(profile: HttpProfile, request: OperationRequest) -> RecordChange:
    """The typed input of a request.

    Raises `Refusal`: `INVALID_INPUT`, `INPUT_TOO_LARGE`, `RESOURCE_MISMATCH`, `ACCOUNT_MISMATCH`.
    """
    try:
        change = INPUTS[request.capability].model_validate(request.input)
    except ValidationError as error:
        problems = [
            f"{'.'.join(visible(str(part)) for part in problem['loc']) or 'input'}: {problem['msg']}"
            for problem in error.errors(include_input=False, include_url=False)
        ]
        raise _refuse(profile, ErrorCode.INVALID_INPUT, "; ".join(problems)[:1000], "correct the input") from error
    entity = _entity(profile, change)
    _check_path(profile, entity, change)
    if not isinstance(change, DeleteRecord):
        _check_fields(profile, entity, change.fields)
    _check_resource(profile, entity, change, request)
    return change


def _entity(profile: HttpProfile, change: RecordChange) -> Entity:
    entity = profile.entities.get(change.entity)
    if entity is None:
        known = ", ".join(sorted(profile.entities))
        raise _refuse(
            profile, ErrorCode.INVALID_INPUT, f"there is no entity '{visible(change.entity)}'", f"there are: {known}"
        )
    action = action_of(change)
    if action not in entity.actions:
        raise _refuse(
            profile,
            ErrorCode.INVALID_INPUT,
            f"the profile does not allow to {action} a {change.entity}",
            f"it allows: {', '.join(entity.actions)}",
        )
    return entity


def _check_path(profile: HttpProfile, entity: Entity, change: RecordChange) -> None:
    if set(change.parameters) != set(entity.parameters):
        wanted = ", ".join(entity.parameters) or "none"
        raise _refuse(
            profile, ErrorCode.INVALID_INPUT, "the path's parameters are not those of the entity", f"give: {wanted}"
        )
    if isinstance(change, CreateRecord) and (change.id is not None) != (entity.ids == "client"):
        detail = "the target gives the id" if change.id is not None else "a new record needs an id"
        raise _refuse(profile, ErrorCode.INVALID_INPUT, f"id: {detail}", "correct the input")
    named = change.parameters | ({} if change.id is None else {"id": change.id})
    for name, value in named.items():
        try:
            check_segment(value)
        except ValueError as error:
            raise _refuse(profile, ErrorCode.INVALID_INPUT, f"{name}: {error}", "name a record plainly") from None


def _check_fields(profile: HttpProfile, entity: Entity, fields: dict[str, Any]) -> None:
    wrong = {name for name in fields if entity.writable is not None and name not in entity.writable}
    for reserved in (entity.id_field, entity.client_key.field if entity.client_key is not None else entity.id_field):
        name, _, inner = reserved.partition(".")
        if name in fields and (not isinstance(fields[name], dict) or pick(fields[name], inner) is not MISSING):
            wrong.add(name)
    if wrong:
        named = ", ".join(visible(name) for name in sorted(wrong))
        raise _refuse(profile, ErrorCode.INVALID_INPUT, f"fields: {named} may not be set"[:1000], "leave them out")
    if depth_of(fields) > DEEPEST:
        raise _refuse(profile, ErrorCode.INVALID_INPUT, f"fields: more than {DEEPEST} levels deep", "flatten them")
    size_bytes = len(canonical_json(fields))
    if size_bytes > profile.body_limit_bytes:
        raise _refuse(
            profile,
            ErrorCode.INPUT_TOO_LARGE,
            f"the fields have {size_bytes} bytes of JSON, the profile allows {profile.body_limit_bytes}",
            "change fewer fields at a time",
        )


def _check_resource(profile: HttpProfile, entity: Entity, change: RecordChange, request: OperationRequest) -> None:
    if len(request.resources) != 1:
        raise _refuse(
            profile,
            ErrorCode.RESOURCE_MISMATCH,
            f"the request names {len(request.resources)} resources; it changes one",
            "name exactly the record, or the collection a new record goes into",
        )
    resource = request.resources[0]
    if resource.system != profile.system_name:
        raise _refuse(
            profile,
            ErrorCode.RESOURCE_MISMATCH,
            f"the resource is of the system '{resource.system}', the route is of '{profile.system_name}'",
            f"name the resource with the system '{profile.system_name}'",
        )
    named = RecordSpelling(profile.system_name, profile.base_url)(resource).identity
    touched = target_path(entity, change)
    if named != touched:
        raise _refuse(
            profile,
            ErrorCode.RESOURCE_MISMATCH,
            f"the resource is '{named}', the input changes '{touched}'",
            "name the same record in both",
        )
    accounts = {(resource.account_id, resource.tenant_id)}
    accounts |= {(change.account_id, profile.tenant_id)} if change.account_id is not None else set()
    if accounts != {(profile.account_id, profile.tenant_id)}:
        raise _refuse(
            profile,
            ErrorCode.ACCOUNT_MISMATCH,
            f"the route acts for account '{profile.account_id}' and tenant '{profile.tenant_id}'",
            "name the route's account and tenant, or leave them out where it has none",
        )


def _refuse(profile: HttpProfile, code: ErrorCode, detail: str, remedy: str) -> Refusal:
    return Refusal(code, detail, subject=profile.route_id, remedy=remedy)
