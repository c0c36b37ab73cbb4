"""The ledger: what happened, in order, appended in the transaction of the change.

Each subject counts its own versions without gaps; each session counts its timeline without gaps, under the session's
row, which is always the last row a transaction locks. Bodies, prompts, file contents and secrets are never in it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sqlalchemy import bindparam, insert, select, update
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from counterfoil.activities.store.prepared import Prepared
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.common import SYSTEM, Actor, canonical_json
from counterfoil.models.errors import ErrorCode, Refusal
from counterfoil.models.operations.outcomes import Evidence
from counterfoil.models.tables import (
    LEDGER,
    SESSIONS,
    ActionSnapshotRow,
    ConsumptionReceiptRow,
    DocumentRow,
    LedgerRow,
    OperationRow,
    PermissionRow,
    SessionRow,
    ToolCallRow,
)

OPERATION = "operation"
Subject = (
    OperationRow | SessionRow | PermissionRow | ToolCallRow | DocumentRow | ActionSnapshotRow | ConsumptionReceiptRow
)
"""What entries are about. Its row counts its versions."""

_KINDS: dict[type[Subject], str] = {
    OperationRow: OPERATION,
    SessionRow: "session",
    PermissionRow: "permission",
    ToolCallRow: "tool_call",
    DocumentRow: "document",
    ActionSnapshotRow: "action_snapshot",
    ConsumptionReceiptRow: "consumption_receipt",
}
DATA_LIMIT_BYTES = 4096

_INSERT = Prepared(insert(LEDGER))
_COUNT_ON = Prepared(
    update(SESSIONS)
    .where(SESSIONS.c.id == bindparam("session"))
    .values(timeline=SESSIONS.c.timeline + bindparam("more"))
    .returning(SESSIONS.c.timeline)
)
_HISTORY = Prepared(
    select(LEDGER)
    .where(
        LEDGER.c.subject_kind == bindparam("kind"),
        LEDGER.c.subject_id == bindparam("subject"),
        LEDGER.c.version > bindparam("after"),
    )
    .order_by(LEDGER.c.version)
    .limit(bindparam("most"))
)


@dataclass(frozen=True)
class Entry:
    """Something to record: its kind, one sentence for people, and whether others' assumptions may rest on it."""

    kind: str
    summary: str
    actor: Actor = SYSTEM
    material: bool = True
    evidence: Evidence | None = None
    data: dict[str, Any] = field(default_factory=dict)


def append(work: UnitOfWork, row: Subject, entry: Entry) -> int:
    """Record something about a subject; returns its version. The subject's row must be locked by this unit.

    The entry is written at the end of the unit, with all others of its session.
    """
    row.ledger_version += 1
    session = row.id if isinstance(row, SessionRow) else row.session
    values = {
        "subject_kind": _kind_of(row),
        "subject_id": row.id,
        "version": row.ledger_version,
        "session": session,
        "kind": str(entry.kind),
        "material": entry.material,
        "actor": entry.actor.model_dump_json(exclude_none=True),
        "scope": entry.actor.scope,
        "evidence": None if entry.evidence is None else entry.evidence.model_dump_json(exclude_none=True),
        "summary": _readable(entry.summary)[:1000],
        "data": _data(entry.data),
        "at": work.now,
    }
    if not work.entries:
        work.last.append(partial(_write, work))
    work.entries.setdefault((session, row.workspace), []).append(values)
    return row.ledger_version


def _kind_of(row: Subject) -> str:
    return _KINDS[type(row)]


async def _write(work: UnitOfWork) -> None:
    """Count the timelines on, in one order everywhere, and write their new entries."""
    for (session, workspace), entries in sorted(work.entries.items()):
        head = await _counted_on(work, session, workspace, len(entries))
        for timeline, values in enumerate(entries, head - len(entries) + 1):
            values["timeline"] = timeline
        await work.session.execute(_INSERT, entries)
    work.entries.clear()


async def _counted_on(work: UnitOfWork, session: str, workspace: str, more: int) -> int:
    """The timeline's new head; from now on this unit holds the session's row, the last it locks."""
    asked = {"session": session, "more": more}
    counted = (await work.session.execute(_COUNT_ON, asked)).scalar()
    if counted is None:
        make = sqlite_insert if work.on_sqlite else postgres_insert
        values = {"id": session, "workspace": workspace, "timeline": 0}
        await work.session.execute(make(SESSIONS).values(values).on_conflict_do_nothing())
        counted = (await work.session.execute(_COUNT_ON, asked)).scalar()
    return int(counted)


def _readable(text: str) -> str:
    """Text every database can keep: PostgreSQL knows no NUL, and neither keeps half a character."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()


def _data(data: dict[str, Any]) -> str | None:
    if not data:
        return None
    text = canonical_json(data)
    if len(text) > DATA_LIMIT_BYTES:
        raise ValueError(f"a ledger entry's data is limited to {DATA_LIMIT_BYTES} bytes, this one has {len(text)}")
    return text.decode()


@dataclass(frozen=True)
class HistoryGap:
    """Entries from `requested` on are not all kept any more: read the present state instead of a partial history."""

    requested: int
    floor: int
    head: int


async def history(work: UnitOfWork, row: Subject, *, after: int = 0, limit: int = 1000) -> list[LedgerRow] | HistoryGap:
    """A subject's entries with versions in (after, head], oldest first; a gap where retention took some.

    Raises `Refusal` (`BAD_REQUEST`) for a version that was never reached.
    """
    if after > row.ledger_version:
        raise Refusal(
            ErrorCode.BAD_REQUEST,
            f"version {after} was never reached; the newest is {row.ledger_version}",
            subject=row.id,
            remedy="ask from a version you were given",
        )
    floor = row.ledger_floor if isinstance(row, OperationRow) else 0
    if after < floor:
        return HistoryGap(requested=after, floor=floor, head=row.ledger_version)
    asked = {"kind": _kind_of(row), "subject": row.id, "after": after, "most": limit}
    return await work.session.all(LedgerRow, _HISTORY, asked)
