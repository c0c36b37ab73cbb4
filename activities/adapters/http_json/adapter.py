"""`http.json.v1`: records of a JSON API created, updated and deleted as its profile describes, one request each."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from counterfoil.activities.adapters.base import AdapterContext, Order
from counterfoil.activities.adapters.http_json.answers import Meaning, meaning_of, retry_after_seconds
from counterfoil.activities.adapters.http_json.entity import Entity
from counterfoil.activities.adapters.http_json.fields import preview_of
from counterfoil.activities.adapters.http_json.inputs import (
    INPUTS,
    CreateRecord,
    DeleteRecord,
    RecordChange,
    UpdateRecord,
    action_of,
    target_path,
    validated,
)
from counterfoil.activities.adapters.http_json.jobs import JobFollower
from counterfoil.activities.adapters.http_json.look import Look
from counterfoil.activities.adapters.http_json.memory import Memory
from counterfoil.activities.adapters.http_json.planning import Plan, plan_of
from counterfoil.activities.adapters.http_json.profile import HttpProfile
from counterfoil.activities.adapters.http_json.promises import route_for, route_of
from counterfoil.activities.adapters.http_json.reading import Budget, Found, Gone, NoAnswer, Target
from counterfoil.activities.adapters.http_json.records import RecordLooker
from counterfoil.activities.adapters.http_json.results import reason_in, recorded_id
from counterfoil.activities.adapters.http_json.sending import Call, Lost, NotSent, Reply, Sender
from counterfoil.activities.adapters.http_json.verifying import Verifier
from counterfoil.models.common import canonical_json, utc_now
from counterfoil.models.errors import CounterfoilError, ErrorCode
from counterfoil.models.operations.contract import OperationRequest
from counterfoil.models.operations.outcomes import (
    BoundVersion,
    CancelOutcome,
    Completed,
    Failed,
    NotReady,
    Observation,
    Outcome,
    Prepared,
    Preview,
    Readiness,
    Ready,
    UnknownEffect,
    VerificationOutcome,
    VerificationUnavailable,
)
from counterfoil.models.operations.route import Route

NOT_A_FENCE = "the target has no ETags: the record is compared once more before sending, which is no fence"


class HttpJson:
    """The adapter of one profile. `environ` is where its credential is read, at every request."""

    def __init__(
        self, profile: HttpProfile, *, environ: Mapping[str, str] = os.environ, memory: Memory | None = None
    ) -> None:
        self._profile = profile
        self._memory = memory or Memory()
        self._sender = Sender(profile, environ)
        self._target = Target(profile, self._sender, self._memory)
        self._records = RecordLooker(self._target)
        self._jobs = None if profile.jobs is None else JobFollower(self._target, profile.jobs, self._records)
        self._verifier = Verifier(self._target, self._jobs)
        self._route = route_of(profile)

    @property
    def route(self) -> Route:
        return self._route

    def route_for(self, typed_input: BaseModel) -> Route:
        """The route, with only what it can promise for this kind of change."""
        assert isinstance(typed_input, CreateRecord | UpdateRecord | DeleteRecord)
        return route_for(self._profile, self._route, typed_input)

    @property
    def profile(self) -> HttpProfile:
        """What it was made for."""
        return self._profile

    def input_schema(self, capability: str) -> dict[str, Any]:
        """The JSON Schema of a capability's input; the entities and their fields are the profile's."""
        return INPUTS[capability].model_json_schema()

    def validate_input(self, request: OperationRequest) -> RecordChange:
        """The typed input. Besides the usual codes: `INPUT_TOO_LARGE`."""
        return validated(self._profile, request)

    async def readiness(self, context: AdapterContext) -> Readiness:
        """Whether there is a credential, the target wants to be left alone, and it answers where it is probed."""
        problem = self._sender.credential_problem()
        if problem is not None:
            return NotReady(detail=problem, retry_after_seconds=30)
        if (quiet := self._memory.quiet_seconds()) > 0:
            return NotReady(detail="the target asked to be left alone for a while", retry_after_seconds=quiet)
        if self._profile.probe_path is None:
            return Ready()
        answer = await self._target.send(Call("GET", self._profile.probe_path), Budget(self._profile, context))
        if not isinstance(answer, Reply):
            return NotReady(detail=f"the target does not answer: {answer.why}")
        if answer.status == 429 or answer.status >= 500:
            return NotReady(
                detail=f"the target answers {answer.status}", retry_after_seconds=self._memory.quiet_seconds() or 5
            )
        return Ready()

    async def prepare(self, context: AdapterContext, order: Order) -> Prepared | Failed:
        """The exact request, bound to the version the record has now. Reads at most that record."""
        change, entity = _change_of(order), self._entity(order)
        before: Found | None = None
        if change.id is not None:
            found = await self._target.read(entity, target_path(entity, change), Budget(self._profile, context))
            if isinstance(found, NoAnswer):
                if found.passing:
                    raise NotPrepared(found.why)
                return Failed(code=ErrorCode.TARGET_REFUSED, detail=found.why)
            refused = _refused_before(change, entity, order, found)
            if refused is not None:
                return refused
            before = found if isinstance(found, Found) else None
        plan = plan_of(entity, change, context.operation_id, before)
        material = context.blobs.put(canonical_json(plan), "application/json")
        versions = () if before is None else (BoundVersion(resource=order.resources[0], version=before.version),)
        return Prepared(
            summary=f"{action_of(change)} {change.entity} at {plan.path}: {plan.method}",
            preview=_preview(change, before),
            versions=versions,
            material=material,
            data={"fenced": plan.is_fenced} | ({} if plan.is_fenced or before is None else {"note": NOT_A_FENCE}),
        )

    async def execute(self, context: AdapterContext, order: Order) -> Outcome:
        """Send the prepared request, once."""
        change, entity = _change_of(order), self._entity(order)
        plan = _plan_of(context, order)
        if not isinstance(plan, Plan):
            return Failed(code=ErrorCode.INTERNAL, detail=f"nothing was sent: {plan}")
        age = timedelta() if order.dispatched_at is None else utc_now() - order.dispatched_at
        left = min(self._profile.call_timeout_seconds - age.total_seconds(), context.timeout_seconds * 0.95)
        if left <= 0:
            # Whoever observes may by now have counted the time after which nothing happens any more.
            return Failed(code=ErrorCode.FENCED, detail="it was too late to send; nothing was sent")
        budget = Budget(self._profile, context, at_most_seconds=left)
        if plan.version is not None and not plan.is_fenced:
            found = await self._target.read(entity, plan.path, budget)
            if isinstance(found, NoAnswer):
                code = ErrorCode.TARGET_UNREACHABLE if found.passing else ErrorCode.TARGET_REFUSED
                return Failed(code=code, detail=f"nothing was sent: {found.why}")
            if isinstance(found, Gone) or found.version != plan.version:
                return Failed(code=ErrorCode.SOURCE_CHANGED, detail="nothing was sent: the record is another by now")
        answer = await self._target.send(plan.call(self._profile, change, context.operation_id), budget)
        match answer:
            case NotSent(why):
                return Failed(code=ErrorCode.TARGET_UNREACHABLE, detail=f"nothing was sent: {why}")
            case Lost(why):
                return UnknownEffect(code=ErrorCode.REPLY_LOST, detail=f"sent, and no reply came: {why}")
            case Reply():
                return self._outcome(self._look(context, order, plan, budget), answer)

    async def observe(self, context: AdapterContext, order: Order) -> Observation:
        """Follow the job, or look for the record. `NotApplied` only as `records` says."""
        plan = _plan_of(context, order)
        if not isinstance(plan, Plan):
            return UnknownEffect(code=ErrorCode.OBSERVATION_PENDING, detail=plan, external_id=order.external_id)
        look = self._look(context, order, plan, Budget(self._profile, context))
        if look.external_id is not None and self._jobs is not None:
            return await self._jobs.follow(look, look.external_id)
        return await self._records.look(look)

    async def cancel(self, context: AdapterContext, order: Order) -> CancelOutcome:
        """Ask the target to stop the job."""
        plan = _plan_of(context, order)
        if self._jobs is None or order.external_id is None or not isinstance(plan, Plan):
            return UnknownEffect(code=ErrorCode.NOT_POSSIBLE, detail="there is no job to cancel")
        return await self._jobs.cancel(
            self._look(context, order, plan, Budget(self._profile, context)), order.external_id
        )

    async def verify(self, context: AdapterContext, order: Order) -> VerificationOutcome:
        """Read the record afresh, and compare every field that was asked for."""
        plan = _plan_of(context, order)
        if not isinstance(plan, Plan):
            return VerificationUnavailable(detail=plan)
        return await self._verifier.verify(self._look(context, order, plan, Budget(self._profile, context)))

    def _entity(self, order: Order) -> Entity:
        return self._profile.entities[_change_of(order).entity]

    def _look(self, context: AdapterContext, order: Order, plan: Plan, budget: Budget) -> Look:
        return Look(
            operation_id=context.operation_id,
            generation=order.generation,
            external_id=order.external_id,
            recorded_id=recorded_id(order.result),
            entity=self._entity(order),
            change=_change_of(order),
            plan=plan,
            budget=budget,
        )

    def _outcome(self, look: Look, reply: Reply) -> Outcome:
        said = f"the target answered {reply.status}{reason_in(self._profile, reply)}"
        match meaning_of(reply.status, self._profile.refuses_before_acting, look.generation):
            case Meaning.DONE:
                return self._done(look, reply)
            case Meaning.ACCEPTED if self._jobs is not None:
                return self._jobs.accepted(reply)
            case Meaning.BUSY:
                wait = retry_after_seconds(reply.headers, reply.read_at)
                later = "" if wait is None else f"; ask again in {wait:g} s"
                return Failed(code=ErrorCode.TARGET_BUSY, detail=f"{said}, and did nothing{later}")
            case Meaning.STALE:
                made = look.plan.if_none_match
                code = ErrorCode.TARGET_EXISTS if made else ErrorCode.SOURCE_CHANGED
                return Failed(code=code, detail=f"{said}: the record {'exists' if made else 'is another by now'}")
            case Meaning.REFUSED:
                gone = reply.status in (404, 410) and look.change.id is not None
                code = ErrorCode.RECORD_NOT_FOUND if gone else ErrorCode.TARGET_REFUSED
                return Failed(code=code, detail=f"{said}: it did nothing")
            case _:
                return UnknownEffect(code=ErrorCode.REPLY_UNCLEAR, detail=f"{said}: it may have acted")

    def _done(self, look: Look, reply: Reply) -> Completed | UnknownEffect:
        if reply.unreadable is not None:
            return look.unclear(f"the target answered {reply.status}, but of its reply {reply.unreadable}")
        named = self._target.id_in(look.entity, reply.record)
        record_id = look.change.id or named
        if record_id is None:
            record_id = self._target.id_at(look.collection, reply.url, reply.headers.get("location"))
        if record_id is None:
            return look.unclear(f"the target answered {reply.status}, and names no new record")
        if named is not None and named != record_id:
            return look.unclear(f"the target answered {reply.status}, and speaks of another record")
        version = reply.headers.get("etag") if look.entity.etags else None
        return look.completed(self._target, record_id, reply, reply.record, version and version[:200])


class NotPrepared(Exception):
    """The record could not be read just now; preparing is tried again."""


def _change_of(order: Order) -> RecordChange:
    change = order.typed_input
    assert isinstance(change, CreateRecord | UpdateRecord | DeleteRecord)
    return change


def _plan_of(context: AdapterContext, order: Order) -> Plan | str:
    """The prepared request, or why there is none."""
    if order.prepared is None or order.prepared.material is None:
        return "nothing was prepared"
    try:
        return Plan.model_validate_json(context.blobs.get(order.prepared.material))
    except CounterfoilError as error:
        return error.detail


def _refused_before(change: RecordChange, entity: Entity, order: Order, found: Found | Gone) -> Failed | None:
    if isinstance(change, CreateRecord):
        if isinstance(found, Found):
            return Failed(code=ErrorCode.TARGET_EXISTS, detail="a record of this id exists")
        return None
    if isinstance(found, Gone):
        return Failed(code=ErrorCode.RECORD_NOT_FOUND, detail="there is no record of this id")
    if entity.etags and found.etag is None:
        return Failed(code=ErrorCode.TARGET_REFUSED, detail="the profile declares ETags, and the target sent none")
    if isinstance(change, UpdateRecord) and entity.update_method == "PUT" and found.reply.struck_out:
        detail = "the record holds the credential: it is not kept, so the whole record cannot be sent back"
        return Failed(code=ErrorCode.TARGET_REFUSED, detail=detail)
    asked = {order.resources[0].version, change.expected_version} - {None}
    if asked - {found.version}:
        wanted = ", ".join(sorted(map(str, asked)))
        return Failed(
            code=ErrorCode.SOURCE_CHANGED,
            detail=f"the record is at {found.version}, the request was written against {wanted}"[:1000],
        )
    return None


def _preview(change: RecordChange, before: Found | None) -> Preview:
    if isinstance(change, CreateRecord):
        return preview_of(None, change.fields)
    record = {} if before is None else before.record
    if isinstance(change, UpdateRecord):
        return preview_of({name: record[name] for name in change.fields if name in record}, change.fields)
    return preview_of(record, None)
