"""What a profile's declarations let its route promise: in all, and for one kind of change."""

from __future__ import annotations

from counterfoil.activities.adapters.http_json.entity import Action, Entity
from counterfoil.activities.adapters.http_json.inputs import RecordChange, action_of
from counterfoil.activities.adapters.http_json.profile import HttpProfile
from counterfoil.models.operations.route import PreparationSupport, ReplayGuarantee, Route


def route_of(profile: HttpProfile) -> Route:
    """The profile's route, with the most it can promise."""
    offered = [(entity, action) for entity in profile.entities.values() for action in entity.actions]
    promises = {replay.kind: replay for replay in (_replay(profile, *one) for one in offered)}
    return Route(
        id=profile.route_id,
        adapter="http.json",
        # Whoever looks must look where the request went: another profile is another version.
        adapter_version=f"1+{profile.digest.removeprefix('sha256:')[:12]}",
        capabilities=tuple(f"record.{action}" for action in profile.actions),
        protocol="https" if profile.base_url.startswith("https:") else "http",
        control="one request with a key or a condition, read back",
        environment=profile.environment,
        readiness=True,
        preparation=PreparationSupport.PURE,
        observation=any(_can_look(profile, *one) for one in offered),
        cancellation=profile.jobs is not None and profile.jobs.cancel is not None,
        verification=True,
        replay=next((promises[kind] for kind in ("conditional", "by_key") if kind in promises), ReplayGuarantee()),
        call_timeout_seconds=profile.call_timeout_seconds,
        max_concurrent_calls=profile.max_concurrent_calls,
    )


def route_for(profile: HttpProfile, route: Route, change: RecordChange) -> Route:
    """The route, with only what it can promise for this change."""
    offered = profile.entities[change.entity], action_of(change)
    return route.model_copy(update={"observation": _can_look(profile, *offered), "replay": _replay(profile, *offered)})


def _replay(profile: HttpProfile, entity: Entity, action: Action) -> ReplayGuarantee:
    if entity.conditional(action):
        return ReplayGuarantee(kind="conditional")
    if profile.idempotency is not None and profile.keyed(action):
        return ReplayGuarantee(kind="by_key", retention_seconds=profile.idempotency.retention_seconds)
    return ReplayGuarantee()


def _can_look(profile: HttpProfile, entity: Entity, action: Action) -> bool:
    """Whether anything can ever be told of a request whose reply was lost."""
    by_key = entity.client_key is not None and entity.client_key.query is not None
    return action != "create" or entity.ids == "client" or by_key or profile.jobs is not None
