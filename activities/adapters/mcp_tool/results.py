"""What a tool answered, as an operation keeps it: texts scrubbed and bounded, images and sound as blobs."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from typing import Any

from counterfoil.activities.adapters.base import BlobAccess
from counterfoil.activities.adapters.mcp_tool.references import Secrets
from counterfoil.models.operations.outcomes import TypedResult

RESULT_KIND = "mcp.tool"
MOST_BLOCKS = 200
_ERROR_CHARACTERS = 500


def typed_result(
    *, server: str, tool: str, result: dict[str, Any], misfits: list[str], secrets: Secrets, blobs: BlobAccess
) -> TypedResult:
    """A tool's answer. `misfits` is what of its structured content does not fit the schema it declared. Blocking."""
    blocks: list[dict[str, Any]] = result["content"]
    data: dict[str, Any] = {
        "server": server,
        "tool": tool,
        "content": [_kept(block, secrets, blobs) for block in blocks[:MOST_BLOCKS]],
        "omitted_blocks": max(0, len(blocks) - MOST_BLOCKS),
    }
    if result.get("structuredContent") is not None:
        data["structured"] = secrets.scrub_json(result["structuredContent"])
    if misfits:
        data["misfits"] = [secrets.scrub(one) for one in misfits]
    said = f"{tool} on {server} says it is done"
    return TypedResult(
        kind=RESULT_KIND,
        summary=f"{said}, and its answer does not fit its own schema" if misfits else said,
        data=data,
    )


def error_text(result: dict[str, Any], secrets: Secrets) -> str:
    """What a tool says of its failure: its texts, in at most 500 characters."""
    texts = [str(block.get("text")) for block in result["content"] if block.get("type") == "text"]
    return secrets.scrub(" ".join(texts))[:_ERROR_CHARACTERS] or "it gives no reason"


def structured_of(result: dict[str, Any]) -> Any:
    """A tool's answer as JSON: its structured content, or the JSON that its first text is; None where neither is."""
    if result.get("structuredContent") is not None:
        return result["structuredContent"]
    for block in result["content"]:
        if block.get("type") == "text":
            try:
                return json.loads(str(block.get("text")))
            except ValueError:
                return None
    return None


def _kept(block: dict[str, Any], secrets: Secrets, blobs: BlobAccess) -> dict[str, Any]:
    match block.get("type"):
        case "text":
            return {"type": "text", "text": secrets.scrub(str(block.get("text", "")))}
        case "image" | "audio":
            blob = _blob(block.get("data"), block.get("mimeType"), secrets, blobs)
            return {"type": block["type"], "blob": blob}
        case "resource":
            return {"type": "resource", **_resource(block.get("resource"), secrets, blobs)}
        case "resource_link":
            named = {name: str(block[name]) for name in ("uri", "name", "mimeType") if name in block}
            return {"type": "resource_link", **{name: secrets.scrub(value) for name, value in named.items()}}
        case _:
            return {"type": "other"}


def _resource(resource: Any, secrets: Secrets, blobs: BlobAccess) -> dict[str, Any]:
    if not isinstance(resource, dict):
        return {}
    kept: dict[str, Any] = {"uri": secrets.scrub(str(resource.get("uri", "")))}
    if "blob" in resource:
        kept["blob"] = _blob(resource["blob"], resource.get("mimeType"), secrets, blobs)
    elif "text" in resource:
        kept["text"] = secrets.scrub(str(resource["text"]))
    return kept


def _blob(encoded: Any, media_type: Any, secrets: Secrets, blobs: BlobAccess) -> dict[str, Any] | None:
    try:
        data = base64.b64decode(str(encoded), validate=True)
    except (binascii.Error, ValueError):
        return None
    usual = isinstance(media_type, str) and re.fullmatch(r"[\w.+-]{1,64}/[\w.+-]{1,64}", media_type)
    put: Callable[..., Any] = blobs.put
    ref = put(secrets.scrub_bytes(data), media_type if usual else "application/octet-stream")
    kept: dict[str, Any] = ref.model_dump(mode="json")
    return kept
