"""The activities of documents: capturing one for an action, and keeping logs short and unused bytes away."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from pydantic import ValidationError
from sqlalchemy import bindparam, select
from temporalio import activity
from temporalio.exceptions import ApplicationError

from counterfoil.activities.documents import log as logs
from counterfoil.activities.documents.system import DocumentSystem
from counterfoil.activities.store.prepared import Prepared
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.common import SYSTEM, BlobRef
from counterfoil.models.documents.captures import CaptureRequest
from counterfoil.models.documents.snapshots import SnapshotReference
from counterfoil.models.documents.upkeep import Upkept
from counterfoil.models.errors import CounterfoilError, ErrorCode, Refusal, what_is_wrong
from counterfoil.models.tables import DOCUMENTS

log = logging.getLogger(__name__)

LONG_TAIL = 200
"""A log with more updates than this after its snapshot is compacted."""
AT_ONCE = 200

_LONG = Prepared(
    select(DOCUMENTS.c.id)
    .where(
        DOCUMENTS.c.state == logs.LIVE,
        DOCUMENTS.c.sequence - DOCUMENTS.c.snapshot_sequence > bindparam("most"),
    )
    .order_by(DOCUMENTS.c.updated_at)
    .limit(AT_ONCE)
)


class DocumentActivities:
    """What the workflows of documents ask to have done."""

    def __init__(self, system: DocumentSystem, *, collect_after: timedelta) -> None:
        self._system = system
        self._collect_after = collect_after

    @activity.defn
    async def capture_document(self, argument: dict[str, Any]) -> SnapshotReference:
        """The action snapshot that a request asks for: `{"request": …}`, or `{"blob": …}` where that is large."""
        with typed():
            snapshot = await self._system.capturer.capture(self._request(argument), actor=SYSTEM)
            return snapshot.reference

    @activity.defn
    async def keep_up_documents(self) -> Upkept:
        """Compact long logs, and remove bytes that nothing uses any more."""
        with typed():
            compacted = 0
            for document_id in await self._system.database.read(_long_logs):
                activity.heartbeat()
                try:
                    await self._system.compactor.compact(document_id)
                    compacted += 1
                except Refusal as refusal:
                    log.warning("%s was not compacted: %s", document_id, refusal)
            activity.heartbeat()
            forgotten = await self._system.collector.let_snapshots_go(self._collect_after)
            activity.heartbeat()
            removed = await self._system.collector.collect(self._collect_after)
            return Upkept(compacted=compacted, forgotten=forgotten, removed=removed)

    def _request(self, argument: dict[str, Any]) -> CaptureRequest:
        try:
            if "blob" in argument:
                ref = BlobRef.model_validate(argument["blob"])
                return CaptureRequest.model_validate_json(self._system.blobs.get(ref))
            return CaptureRequest.model_validate(argument.get("request"))
        except ValidationError as error:
            raise Refusal(
                ErrorCode.BAD_REQUEST,
                what_is_wrong(error, "the request"),
                subject="capture",
                remedy="correct the field that is named",
            ) from error


async def _long_logs(work: UnitOfWork) -> list[str]:
    found: list[str] = (await work.session.execute(_LONG, {"most": LONG_TAIL})).scalars()
    return found


@contextmanager
def typed() -> Iterator[None]:
    """Let our own errors leave an activity as typed application errors: refusals for good, the rest to be retried."""
    try:
        yield
    except CounterfoilError as error:
        raise ApplicationError(
            error.detail, error.as_details(), type=error.code, non_retryable=isinstance(error, Refusal)
        ) from error
