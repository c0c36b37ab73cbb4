"""Fetching a frozen view, replying under its receipt, acknowledging: each one transaction, recorded with the snapshot.

A fetch ends in a receipt, whether the view can be opened or not. A newer consumer generation fences the older ones.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass

from pydantic import ValidationError
from sqlalchemy import bindparam, func, select

from counterfoil.activities.documents import snapshots
from counterfoil.activities.fault_points import Checkpoint, FaultPoint, no_fault
from counterfoil.activities.store import ledger
from counterfoil.activities.store.blobs import BlobStore
from counterfoil.activities.store.database import Database
from counterfoil.activities.store.ledger import Entry
from counterfoil.activities.store.prepared import Prepared
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.common import SYSTEM, Actor, digest_of
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
        self,
        message_id: str,
        snapshot_id: str,
        consumer_generation: int,
        *,
        conversation: str | None = None,
        actor: Actor = SYSTEM,
    ) -> Fetched:
        """The frozen view that a message is about, and a receipt for it; the same receipt again in one generation.

        A snapshot that is missing, or that fails its checksum, has a receipt too: it says `unavailable`, so that the
        turn does not wait for ever. Raises `Refusal` (`RECEIPT_MISMATCH`) for a snapshot of another message or a
        generation that was taken over; `Unavailable` where the stores are away, which says nothing of the view.
        """
        snapshot, view, reason = await self._opened(message_id, snapshot_id, conversation)
        asked = _Asked(message_id, snapshot_id, consumer_generation, conversation, snapshot, reason)
        receipt = await self._database.run(lambda work: self._received(work, asked, actor))
        self._checkpoint(FaultPoint.FETCH_COMMITTED)
        return Fetched(receipt=receipt, view=view if receipt.fetch_outcome is FetchOutcome.AVAILABLE else None)

    async def _opened(
        self, message_id: str, snapshot_id: str, conversation: str | None
    ) -> tuple[ActionSnapshot | None, FrozenView | None, str]:
        try:
            snapshot = await self._database.read(lambda work: snapshots.find(work, snapshot_id))
        except ValidationError:
            return None, None, "its record cannot be read"
        except Refusal as refusal:
            return None, None, refusal.detail
        if snapshot.message_id not in (None, message_id) or conversation not in (None, snapshot.conversation):
            raise Refusal(
                ErrorCode.RECEIPT_MISMATCH,
                "the snapshot was captured for another message or conversation",
                subject=message_id,
                remedy="fetch the snapshot that the message names",
            )
        view, reason = await asyncio.to_thread(self._view, snapshot)
        return snapshot, view, reason

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

    async def _received(self, work: UnitOfWork, asked: _Asked, actor: Actor) -> ConsumptionReceipt:
        receipt_id = _receipt_id(asked)
        row = await work.session.get(ConsumptionReceiptRow, receipt_id, lock=True)
        if row is not None:
            receipt = _receipt(row)
            if receipt.fetch_outcome is FetchOutcome.AVAILABLE and asked.reason:
                raise Refusal(
                    ErrorCode.SNAPSHOT_UNAVAILABLE,
                    f"it was opened before in this generation, and cannot be any more: {asked.reason}",
                    subject=asked.snapshot_id,
                    remedy="begin a new generation, whose receipt says that it cannot be opened",
                )
            return receipt
        newest = await _newest(work, asked.message_id)
        if asked.generation < newest:
            raise Refusal(
                ErrorCode.RECEIPT_MISMATCH,
                f"generation {newest} has taken over from generation {asked.generation}",
                subject=asked.message_id,
                remedy="stop: a newer attempt is at work",
            )
        snapshot = asked.snapshot
        if snapshot is not None:
            await snapshots.refer_to(work, snapshot.snapshot_id, "receipt", receipt_id)
        receipt = _new_receipt(asked, receipt_id, work)
        row = ConsumptionReceiptRow(
            id=receipt_id,
            message_id=asked.message_id,
            snapshot_id=asked.snapshot_id,
            consumer_generation=asked.generation,
            workspace="" if snapshot is None else snapshot.workspace,
            session=receipt.conversation or f"message/{asked.message_id}"[:200],
            contract=receipt.model_dump_json(exclude={"reply_id", "acknowledged_at"}),
            at=work.now,
        )
        work.session.add(row)
        summary = f"generation {asked.generation} opened {asked.snapshot_id}: {receipt.fetch_outcome}"
        _note(work, row, "action_snapshot_fetched", summary, actor, outcome=receipt.fetch_outcome)
        self._checkpoint(FaultPoint.FETCH_BEFORE_COMMIT)
        return receipt

    async def _replied(self, work: UnitOfWork, reply: Reply, actor: Actor) -> CommittedReply:
        row, receipt = await _echoed(work, reply.message_id, reply.receipt_id)
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
        summary = f"the reply {reply.reply_id} {how} by generation {receipt.consumer_generation}"
        _note(work, row, "reply_committed", summary, actor, reply=reply.reply_id, content=reply.content_digest)
        self._checkpoint(FaultPoint.REPLY_BEFORE_COMMIT)
        return standing

    async def _acknowledged(
        self, work: UnitOfWork, message_id: str, receipt_id: str, reply_id: str, actor: Actor
    ) -> ConsumptionReceipt:
        row, receipt = await _echoed(work, message_id, receipt_id)
        if row.reply_id != reply_id:
            raise Refusal(
                ErrorCode.RECEIPT_MISMATCH,
                f"the receipt stands behind {row.reply_id or 'no reply'}, not behind {reply_id}",
                subject=message_id,
                remedy="commit the reply under this receipt first",
            )
        if row.acknowledged_at is None:
            row.acknowledged_at = work.now
            summary = f"generation {receipt.consumer_generation} has dealt with {message_id}"
            _note(work, row, "message_acknowledged", summary, actor, reply=reply_id)
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


@dataclass(frozen=True)
class _Asked:
    message_id: str
    snapshot_id: str
    generation: int
    conversation: str | None
    snapshot: ActionSnapshot | None
    reason: str
    """Why the view cannot be had; empty where it can."""


def _new_receipt(asked: _Asked, receipt_id: str, work: UnitOfWork) -> ConsumptionReceipt:
    snapshot = asked.snapshot
    missing = digest_of({"missing": asked.snapshot_id})
    return ConsumptionReceipt(
        receipt_id=receipt_id,
        conversation=asked.conversation if snapshot is None else snapshot.conversation,
        message_id=asked.message_id,
        snapshot_id=asked.snapshot_id,
        consumer_generation=asked.generation,
        fetch_outcome=FetchOutcome.UNAVAILABLE if asked.reason else FetchOutcome.AVAILABLE,
        reason=asked.reason[:1000],
        binding=missing if snapshot is None else snapshot.reference.binding,
        at=work.now,
    )


def _note(work: UnitOfWork, row: ConsumptionReceiptRow, kind: str, summary: str, actor: Actor, **data: object) -> None:
    data |= {"message": row.message_id, "snapshot": row.snapshot_id, "generation": row.consumer_generation}
    ledger.append(work, row, Entry(kind=kind, summary=summary, actor=actor, data=data))


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


def _receipt_id(asked: _Asked) -> str:
    claim = f"{asked.message_id}\x00{asked.snapshot_id}\x00{asked.generation}"
    return f"receipt-{hashlib.sha256(claim.encode()).hexdigest()[:40]}"
