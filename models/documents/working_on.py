"""Working on: the reusable target of one document on one device, as a browser keeps it. Pure functions over its state.

It is presentation state: it is in no document, authorises nothing, and is stored under the exact identity of store and
document. Without a target it means the whole document.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, ValidationError

from counterfoil.models.common import SCHEMA_VERSION, Identifier, Stored
from counterfoil.models.documents.captures import WholeDocument, WorkingOn
from counterfoil.models.documents.nodes import ItemId
from counterfoil.models.documents.positions import Place
from counterfoil.models.documents.targets import DocumentTarget, Selection, target_of
from counterfoil.models.documents.text import DocumentText
from counterfoil.models.documents.yjs.index import DocumentIndex
from counterfoil.models.errors import ErrorCode, Refusal


class Whole(Stored):
    """The whole document."""

    state: Literal["whole"] = "whole"


class Begun(Stored):
    """A start cursor is set, and the end is awaited. Until it is set, what was before still stands."""

    state: Literal["begun"] = "begun"
    branch: tuple[int, int] | None
    offset: Annotated[int, Field(ge=0)]
    before: DocumentTarget | None = None


class Set(Stored):
    """A passage is set."""

    state: Literal["set"] = "set"
    target: DocumentTarget


State: TypeAlias = Annotated[Whole | Begun | Set, Field(discriminator="state")]


class Kept(Stored):
    """What is stored, with what it is stored under."""

    schema_version: Literal[1] = SCHEMA_VERSION
    store_id: Identifier
    document_id: Identifier
    working_on: State


def set_by_selection(index: DocumentIndex, text: DocumentText, selection: Selection) -> Set:
    """The current selection, with exact character endpoints. Raises `Refusal` (`TARGET_UNRESOLVED`)."""
    return Set(target=target_of(index, text, selection))


def set_start(state: Whole | Begun | Set, cursor: Place) -> Begun:
    """The start of a passage, by the cursor."""
    before = state.target if isinstance(state, Set) else state.before if isinstance(state, Begun) else None
    branch = None if cursor.branch is None else (cursor.branch.client, cursor.branch.clock)
    return Begun(branch=branch, offset=cursor.offset, before=before)


def set_end(
    state: Whole | Begun | Set, cursor: Place, index: DocumentIndex, text: DocumentText, document_id: str
) -> Set:
    """The end of a passage, by the cursor. Raises `Refusal`: `NOT_POSSIBLE` without a start, or before it."""
    if not isinstance(state, Begun):
        raise _not_now(document_id, "the start is set first", "set the start")
    start = _place(state)
    first, last = text.offset_of(start), text.offset_of(cursor)
    if first is None or last is None or last <= first:
        raise _not_now(document_id, "the end is not after the start", "set the end further on, or the start again")
    return set_by_selection(index, text, Selection(document_id, start, cursor))


def clear() -> Whole:
    """Back to the whole document."""
    return Whole()


def choice_of(state: Whole | Begun | Set) -> WholeDocument | WorkingOn:
    """What an action that uses Working on is about. A start without an end changes nothing yet."""
    target = state.target if isinstance(state, Set) else state.before if isinstance(state, Begun) else None
    return WholeDocument() if target is None else WorkingOn(target=target)


def key_of(store_id: str, document_id: str) -> str:
    """What the state is stored under: exactly this document of exactly this store."""
    return f"counterfoil/working-on/{len(store_id)}:{store_id}/{document_id}"


def encoded(store_id: str, document_id: str, state: Whole | Begun | Set) -> str:
    """The state as it is stored."""
    return Kept(store_id=store_id, document_id=document_id, working_on=state).model_dump_json()


def decoded(stored: str | None, store_id: str, document_id: str) -> Whole | Begun | Set:
    """The state that was stored. What cannot be read, or is of another document, is the whole document."""
    if stored is None:
        return Whole()
    try:
        kept = Kept.model_validate_json(stored)
    except ValidationError:
        return Whole()
    if (kept.store_id, kept.document_id) != (store_id, document_id):
        return Whole()
    return kept.working_on


def _place(state: Begun) -> Place:
    return Place(None if state.branch is None else ItemId(*state.branch), state.offset)


def _not_now(document_id: str, detail: str, remedy: str) -> Refusal:
    return Refusal(ErrorCode.NOT_POSSIBLE, detail, subject=document_id, remedy=remedy)
