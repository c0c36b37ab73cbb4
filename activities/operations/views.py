"""A row as its workflow sees it, and as people see it in the Temporal UI."""

from __future__ import annotations

from dataclasses import dataclass

from counterfoil.activities.operations.rows import prepared_of, request_of, resources_of, route_of
from counterfoil.models.operations.contract import resource_digest
from counterfoil.models.operations.lifecycle import CLOSED, Cancellation, State, Verification
from counterfoil.models.operations.outcomes import Preview, Problem, TypedResult
from counterfoil.models.operations.route import PreparationSupport
from counterfoil.models.operations.view import Blocked, OperationView
from counterfoil.models.tables import OperationRow

DETAILS_ROWS = 20
DETAILS_LIMIT_CHARACTERS = 5000
CELL_LIMIT_CHARACTERS = 120


@dataclass(frozen=True)
class Timing:
    """How closely workers are watched."""

    heartbeat_seconds: float = 10.0
    """An adapter activity that is not heard of for this long is taken for lost."""


def view_of(row: OperationRow, timing: Timing) -> OperationView:
    """The small view that drives a workflow."""
    route = route_of(row)
    return OperationView(
        operation_id=row.id,
        session=row.session,
        version=row.ledger_version,
        revision=row.revision,
        state=State(row.state),
        verification=Verification(row.verification),
        cancellation=Cancellation(row.cancellation),
        generation=row.generation,
        fence=row.fence,
        attempt_open=row.attempt_open,
        reverify=row.reverify,
        task_queue=row.task_queue,
        call_timeout_seconds=route.call_timeout_seconds,
        heartbeat_seconds=timing.heartbeat_seconds,
        prepares_with_effect=route.preparation is PreparationSupport.EFFECTFUL,
        can_observe=route.observation,
        can_cancel=route.cancellation,
        cancel_sent=row.cancel_sent,
        observation_exhausted=row.observation_exhausted,
        decision_expires_at=row.decision_expires_at,
        deadline=row.deadline,
        blocked=None if row.blocked is None else Blocked.model_validate_json(row.blocked),
        resources=tuple(resource_digest(resource) for resource in resources_of(row)),
        label=f"{row.capability} · {request_of(row).objective[:100]}",
        problem=_problem(row),
        result=TypedResult.model_validate_json(row.result) if row.result and row.state in CLOSED else None,
        details=details_of(row),
    )


def details_of(row: OperationRow) -> str:
    """Markdown for the Temporal UI: where the operation stands and, where a person is asked, what they need for it."""
    lines = [
        f"**{_heading(row)}**",
        "",
        f"`{row.id}` · {row.capability} by `{row.route_id}` · revision {row.revision}",
    ]
    match row.state:
        case State.AWAITING_DECISION:
            lines += _question(row)
        case State.UNKNOWN:
            lines += _unknown(row)
        case State.QUEUED if row.blocked is not None:
            lines += ["", Blocked.model_validate_json(row.blocked).detail]
        case _ if (problem := _problem(row)) is not None:
            lines += ["", f"`{problem.code}` {_plain(problem.detail)}"]
    return "\n".join(lines)[:DETAILS_LIMIT_CHARACTERS]


def _problem(row: OperationRow) -> Problem | None:
    return None if row.problem is None else Problem.model_validate_json(row.problem)


def _heading(row: OperationRow) -> str:
    heading = row.state.replace("_", " ")
    if row.state == State.COMPLETED:
        heading += f", verification {row.verification}"
    if row.cancellation != Cancellation.NONE:
        heading += f", cancellation {row.cancellation.replace('_', ' ')}"
    return heading


def _question(row: OperationRow) -> list[str]:
    request, prepared = request_of(row), prepared_of(row)
    assert request.decision is not None
    lines = ["", f"### {_plain(request.decision.question)}", "", _plain(request.decision.reason)]
    if prepared is not None:
        lines += ["", _plain(prepared.summary)]
        if prepared.preview is not None:
            lines += ["", *markdown_table(prepared.preview)]
    lines += [
        "",
        "Answer with the signal `decide` and this input (verdict: approve, decline or revise):",
        "",
        "```json",
        f'{{"proposal_digest": "{row.proposal_digest}", "verdict": "approve", "notes": ""}}',
        "```",
    ]
    if row.decision_expires_at is not None:
        lines.append(f"The question expires at {row.decision_expires_at.isoformat(timespec='seconds')}.")
    return lines


def _unknown(row: OperationRow) -> list[str]:
    lines = ["", "Nobody can know yet whether the effect happened. Its resources stay locked."]
    problem = _problem(row)
    if problem is not None:
        lines += ["", f"Why: `{problem.code}` {_plain(problem.detail)}"]
    if row.external_id is not None:
        lines += ["", f"External id: `{row.external_id}`"]
    if route_of(row).observation and not row.observation_exhausted:
        return [*lines, "", "It is being observed on its original route."]
    return [
        *lines,
        "",
        "Observation is unsupported or exhausted. Look at the target, then attest with `resolve_unknown`",
        "(status: applied, not_applied or stopped):",
        "",
        "```json",
        f'{{"expected_revision": {row.revision}, "resolution_key": "…", "status": "…", "summary": "…"}}',
        "```",
    ]


def markdown_table(preview: Preview) -> list[str]:
    """A preview as a Markdown table, shortened to what a person reads in one screen."""
    shown = preview.rows[:DETAILS_ROWS]
    lines = [_row(preview.columns), _row(["---"] * len(preview.columns)), *(_row(cells) for cells in shown)]
    omitted = preview.omitted_rows + len(preview.rows) - len(shown)
    if omitted:
        lines += ["", f"… and {omitted} more."]
    return lines


def _row(cells: tuple[str, ...] | list[str]) -> str:
    return "| " + " | ".join(_plain(cell[:CELL_LIMIT_CHARACTERS]) for cell in cells) + " |"


def _plain(text: str) -> str:
    """Text that cannot become markup: what a workbook or a model wrote must not look like our own words."""
    escaped = "".join(f"\\{char}" if char in "\\`*_[]<>#|!~" else char for char in text)
    return " ".join(escaped.split())
