"""What a reviewer is told of proposals: whether each applies to the document as its current receipt has it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from counterfoil.activities.documents import log as logs
from counterfoil.activities.documents.capture import current_receipt
from counterfoil.activities.store.blobs import BlobStore
from counterfoil.activities.store.database import Database
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.documents.anchoring import Quote
from counterfoil.models.documents.applicability import Applicability, NoReceipt, applicability
from counterfoil.models.documents.receipts import ProjectionReceipt
from counterfoil.models.errors import CounterfoilError, Unavailable
from counterfoil.models.tables import DocumentRow


class Review:
    """Judges proposals by the current projection receipt, and by nothing else."""

    def __init__(self, database: Database, blobs: BlobStore) -> None:
        self._database = database
        self._blobs = blobs

    async def current(self, document_id: str) -> ProjectionReceipt | None:
        """The receipt of the live state, if there is one. Raises `Refusal`: `NOT_FOUND`, `DOCUMENT_QUARANTINED`."""
        return current_receipt(await self._row(document_id))

    async def applicability(self, document_id: str, quotes: Sequence[Quote]) -> list[Applicability]:
        """How each quote stands in the Markdown that the current receipt is bound to. Raises `Refusal` as `current`."""
        row = await self._row(document_id)
        receipt = current_receipt(row)
        if receipt is None:
            why = NoReceipt.MISSING if row.receipt is None else NoReceipt.OUTDATED
            return [applicability(quote, None, why) for quote in quotes]
        try:
            markdown = (await asyncio.to_thread(self._blobs.get, receipt.projection)).decode()
        except Unavailable:
            raise
        except (CounterfoilError, UnicodeDecodeError):
            return [applicability(quote, None, NoReceipt.INVALID) for quote in quotes]
        return [applicability(quote, markdown) for quote in quotes]

    async def _row(self, document_id: str) -> DocumentRow:
        async def look(work: UnitOfWork) -> DocumentRow:
            row = await logs.found(work, document_id)
            logs.require_served(row)
            return row

        return await self._database.read(look)
