"""What an agent is told of operations: little, and what it needs to go on. No blobs, no echo of large inputs."""

from __future__ import annotations

from typing import Any

from counterfoil.models.common import canonical_json
from counterfoil.models.errors import CounterfoilError, ErrorCode, Refusal
from counterfoil.models.operations.lifecycle import UNDISPATCHED, Cancellation, State, Verification
from counterfoil.models.operations.outcomes import Preview, TypedResult
from counterfoil.models.operations.record import Operation, OperationSummary
from counterfoil.models.operations.route import PreparationSupport, Route
from counterfoil.models.operations.tools import CallableTool

TEXT_LIMIT_CHARACTERS = 600
CELL_LIMIT_CHARACTERS = 200
MOST_ROWS = 20
DATA_LIMIT_BYTES = 2048


def refused(error: CounterfoilError) -> dict[str, Any]:
    """A refusal, in the words a model can act on."""
    return {"error": {name: short(text, 1000) for name, text in error.as_details().items()}}


def one(operation: Operation) -> dict[str, Any]:
    """Where an operation stands, what it waits for, and what can be done now."""
    told = line(operation) | {"waits_for": waits_for(operation), "next_actions": next_actions(operation)}
    if operation.problem is not None:
        told["problem"] = {"code": operation.problem.code, "detail": short(operation.problem.detail)}
    if operation.result is not None:
        told["result"] = _result(operation.result)
    if operation.evidence is not None:
        told["evidence"] = operation.evidence.model_dump(mode="json", include={"source", "observed_at", "version"})
    if operation.decision is not None:
        told["decision"] = _decision(operation)
    return {"operation": told}


def line(operation: OperationSummary) -> dict[str, Any]:
    """One operation in a list."""
    return {
        "operation_id": operation.operation_id,
        "state": operation.state.value,
        "verification": operation.verification.value,
        "cancellation": operation.cancellation.value,
        "revision": operation.revision,
        "capability": operation.capability,
        "route_id": operation.route_id,
        "objective": short(operation.objective, 300),
    }


def review(operation: Operation) -> dict[str, Any]:
    """The standing question with its proposal, for the host to put to a person. Raises `Refusal` (`NOT_POSSIBLE`)."""
    asked = operation.request.decision
    if asked is None:
        raise Refusal(
            ErrorCode.NOT_POSSIBLE,
            "nobody is asked about this operation",
            subject=operation.operation_id,
            remedy="a request with a decision has a person asked",
        )
    told: dict[str, Any] = {
        "operation_id": operation.operation_id,
        "state": operation.state.value,
        "awaits_answer": operation.state is State.AWAITING_DECISION,
        "question": short(asked.question),
        "reason": short(asked.reason),
        "proposal_digest": operation.proposal_digest,
        "expires_at": None if operation.decision_expires_at is None else operation.decision_expires_at.isoformat(),
        "answered_by": "a person, through the host; this tool has no way to answer",
    }
    if operation.prepared is not None:
        told["proposal"] = short(operation.prepared.summary)
        told["preview"] = None if operation.prepared.preview is None else _preview(operation.prepared.preview)
    if operation.decision is not None:
        told["decision"] = _decision(operation)
    return {"review": told}


def route(route: Route) -> dict[str, Any]:
    """A route and what it supports."""
    supports = {
        "preparation": route.preparation is not PreparationSupport.NONE,
        "observation": route.observation,
        "cancellation": route.cancellation,
        "verification": route.verification,
        "replay": route.replay.kind != "none",
        "background": route.background,
    }
    return {
        "route_id": route.id,
        "capabilities": list(route.capabilities),
        "supports": [name for name, given in supports.items() if given],
    }


def tool(standing: CallableTool) -> dict[str, Any]:
    """A tool, and what this session may do with it."""
    fields = {"name", "description", "read_only", "account_id", "input_schema"}
    return standing.tool.model_dump(mode="json", include=fields) | {"permission": standing.permission.value}


def waits_for(operation: Operation) -> str | None:
    """What has to happen before it goes on, in a few words; None where nothing more will."""
    blocked = operation.blocked
    match operation.state:
        case State.HELD:
            return "a push: prepare or execute"
        case State.PREPARED:
            return "a push: execute"
        case State.AWAITING_DECISION:
            return "a person's decision"
        case State.REVISION_REQUESTED:
            return "another proposal: the person wants it different"
        case State.PREPARING | State.QUEUED if blocked is not None:
            return short(blocked.detail)
        case State.PREPARING:
            return "its preparation"
        case State.QUEUED:
            return "its dispatch"
        case State.DISPATCHING:
            return "the application's answer"
        case State.RUNNING:
            return "the application to finish; it is being observed"
        case State.UNKNOWN if operation.route.observation and not operation.observation_exhausted:
            return "an observation that tells whether it happened"
        case State.UNKNOWN:
            return "a person who looks, and attests what happened"
        case State.COMPLETED if operation.verification is Verification.PENDING:
            return "its verification"
    return None


def next_actions(operation: Operation) -> list[str]:
    """The actions that make sense now."""
    state = operation.state
    actions = ["get"]
    if state is State.HELD:
        actions += ["prepare", "execute"]
    if state is State.PREPARED:
        actions += ["execute"]
    if state in (State.AWAITING_DECISION, State.REVISION_REQUESTED):
        actions += ["review"]
    looks_again = state in (State.RUNNING, State.UNKNOWN) and operation.route.observation
    if looks_again or (state is State.COMPLETED and operation.route.verification and not operation.attested):
        actions += ["reconcile"]
    issued = state in (State.DISPATCHING, State.RUNNING, State.UNKNOWN)
    if operation.cancellation is Cancellation.NONE and (state in UNDISPATCHED or issued):
        actions += ["cancel"]
    return actions


def short(text: str, limit_characters: int = TEXT_LIMIT_CHARACTERS) -> str:
    """Text, visibly shortened where it is long."""
    return text if len(text) <= limit_characters else f"{text[: limit_characters - 1]}…"


def _result(result: TypedResult) -> dict[str, Any]:
    told: dict[str, Any] = {"kind": result.kind, "summary": short(result.summary)}
    size_bytes = len(canonical_json(result.data)) if result.blob is None else result.blob.size_bytes
    if result.blob is None and size_bytes <= DATA_LIMIT_BYTES:
        told["data"] = result.data
    else:
        told["data_left_out_bytes"] = size_bytes
    return told


def _decision(operation: Operation) -> dict[str, Any]:
    assert operation.decision is not None
    return {"verdict": operation.decision.verdict.value, "notes": short(operation.decision.notes)}


def _preview(preview: Preview) -> dict[str, Any]:
    rows = [[short(cell, CELL_LIMIT_CHARACTERS) for cell in row] for row in preview.rows[:MOST_ROWS]]
    return {
        "columns": list(preview.columns),
        "rows": rows,
        "omitted_rows": preview.omitted_rows + len(preview.rows) - len(rows),
    }
