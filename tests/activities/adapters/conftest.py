"""What adapter tests share: contexts and orders as the runner would make them, over blobs in a folder."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import BaseModel

from counterfoil.activities.adapters.base import AdapterContext, Order, Phase
from counterfoil.activities.fault_points import Checkpoint, no_fault
from counterfoil.models.common import BlobRef, digest_bytes
from counterfoil.models.errors import CounterfoilError, ErrorCode
from counterfoil.models.operations.contract import OperationRequest
from counterfoil.models.operations.outcomes import Prepared


class FolderBlobs:
    """Content-addressed bytes in a folder: the blob store's promises without its database."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def put(self, data: bytes, media_type: str = "application/octet-stream") -> BlobRef:
        digest = digest_bytes(data)
        self._path(digest).write_bytes(data)
        return BlobRef(digest=digest, size_bytes=len(data), media_type=media_type)

    def get(self, ref: BlobRef) -> bytes:
        path = self._path(ref.digest)
        if not path.exists():
            raise CounterfoilError(ErrorCode.BLOB_MISSING, "no such blob", subject=ref.digest)
        data = path.read_bytes()
        if digest_bytes(data) != ref.digest:
            raise CounterfoilError(ErrorCode.BLOB_CORRUPT, "the bytes are not what their name says", subject=ref.digest)
        return data

    def _path(self, digest: str) -> Path:
        return self._folder / digest.removeprefix("sha256:")


@pytest.fixture
def blobs(tmp_path: Path) -> FolderBlobs:
    return FolderBlobs(tmp_path / "blobs")


@pytest.fixture
def make_context(blobs: FolderBlobs) -> Callable[..., AdapterContext]:
    """`make_context(phase=EXECUTE, operation_id="op-test", checkpoint=no_fault, timeout_seconds=30.0)`."""

    def make(
        phase: Phase = Phase.EXECUTE,
        operation_id: str = "op-test",
        checkpoint: Checkpoint = no_fault,
        timeout_seconds: float = 30.0,
    ) -> AdapterContext:
        return AdapterContext(
            phase=phase,
            operation_id=operation_id,
            blobs=blobs,
            now=datetime.now(UTC),
            timeout_seconds=timeout_seconds,
            checkpoint=checkpoint,
        )

    return make


@pytest.fixture
def make_order() -> Callable[..., Order]:
    """`make_order(request, typed_input, prepared=None, generation=1)`; resources as the request names them."""

    def make(
        request: OperationRequest,
        typed_input: BaseModel,
        prepared: Prepared | None = None,
        generation: int = 1,
    ) -> Order:
        return Order(
            request=request,
            resources=request.resources,
            typed_input=typed_input,
            prepared=prepared,
            generation=generation,
            dispatched_at=datetime.now(UTC),
        )

    return make
