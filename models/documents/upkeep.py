"""What the regular upkeep of documents did."""

from __future__ import annotations

from counterfoil.models.common import Stored


class Upkept(Stored):
    """How many logs were compacted, and how many unused blobs were removed."""

    compacted: int
    removed: int
