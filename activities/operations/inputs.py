"""Large inputs: kept as blobs, so that neither rows nor histories grow with them.

A workflow is started with a whole request, or with one whose input stands in the blob store:
`{"request": {…, "input": {}}, "input_blob": {…}}`. The client sends the second form where the input is large.
"""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter, ValidationError

from counterfoil.activities.store.blobs import BlobStore
from counterfoil.models.common import BlobRef, canonical_json
from counterfoil.models.errors import CounterfoilError, ErrorCode, Refusal
from counterfoil.models.operations.contract import INLINE_LIMIT_BYTES, INPUT_LIMIT_BYTES, OperationRequest

_INPUT: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])
FORM = frozenset({"request", "input_blob"})


def offloaded(request: OperationRequest, blobs: BlobStore) -> tuple[OperationRequest, BlobRef | None]:
    """The request without its large input, and where that is now; a small one stays where it is. Blocking."""
    content = canonical_json(request.input)
    if len(content) <= INLINE_LIMIT_BYTES:
        return request, None
    return request.model_copy(update={"input": {}}), blobs.put(content, "application/json")


def restored(request: OperationRequest, blob: BlobRef, blobs: BlobStore) -> OperationRequest:
    """The whole request again. Blocking; raises `CounterfoilError` (`BLOB_MISSING`, `BLOB_CORRUPT`)."""
    return request.model_copy(update={"input": _INPUT.validate_json(blobs.get(blob))})


def start_argument(request: OperationRequest, blobs: BlobStore | None) -> dict[str, Any]:
    """What a client starts the workflow with. Blocking where the input is large."""
    kept, blob = (request, None) if blobs is None else offloaded(request, blobs)
    whole = kept.model_dump(mode="json")
    return whole if blob is None else {"request": whole, "input_blob": blob.model_dump(mode="json")}


def whole_argument(argument: Any, blobs: BlobStore) -> Any:
    """The request of a start argument in either form, as it would have been sent whole. Blocking.

    Raises `Refusal` (`BAD_REQUEST`, `INPUT_TOO_LARGE`) for a reference that leads to no input.
    """
    if not isinstance(argument, dict) or set(argument) != FORM or not isinstance(argument["request"], dict):
        return argument
    try:
        blob = BlobRef.model_validate(argument["input_blob"])
        if blob.size_bytes > INPUT_LIMIT_BYTES:
            raise Refusal(
                ErrorCode.INPUT_TOO_LARGE,
                f"the input has {blob.size_bytes} bytes, the limit is {INPUT_LIMIT_BYTES}",
                remedy="put the content into a file, and name it in the input",
            )
        return argument["request"] | {"input": _INPUT.validate_json(blobs.get(blob))}
    except ValidationError as error:
        raise _no_input(str(error.errors(include_url=False)[0]["msg"])) from None
    except CounterfoilError as error:
        if error.code not in (ErrorCode.BLOB_MISSING, ErrorCode.BLOB_CORRUPT):
            raise
        raise _no_input(error.detail) from error


def _no_input(detail: str) -> Refusal:
    return Refusal(
        ErrorCode.BAD_REQUEST,
        f"input_blob leads to no input: {detail}",
        remedy="send the request whole, or through the control plane client",
    )
