"""`mcp.tool.v1`: call a tool of an MCP server, at most once, and claim no more than its answer shows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel

from counterfoil.activities.adapters.base import AdapterContext, Order
from counterfoil.activities.adapters.catalog import Catalog
from counterfoil.activities.adapters.mcp_tool import schemas, tasks
from counterfoil.activities.adapters.mcp_tool.calling import Answered, Begun, Call, NotSent, Reply, call_once
from counterfoil.activities.adapters.mcp_tool.connection import Unreachable
from counterfoil.activities.adapters.mcp_tool.judging import Judge
from counterfoil.activities.adapters.mcp_tool.profile import ServerProfile, ToolDeclaration
from counterfoil.activities.adapters.mcp_tool.questions import Questions
from counterfoil.activities.adapters.mcp_tool.readback import NotSeen, Seen, read_back
from counterfoil.activities.adapters.mcp_tool.references import Secrets
from counterfoil.activities.adapters.mcp_tool.station import CLOSING_SECONDS, Line, Station
from counterfoil.activities.adapters.mcp_tool.tool_call import CAPABILITY, ROUTE_ID, ToolCall, preview_of, validated
from counterfoil.models.common import canonical_json, digest_of
from counterfoil.models.errors import CounterfoilError, ErrorCode, Refusal, Unavailable
from counterfoil.models.operations.contract import OperationRequest, Resource, ResourceKind
from counterfoil.models.operations.outcomes import (
    BoundVersion,
    Cancelled,
    CancelOutcome,
    Completed,
    Contradicted,
    Evidence,
    Failed,
    NotApplied,
    Observation,
    Outcome,
    Partial,
    Prepared,
    Running,
    TypedResult,
    UnknownEffect,
    VerificationOutcome,
    VerificationUnavailable,
    Verified,
)
from counterfoil.models.operations.route import PreparationSupport, ReplayGuarantee, Route

MCP_SYSTEM = "mcp"


def register_servers(catalog: Catalog, profiles: Iterable[ServerProfile], *, environment: str = "local") -> None:
    """Add `mcp.tool.v1` for these servers to a catalog. Raises `Refusal` (`SETTINGS_INVALID`) on a repeated name."""
    catalog.register(McpTools(profiles, environment=environment))


class McpTools:
    """The adapter. Servers are reached when a call needs them, and not before."""

    def __init__(self, profiles: Iterable[ServerProfile], *, environment: str = "local") -> None:
        self._profiles: dict[str, ServerProfile] = {}
        for profile in profiles:
            if profile.name in self._profiles:
                raise Refusal(
                    ErrorCode.SETTINGS_INVALID,
                    f"two MCP servers are named '{profile.name}'",
                    subject=profile.name,
                    remedy="give each server a name of its own",
                )
            self._profiles[profile.name] = profile
        self.station = Station()
        self._route = Route(
            id=ROUTE_ID,
            adapter="mcp.tool",
            adapter_version="1",
            capabilities=(CAPABILITY,),
            protocol="mcp",
            control="one tools/call",
            environment=environment,
            preparation=PreparationSupport.PURE,
            observation=True,
            cancellation=True,
            verification=True,
            call_timeout_seconds=60,
        )

    @property
    def route(self) -> Route:
        """The route with the most it can promise; `route_for` says what it promises of one tool."""
        return self._route

    def route_for(self, typed_input: BaseModel) -> Route:
        """The route with what the profile allows to promise of this tool."""
        assert isinstance(typed_input, ToolCall)
        profile = self._profiles[typed_input.server]
        declared = profile.declaration(typed_input.tool)
        by_key = declared.key_retention_seconds is not None and declared.observe is not None
        return self._route.model_copy(
            update={
                "observation": declared.runs_as_task or declared.observe is not None,
                "cancellation": declared.runs_as_task,
                "verification": declared.verify is not None,
                "replay": ReplayGuarantee(kind="by_key", retention_seconds=declared.key_retention_seconds)
                if by_key
                else ReplayGuarantee(),
                "call_timeout_seconds": profile.call_timeout_seconds,
            }
        )

    def input_schema(self, capability: str) -> dict[str, Any]:
        """The JSON Schema of the input; that of the arguments is the tool's own, at its server."""
        return ToolCall.model_json_schema()

    def validate_input(self, request: OperationRequest) -> ToolCall:
        """The typed input; the arguments are checked against the tool's schema when the call is prepared."""
        return validated(request, self._profiles)

    async def prepare(self, context: AdapterContext, order: Order) -> Prepared | Failed:
        """What would be sent, bound to how the server describes the tool now. Nothing is called."""
        call, profile, declared = self._of(order)
        try:
            tool, told_tasks, secrets = await self.station.run(_described(profile, call.tool))
        except Unreachable as error:
            raise Unavailable(ErrorCode.NOT_READY, str(error), subject=profile.name) from None
        if tool is None:
            return Failed(code=ErrorCode.INVALID_INPUT, detail=f"the server '{profile.name}' has no tool '{call.tool}'")
        wrong = _task_problem(declared, tool.task_support, told_tasks)
        if wrong is not None:
            return Failed(code=ErrorCode.NOT_POSSIBLE, detail=wrong)
        arguments = _with_key(call, declared, context.operation_id)
        misfits = await schemas.problems(tool.input_schema, arguments)
        if misfits:
            detail = f"the arguments do not fit the tool's schema: {'; '.join(misfits)}"
            return Failed(code=ErrorCode.INVALID_INPUT, detail=secrets.scrub(detail)[:1500])
        material = canonical_json({"tool": call.tool, "arguments": arguments})
        server = Resource(kind=ResourceKind.APPLICATION_STATE, system=MCP_SYSTEM, identity=profile.name)
        described = server.model_copy(update={"identity": f"{profile.name}/{call.tool}"[:200]})
        return Prepared(
            summary=f"call {call.tool} on {profile.name}"[:1000],
            preview=preview_of(call, profile, arguments, secrets.scrub_json(tool.hints)),
            versions=(
                BoundVersion(resource=server, version=_profile_digest(profile, declared)),
                BoundVersion(resource=described, version=tool.digest),
            ),
            material=context.blobs.put(material, "application/json"),
            data={"tool_digest": tool.digest, "profile_digest": _profile_digest(profile, declared)},
        )

    async def execute(self, context: AdapterContext, order: Order) -> Outcome:
        """Send what was prepared, once, while the tool is what it was then."""
        call, profile, declared = self._of(order)
        prepared = order.prepared
        if prepared is None or prepared.material is None:
            return Failed(code=ErrorCode.INTERNAL, detail="nothing was prepared, so nothing was called")
        if prepared.data.get("profile_digest") != _profile_digest(profile, declared):
            detail = f"this deployment's profile of '{profile.name}' is another than when the call was prepared"
            return Failed(code=ErrorCode.TOOL_CHANGED, detail=f"{detail}; ask again under a new key")
        try:
            material: dict[str, Any] = json.loads(context.blobs.get(prepared.material))
        except CounterfoilError as error:
            return Failed(code=error.code, detail=f"nothing was called: {error.detail}")
        sending = Call(call.tool, material["arguments"], prepared.data["tool_digest"], declared.runs_as_task)
        questions = Questions(call.elicitation, approved=order.approved)
        reply = await self.station.run(call_once(profile, sending, questions, _deadline(context), self.station))
        return await self._outcome(context, order, reply, questions)

    async def _outcome(self, context: AdapterContext, order: Order, reply: Reply, questions: Questions) -> Outcome:
        call, profile, declared = self._of(order)
        judge = Judge(profile.name, call.tool, declared)
        match reply:
            case NotSent(code, detail):
                return Failed(code=code, detail=detail)
            case Begun(external_id, summary, poll_after_seconds):
                return Running(external_id=external_id, summary=summary, poll_after_seconds=poll_after_seconds)
            case Answered(result, tool, secrets):
                return await judge.of_result(result, tool, questions, secrets, context.blobs)
            case lost:
                return judge.of_loss(lost.code, lost.detail, questions)

    async def observe(self, context: AdapterContext, order: Order) -> Observation:
        """Look at the task, or at what the profile says shows the effect."""
        call, profile, declared = self._of(order)
        unseen = "the profile names no way to look at what this tool did"
        if declared.runs_as_task and order.external_id is not None:
            seen = await self._task_seen(context, order)
            if not isinstance(seen, str):
                return seen
            unseen = seen
        if declared.observe is None:
            return UnknownEffect(code=ErrorCode.NOT_OBSERVABLE, detail=unseen)
        seen_there = await self.station.run(
            read_back(
                profile,
                declared.observe,
                operation_id=context.operation_id,
                arguments=_with_key(call, declared, context.operation_id),
                deadline_seconds=_deadline(context),
                station=self.station,
            )
        )
        if isinstance(seen_there, NotSeen):
            return UnknownEffect(code=ErrorCode.OBSERVATION_PENDING, detail=seen_there.detail)
        if not seen_there.differing:
            return Completed(result=_found(call, profile, seen_there))
        if seen_there.ruled_out:
            return NotApplied(detail="the readback shows that it did not happen", evidence=seen_there.evidence)
        return UnknownEffect(code=ErrorCode.OBSERVATION_PENDING, detail=seen_there.differences)

    async def _task_seen(self, context: AdapterContext, order: Order) -> Observation | str:
        """What the server says of the task; why it cannot be asked, where it cannot."""
        call, profile, declared = self._of(order)
        assert order.external_id is not None
        questions = Questions(call.elicitation, approved=order.approved)
        seen = await self.station.run(
            tasks.look(profile, order.external_id, call.tool, questions, _deadline(context), self.station)
        )
        if isinstance(seen, tasks.TaskUnseen):
            return seen.detail
        if seen.status not in ("completed", "failed", "cancelled"):
            return Running(
                external_id=order.external_id, summary=seen.message, poll_after_seconds=seen.poll_after_seconds
            )
        await self.station.run(self.station.let_go(order.external_id))
        judge = Judge(profile.name, call.tool, declared)
        if seen.status == "cancelled":
            return judge.of_cancelled_task(_task_evidence(profile, order.external_id, seen))
        asked = seen.connection.questions
        if seen.status == "failed" or seen.result is None:
            return judge.of_error(seen.message or "the task failed", asked)
        return await judge.of_result(seen.result, seen.tool, asked, seen.connection.secrets, context.blobs)

    async def cancel(self, context: AdapterContext, order: Order) -> CancelOutcome:
        """Ask the server to cancel the task."""
        call, profile, declared = self._of(order)
        if order.external_id is None or not declared.runs_as_task:
            return UnknownEffect(code=ErrorCode.NOT_POSSIBLE, detail="only a task can be cancelled")
        questions = Questions(call.elicitation, approved=order.approved)
        seen = await self.station.run(
            tasks.cancel(profile, order.external_id, questions, _deadline(context), self.station)
        )
        if isinstance(seen, tasks.TaskUnseen):
            return UnknownEffect(code=ErrorCode.REPLY_LOST, detail=seen.detail)
        evidence = _task_evidence(profile, order.external_id, seen)
        answer = Judge(profile.name, call.tool, declared).of_cancelling(seen.status, evidence)
        if isinstance(answer, Cancelled):
            await self.station.run(self.station.let_go(order.external_id))
        return answer

    async def verify(self, context: AdapterContext, order: Order) -> VerificationOutcome:
        """Read the effect back by the tool the profile names. That a tool said so is no proof."""
        call, profile, declared = self._of(order)
        if declared.verify is None:
            return VerificationUnavailable(detail="the profile names no way to verify what this tool did")
        seen = await self.station.run(
            read_back(
                profile,
                declared.verify,
                operation_id=context.operation_id,
                arguments=_with_key(call, declared, context.operation_id),
                deadline_seconds=_deadline(context),
                station=self.station,
            )
        )
        if isinstance(seen, NotSeen):
            return VerificationUnavailable(detail=seen.detail)
        if not seen.differing:
            return Verified(evidence=seen.evidence)
        if seen.matching:
            return Partial(evidence=seen.evidence, detail=seen.differences)
        return Contradicted(evidence=seen.evidence, detail=seen.differences)

    def _of(self, order: Order) -> tuple[ToolCall, ServerProfile, ToolDeclaration]:
        call = order.typed_input
        assert isinstance(call, ToolCall)
        profile = self._profiles[call.server]
        return call, profile, profile.declaration(call.tool)


async def _described(profile: ServerProfile, tool: str) -> tuple[schemas.ToolDescription | None, bool, Secrets]:
    line = Line(profile, Questions((), approved=False))
    try:
        connection = await line.connection()
        return await connection.tool(tool), connection.runs_tasks, connection.secrets
    finally:
        await line.close()


def _task_problem(declared: ToolDeclaration, support: str, server_runs_tasks: bool) -> str | None:
    if declared.runs_as_task and (support == "forbidden" or not server_runs_tasks):
        return "the profile says that the tool runs as a task, and the server does not offer that"
    if not declared.runs_as_task and support == "required":
        return "the tool runs only as a task: declare runs_as_task in the server's profile"
    return None


def _with_key(call: ToolCall, declared: ToolDeclaration, operation_id: str) -> dict[str, Any]:
    return call.arguments if declared.key_argument is None else call.arguments | {declared.key_argument: operation_id}


def _profile_digest(profile: ServerProfile, declared: ToolDeclaration) -> str:
    """What of a profile decides where a call goes, for whom, and what its answer means."""
    return digest_of(
        {
            "transport": profile.transport.model_dump(mode="json"),
            "account": profile.account_id,
            "tool": declared.model_dump(mode="json"),
        }
    )


def _deadline(context: AdapterContext) -> float:
    """What the server has of the call's time; the rest is for letting it go."""
    return max(1.0, context.timeout_seconds - CLOSING_SECONDS - 1)


def _found(call: ToolCall, profile: ServerProfile, seen: Seen) -> TypedResult:
    return TypedResult(
        kind="mcp.readback",
        summary=f"what {call.tool} on {profile.name} was to do is there",
        data={"server": profile.name, "tool": call.tool, "source": seen.evidence.source} | seen.evidence.facts,
    )


def _task_evidence(profile: ServerProfile, task_id: str, seen: tasks.TaskState) -> Evidence:
    return Evidence(
        source=f"mcp:{profile.name}/task"[:200],
        observed_at=datetime.now(UTC),
        version=seen.status[:200] or "none",
        facts={"task": task_id, "status": seen.status[:100]},
    )
