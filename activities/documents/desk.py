"""The documents as the edit adapter sees them: blocking calls from its own thread, run on the worker's event loop.

An edit is one row in the document's log and the operation's record of it, in one transaction: found together or not at
all. A record may also say that attempts up to some generation can no longer make the edit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any, TypeVar

from counterfoil.activities.adapters.document_edit.desk import Applied, Edit, Frozen, LiveDocument
from counterfoil.activities.documents import log as logs
from counterfoil.activities.documents import snapshots
from counterfoil.activities.documents.consumption import Consumption
from counterfoil.activities.documents.loading import WHOLE, Documents, Loaded
from counterfoil.activities.documents.uses import Content, keeping, use
from counterfoil.activities.fault_points import Checkpoint, FaultPoint, no_fault
from counterfoil.activities.store.blobs import BlobStore
from counterfoil.activities.store.database import Database
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.common import SYSTEM, BlobRef, Stored
from counterfoil.models.documents.snapshots import ActionSnapshot
from counterfoil.models.errors import CounterfoilError, ErrorCode, Refusal, Unavailable
from counterfoil.models.tables import DocumentEditRow

T = TypeVar("T")
PATIENCE_SECONDS = 50.0


class _Recorded(Stored):
    """An edit that was made, as it is kept."""

    document_id: str
    document_generation: int
    sequence: int
    before: BlobRef
    update: BlobRef
    before_digest: str
    after_digest: str
    at: datetime


class WorkerDesk:
    """A `DocumentDesk`. Made on the worker's event loop."""

    def __init__(
        self,
        database: Database,
        blobs: BlobStore,
        documents: Documents,
        consumption: Consumption,
        checkpoint: Checkpoint = no_fault,
    ) -> None:
        self._database = database
        self._blobs = blobs
        self._documents = documents
        self._consumption = consumption
        self._checkpoint = checkpoint
        self._loop = asyncio.get_running_loop()

    def look(self, document_id: str, reading: Callable[[LiveDocument], T]) -> T:
        """What `reading` makes of the document now."""
        return self._run(self._documents.read(document_id, lambda loaded: reading(_live(loaded))))

    def snapshot(self, operation_id: str, snapshot_id: str, receipt_id: str | None) -> Frozen:
        """The snapshot a proposal is drafted from, its frozen view checked; it is kept for the proposal."""
        return self._run(self._snapshot(operation_id, snapshot_id, receipt_id))

    def edit(self, edit: Edit) -> Applied:
        """Append the edit while its head is the newest, once an operation."""
        return self._run(self._edit(edit))

    def settle(self, operation_id: str, document_id: str, generation: int) -> Applied | None:
        """The operation's edit; where there is none, its attempts up to `generation` are ruled out."""
        return self._run(self._settle(operation_id, document_id, generation))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        running = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return running.result(PATIENCE_SECONDS)
        except TimeoutError:
            running.cancel()
            raise Unavailable(
                ErrorCode.STORE_UNAVAILABLE, "the documents do not answer", subject="documents", remedy="ask again"
            ) from None

    async def _snapshot(self, operation_id: str, snapshot_id: str, receipt_id: str | None) -> Frozen:
        async def refer_to(work: UnitOfWork) -> ActionSnapshot:
            snapshot = await snapshots.refer_to(work, snapshot_id, "proposal", operation_id)
            await self._consumption.supporting(work, snapshot, receipt_id)
            return snapshot

        snapshot = await self._database.run(refer_to)
        try:
            markdown = await asyncio.to_thread(snapshots.frozen_markdown, snapshot, self._blobs)
        except Unavailable:
            raise
        except CounterfoilError as error:
            raise Refusal(
                ErrorCode.SNAPSHOT_UNAVAILABLE,
                f"the frozen view cannot be opened: {error.detail}",
                subject=snapshot_id,
                remedy="capture the document again",
            ) from error
        return Frozen(snapshot, markdown)

    async def _edit(self, edit: Edit) -> Applied:
        contents = [Content(edit.before, WHOLE), Content(edit.update, WHOLE)]
        recorded = await keeping(
            self._database, self._blobs, contents, lambda work, refs: self._append(work, edit, refs[0], refs[1])
        )
        self._checkpoint(FaultPoint.EDIT_COMMITTED)
        return await self._applied(recorded)

    async def _append(self, work: UnitOfWork, edit: Edit, before: BlobRef, update: BlobRef) -> _Recorded:
        row = await work.session.get(DocumentEditRow, edit.operation_id, lock=True)
        if row is not None and row.applied is not None:
            return _Recorded.model_validate_json(row.applied)
        if row is not None and row.fence >= edit.generation:
            raise Refusal(
                ErrorCode.FENCED,
                f"attempt {edit.generation} may not edit any more: attempts up to {row.fence} were ruled out",
                subject=edit.document_id,
                remedy="nothing to do: the observer's answer stands",
            )
        document = await logs.locked(work, edit.document_id)
        if logs.head_of(document) != edit.expected:
            raise Refusal(
                ErrorCode.HEAD_MOVED, "the document changed", subject=edit.document_id, remedy="work the edit out anew"
            )
        if row is None:
            row = DocumentEditRow(operation_id=edit.operation_id, document_id=edit.document_id, at=work.now)
            work.session.add(row)
        sequence = logs.put(work, document, edit.update, SYSTEM)
        recorded = _Recorded(
            document_id=edit.document_id,
            document_generation=document.generation,
            sequence=sequence,
            before=before,
            update=update,
            before_digest=edit.before_digest,
            after_digest=edit.after_digest,
            at=work.now,
        )
        row.applied, row.at = recorded.model_dump_json(), work.now
        for digest in sorted({before.digest, update.digest}):
            await use(work, digest, "edit", edit.operation_id)
        summary = f"the operation {edit.operation_id} edited it"
        logs.note(work, document, "document_edited", summary, SYSTEM, operation=edit.operation_id, sequence=sequence)
        self._checkpoint(FaultPoint.EDIT_BEFORE_COMMIT)
        return recorded

    async def _settle(self, operation_id: str, document_id: str, generation: int) -> Applied | None:
        async def run(work: UnitOfWork) -> _Recorded | None:
            row = await work.session.get(DocumentEditRow, operation_id, lock=True)
            if row is not None and row.applied is not None:
                return _Recorded.model_validate_json(row.applied)
            if row is None and generation > 0:
                row = DocumentEditRow(operation_id=operation_id, document_id=document_id, at=work.now)
                work.session.add(row)
            if row is not None:
                row.fence = max(row.fence, generation)
            return None

        recorded = await self._database.run(run)
        return None if recorded is None else await self._applied(recorded)

    async def _applied(self, recorded: _Recorded) -> Applied:
        return Applied(
            document_id=recorded.document_id,
            document_generation=recorded.document_generation,
            sequence=recorded.sequence,
            before=await asyncio.to_thread(self._blobs.get, recorded.before),
            update=await asyncio.to_thread(self._blobs.get, recorded.update),
            before_digest=recorded.before_digest,
            after_digest=recorded.after_digest,
            at=recorded.at,
        )


def _live(loaded: Loaded) -> LiveDocument:
    return LiveDocument(
        document_id=loaded.document_id,
        head=loaded.head,
        update=loaded.update,
        index=loaded.index,
        text=loaded.text,
        projection=loaded.projection,
    )
