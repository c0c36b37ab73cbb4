"""Pure rules of operations: what a decision binds to, what a request may ask for, when a replay is still safe."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum

from counterfoil.models.common import Money, canonical_json, digest_of
from counterfoil.models.errors import ErrorCode, Refusal
from counterfoil.models.operations.contract import INPUT_LIMIT_BYTES, OperationRequest, Resource, resource_digest
from counterfoil.models.operations.lifecycle import CLOSED, Event, State, Verification
from counterfoil.models.operations.outcomes import Evidence, Prepared
from counterfoil.models.operations.route import PreparationSupport, Route

OBSERVATION_SILENCE = timedelta(minutes=10)
"""An observation that has recorded nothing for this long counts as unavailable, and a person may attest."""


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


def refuse_unaffordable(request: OperationRequest, route: Route) -> None:
    """Refuse a cost limit that nobody can keep on this route: a bound that is silently ignored is worse than none."""
    limit = request.constraints.max_cost
    if limit is None:
        return
    if route.preparation is PreparationSupport.EFFECTFUL:
        code, detail = ErrorCode.COST_UNBOUNDED, f"preparing on '{route.id}' has effects, and nobody bounds their cost"
    elif route.cost_estimate is None:
        code, detail = ErrorCode.COST_UNKNOWN, f"the route '{route.id}' gives no estimate of what an attempt costs"
    elif route.cost_estimate.currency != limit.currency:
        code = ErrorCode.CURRENCY_MISMATCH
        detail = f"the limit is in {limit.currency}, the route's estimate in {route.cost_estimate.currency}"
    elif not affords(request, route, attempts=0):
        code = ErrorCode.LIMIT_REACHED
        detail = f"one attempt is estimated at {price(route.cost_estimate)}, the request allows {price(limit)}"
    else:
        return
    raise Refusal(
        code, detail, subject=request.operation_id, remedy="use another route, or another max_cost, or leave it out"
    )


def affords(request: OperationRequest, route: Route, *, attempts: int) -> bool:
    """Whether one more attempt, after `attempts`, stays within the request's cost limit by the route's estimate."""
    limit = request.constraints.max_cost
    if limit is None:
        return True
    spent = spent_by(route, attempts + 1)
    return spent is not None and spent.currency == limit.currency and spent.amount <= limit.amount


def spent_by(route: Route, attempts: int) -> Money | None:
    """What `attempts` attempts are estimated to cost; None where the route cannot tell."""
    estimate = route.cost_estimate
    return None if estimate is None else estimate.model_copy(update={"amount": estimate.amount * attempts})


def price(money: Money) -> str:
    """An amount, for people."""
    return f"{money.amount:f} {money.currency}"


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


class Standing(StrEnum):
    """How far what an operation depends on has come."""

    MET = "met"
    """Completed, and fresh evidence bore it out."""
    PENDING = "pending"
    UNKNOWN = "unknown"
    """Nobody can know yet; a person may have to say."""
    FAILED = "failed"
    """It can no longer be completed and verified."""


def standing(state: State, verification: Verification, route: Route) -> Standing:
    """How a dependency stands that is in this state on this route."""
    if state is State.COMPLETED and verification is Verification.VERIFIED:
        return Standing.MET
    if not route.verification or (state in CLOSED and state is not State.COMPLETED):
        return Standing.FAILED
    if state is State.COMPLETED and verification is not Verification.PENDING:
        return Standing.FAILED
    return Standing.UNKNOWN if state is State.UNKNOWN else Standing.PENDING


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


def has_gone_silent(updated_at: datetime, poll_after_seconds: float | None, now: datetime) -> bool:
    """Whether nobody has looked for so long that nobody may be left who can: a retired adapter, a lost machine."""
    expected = timedelta(seconds=2 * (poll_after_seconds or 0))
    return now - updated_at > max(expected, OBSERVATION_SILENCE)
