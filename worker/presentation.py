"""Operations as people read them in a terminal: lists, the whole record, the question with its prepared change."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from counterfoil.models.deliveries.contract import Delivery, DeliveryState
from counterfoil.models.operations.commands import Answer
from counterfoil.models.operations.lifecycle import Cancellation, State
from counterfoil.models.operations.outcomes import Evidence, Preview
from counterfoil.models.operations.record import AttemptRecord, LedgerEntry, Operation, OperationSummary, SessionRecord
from counterfoil.models.operations.rules import price
from counterfoil.models.operations.sessions import SessionAnswer
from counterfoil.models.operations.tools import PermissionRecord
from counterfoil.worker.output import visible

SENT_LINES = 40
STYLES = {
    State.COMPLETED: "green",
    State.UNKNOWN: "bold red",
    State.FAILED: "red",
    State.AWAITING_DECISION: "bold yellow",
    State.REVISION_REQUESTED: "yellow",
}


def listed(operations: Sequence[OperationSummary]) -> RenderableType:
    """One line an operation, newest first."""
    if not operations:
        return Text("No operations.")
    table = _table("Operation", "State", "Verification", "What", "Session", "Updated")
    table.columns[0].no_wrap = True
    for one in operations:
        what = Text(visible(f"{one.capability}: {one.objective}")[:100])
        state = Text.assemble(_state(one), " (not told)" if one.callback_given_up else "")
        table.add_row(
            one.operation_id, state, one.verification, what, Text(visible(one.session)), _time(one.updated_at)
        )
    return table


def permitted(said: Sequence[PermissionRecord]) -> RenderableType:
    """One line for everything that was said of a tool in a session."""
    if not said:
        return Text("Nothing was said: every tool stands at its own default.")
    table = _table("Tool", "Account", "Permission", "By", "At")
    for one in said:
        account = Text(visible(one.account_id or "any"))
        by = Text(visible(one.actor.principal))
        table.add_row(Text(visible(one.tool)), account, one.permission, by, _time(one.at))
    return table


def shown(operation: Operation) -> Iterator[RenderableType]:
    """The whole record; where a person is asked, what they need to answer and the exact commands."""
    yield Text(operation.operation_id, style="bold")
    yield _facts(operation)
    if operation.prepared is not None:
        yield from proposal(operation)
    if operation.state is State.AWAITING_DECISION:
        yield from _decide_commands(operation)
    if operation.state is State.UNKNOWN:
        yield from _unknown(operation)
    elif operation.attempts:
        yield from _attempts(operation.attempts)
    if operation.late_replies and operation.state is not State.UNKNOWN:
        yield from _late_replies(operation.late_replies)
    if operation.deliveries:
        yield from _callbacks(operation.deliveries)


def proposal(operation: Operation) -> Iterator[RenderableType]:
    """What was prepared, and the question about it."""
    asked = operation.request.decision
    if asked is not None and operation.state is State.AWAITING_DECISION:
        yield Text(f"\n{visible(asked.question)}", style="bold yellow")
        yield Text(visible(asked.reason))
    if operation.prepared is not None:
        yield _heading("Prepared")
        yield Text(visible(operation.prepared.summary))
        if operation.prepared.preview is not None:
            yield _preview(operation.prepared.preview)
    if operation.proposal_digest is not None:
        yield Text(f"Proposal {operation.proposal_digest}")


def _facts(operation: Operation) -> Table:
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    for name, value in _fact_lines(operation):
        facts.add_row(name, value if isinstance(value, Text) else Text(visible(value)))
    return facts


def _fact_lines(operation: Operation) -> Iterator[tuple[str, str | Text]]:
    route = operation.route
    yield "State", Text.assemble(_state(operation), f", revision {operation.revision}")
    yield "Verification", operation.verification + (" (attested by a person)" if operation.attested else "")
    if operation.cancellation is not Cancellation.NONE:
        yield "Cancellation", operation.cancellation.replace("_", " ")
    adapter = f"{route.adapter}@{route.adapter_version} in '{route.environment}'"
    yield "What", f"{operation.capability} by {operation.route_id} ({adapter})"
    yield "Objective", operation.objective
    yield "Owner", f"workspace {operation.workspace}, session {operation.session}"
    yield "Key", operation.request.idempotency_key
    for resource in operation.resources:
        yield "Resource", f"{resource.kind} {resource.system}:{resource.identity}"
    for claim in operation.claims:
        shared = "" if claim.exclusive else ", shared"
        passed = "; it waits for an unknown effect, so others may pass it" if claim.overtakable else ""
        yield "Holds" if claim.held else "Waits for", f"{claim.name}{shared}, since {_time(claim.since)}{passed}"
    for one in operation.dependencies:
        place = "" if one.named == one.operation_id else f" (in the place of {one.named})"
        verified = f", verification {one.verification}" if one.state is State.COMPLETED else ""
        yield "Depends on", f"{one.operation_id}{place}: {one.state.replace('_', ' ')}{verified}"
    if operation.request.supersedes is not None:
        yield "Supersedes", operation.request.supersedes
    if operation.superseded_by is not None:
        yield "Superseded by", operation.superseded_by
    if operation.estimated_cost is not None:
        limit = operation.request.constraints.max_cost
        yield "Estimated cost", price(operation.estimated_cost) + (f" of {price(limit)}" if limit is not None else "")
    yield "Created", _time(operation.created_at)
    yield "Updated", _time(operation.updated_at)
    if operation.decision is not None:
        given = operation.decision
        who = given.actor.principal + ("" if given.actor.authenticated else " (unauthenticated)")
        yield "Decision", f"{given.verdict} by {who} at {_time(given.at)}" + (f": {given.notes}" if given.notes else "")
    if operation.blocked is not None:
        yield "Blocked", f"{operation.blocked.code}: {operation.blocked.detail}"
    if operation.external_id is not None:
        yield "External id", operation.external_id
    if operation.problem is not None:
        yield "Problem", f"{operation.problem.code}: {operation.problem.detail}"
    if operation.result is not None:
        yield "Result", f"{operation.result.kind}: {operation.result.summary}"
    if operation.evidence is not None:
        yield "Evidence", evidence_line(operation.evidence)


def evidence_line(evidence: Evidence) -> str:
    """Where the target was read, when, and what was found."""
    parts = [f"{evidence.source} at {_time(evidence.observed_at)}"]
    parts += [part for part in (evidence.version, evidence.digest) if part is not None]
    parts += [f"{name}={json.dumps(value, ensure_ascii=False)[:200]}" for name, value in evidence.facts.items()]
    return ", ".join(parts)


def _decide_commands(operation: Operation) -> Iterator[RenderableType]:
    yield _heading("Answer with one of")
    for verdict, notes in (("approve", ""), ("decline", ""), ("revise", " --notes '…'")):
        yield Text(
            f"counterfoil operation decide {operation.operation_id} {verdict} "
            f"--digest {operation.proposal_digest}{notes}"
        )
    if operation.decision_expires_at is not None:
        yield Text(f"The question expires at {_time(operation.decision_expires_at)}.")


def _unknown(operation: Operation) -> Iterator[RenderableType]:
    yield Text("\nNobody can know yet whether the effect happened. Its resources stay locked.", style="bold red")
    yield _heading("What was sent")
    yield Text(_sent(operation))
    yield from _attempts(operation.attempts)
    yield Text(f"External id: {visible(operation.external_id) if operation.external_id else 'none was received'}")
    yield from _late_replies(operation.late_replies)
    if operation.route.observation and not operation.observation_exhausted:
        yield Text(f"It is being observed on its original route ({operation.polls} polls so far).")
        return
    yield _heading("Look at the target, then attest what you found with one of")
    for status in ("applied", "not_applied", "stopped"):
        yield Text(resolve_command(operation, status))


def _sent(operation: Operation) -> str:
    if operation.request.digest != operation.request_digest:
        return "(an input larger than is kept with the operation: it is in the blob store)"
    lines = visible(json.dumps(operation.request.input, indent=2, ensure_ascii=False)).splitlines()
    more = [f"… {len(lines) - SENT_LINES} more lines"] if len(lines) > SENT_LINES else []
    return "\n".join(lines[:SENT_LINES] + more)


def resolve_command(operation: OperationSummary, status: str) -> str:
    """The exact command that attests an unknown effect as it stands now."""
    command = ["counterfoil", "operation", "resolve", operation.operation_id, status]
    return shlex.join([*command, "--revision", str(operation.revision), "--summary", "…"])


def _attempts(attempts: Iterable[AttemptRecord]) -> Iterator[RenderableType]:
    table = _table("Attempt", "Kind", "Adapter", "Journaled", "Settled", "Outcome")
    for one in attempts:
        outcome = "none was recorded" if one.outcome is None else _outcome(one.outcome)
        settled = "no" if one.settled_at is None else _time(one.settled_at)
        adapter = Text(visible(f"{one.adapter}@{one.adapter_version}"))
        table.add_row(str(one.generation), one.kind, adapter, _time(one.journaled_at), settled, Text(outcome))
    if table.row_count:
        yield _heading("Attempts")
        yield table


def _outcome(outcome: dict[str, object]) -> str:
    told = [str(outcome[name]) for name in ("status", "code", "detail", "external_id") if outcome.get(name)]
    return visible(" · ".join(told))[:400]


def _late_replies(entries: Sequence[LedgerEntry]) -> Iterator[RenderableType]:
    if not entries:
        yield Text("Late replies: none")
        return
    yield _heading("Late replies")
    for entry in entries:
        data = "" if entry.data is None else f" {json.dumps(entry.data, ensure_ascii=False)}"
        yield Text(visible(f"{_time(entry.at)}  {entry.summary}{data}"))


def _callbacks(deliveries: Sequence[Delivery]) -> Iterator[RenderableType]:
    table = _table("Callback", "State", "Tries", "Since", "Next", "What failed last")
    for one in deliveries:
        due = "" if one.due_at is None else _time(one.due_at)
        state = Text(one.state.replace("_", " "), style="bold red" if one.state is DeliveryState.GIVEN_UP else "")
        table.add_row(one.type, state, str(one.tries), _time(one.created_at), due, Text(visible(one.problem or "")))
    yield _heading("Callbacks")
    yield table


def happened(entry: LedgerEntry) -> Text:
    """One line of an operation's history."""
    who = entry.actor.principal + ("" if entry.actor.authenticated else " (unauthenticated)")
    return Text.assemble(
        (f"{_time(entry.at)}  ", "dim"),
        (f"{visible(entry.kind):<22}", "bold"),
        f" {visible(entry.summary)}",
        (f"  [{visible(who)}]", "dim"),
    )


def answered(answer: Answer) -> Text:
    """What became of a command."""
    repeated = " (as it was answered before)" if answer.status == "repeated" else ""
    state = answer.state.replace("_", " ")
    return Text(visible(f"{answer.detail or answer.status}{repeated}\nThe operation is {state}, r{answer.revision}."))


def session_shown(session: SessionRecord) -> Text:
    """How a session stands."""
    paused = "paused: nothing new is dispatched" if session.paused else "not paused"
    return Text(visible(f"{session.session} in the workspace {session.workspace}: epoch {session.epoch}, {paused}."))


def session_answered(answer: SessionAnswer) -> Text:
    """What became of a session's command."""
    told = f" {answer.operations} operations were told." if answer.operations else ""
    paused = ", paused" if answer.paused else ""
    return Text(visible(f"{answer.detail}.{told}\nThe session is in epoch {answer.epoch}{paused}."))


def _preview(preview: Preview) -> Table:
    table = _table(*(visible(column) for column in preview.columns))
    for cells in preview.rows:
        table.add_row(*(Text(visible(cell)) for cell in cells))
    if preview.omitted_rows:
        table.caption = f"and {preview.omitted_rows} more"
    return table


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(Text(column), overflow="fold")
    return table


def _heading(text: str) -> Text:
    return Text(f"\n{text}", style="bold")


def _state(operation: OperationSummary) -> Text:
    return Text(operation.state.replace("_", " "), style=STYLES.get(operation.state, ""))


def _time(at: datetime) -> str:
    return at.astimezone().isoformat(sep=" ", timespec="seconds")
