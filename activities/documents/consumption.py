"""Fetching a frozen view, replying under its receipt, acknowledging: each one transaction, recorded with the snapshot.

A fetch ends in a receipt, whether the view can be opened or not. A newer consumer generation fences the older ones.
"""

from __future__ import annotations

import asyncio
import hashlib

from sqlalchemy import bindparam, func, select

from counterfoil.activities.documents import snapshots
from counterfoil.activities.fault_points import Checkpoint, FaultPoint, no_fault
from counterfoil.activities.store.blobs import BlobStore
from counterfoil.activities.store.database import Database
from counterfoil.activities.store.prepared import Prepared
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.common import SYSTEM, Actor
from counterfoil.models.documents.boundaries import shown
from counterfoil.models.documents.consumption import (
    CommittedReply,
    ConsumptionReceipt,
    Fetched,
    FetchOutcome,
    FrozenView,
    Reply,
    require_echo,
    require_same_reply,
    require_supported,
)
from counterfoil.models.documents.snapshots import ActionSnapshot
from counterfoil.models.errors import CounterfoilError, ErrorCode, Refusal, Unavailable
from counterfoil.models.tables import (
    CONSUMPTION_RECEIPTS,
    REPLIES,
    ActionSnapshotRow,
    ConsumptionReceiptRow,
    ReplyRow,
)

_NEWEST = Prepared(
    select(func.max(CONSUMPTION_RECEIPTS.c.consumer_generation)).where(
        CONSUMPTION_RECEIPTS.c.message_id == bindparam("message")
    )
)
_OF_MESSAGE = Prepared(select(REPLIES).where(REPLIES.c.message_id == bindparam("message")))


class Consumption:
    """What agents fetch, and what they say they have seen."""

    def __init__(self, database: Database, blobs: BlobStore, checkpoint: Checkpoint = no_fault) -> None:
        self._database = database
        self._blobs = blobs
        self._checkpoint = checkpoint

    async def fetch(
        self, message_id: str, snapshot_id: str, consumer_generation: int, *, actor: Actor = SYSTEM
    ) -> Fetched:
        """The frozen view that a message is about, and a receipt for it; the same receipt again in one generation.

        Raises `Refusal`: `NOT_FOUND` for a snapshot that never was, `RECEIPT_MISMATCH` for one of another message or
        for a generation that was taken over; `Unavailable` where the stores are away, which says nothing of the view.
        """
        try:
            snapshot = await self._database.read(lambda work: _of_message(work, message_id, snapshot_id))
            view, reason = await asyncio.to_thread(self._view, snapshot)
        except ValueError as error:
            raise Refusal(
                ErrorCode.SNAPSHOT_UNAVAILABLE,
                f"the snapshot's record cannot be read: {error}"[:500],
                subject=snapshot_id,
            ) from error
        receipt = await self._database.run(
            lambda work: self._received(work, snapshot, message_id, consumer_generation, reason, actor)
        )
        self._checkpoint(FaultPoint.FETCH_COMMITTED)
        return Fetched(receipt=receipt, view=view if receipt.fetch_outcome is FetchOutcome.AVAILABLE else None)

    async def reply(self, reply: Reply, *, actor: Actor = SYSTEM) -> CommittedReply:
        """Commit a reply under its receipt; the standing one again where it is the same.

        A later generation may take up what an earlier one committed before it died: only where both receipts bind the
        same conversation, message, snapshot and context. Raises `Refusal`: `RECEIPT_MISMATCH`, `REPLY_CONFLICT`,
        `SNAPSHOT_UNAVAILABLE` for a proposal without a view.
        """
        committed = await self._database.run(lambda work: self._replied(work, reply, actor))
        self._checkpoint(FaultPoint.REPLY_COMMITTED)
        return committed

    async def acknowledge(
        self, message_id: str, receipt_id: str, reply_id: str, *, actor: Actor = SYSTEM
    ) -> ConsumptionReceipt:
        """Say that a message is dealt with: by this reply, under this receipt. Harmless when repeated."""
        receipt = await self._database.run(
            lambda work: self._acknowledged(work, message_id, receipt_id, reply_id, actor)
        )
        self._checkpoint(FaultPoint.ACKNOWLEDGE_COMMITTED)
        return receipt

    async def supporting(self, work: UnitOfWork, snapshot: ActionSnapshot, receipt_id: str | None) -> None:
        """That whoever proposes from a snapshot has seen it. Raises `Refusal`."""
        if receipt_id is None:
            if snapshot.message_id is None:
                return
            raise Refusal(
                ErrorCode.RECEIPT_MISMATCH,
                "the snapshot was captured for a message, and no receipt shows that it was opened",
                subject=snapshot.snapshot_id,
                remedy="name the receipt of the fetch in `receipt_id`",
            )
        row = await work.session.get(ConsumptionReceiptRow, receipt_id)
        receipt = None if row is None else _receipt(row)
        if receipt is None or receipt.snapshot_id != snapshot.snapshot_id:
            raise Refusal(
                ErrorCode.RECEIPT_MISMATCH,
                "there is no such receipt of this snapshot",
                subject=snapshot.snapshot_id,
                remedy="name the receipt of the fetch that showed this snapshot",
            )
        require_supported(receipt, snapshot.snapshot_id)

    def _view(self, snapshot: ActionSnapshot) -> tuple[FrozenView | None, str]:
        try:
            markdown = snapshots.frozen_markdown(snapshot, self._blobs)
            self._blobs.get(snapshot.snapshot)
        except Unavailable:
            raise
        except CounterfoilError as error:
            return None, error.detail
        return shown_view(snapshot, markdown), ""

    async def _received(
        self,
        work: UnitOfWork,
        snapshot: ActionSnapshot,
        message_id: str,
        generation: int,
        reason: str,
        actor: Actor,
    ) -> ConsumptionReceipt:
        taken = await _locked(work, snapshot.snapshot_id)
        receipt_id = _receipt_id(message_id, snapshot.snapshot_id, generation)
        row = await work.session.get(ConsumptionReceiptRow, receipt_id)
        if row is not None:
            receipt = _receipt(row)
            if receipt.fetch_outcome is FetchOutcome.AVAILABLE and reason:
                raise Refusal(
                    ErrorCode.SNAPSHOT_UNAVAILABLE,
                    f"it was opened before in this generation, and cannot be any more: {reason}",
                    subject=snapshot.snapshot_id,
                    remedy="begin a new generation, whose receipt says that it cannot be opened",
                )
            return receipt
        newest = await _newest(work, message_id)
        if generation < newest:
            raise Refusal(
                ErrorCode.RECEIPT_MISMATCH,
                f"generation {newest} has taken over from generation {generation}",
                subject=message_id,
                remedy="stop: a newer attempt is at work",
            )
        receipt = ConsumptionReceipt(
            receipt_id=receipt_id,
            conversation=snapshot.conversation,
            message_id=message_id,
            snapshot_id=snapshot.snapshot_id,
            consumer_generation=generation,
            fetch_outcome=FetchOutcome.UNAVAILABLE if reason else FetchOutcome.AVAILABLE,
            reason=reason[:1000],
            binding=snapshot.reference.binding,
            at=work.now,
        )
        work.session.add(
            ConsumptionReceiptRow(
                id=receipt_id,
                message_id=message_id,
                snapshot_id=snapshot.snapshot_id,
                consumer_generation=generation,
                contract=receipt.model_dump_json(exclude={"reply_id", "acknowledged_at"}),
                reply_id=None,
                acknowledged_at=None,
                at=work.now,
            )
        )
        snapshots.note(
            work,
            taken,
            "action_snapshot_fetched",
            f"generation {generation} opened it for {message_id}: {receipt.fetch_outcome}",
            actor,
            receipt=receipt_id,
            outcome=receipt.fetch_outcome,
        )
        self._checkpoint(FaultPoint.FETCH_BEFORE_COMMIT)
        return receipt

    async def _replied(self, work: UnitOfWork, reply: Reply, actor: Actor) -> CommittedReply:
        row, receipt = await _echoed(work, reply.message_id, reply.receipt_id)
        taken = await _locked(work, receipt.snapshot_id)
        if reply.proposes:
            require_supported(receipt, reply.message_id)
        standing = await _standing(work, reply)
        if standing is not None:
            require_same_reply(standing, reply, receipt)
        if row.reply_id is not None and standing is not None:
            return standing
        row.reply_id = reply.reply_id
        how = "was taken up again" if standing is not None else "was committed"
        if standing is None:
            standing = CommittedReply(
                reply_id=reply.reply_id,
                message_id=reply.message_id,
                receipt_id=receipt.receipt_id,
                content_digest=reply.content_digest,
                bound_to=receipt.bound_to,
                at=work.now,
            )
            work.session.add(
                ReplyRow(
                    reply_id=reply.reply_id,
                    message_id=reply.message_id,
                    contract=standing.model_dump_json(),
                    at=work.now,
                )
            )
        snapshots.note(
            work,
            taken,
            "reply_committed",
            f"the reply {reply.reply_id} {how} by generation {receipt.consumer_generation}",
            actor,
            receipt=receipt.receipt_id,
            content=reply.content_digest,
        )
        self._checkpoint(FaultPoint.REPLY_BEFORE_COMMIT)
        return standing

    async def _acknowledged(
        self, work: UnitOfWork, message_id: str, receipt_id: str, reply_id: str, actor: Actor
    ) -> ConsumptionReceipt:
        row, receipt = await _echoed(work, message_id, receipt_id)
        taken = await _locked(work, receipt.snapshot_id)
        if row.reply_id != reply_id:
            raise Refusal(
                ErrorCode.RECEIPT_MISMATCH,
                f"the receipt stands behind {row.reply_id or 'no reply'}, not behind {reply_id}",
                subject=message_id,
                remedy="commit the reply under this receipt first",
            )
        if row.acknowledged_at is None:
            row.acknowledged_at = work.now
            snapshots.note(
                work,
                taken,
                "message_acknowledged",
                f"generation {receipt.consumer_generation} has dealt with {message_id}",
                actor,
                receipt=receipt_id,
                reply=reply_id,
            )
        self._checkpoint(FaultPoint.ACKNOWLEDGE_BEFORE_COMMIT)
        return _receipt(row)


def shown_view(snapshot: ActionSnapshot, markdown: str) -> FrozenView:
    """What of a snapshot may be shown outside: the text within both its context and its egress boundary."""
    text = shown(markdown, snapshot.context, snapshot.egress)
    target = (
        None if snapshot.target is None else text.placed(snapshot.target.markdown_start, snapshot.target.markdown_end)
    )
    return FrozenView(
        document_id=snapshot.document_id,
        label=snapshot.label,
        text=text.text,
        omitted=text.omitted,
        target_start=None if target is None else target[0],
        target_end=None if target is None else target[1],
        losses=snapshot.losses,
    )


async def _of_message(work: UnitOfWork, message_id: str, snapshot_id: str) -> ActionSnapshot:
    snapshot = await snapshots.find(work, snapshot_id)
    if snapshot.message_id is not None and snapshot.message_id != message_id:
        raise Refusal(
            ErrorCode.RECEIPT_MISMATCH,
            "the snapshot was captured for another message",
            subject=message_id,
            remedy="fetch the snapshot that the message names",
        )
    return snapshot


async def _locked(work: UnitOfWork, snapshot_id: str) -> ActionSnapshotRow:
    row = await work.session.get(ActionSnapshotRow, snapshot_id, lock=True)
    assert row is not None
    return row


async def _newest(work: UnitOfWork, message_id: str) -> int:
    return int((await work.session.execute(_NEWEST, {"message": message_id})).scalar() or 0)


async def _echoed(
    work: UnitOfWork, message_id: str, receipt_id: str
) -> tuple[ConsumptionReceiptRow, ConsumptionReceipt]:
    row = await work.session.get(ConsumptionReceiptRow, receipt_id, lock=True)
    found = None if row is None else _receipt(row)
    receipt = require_echo(found, message_id, await _newest(work, message_id))
    assert row is not None
    return row, receipt


async def _standing(work: UnitOfWork, reply: Reply) -> CommittedReply | None:
    row = await work.session.get(ReplyRow, reply.reply_id)
    if row is None:
        rows = await work.session.all(ReplyRow, _OF_MESSAGE, {"message": reply.message_id})
        row = rows[0] if rows else None
    return None if row is None else CommittedReply.model_validate_json(row.contract)


def _receipt(row: ConsumptionReceiptRow) -> ConsumptionReceipt:
    receipt = ConsumptionReceipt.model_validate_json(row.contract)
    return receipt.model_copy(update={"reply_id": row.reply_id, "acknowledged_at": row.acknowledged_at})


def _receipt_id(message_id: str, snapshot_id: str, generation: int) -> str:
    claim = hashlib.sha256(f"{message_id}\x00{snapshot_id}\x00{generation}".encode()).hexdigest()
    return f"receipt-{claim[:40]}"
