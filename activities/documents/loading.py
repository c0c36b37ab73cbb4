"""Documents in memory: loaded from snapshot and log with every checksum checked, kept, and brought up to date.

What is kept belongs to one head; the row says whether it is still the newest. A part that is not what its checksum says
puts the document into quarantine: nothing is served from it, also not from memory.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TypeVar

from counterfoil.activities.documents import log as logs
from counterfoil.activities.documents.log import DocumentLog, Tail
from counterfoil.activities.documents.runtime import YDocument, is_applied, merged
from counterfoil.activities.documents.uses import Content
from counterfoil.activities.store.blobs import BlobStore
from counterfoil.activities.store.database import Database
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.common import BlobRef, digest_bytes
from counterfoil.models.documents.heads import Head
from counterfoil.models.documents.markdown.projection import Projection, project
from counterfoil.models.documents.text import DocumentText
from counterfoil.models.documents.yjs.index import DocumentIndex
from counterfoil.models.documents.yjs.update import covers, decode, decode_state_vector
from counterfoil.models.errors import CounterfoilError, ErrorCode, Refusal, Unavailable

T = TypeVar("T")

KEPT_BYTES = 64 * 1024 * 1024
"""How much of encoded documents is kept in memory; the least recently used go first."""
COVER_PAUSE_SECONDS = 0.05
WHOLE = "application/vnd.yjs.update"
WITH_WAITING = "application/vnd.yjs.update; waiting"
"""The media types of snapshots: whether parts of it wait for others."""


class Corrupt(Exception):
    """A stored part of a document is not what it was. Whoever meets this puts the document into quarantine."""

    def __init__(self, document_id: str, detail: str) -> None:
        super().__init__(detail)
        self.document_id = document_id
        self.detail = detail


@dataclass
class _Derived:
    """What was derived from an earlier head, to go on from."""

    index: tuple[DocumentIndex, bytes] | None = None
    """With the state vector it is of."""
    projection: Projection | None = None


class Loaded:
    """A document at one head. What is derived from it is derived once, when it is first asked for."""

    def __init__(
        self,
        document_id: str,
        workspace: str,
        head: Head,
        document: YDocument,
        size_bytes: int,
        derived: _Derived | None = None,
    ) -> None:
        self.document_id = document_id
        self.workspace = workspace
        self.head = head
        self.size_bytes = size_bytes
        self.waiting: list[bytes] = []
        """Updates that build on others that are not there. They are kept, and not part of what is read."""
        self._document = document
        self._derived = derived or _Derived()

    @cached_property
    def update(self) -> bytes:
        """The whole document as one update, without what was deleted."""
        return self._document.encoded()

    @cached_property
    def state_vector(self) -> bytes:
        """What is in the document, as Yjs encodes it."""
        return self._document.state_vector()

    @cached_property
    def state(self) -> dict[int, int]:
        """The same, by client."""
        return decode_state_vector(self.state_vector)

    @cached_property
    def index(self) -> DocumentIndex:
        """Its nodes and positions."""
        if self._derived.index is not None:
            index, since = self._derived.index
            self._derived.index = None
            try:
                index.apply(self._document.encoded(since))
                return index
            except Refusal:
                return DocumentIndex.build(self.update)
        return DocumentIndex.build(self.update)

    @cached_property
    def text(self) -> DocumentText:
        """Its plain text."""
        return DocumentText.of(self.index.document())

    @cached_property
    def projection(self) -> Projection:
        """Its canonical Markdown."""
        made = project(self.index.document(), self._derived.projection)
        self._derived.projection = None
        return made

    def lacking(self, state_vector: bytes) -> bytes:
        """What somebody with this state vector lacks."""
        return self._document.encoded(state_vector)

    def snapshot(self) -> Content:
        """The bytes to compact to: without deleted text where nothing waits, else with everything kept."""
        if not self.waiting:
            return Content(self.update, WHOLE)
        return Content(merged([self.update, *self.waiting]), WITH_WAITING)

    def advanced(self, head: Head, updates: list[bytes]) -> Loaded:
        """The document at a later head. This one must not be read any more."""
        if not updates:
            self.head = head
            return self
        derived = self._derived
        if "index" in self.__dict__:
            derived.index = (self.index, self.state_vector)
        if "projection" in self.__dict__:
            derived.projection = self.projection
        self._document.apply(updates)
        size_bytes = self.size_bytes + sum(map(len, updates))
        later = Loaded(self.document_id, self.workspace, head, self._document, size_bytes, derived)
        later.waiting = [one for one in [*self.waiting, *updates] if not is_applied(decode(one), later.state)]
        return later


@dataclass
class _Kept:
    lock: asyncio.Lock
    loaded: Loaded | None = None


class Documents:
    """Documents, each loaded once and kept up to date."""

    def __init__(self, database: Database, blobs: BlobStore, log: DocumentLog, *, kept_bytes: int = KEPT_BYTES) -> None:
        self._database = database
        self._blobs = blobs
        self.log = log
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._kept_bytes = kept_bytes

    async def read(self, document_id: str, reading: Callable[[Loaded], T]) -> T:
        """What `reading` makes of the newest state, in a thread; nobody else uses the document meanwhile.

        Raises `Refusal`: `NOT_FOUND`, `DOCUMENT_QUARANTINED`, `DOCUMENT_UNSUPPORTED`; `Unavailable`.
        """
        kept = self._of(document_id)
        async with kept.lock, self.guarding():
            loaded = await self._newest(document_id, kept)
            result = await asyncio.to_thread(reading, loaded)
        self._evict()
        return result

    async def newest_in(self, work: UnitOfWork, document_id: str) -> Loaded:
        """The newest state as this transaction, which holds the row's lock, sees it.

        The caller holds `lock_of`, and is `guarding`.
        """
        kept = self._of(document_id)
        row = await logs.locked(work, document_id)
        known, kept.loaded = kept.loaded, None
        kept.loaded = loaded = await self._brought_up(await self._look(work, document_id, known), known)
        assert loaded.head == logs.head_of(row)
        return loaded

    def lock_of(self, document_id: str) -> asyncio.Lock:
        """Held by whoever uses the document in memory."""
        return self._of(document_id).lock

    async def covering(self, document_id: str, state_vector: bytes, *, patience_seconds: float) -> None:
        """Wait until the document has all that a state vector has seen. Raises `Refusal` (`DOCUMENT_INCOMPLETE`)."""
        wanted = decode_state_vector(state_vector)
        until = asyncio.get_running_loop().time() + patience_seconds
        while True:
            have = await self.read(document_id, lambda loaded: loaded.state)
            if covers(have, wanted):
                return
            if asyncio.get_running_loop().time() >= until:
                raise Refusal(
                    ErrorCode.DOCUMENT_INCOMPLETE,
                    "the log lacks updates that the editor has",
                    subject=document_id,
                    remedy="let the editor send what it has; then ask again",
                )
            await asyncio.sleep(COVER_PAUSE_SECONDS)

    async def check(self, document_id: str) -> None:
        """Read all parts anew, and check them. Raises `Refusal` (`DOCUMENT_QUARANTINED`)."""
        kept = self._of(document_id)
        async with kept.lock, self.guarding():
            kept.loaded = None
            tail = await self._database.read(partial(self._look, document_id=document_id, known=None, released=True))
            await self._brought_up(tail, None)

    def forget(self, document_id: str) -> None:
        """Keep nothing of a document in memory."""
        kept = self._kept.get(document_id)
        if kept is not None:
            kept.loaded = None

    async def _newest(self, document_id: str, kept: _Kept) -> Loaded:
        # Forgetting may come between the look and what is made of it: both go by the same state.
        known, kept.loaded = kept.loaded, None
        tail = await self._database.read(partial(self._look, document_id=document_id, known=known))
        kept.loaded = newest = await self._brought_up(tail, known)
        return newest

    async def _look(self, work: UnitOfWork, document_id: str, known: Loaded | None, released: bool = False) -> Tail:
        row = await logs.found(work, document_id)
        if not released:
            logs.require_served(row)
        after = row.snapshot_sequence
        if known is not None and _goes_on(known, row.generation, after):
            after = known.head.sequence
        return await logs.tail(work, row, after)

    async def _brought_up(self, tail: Tail, known: Loaded | None) -> Loaded:
        row = tail.row
        head = logs.head_of(row)
        if known is not None and _goes_on(known, head.generation, row.snapshot_sequence):
            after = known.head.sequence
        else:
            known, after = None, row.snapshot_sequence
        corrupt = _first_corrupt(tail, after)
        if corrupt is not None:
            raise Corrupt(row.id, corrupt)
        updates = [one.payload for one in tail.updates]
        if known is not None:
            return known if known.head == head else await asyncio.to_thread(known.advanced, head, updates)
        ref = logs.snapshot_of(row)
        whole = ref is not None and ref.media_type == WHOLE
        parts = [*await self._snapshot(row.id, ref), *updates]
        return await asyncio.to_thread(_loaded, row.id, row.workspace, head, parts, whole)

    async def _snapshot(self, document_id: str, ref: BlobRef | None) -> list[bytes]:
        if ref is None:
            return []
        try:
            return [await asyncio.to_thread(self._blobs.get, ref)]
        except Unavailable:
            raise
        except CounterfoilError as error:
            raise Corrupt(document_id, f"its snapshot {ref.digest}: {error.detail}") from error

    @asynccontextmanager
    async def guarding(self) -> AsyncIterator[None]:
        """Put a document into quarantine where a part of it proves corrupt in the block."""
        try:
            yield
        except Corrupt as corrupt:
            self.forget(corrupt.document_id)
            await self.log.quarantine(corrupt.document_id, corrupt.detail)
            raise Refusal(
                ErrorCode.DOCUMENT_QUARANTINED,
                corrupt.detail,
                subject=corrupt.document_id,
                remedy="restore the part that is named from a backup, then release the document",
            ) from corrupt

    def _of(self, document_id: str) -> _Kept:
        kept = self._kept.get(document_id)
        if kept is None:
            kept = self._kept[document_id] = _Kept(asyncio.Lock())
        self._kept.move_to_end(document_id)
        return kept

    def _evict(self) -> None:
        held = sum(kept.loaded.size_bytes for kept in self._kept.values() if kept.loaded is not None)
        for document_id, kept in list(self._kept.items())[:-1]:
            if held <= self._kept_bytes and len(self._kept) < 1000:
                return
            if not kept.lock.locked():
                held -= kept.loaded.size_bytes if kept.loaded is not None else 0
                del self._kept[document_id]


def _goes_on(known: Loaded, generation: int, snapshot_sequence: int) -> bool:
    """Whether what is known and the log after it make the newest state."""
    return known.head.generation == generation and known.head.sequence >= snapshot_sequence


def _first_corrupt(tail: Tail, after: int) -> str | None:
    for expected, row in enumerate(tail.updates, after + 1):
        if row.sequence != expected:
            return f"its update {expected} is missing from the log"
        if digest_bytes(row.payload) != row.digest:
            return f"its update {row.sequence} is not what its checksum says"
    if after + len(tail.updates) != tail.row.sequence:
        return f"its update {after + len(tail.updates) + 1} is missing from the log"
    return None


def _loaded(document_id: str, workspace: str, head: Head, parts: list[bytes], whole: bool) -> Loaded:
    """The document from its parts; `whole`: nothing in the first one waits for others."""
    document = YDocument()
    document.apply(parts)
    loaded = Loaded(document_id, workspace, head, document, sum(map(len, parts)))
    loaded.waiting = [part for part in parts[whole:] if not is_applied(decode(part), loaded.state)]
    return loaded
