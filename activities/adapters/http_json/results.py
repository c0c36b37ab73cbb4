"""What the adapter says of a record: evidence of a reading, and the typed result of a change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from counterfoil.activities.adapters.http_json.fields import MISSING, pick
from counterfoil.activities.adapters.http_json.inputs import RecordChange, action_of
from counterfoil.activities.adapters.http_json.profile import HttpProfile
from counterfoil.activities.adapters.http_json.reading import Found
from counterfoil.activities.adapters.http_json.sending import Reply
from counterfoil.activities.adapters.text_preview import visible
from counterfoil.models.operations.outcomes import Evidence, TypedResult

RESULT_KIND = "http.record"


def evidence_of(profile: HttpProfile, path: str, reply: Reply, found: Found | None, **facts: Any) -> Evidence:
    """What was read, where, when, and at which version."""
    version = None if found is None else found.version
    return Evidence(
        source=f"{profile.system_name}:{path}"[:200],
        observed_at=reply.read_at,
        version=version if version is not None else f"status {reply.status}",
        digest=version if version is not None and version.startswith("sha256:") else None,
        facts={"status": reply.status} | facts,
    )


def result_of(
    profile: HttpProfile,
    change: RecordChange,
    record_id: str | None,
    *,
    reply: Reply | None,
    record: Mapping[str, Any] | None,
    version: str | None = None,
) -> TypedResult:
    """The record that was changed: its id, its version, and what the profile allows to keep."""
    entity = profile.entities[change.entity]
    action = action_of(change)
    kept = {} if record is None else {path: pick(record, path) for path in entity.kept_fields}
    headers = {} if reply is None else reply.headers
    named = f"{change.entity} {visible(record_id)}" if record_id is not None else f"a {change.entity}, its id unknown"
    return TypedResult(
        kind=RESULT_KIND,
        summary=f"{action}d {named}",
        data={
            "action": action,
            "entity": change.entity,
            "parameters": dict(change.parameters),
            "id": record_id,
            "version": version,
            "fields": {path: value for path, value in kept.items() if value is not MISSING},
            "headers": {name: headers[name.lower()] for name in profile.kept_headers if name.lower() in headers},
        },
    )


def reason_in(profile: HttpProfile, reply: Reply) -> str:
    """What the profile lets a refusal say, for people; empty where it says nothing."""
    if profile.problem_field is None or reply.record is None:
        return ""
    said = pick(reply.record, profile.problem_field)
    return f": {visible(said)}" if isinstance(said, str) and said else ""


def recorded_id(result: TypedResult | None) -> str | None:
    """The id of the record that an operation's result names."""
    if result is None or result.kind != RESULT_KIND:
        return None
    named = result.data.get("id")
    return named if isinstance(named, str) else None
