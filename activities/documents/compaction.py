"""Replaces a document's log by one snapshot: under compare-and-set, and only what the snapshot holds.

The snapshot is the loaded document, encoded, which forgets deleted text; where updates wait for others that are not
there, everything is merged and kept. Rows are deleted in the transaction that names the snapshot, and their number must
be the one that was merged. Cut off anywhere, either the old state stands or the new one does.
"""

from __future__ import annotations

from counterfoil.activities.documents import log as logs
from counterfoil.activities.documents.loading import Documents
from counterfoil.activities.documents.uses import Content, keeping, release, use
from counterfoil.activities.fault_points import Checkpoint, FaultPoint, no_fault
from counterfoil.activities.store.blobs import BlobStore
from counterfoil.activities.store.database import Database
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.common import BlobRef
from counterfoil.models.documents.heads import Head
from counterfoil.models.errors import ErrorCode, Refusal
from counterfoil.models.tables import DocumentRow

TRIES = 5


class Moved(Exception):
    """The head is not the one that was worked from."""


class Compactor:
    """Compacts documents' logs."""

    def __init__(
        self, database: Database, blobs: BlobStore, documents: Documents, checkpoint: Checkpoint = no_fault
    ) -> None:
        self._database = database
        self._blobs = blobs
        self._documents = documents
        self._checkpoint = checkpoint

    async def compact(self, document_id: str) -> Head:
        """The head after its log was compacted. Updates that come meanwhile stay in the log.

        Raises `Refusal` (`HEAD_MOVED`) where other compactions win each time, and as `Documents.read` does.
        """
        for _ in range(TRIES):
            base, content = await self._documents.read(document_id, lambda loaded: (loaded.head, loaded.snapshot()))
            try:
                return await self._committed(document_id, base, content)
            except Moved:
                continue
        raise head_moved(document_id)

    async def _committed(self, document_id: str, base: Head, content: Content) -> Head:
        async def swap(work: UnitOfWork, refs: list[BlobRef]) -> Head:
            (ref,) = refs
            row = await logs.locked(work, document_id)
            if logs.snapshot_of(row) == ref and row.snapshot_sequence == base.sequence:
                return logs.head_of(row)  # an earlier, doubtful commit of this
            if (row.generation, logs.head_of(row).snapshot_digest) != (base.generation, base.snapshot_digest):
                raise Moved
            await put_in_place(work, row, ref, base.sequence)
            self._checkpoint(FaultPoint.COMPACT_BEFORE_COMMIT)
            return logs.head_of(row)

        head = await keeping(
            self._database,
            self._blobs,
            [content],
            swap,
            lambda: self._checkpoint(FaultPoint.COMPACT_BLOB_PUT),
        )
        self._checkpoint(FaultPoint.COMPACT_COMMITTED)
        return head


async def put_in_place(work: UnitOfWork, row: DocumentRow, ref: BlobRef, sequence: int) -> None:
    """Let the log go on from a snapshot that holds the updates up to `sequence`, and delete exactly those."""
    merged = sequence - row.snapshot_sequence
    await release(work, "document", row.id)
    await use(work, ref.digest, "document", row.id)
    row.snapshot, row.snapshot_sequence, row.receipt = ref.model_dump_json(), sequence, None
    if await logs.drop(work, row.id, sequence) != merged:
        raise Moved


def head_moved(document_id: str) -> Refusal:
    """The refusal of work that others have overtaken each time."""
    return Refusal(
        ErrorCode.HEAD_MOVED,
        "the document changed each time while this was worked out; nothing was changed",
        subject=document_id,
        remedy="ask again",
    )
