"""Action snapshots as they are kept: the row that is never changed, and the frozen bytes, checked whenever read."""

from __future__ import annotations

from sqlalchemy import bindparam, select

from counterfoil.activities.documents.uses import refer
from counterfoil.activities.store import ledger
from counterfoil.activities.store.blobs import BlobStore
from counterfoil.activities.store.ledger import Entry
from counterfoil.activities.store.prepared import Prepared
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.common import Actor
from counterfoil.models.documents.snapshots import ActionSnapshot
from counterfoil.models.errors import ErrorCode, Refusal
from counterfoil.models.tables import ACTION_SNAPSHOTS, ActionSnapshotRow

_BY_CAPTURE = Prepared(select(ACTION_SNAPSHOTS).where(ACTION_SNAPSHOTS.c.capture_id == bindparam("capture")))


async def find(work: UnitOfWork, snapshot_id: str) -> ActionSnapshot:
    """A snapshot. Raises `Refusal` (`NOT_FOUND`)."""
    row = await work.session.get(ActionSnapshotRow, snapshot_id)
    if row is None or row.contract is None:
        raise Refusal(
            ErrorCode.NOT_FOUND, "there is no such action snapshot", subject=snapshot_id, remedy="capture the document"
        )
    return ActionSnapshot.model_validate_json(row.contract)


async def refer_to(work: UnitOfWork, snapshot_id: str, kind: str, holder: str) -> ActionSnapshot:
    """A snapshot that somebody needs from now on. Raises `Refusal` (`NOT_FOUND`)."""
    # Locked, so that it is not forgotten between the look and the reference.
    row = await work.session.get(ActionSnapshotRow, snapshot_id, lock=True)
    if row is None or row.contract is None:
        return await find(work, snapshot_id)
    await refer(work, snapshot_id, kind, holder)
    return ActionSnapshot.model_validate_json(row.contract)


async def captured(work: UnitOfWork, capture_id: str, request_digest: str) -> ActionSnapshot | None:
    """The snapshot that this very capture made before. Raises `Refusal` (`IDEMPOTENCY_CONFLICT`)."""
    rows = await work.session.all(ActionSnapshotRow, _BY_CAPTURE, {"capture": capture_id})
    if not rows:
        return None
    if rows[0].request_digest != request_digest:
        raise Refusal(
            ErrorCode.IDEMPOTENCY_CONFLICT,
            "a capture of this id was made for another request",
            subject=capture_id,
            remedy="give each capture a fresh id",
        )
    if rows[0].contract is None:
        raise Refusal(
            ErrorCode.SNAPSHOT_UNAVAILABLE,
            "this capture's snapshot was forgotten, as nobody needed it any more",
            subject=capture_id,
            remedy="capture the document under a fresh id",
        )
    return ActionSnapshot.model_validate_json(rows[0].contract)


def add(work: UnitOfWork, snapshot: ActionSnapshot, request_digest: str, actor: Actor) -> ActionSnapshotRow:
    """Keep a snapshot, and record that it was taken."""
    row = ActionSnapshotRow(
        id=snapshot.snapshot_id,
        capture_id=snapshot.capture_id,
        request_digest=request_digest,
        document_id=snapshot.document_id,
        workspace=snapshot.workspace,
        session=snapshot.conversation or f"document/{snapshot.document_id}",
        message_id=snapshot.message_id,
        contract=snapshot.model_dump_json(),
        ledger_version=0,
        created_at=snapshot.created_at,
    )
    work.session.add(row)
    about = "the whole document" if snapshot.target is None else "a passage"
    note(
        work,
        row,
        "action_snapshot_captured",
        f"{about} of {snapshot.document_id} was captured for {snapshot.purpose}",
        actor,
        head=f"{snapshot.head.generation}.{snapshot.head.sequence}",
        snapshot=snapshot.snapshot.digest,
        projection=snapshot.projection.digest,
        chosen_by=snapshot.chosen_by,
    )
    return row


def note(work: UnitOfWork, row: ActionSnapshotRow, kind: str, summary: str, actor: Actor, **data: object) -> None:
    """Record something about a snapshot. Its row must be locked by this unit."""
    ledger.append(work, row, Entry(kind=kind, summary=summary, actor=actor, data=data))


def frozen_markdown(snapshot: ActionSnapshot, blobs: BlobStore) -> str:
    """The Markdown as it was captured. Raises `CounterfoilError` (`BLOB_MISSING`, `BLOB_CORRUPT`) or `Unavailable`."""
    return blobs.get(snapshot.projection).decode()
