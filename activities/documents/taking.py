"""What of a capture follows from one head: target, Markdown, boundaries, digests. No I/O; run beside the document."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TypeVar

from counterfoil.activities.documents.loading import Loaded
from counterfoil.activities.documents.uses import Content
from counterfoil.models.common import BlobRef, digest_bytes
from counterfoil.models.documents.boundaries import AllowedRanges, Boundary, ContextBoundary, EgressBoundary
from counterfoil.models.documents.captures import CaptureRequest, Reach
from counterfoil.models.documents.heads import Head
from counterfoil.models.documents.markdown.projection import Unit
from counterfoil.models.documents.receipts import ProjectionReceipt
from counterfoil.models.documents.snapshots import ActionSnapshot
from counterfoil.models.documents.targets import ActionTarget, DocumentTarget, Repaired, Unresolved, resolve_target
from counterfoil.models.documents.yjs.update import decode_state_vector
from counterfoil.models.errors import ErrorCode, Refusal
from counterfoil.models.tables import DocumentRow

B = TypeVar("B", bound=Boundary)


@dataclass(frozen=True)
class Chosen:
    """The target of a capture, and the snapshot it was taken from, if it was."""

    target: DocumentTarget | None
    snapshot_id: str | None = None


@dataclass(frozen=True)
class Taken:
    """Everything of a capture that follows from one head."""

    head: Head
    content: Content
    markdown: bytes
    losses: int
    state_vector_digest: str
    target: ActionTarget | None
    target_bytes: tuple[int, int]


def take(loaded: Loaded, request: CaptureRequest | None, chosen: Chosen) -> Taken:
    """What is to be admitted and frozen. Raises `Refusal`: `HEAD_MOVED`, `PROJECTION_MISMATCH`, `TARGET_UNRESOLVED`."""
    if request is not None and request.generation not in (None, loaded.head.generation):
        raise Refusal(
            ErrorCode.HEAD_MOVED,
            f"the document is in generation {loaded.head.generation}, the editor has {request.generation}",
            subject=loaded.document_id,
            remedy="load the document anew",
        )
    projection = loaded.projection
    _check_projection(loaded, request)
    content = loaded.snapshot()
    target, target_bytes = None, (0, 0)
    if chosen.target is not None:
        target, target_bytes = _target(loaded, chosen.target, digest_bytes(content.data))
    return Taken(
        head=loaded.head,
        content=content,
        markdown=projection.encoded,
        losses=len(projection.losses),
        state_vector_digest=digest_bytes(loaded.state_vector),
        target=target,
        target_bytes=target_bytes,
    )


def _target(loaded: Loaded, target: DocumentTarget, snapshot_digest: str) -> tuple[ActionTarget, tuple[int, int]]:
    found = resolve_target(loaded.index, loaded.text, target)
    projection = loaded.projection
    if isinstance(found, Unresolved):
        raise _unresolved(loaded.document_id, str(found.reason))
    placed = projection.markdown_range(found.range.start, found.range.end)
    if placed is None:
        raise _unresolved(loaded.document_id, "it has no place in the Markdown")
    made = ActionTarget(
        document_id=loaded.document_id,
        target=target,
        generation=loaded.head.generation,
        snapshot_digest=snapshot_digest,
        text_digest=digest_bytes(found.text.encode()),
        resolution=found.how if isinstance(found, Repaired) else "relative",
        markdown_start=placed[0],
        markdown_end=placed[1],
    )
    return made, (projection.converted(placed[0], Unit.BYTES), projection.converted(placed[1], Unit.BYTES))


def snapshot_of(
    request: CaptureRequest,
    chosen: Chosen,
    taken: Taken,
    row: DocumentRow,
    content: BlobRef,
    receipt: ProjectionReceipt,
) -> ActionSnapshot:
    """The snapshot that is kept."""
    return ActionSnapshot(
        snapshot_id=snapshot_id(request.capture_id),
        capture_id=request.capture_id,
        document_id=request.document_id,
        workspace=row.workspace,
        purpose=request.purpose,
        chosen_by=request.choice.by,
        chosen_from=chosen.snapshot_id,
        conversation=request.conversation,
        message_id=request.message_id,
        label=request.label,
        head=receipt.head,
        snapshot=content,
        state_vector_digest=taken.state_vector_digest,
        projection=receipt.projection,
        losses=taken.losses,
        target=taken.target,
        context=_boundary(ContextBoundary, request.context, taken),
        allowed=_boundary(AllowedRanges, request.changes, taken),
        egress=_boundary(EgressBoundary, request.egress, taken),
        receipt=receipt,
        created_at=receipt.at,
    )


def snapshot_id(capture_id: str) -> str:
    """The id of a capture's snapshot."""
    return f"snapshot-{hashlib.sha256(capture_id.encode()).hexdigest()[:40]}"


def _boundary(kind: type[B], reach: Reach, taken: Taken) -> B:
    if reach is Reach.NOTHING:
        return kind.nothing()
    if reach is Reach.WHOLE or taken.target is None:
        return kind.everything()
    return kind.of(*taken.target_bytes)


def _check_projection(loaded: Loaded, request: CaptureRequest | None) -> None:
    """An editor's own Markdown must be the derived one, where both have seen the same."""
    if request is None or request.projection_digest in (None, loaded.projection.digest):
        return
    seen = None if request.state_vector is None else decode_state_vector(request.state_vector)
    if seen is not None and seen != loaded.state:
        return  # others have typed since: the derived one is newer
    raise Refusal(
        ErrorCode.PROJECTION_MISMATCH,
        "the editor's Markdown is not what the document reads as",
        subject=loaded.document_id,
        remedy="synchronise the document, and serialise it again",
    )


def require_unresolved(loaded: Loaded, target: ActionTarget | None) -> None:
    """A target is exchanged for another only where it is gone. Raises `Refusal` (`NOT_POSSIBLE`)."""
    if target is not None and not isinstance(resolve_target(loaded.index, loaded.text, target.target), Unresolved):
        raise Refusal(
            ErrorCode.NOT_POSSIBLE,
            "the proposal's own target is still in the document: it is not exchanged for another",
            subject=loaded.document_id,
            remedy="check the proposal again with its own target",
        )


def require_same_document(request: CaptureRequest, document_id: str) -> None:
    """Raises `Refusal` (`RESOURCE_MISMATCH`)."""
    if document_id != request.document_id:
        raise Refusal(
            ErrorCode.RESOURCE_MISMATCH,
            "the target is of another document",
            subject=request.document_id,
            remedy="name the document that the target was set in",
        )


def _unresolved(document_id: str, why: str) -> Refusal:
    return Refusal(
        ErrorCode.TARGET_UNRESOLVED,
        f"the target is not in the document any more, or not certainly: {why}",
        subject=document_id,
        remedy="choose the target again; it is never widened",
    )
