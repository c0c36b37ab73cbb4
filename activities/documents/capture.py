"""Captures a document for one action: the stable protocol, on the server.

Wait until the log covers what the editor has seen; load; resolve the target; derive the Markdown; hash; put the bytes;
then, in one transaction under the row, check that the head has not moved, let the log go on from this very snapshot,
publish the projection receipt and keep the action snapshot. Where the head moved, all of it is done again: a few times
beside the writers, and the last time with the row held, so that it ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from counterfoil.activities.documents import log as logs
from counterfoil.activities.documents import snapshots
from counterfoil.activities.documents.compaction import Moved, head_moved, put_in_place
from counterfoil.activities.documents.loading import Documents
from counterfoil.activities.documents.taking import (
    Chosen,
    Taken,
    require_same_document,
    require_unresolved,
    snapshot_of,
    take,
)
from counterfoil.activities.documents.uses import ACTION_SNAPSHOT, BeingRemoved, Content, keeping, refer, use
from counterfoil.activities.fault_points import Checkpoint, FaultPoint, no_fault
from counterfoil.activities.store.blobs import BlobStore
from counterfoil.activities.store.database import Database
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.common import SYSTEM, Actor, BlobRef
from counterfoil.models.documents.captures import (
    AffirmedRecheck,
    CaptureRequest,
    Recapture,
    Recheck,
    WorkingOn,
    require_recapturable,
)
from counterfoil.models.documents.receipts import ProjectionReceipt, is_current
from counterfoil.models.documents.snapshots import ActionSnapshot
from counterfoil.models.tables import DocumentRow

T = TypeVar("T")

TRIES = 6
"""How often a capture begins anew. The last time, writers wait for it."""
PATIENCE_SECONDS = 10.0
MARKDOWN = "text/markdown; charset=utf-8"


class Capturer:
    """Takes action snapshots, and projection receipts."""

    def __init__(
        self,
        database: Database,
        blobs: BlobStore,
        documents: Documents,
        checkpoint: Checkpoint = no_fault,
        *,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._database = database
        self._blobs = blobs
        self._documents = documents
        self._checkpoint = checkpoint
        self._patience_seconds = patience_seconds

    async def capture(self, request: CaptureRequest, *, actor: Actor = SYSTEM) -> ActionSnapshot:
        """The snapshot of this capture; the same one again for the same request.

        Raises `Refusal`: `NOT_FOUND`, `DOCUMENT_QUARANTINED`, `DOCUMENT_INCOMPLETE`, `TARGET_UNRESOLVED`,
        `PROJECTION_MISMATCH`, `HEAD_MOVED`, `IDEMPOTENCY_CONFLICT`, `NOT_POSSIBLE` for a second recapture.
        """
        standing = await self._database.read(lambda work: snapshots.captured(work, request.capture_id, request.digest))
        if standing is not None:
            return standing
        chosen = await self._chosen(request)
        if request.state_vector is not None:
            await self._documents.covering(
                request.document_id, request.state_vector, patience_seconds=self._patience_seconds
            )
        for _ in range(TRIES - 1):
            taken = await self._documents.read(request.document_id, lambda loaded: take(loaded, request, chosen))
            try:
                return await self._committed(request, chosen, taken, actor)
            except Moved:
                continue
        return await self._holding(request, chosen, actor)

    async def receipt(self, document_id: str) -> ProjectionReceipt:
        """Compact the document and publish the receipt of its Markdown, as before a review.

        Raises `Refusal`: `NOT_FOUND`, `DOCUMENT_QUARANTINED`, `HEAD_MOVED`.
        """
        for _ in range(TRIES):
            taken = await self._documents.read(document_id, lambda loaded: take(loaded, None, Chosen(None)))
            try:
                return await self._published(document_id, taken)
            except Moved:
                continue
        raise head_moved(document_id)

    async def _published(self, document_id: str, taken: Taken) -> ProjectionReceipt:
        async def publish(work: UnitOfWork, refs: list[BlobRef]) -> ProjectionReceipt:
            receipt = await self._admit(work, document_id, taken, *refs)
            self._checkpoint(FaultPoint.CAPTURE_BEFORE_COMMIT)
            return receipt

        return await self._keeping(taken, publish)

    async def _keeping(self, taken: Taken, work: Callable[[UnitOfWork, list[BlobRef]], Awaitable[T]]) -> T:
        return await keeping(
            self._database,
            self._blobs,
            [taken.content, Content(taken.markdown, MARKDOWN)],
            work,
            lambda: self._checkpoint(FaultPoint.CAPTURE_BLOBS_PUT),
        )

    async def _chosen(self, request: CaptureRequest) -> Chosen:
        match request.choice:
            case WorkingOn(target=target):
                require_same_document(request, target.document_id)
                return Chosen(target)
            case Recapture(snapshot_id=snapshot_id) | Recheck(snapshot_id=snapshot_id):
                first = await self._database.read(lambda work: snapshots.find(work, snapshot_id))
                require_same_document(request, first.document_id)
                if isinstance(request.choice, Recapture):
                    require_recapturable(request, first_choice=first.chosen_by, first_message=first.message_id)
                return Chosen(None if first.target is None else first.target.target, snapshot_id)
            case AffirmedRecheck(snapshot_id=snapshot_id, target=target):
                first = await self._database.read(lambda work: snapshots.find(work, snapshot_id))
                require_same_document(request, first.document_id)
                require_same_document(request, target.document_id)
                if first.target is not None:
                    await self._documents.read(
                        request.document_id, lambda loaded: require_unresolved(loaded, first.target)
                    )
                return Chosen(target, snapshot_id)
            case _:
                return Chosen(None)

    async def _committed(self, request: CaptureRequest, chosen: Chosen, taken: Taken, actor: Actor) -> ActionSnapshot:
        async def commit(work: UnitOfWork, refs: list[BlobRef]) -> ActionSnapshot:
            return await self._commit(work, request, chosen, taken, refs[0], refs[1], actor)

        snapshot = await self._keeping(taken, commit)
        self._checkpoint(FaultPoint.CAPTURE_COMMITTED)
        return snapshot

    async def _holding(self, request: CaptureRequest, chosen: Chosen, actor: Actor) -> ActionSnapshot:
        """Capture with the row held. Writers wait for as long as it takes to read the document and put its bytes."""

        async def run(work: UnitOfWork) -> ActionSnapshot:
            loaded = await self._documents.newest_in(work, request.document_id)
            taken = take(loaded, request, chosen)
            return await self._commit(work, request, chosen, taken, *await self._put(taken), actor)

        async with self._documents.lock_of(request.document_id), self._documents.guarding():
            try:
                snapshot = await self._database.run(run)
            except (Moved, BeingRemoved):
                raise head_moved(request.document_id) from None
            finally:
                self._documents.forget(request.document_id)
        self._checkpoint(FaultPoint.CAPTURE_COMMITTED)
        return snapshot

    async def _put(self, taken: Taken) -> tuple[BlobRef, BlobRef]:
        content = await asyncio.to_thread(self._blobs.put, *taken.content)
        markdown = await asyncio.to_thread(self._blobs.put, taken.markdown, MARKDOWN)
        self._checkpoint(FaultPoint.CAPTURE_BLOBS_PUT)
        return content, markdown

    async def _commit(
        self,
        work: UnitOfWork,
        request: CaptureRequest,
        chosen: Chosen,
        taken: Taken,
        content: BlobRef,
        markdown: BlobRef,
        actor: Actor,
    ) -> ActionSnapshot:
        standing = await snapshots.captured(work, request.capture_id, request.digest)
        if standing is not None:
            return standing
        receipt = await self._admit(work, request.document_id, taken, content, markdown)
        row = await logs.locked(work, request.document_id)
        snapshot = snapshot_of(request, chosen, taken, row, content, receipt)
        snapshots.add(work, snapshot, request.digest, actor)
        for digest in sorted({content.digest, markdown.digest}):
            await use(work, digest, ACTION_SNAPSHOT, snapshot.snapshot_id)
        await refer(work, snapshot.snapshot_id, *holder_of(snapshot))
        if chosen.snapshot_id is not None:
            await snapshots.refer_to(work, chosen.snapshot_id, ACTION_SNAPSHOT, snapshot.snapshot_id)
        self._checkpoint(FaultPoint.CAPTURE_BEFORE_COMMIT)
        return snapshot

    async def _admit(
        self, work: UnitOfWork, document_id: str, taken: Taken, content: BlobRef, markdown: BlobRef
    ) -> ProjectionReceipt:
        """Snapshot and Markdown, admitted together where the head is still the one they were derived from."""
        row = await logs.locked(work, document_id)
        if logs.head_of(row) != taken.head:
            raise Moved
        if logs.snapshot_of(row) != content or row.snapshot_sequence != row.sequence:
            await put_in_place(work, row, content, taken.head.sequence)
        await use(work, markdown.digest, "document", document_id)
        head = logs.head_of(row)
        receipt = ProjectionReceipt(
            document_id=document_id,
            generation=head.generation,
            snapshot_digest=content.digest,
            head=head,
            projection_digest=markdown.digest,
            projection=markdown,
            at=work.now,
        )
        row.receipt = receipt.model_dump_json()
        return receipt


def holder_of(snapshot: ActionSnapshot) -> tuple[str, str]:
    """Who an action snapshot is kept for."""
    if snapshot.message_id is not None:
        return "message", snapshot.message_id
    return "capture", snapshot.capture_id


def current_receipt(row: DocumentRow) -> ProjectionReceipt | None:
    """The receipt of a document's live state, if it has one."""
    if row.receipt is None:
        return None
    receipt = ProjectionReceipt.model_validate_json(row.receipt)
    # The Markdown follows from the snapshot: where that is the live one, so is its digest.
    current = is_current(receipt, row.id, logs.head_of(row), receipt.projection.digest)
    return receipt if current else None
