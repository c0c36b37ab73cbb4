"""A tool as its server describes it, what of that is bound by a proposal, and whether values fit its schemas."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from counterfoil.activities.adapters.mcp_tool import schema_check
from counterfoil.models.common import canonical_json, digest_of

SCHEMA_LIMIT_BYTES = 256 * 1024
CHECK_SECONDS = 10.0


@dataclass(frozen=True)
class ToolDescription:
    """What the server says of a tool. `digest` covers everything a person or a model may have relied on."""

    name: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    digest: str
    hints: dict[str, Any]
    task_support: Literal["forbidden", "optional", "required"]


def described(told: dict[str, Any]) -> ToolDescription:
    """A tool from one entry of `tools/list`."""
    kept = {name: value for name, value in told.items() if name not in ("_meta", "icons")}
    return ToolDescription(
        name=told["name"],
        input_schema=told["inputSchema"],
        output_schema=told.get("outputSchema"),
        digest=digest_of(kept),
        hints=told.get("annotations") or {},
        task_support=(told.get("execution") or {}).get("taskSupport") or "forbidden",
    )


async def problems(schema: dict[str, Any], instance: Any) -> list[str]:
    """What of `instance` does not fit `schema`; one sentence each, at most five.

    Checked in a process of its own, for at most ten seconds: nothing fits a schema that takes longer.
    """
    given = canonical_json({"schema": schema, "instance": instance})
    if len(canonical_json(schema)) > SCHEMA_LIMIT_BYTES:
        return [f"the schema is larger than {SCHEMA_LIMIT_BYTES} bytes"]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        str(Path(schema_check.__file__)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={},
    )
    try:
        out, _ = await asyncio.wait_for(process.communicate(given), CHECK_SECONDS)
        return [str(one) for one in json.loads(out)]
    except TimeoutError:
        return [f"the schema cannot be checked within {CHECK_SECONDS:g} s"]
    except ValueError:
        return ["the schema cannot be checked"]
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
