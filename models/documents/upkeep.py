"""What the regular upkeep of documents did."""

from __future__ import annotations

from counterfoil.models.common import Stored


class Upkept(Stored):
    """How many logs were compacted, snapshots forgotten, and unused blobs removed."""

    compacted: int
    forgotten: int
    removed: int
