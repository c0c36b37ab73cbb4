"""Documents as hosts use them: append what editors send, capture for an action, consume, review.

Appending and consuming are transactions of the store; a capture runs as a workflow on a worker, so that it survives
whoever asked for it.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial

from temporalio.client import Client, WorkflowFailureError
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.service import RPCError

from counterfoil.activities.documents import snapshots
from counterfoil.activities.documents.capture import holder_of
from counterfoil.activities.documents.loading import Loaded
from counterfoil.activities.documents.system import DocumentSystem
from counterfoil.activities.documents.uses import release
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.common import Actor, canonical_json
from counterfoil.models.documents.anchoring import Quote
from counterfoil.models.documents.applicability import Applicability
from counterfoil.models.documents.captures import CaptureRequest
from counterfoil.models.documents.consumption import CommittedReply, ConsumptionReceipt, Fetched, Reply
from counterfoil.models.documents.heads import Head
from counterfoil.models.documents.receipts import ProjectionReceipt
from counterfoil.models.documents.snapshots import ActionSnapshot, SnapshotReference
from counterfoil.models.documents.targets import DocumentTarget, Selection, target_of
from counterfoil.models.errors import CounterfoilError, ErrorCode, Refusal, Unavailable

INLINE_LIMIT_BYTES = 8 * 1024
"""A capture's request larger than this is put into the blob store, and named."""


class DocumentsClient:
    """Documents of one deployment, as one principal."""

    def __init__(
        self, system: DocumentSystem, temporal: Client, *, task_queue: str, principal: str, timeout: timedelta
    ) -> None:
        self._system = system
        self._temporal = temporal
        self._task_queue = task_queue
        self._actor = Actor(principal=principal, authenticated=True)
        self._timeout = timeout

    # the log

    async def create(self, document_id: str, *, workspace: str, update: bytes | None = None) -> Head:
        """Make a document, empty or with a first Yjs update; the same again changes nothing."""
        return await self._system.log.create(document_id, workspace, update=update, actor=self._actor)

    async def append(self, document_id: str, *updates: bytes, generation: int | None = None) -> Head:
        """Keep updates as they came from an editor: durable when this returns.

        Raises `Refusal`: `MALFORMED_UPDATE`, `NOT_FOUND`, `DOCUMENT_QUARANTINED`, and `HEAD_MOVED` for updates of an
        earlier `generation`.
        """
        return await self._system.log.append(document_id, *updates, generation=generation, actor=self._actor)

    async def replace(self, document_id: str, update: bytes, *, replacing: int) -> Head:
        """Put another document in the place of this one: a new generation, in which old positions mean nothing."""
        return await self._system.log.replace(document_id, update, replacing=replacing, actor=self._actor)

    async def head(self, document_id: str) -> Head:
        """The document's head. Raises `Refusal` (`NOT_FOUND`)."""
        return await self._system.log.head(document_id)

    async def lacking(self, document_id: str, state_vector: bytes) -> bytes:
        """The Yjs update that an editor with this state vector lacks."""
        return await self._system.documents.read(document_id, lambda loaded: loaded.lacking(state_vector))

    async def state_vector(self, document_id: str) -> bytes:
        """What the log has, as a Yjs state vector: an editor sends what is not in it."""
        return await self._system.documents.read(document_id, lambda loaded: loaded.state_vector)

    async def markdown(self, document_id: str) -> str:
        """The canonical Markdown of the newest state."""
        return await self._system.documents.read(document_id, lambda loaded: loaded.projection.markdown)

    async def compact(self, document_id: str) -> Head:
        """Replace the log by one snapshot, now. The upkeep does it regularly."""
        return await self._system.compactor.compact(document_id)

    async def release(self, document_id: str) -> Head:
        """Serve a document again that is in quarantine, after all its parts were checked.

        Raises `Refusal` (`DOCUMENT_QUARANTINED`) naming the part that is still not what it was.
        """
        await self._system.documents.check(document_id)
        await self._system.log.release(document_id, self._actor)
        return await self.head(document_id)

    # targets

    async def target(self, document_id: str, anchor: int, head: int) -> DocumentTarget:
        """The target of a selection, by its two ProseMirror positions in the newest state; either may come first.

        Raises `Refusal`: `TARGET_UNRESOLVED` for an empty selection, `BAD_REQUEST` for a position beyond the end.
        """

        def select(loaded: Loaded) -> DocumentTarget:
            first, last = loaded.index.place_at(anchor), loaded.index.place_at(head)
            return target_of(loaded.index, loaded.text, Selection(document_id, first, last))

        try:
            return await self._system.documents.read(document_id, select)
        except ValueError as error:
            raise Refusal(
                ErrorCode.BAD_REQUEST, str(error), subject=document_id, remedy="select in the newest state"
            ) from error

    # captures

    async def capture(self, request: CaptureRequest) -> ActionSnapshot:
        """Capture a document for one action; the same request gives the same snapshot.

        Raises `Refusal`: `TARGET_UNRESOLVED`, `PROJECTION_MISMATCH`, `DOCUMENT_INCOMPLETE`, `HEAD_MOVED`, …
        """
        argument: dict[str, object] = {"request": request.model_dump(mode="json")}
        content = canonical_json(request)
        if len(content) > INLINE_LIMIT_BYTES:
            ref = await asyncio.to_thread(self._system.blobs.put, content, "application/json")
            argument = {"blob": ref.model_dump(mode="json")}
        asked = self._temporal.execute_workflow(
            "DocumentCapture",
            argument,
            id=f"{self._task_queue}-capture-{request.capture_id}",
            task_queue=self._task_queue,
            result_type=SnapshotReference,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            rpc_timeout=self._timeout,
        )
        try:
            await asyncio.wait_for(asked, self._timeout.total_seconds())
        except TimeoutError as error:
            raise Unavailable(
                ErrorCode.TIMED_OUT,
                f"no worker answered within {self._timeout.total_seconds():g} s",
                subject=request.document_id,
                remedy="check that a worker runs; the capture goes on, and asking again finds it",
            ) from error
        except WorkflowFailureError as error:
            raise _refusal(error, request.document_id) from error
        except RPCError as error:
            raise Unavailable(
                ErrorCode.TEMPORAL_UNAVAILABLE,
                f"Temporal did not take the call: {error.message}",
                subject=request.document_id,
                remedy="check that the Temporal server runs",
            ) from error
        # The same answer as the workflow's, or IDEMPOTENCY_CONFLICT where it was another request's.
        return await self._captured(request)

    async def snapshot(self, snapshot_id: str) -> ActionSnapshot:
        """An action snapshot. Raises `Refusal` (`NOT_FOUND`)."""
        return await self._system.database.read(partial(snapshots.find, snapshot_id=snapshot_id))

    async def let_go(self, snapshot: ActionSnapshot) -> None:
        """Say that the message or action that a snapshot was captured for needs it no more.

        It is removed once nothing else refers to it: no receipt, no recheck, no proposal.
        """
        kind, holder = holder_of(snapshot)

        async def run(work: UnitOfWork) -> None:
            await release(work, kind, holder, subject=snapshot.snapshot_id)

        await self._system.database.run(run)

    # consumption

    async def fetch(
        self, message_id: str, snapshot_id: str, consumer_generation: int, *, conversation: str | None = None
    ) -> Fetched:
        """The frozen view that a message is about, and the receipt that reply and acknowledgement must echo."""
        return await self._system.consumption.fetch(
            message_id, snapshot_id, consumer_generation, conversation=conversation, actor=self._actor
        )

    async def reply(self, reply: Reply) -> CommittedReply:
        """Commit a reply under its receipt. Raises `Refusal`: `RECEIPT_MISMATCH`, `REPLY_CONFLICT`, …"""
        return await self._system.consumption.reply(reply, actor=self._actor)

    async def acknowledge(self, message_id: str, receipt_id: str, reply_id: str) -> ConsumptionReceipt:
        """Say that a message is dealt with."""
        return await self._system.consumption.acknowledge(message_id, receipt_id, reply_id, actor=self._actor)

    # review

    async def publish_receipt(self, document_id: str) -> ProjectionReceipt:
        """Compact the document and publish the receipt of its Markdown: the proof that a review goes by."""
        return await self._system.capturer.receipt(document_id)

    async def current_receipt(self, document_id: str) -> ProjectionReceipt | None:
        """The receipt of the live state, if there is one."""
        return await self._system.review.current(document_id)

    async def applicability(self, document_id: str, *quotes: Quote) -> list[Applicability]:
        """Whether what is quoted can be placed in the document, by its current receipt."""
        return await self._system.review.applicability(document_id, quotes)

    async def _captured(self, request: CaptureRequest) -> ActionSnapshot:
        found = await self._system.database.read(
            lambda work: snapshots.captured(work, request.capture_id, request.digest)
        )
        if found is None:
            raise CounterfoilError(
                ErrorCode.STORE_BEHIND, "the snapshot is not in the store any more", subject=request.capture_id
            )
        return found


def _refusal(failure: WorkflowFailureError, subject: str) -> CounterfoilError:
    cause = failure.cause.cause if isinstance(failure.cause, ActivityError) else failure.cause
    if isinstance(cause, ApplicationError):
        for detail in cause.details:
            known = CounterfoilError.from_details(detail)
            if known is not None:
                return Refusal(known.code, known.detail, subject=known.subject, remedy=known.remedy)
    return CounterfoilError(ErrorCode.INTERNAL, f"the capture failed: {cause}", subject=subject)
