"""Positions in a collaborative document: relative ones that survive edits, and the places they resolve to.

A relative position is what Yjs calls one, byte for byte: it names the character or node it stands beside. A place is
where that is now. Offsets outward are UTF-16 code units, as in Yjs and ProseMirror.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from counterfoil.models.documents.nodes import ItemId

Branch: TypeAlias = "ItemId | None"
"""A Yjs type: the item that holds it; None for the document's root fragment."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is now: `offset` counts UTF-16 units in a text node, children in an element or the root.

    This is what Yjs calls an absolute position (a type and an index).
    """

    branch: Branch
    offset: int


class Nowhere(StrEnum):
    """Why a relative position has no place."""

    DELETED = "deleted"
    """The node that it was in is deleted: it had a place once, and has none now."""
    UNRESOLVED = "unresolved"
    """This state of the document does not know what it names: another document's, one from the future, or forgotten."""
