"""What a projection does not say. It is declared, never dropped in silence."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from counterfoil.models.documents.nodes import ItemId


class LossKind(StrEnum):
    """What sort of thing is not said."""

    NODE = "node"
    MARK = "mark"
    ATTRIBUTE = "attribute"
    CHARACTER = "character"
    STRUCTURE = "structure"


class Loss(NamedTuple):
    """One thing that the Markdown does not say: where, and what."""

    kind: LossKind
    branch: ItemId | None
    detail: str
