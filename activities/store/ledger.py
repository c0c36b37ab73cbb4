"""The ledger: what happened, in order, appended in the transaction of the change.

Each subject counts its own versions without gaps; each session counts its timeline without gaps, under the session's
row, which is always the last row a transaction locks. Bodies, prompts, file contents and secrets are never in it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import bindparam, insert, update
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlmodel import SQLModel, col, select

from counterfoil.activities.store.database import UnitOfWork
from counterfoil.models.common import SYSTEM, Actor, canonical_json
from counterfoil.models.errors import ErrorCode, Refusal
from counterfoil.models.operations.outcomes import Evidence
from counterfoil.models.tables import LedgerRow, OperationRow, SessionRow

OPERATION = "operation"
DATA_LIMIT_BYTES = 4096

_SESSIONS = SQLModel.metadata.tables[str(SessionRow.__tablename__)]
_LEDGER = SQLModel.metadata.tables[str(LedgerRow.__tablename__)]
_INSERT = insert(_LEDGER)
_COUNT_ON = (
    update(_SESSIONS)
    .where(_SESSIONS.c.id == bindparam("session"))
    .values(timeline=_SESSIONS.c.timeline + 1)
    .returning(_SESSIONS.c.timeline)
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


async def append(work: UnitOfWork, row: OperationRow, entry: Entry) -> int:
    """Record something about an operation; returns its version. The operation's row must be locked by this unit."""
    timeline = await _next_on_timeline(work, row)
    row.ledger_version += 1
    values = {
        "subject_kind": OPERATION,
        "subject_id": row.id,
        "version": row.ledger_version,
        "session": row.session,
        "timeline": timeline,
        "kind": str(entry.kind),
        "material": entry.material,
        "actor": entry.actor.model_dump_json(exclude_none=True),
        "scope": entry.actor.scope,
        "evidence": None if entry.evidence is None else entry.evidence.model_dump_json(exclude_none=True),
        "summary": _readable(entry.summary)[:1000],
        "data": _data(entry.data),
        "at": work.now,
    }
    await work.session.exec(_INSERT, params=values)
    return row.ledger_version


async def _next_on_timeline(work: UnitOfWork, row: OperationRow) -> int:
    """Count the session's timeline on; from now on this unit holds the session's row, the last it locks."""
    counted = (await work.session.exec(_COUNT_ON, params={"session": row.session})).scalar_one_or_none()
    if counted is None:
        make = sqlite_insert if work.on_sqlite else postgres_insert
        values = {"id": row.session, "workspace": row.workspace, "timeline": 0}
        await work.session.exec(make(_SESSIONS).values(values).on_conflict_do_nothing())
        counted = (await work.session.exec(_COUNT_ON, params={"session": row.session})).scalar_one()
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


async def history(
    work: UnitOfWork, row: OperationRow, *, after: int = 0, limit: int = 1000
) -> list[LedgerRow] | HistoryGap:
    """An operation's entries with versions in (after, head], oldest first; a gap where retention took some.

    Raises `Refusal` (`BAD_REQUEST`) for a version that was never reached.
    """
    if after > row.ledger_version:
        raise Refusal(
            ErrorCode.BAD_REQUEST,
            f"version {after} was never reached; the newest is {row.ledger_version}",
            subject=row.id,
            remedy="ask from a version you were given",
        )
    if after < row.ledger_floor:
        return HistoryGap(requested=after, floor=row.ledger_floor, head=row.ledger_version)
    query = (
        select(LedgerRow)
        .where(LedgerRow.subject_kind == OPERATION, LedgerRow.subject_id == row.id, LedgerRow.version > after)
        .order_by(col(LedgerRow.version))
        .limit(limit)
    )
    return list((await work.session.exec(query)).all())
