"""Pure rules of operations: what a decision binds to, what is not enforced yet, when a replay is still safe."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from counterfoil.models.common import canonical_json, digest_of
from counterfoil.models.errors import ErrorCode, Refusal
from counterfoil.models.operations.contract import INPUT_LIMIT_BYTES, OperationRequest, Resource, resource_digest
from counterfoil.models.operations.lifecycle import Event
from counterfoil.models.operations.outcomes import Evidence, Prepared
from counterfoil.models.operations.route import Route


def proposal_digest(*, request_digest: str, route: Route, request: OperationRequest, prepared: Prepared | None) -> str:
    """What an approval is bound to: the request, the route, the plan revision, the bound versions, the material.

    Anything of these that changes makes another proposal, and an answer to the old one authorises nothing.
    """
    versions = [] if prepared is None else [bound.model_dump(mode="json") for bound in prepared.versions]
    material = None if prepared is None else prepared.model_dump(mode="json", exclude={"versions"})
    return digest_of(
        {
            "request": request_digest,
            "route": route.model_dump(mode="json"),
            "plan_revision": request.plan_revision,
            "versions": versions,
            "prepared": material,
        }
    )


def refuse_unenforced(request: OperationRequest) -> None:
    """Refuse what this version cannot enforce: a bound that is silently ignored is worse than none."""
    named = {
        "depends_on": bool(request.depends_on),
        "supersedes": request.supersedes is not None,
        "assumptions": bool(request.assumptions),
        "constraints.max_cost": request.constraints.max_cost is not None,
    }
    present = [name for name, given in named.items() if given]
    if present:
        raise Refusal(
            ErrorCode.NOT_ENFORCED,
            f"this version does not enforce {', '.join(present)}, so it does not accept them",
            subject=request.operation_id,
            remedy="leave them out, and enforce them in the host until they are supported",
        )


def refuse_oversized(request: OperationRequest) -> int:
    """The input's size in bytes of canonical JSON; refuses one beyond the limit."""
    size_bytes = len(canonical_json(request.input))
    if size_bytes > INPUT_LIMIT_BYTES:
        raise Refusal(
            ErrorCode.INPUT_TOO_LARGE,
            f"the input has {size_bytes} bytes of JSON, the limit is {INPUT_LIMIT_BYTES}",
            subject=request.operation_id,
            remedy="put the content into a file or a blob, and name it in the input",
        )
    return size_bytes


def refuse_past_deadline(request: OperationRequest, now: datetime) -> None:
    """Refuse a request whose deadline has already passed."""
    deadline = request.constraints.deadline
    if deadline is not None and deadline <= now:
        raise Refusal(
            ErrorCode.DEADLINE_PASSED,
            f"the deadline {deadline.isoformat()} has passed",
            subject=request.operation_id,
            remedy="ask again with a deadline that lies ahead",
        )


def refuse_foreground_route(request: OperationRequest, route: Route) -> None:
    """Refuse a route that cannot work in the background where the request asks for one that can."""
    if request.constraints.background_required and not route.background:
        raise Refusal(
            ErrorCode.NOT_POSSIBLE,
            f"the route '{route.id}' does not work in the background",
            subject=request.operation_id,
            remedy="use another route, or leave out background_required",
        )


def refuse_repeated_resources(request: OperationRequest, resources: Sequence[Resource]) -> None:
    """Refuse two spellings of one resource: `resources` are the request's, normalised."""
    seen: dict[str, Resource] = {}
    for given, resource in zip(request.resources, resources, strict=True):
        earlier = seen.setdefault(resource_digest(resource), given)
        if earlier is not given:
            raise Refusal(
                ErrorCode.BAD_REQUEST,
                f"'{earlier.identity}' and '{given.identity}' are the same resource of '{resource.system}'",
                subject=request.operation_id,
                remedy="list every resource once",
            )


def event_of_loss(route: Route) -> Event:
    """What it is that nobody can tell what came of a call: unknown, unless there was nothing to come of it."""
    return Event.REPORT_FAILED if route.read_only else Event.LOSE


def replay_is_safe(route: Route, first_dispatched_at: datetime | None, now: datetime) -> bool:
    """Whether an attempt that was *proved* absent may be made again under the same operation id."""
    match route.replay.kind:
        case "conditional":
            return True
        case "by_key":
            retention = route.replay.retention_seconds
            if retention is None or first_dispatched_at is None:
                return False
            return now < first_dispatched_at + timedelta(seconds=retention)
        case _:
            return False


def evidence_is_fresh(
    evidence: Evidence, dispatched_at: datetime | None, now: datetime, max_age_seconds: float | None
) -> bool:
    """Whether evidence was read after the dispatch, not in the future, and recently enough to count."""
    if dispatched_at is not None and evidence.observed_at < dispatched_at:
        return False
    if evidence.observed_at > now + timedelta(seconds=5):
        return False
    return max_age_seconds is None or now - evidence.observed_at <= timedelta(seconds=max_age_seconds)
