"""A document's head: which state of it is the newest that is durable."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from counterfoil.models.common import Digest, Stored


class Head(Stored):
    """`generation` is the identity of the document's history: replacing the document begins a new one, in which old
    positions and updates mean nothing. `sequence` counts the updates that were ever appended. `snapshot_digest` is of
    the compacted state that the log goes on from; None before the first.
    """

    generation: Annotated[int, Field(ge=1)]
    sequence: Annotated[int, Field(ge=0)]
    snapshot_digest: Digest | None = None
