"""The one request that a change comes to, exact before anybody decides on it."""

from __future__ import annotations

from typing import Any

from counterfoil.activities.adapters.http_json.entity import Entity
from counterfoil.activities.adapters.http_json.fields import put
from counterfoil.activities.adapters.http_json.inputs import (
    CreateRecord,
    DeleteRecord,
    RecordChange,
    UpdateRecord,
    action_of,
    target_path,
)
from counterfoil.activities.adapters.http_json.profile import HttpProfile
from counterfoil.activities.adapters.http_json.reading import Found
from counterfoil.activities.adapters.http_json.sending import Call
from counterfoil.models.common import Stored


class Plan(Stored):
    """The request, without credentials, and the version it was made against."""

    method: str
    path: str
    body: dict[str, Any] | None = None
    media_type: str = "application/json"
    if_match: str | None = None
    if_none_match: bool = False
    version: str | None = None
    """What must not have changed: an ETag, or the digest of the record; None for a new record."""

    @property
    def is_fenced(self) -> bool:
        """Whether the target itself refuses the request once the version has changed."""
        return self.if_match is not None or self.if_none_match

    def call(self, profile: HttpProfile, change: RecordChange, operation_id: str) -> Call:
        """The request to send, with the operation id as its key where the target recognises one."""
        headers: dict[str, str] = {}
        if self.body is not None:
            headers["Content-Type"] = self.media_type
        if self.if_match is not None:
            headers["If-Match"] = self.if_match
        if self.if_none_match:
            headers["If-None-Match"] = "*"
        if profile.idempotency is not None and profile.keyed(action_of(change)):
            headers[profile.idempotency.header] = operation_id
        return Call(self.method, self.path, headers=headers, body=self.body)


def plan_of(entity: Entity, change: RecordChange, operation_id: str, before: Found | None) -> Plan:
    """The request of a change; `before` is the record as it is now, of a change to one that exists."""
    path = target_path(entity, change)
    version = None if before is None else before.version
    etag = None if before is None else before.etag
    match change:
        case CreateRecord():
            body = dict(change.fields)
            if entity.client_key is not None:
                body = put(body, entity.client_key.field, operation_id)
            if change.id is None:
                return Plan(method="POST", path=path, body=body)
            body = put(body, entity.id_field, change.id)
            return Plan(method="PUT", path=path, body=body, if_none_match=True)
        case UpdateRecord():
            whole = entity.update_method == "PUT" and before is not None
            body = {**(before.record if whole and before else {}), **change.fields}
            return Plan(
                method=entity.update_method,
                path=path,
                body=body,
                media_type=entity.update_media_type,
                if_match=etag,
                version=version,
            )
        case DeleteRecord():
            return Plan(method="DELETE", path=path, if_match=etag, version=version)
