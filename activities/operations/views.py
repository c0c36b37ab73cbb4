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

DETAILS_LIMIT_BYTES = 6000
DETAILS_ROWS = 20
CELL_LIMIT_CHARACTERS = 120
TEXT_LIMIT_CHARACTERS = 600
MARKUP = "\\`*_{}[]()#+-.!:|&<>~^$"
"""What may begin or make markup, and may be escaped, in CommonMark and in the Temporal UI's own dialect."""
GAP = "\u2003"
"""Between the columns of a table: the Temporal UI leaves none."""


@dataclass(frozen=True)
class Timing:
    """How closely workers are watched, and how they like their transitions."""

    heartbeat_seconds: float = 10.0
    """An adapter activity that is not heard of for this long is taken for lost."""
    local_transitions: bool = True
    """Whether transitions run beside the workflow. A worker that caches no workflow would lose them on the way."""


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
        local_transitions=timing.local_transitions,
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
        f"`{row.id}` · {plain(row.capability)} by {plain(row.route_id)} · revision {row.revision}",
    ]
    match row.state:
        case State.AWAITING_DECISION:
            lines += _question(row)
        case State.UNKNOWN:
            lines += _unknown(row)
        case State.QUEUED | State.PREPARING if row.blocked is not None:
            lines += ["", plain(Blocked.model_validate_json(row.blocked).detail)]
        case _ if (problem := _problem(row)) is not None:
            lines += ["", _told(problem)]
    return "\n".join(lines)


def _problem(row: OperationRow) -> Problem | None:
    return None if row.problem is None else Problem.model_validate_json(row.problem)


def _told(problem: Problem) -> str:
    return f"{plain(problem.code)}: {plain(problem.detail)}"


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
    asked = ["", f"### {plain(request.decision.question)}", "", plain(request.decision.reason)]
    answer = [
        "",
        "Answer with the signal `decide` and this input (verdict: approve, decline or revise):",
        "",
        "```json",
        "{",
        f'  "proposal_digest": "{row.proposal_digest}",',
        '  "verdict": "approve",',
        '  "notes": ""',
        "}",
        "```",
    ]
    if row.decision_expires_at is not None:
        answer += ["", f"The question expires at {row.decision_expires_at.isoformat(timespec='seconds')}."]
    if prepared is None:
        return asked + answer
    asked += ["", plain(prepared.summary)]
    if prepared.preview is None:
        return asked + answer
    # However large the change is, how to answer stays in sight.
    room = DETAILS_LIMIT_BYTES - sum(len(line.encode()) + 1 for line in asked + answer)
    return [*asked, "", *markdown_table(prepared.preview, room), *answer]


def _unknown(row: OperationRow) -> list[str]:
    lines = ["", "Nobody can know yet whether the effect happened. Its resources stay locked."]
    problem = _problem(row)
    if problem is not None:
        lines += ["", f"Why: {_told(problem)}"]
    if row.external_id is not None:
        lines += ["", f"External id: {plain(row.external_id)}"]
    if route_of(row).observation and not row.observation_exhausted:
        return [*lines, "", "It is being observed on its original route."]
    return [
        *lines,
        "",
        "Observation is unsupported or exhausted. Look at the target, then attest with `resolve_unknown`",
        "(status: applied, not_applied or stopped):",
        "",
        "```json",
        "{",
        f'  "expected_revision": {row.revision},',
        '  "resolution_key": "…",',
        '  "status": "…",',
        '  "summary": "…"',
        "}",
        "```",
    ]


def markdown_table(preview: Preview, room_bytes: int = DETAILS_LIMIT_BYTES) -> list[str]:
    """A preview as a Markdown table, shortened to what a person reads in one screen and to `room_bytes`."""
    lines = [_row(preview.columns), "|" + " --- |" * len(preview.columns)]
    shown = 0
    for cells in preview.rows[:DETAILS_ROWS]:
        line = _row(cells)
        room_bytes -= len(line.encode()) + 1
        if room_bytes < 0:
            break
        lines.append(line)
        shown += 1
    omitted = preview.omitted_rows + len(preview.rows) - shown
    if omitted:
        lines += ["", f"… and {omitted} more."]
    return lines


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(plain(cell, CELL_LIMIT_CHARACTERS) + GAP for cell in cells) + " |"


def plain(text: str, limit_characters: int = TEXT_LIMIT_CHARACTERS) -> str:
    """Text as Markdown that cannot become markup: what a workbook or a model wrote must not look like our own words.

    On one line; what cannot be seen is written out, what is too long is shortened visibly.
    """
    line = " ".join(text.split())
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line[: limit_characters + 1])
    if len(line) > limit_characters:
        line = line[: limit_characters - 1] + "…"
    return "".join(f"\\{character}" if character in MARKUP else character for character in line)
