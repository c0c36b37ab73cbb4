"""A document's log: updates kept byte for byte, acknowledged once they are durable, and the head they make.

An update is kept whatever it builds on: one that came before what it builds on waits in the log until that is there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy import bindparam, delete, select

from counterfoil.activities.documents.uses import release
from counterfoil.activities.fault_points import Checkpoint, FaultPoint, no_fault
from counterfoil.activities.store import ledger
from counterfoil.activities.store.database import Database
from counterfoil.activities.store.ledger import Entry
from counterfoil.activities.store.prepared import Prepared
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.common import SYSTEM, Actor, BlobRef, digest_bytes
from counterfoil.models.documents.heads import Head
from counterfoil.models.documents.yjs.update import decode
from counterfoil.models.errors import ErrorCode, Refusal
from counterfoil.models.operations.outcomes import Problem
from counterfoil.models.tables import DOCUMENT_UPDATES, DocumentRow, DocumentUpdateRow

T = TypeVar("T")

UPDATE_LIMIT_BYTES = 16 * 1024 * 1024
LIVE, QUARANTINED = "live", "quarantined"
EMPTY_UPDATE = b"\x00\x00"
ID_LENGTH = 180

_TAIL = Prepared(
    select(DOCUMENT_UPDATES)
    .where(DOCUMENT_UPDATES.c.document_id == bindparam("document"), DOCUMENT_UPDATES.c.sequence > bindparam("after"))
    .order_by(DOCUMENT_UPDATES.c.sequence)
)
_KNOWN = Prepared(
    select(DOCUMENT_UPDATES.c.sequence).where(
        DOCUMENT_UPDATES.c.document_id == bindparam("document"), DOCUMENT_UPDATES.c.digest == bindparam("digest")
    )
)
_DROP = delete(DOCUMENT_UPDATES).where(
    DOCUMENT_UPDATES.c.document_id == bindparam("document"), DOCUMENT_UPDATES.c.sequence <= bindparam("until")
)


@dataclass(frozen=True)
class Tail:
    """A document's row, and the log after some update."""

    row: DocumentRow
    updates: Sequence[DocumentUpdateRow]


class DocumentLog:
    """The log of every document."""

    def __init__(self, database: Database, checkpoint: Checkpoint = no_fault) -> None:
        self._database = database
        self._checkpoint = checkpoint

    async def create(
        self, document_id: str, workspace: str, *, update: bytes | None = None, actor: Actor = SYSTEM
    ) -> Head:
        """Make a document, empty or with a first update. The same again changes nothing.

        Raises `Refusal`: `BAD_REQUEST`, `MALFORMED_UPDATE`, `DOCUMENT_UNSUPPORTED`, `IDEMPOTENCY_CONFLICT`.
        """
        _check_id(document_id)
        if update is not None:
            _check(update)

        async def run(work: UnitOfWork) -> Head:
            row = await work.session.get(DocumentRow, document_id, lock=True)
            if row is not None:
                if row.workspace != workspace:
                    raise Refusal(
                        ErrorCode.IDEMPOTENCY_CONFLICT,
                        "a document of this id is in another workspace",
                        subject=document_id,
                        remedy="give it another id",
                    )
                return head_of(row)
            row = DocumentRow(id=document_id, workspace=workspace, created_at=work.now, updated_at=work.now)
            work.session.add(row)
            note(work, row, "document_created", f"{document_id} was created", actor)
            if update is not None:
                put(work, row, update, actor)
            self._checkpoint(FaultPoint.APPEND_BEFORE_COMMIT)
            return head_of(row)

        return await self._committed(run)

    async def append(
        self, document_id: str, *updates: bytes, generation: int | None = None, actor: Actor = SYSTEM
    ) -> Head:
        """Keep updates: durable, all of them, when this returns. One whose bytes are in the log is not kept twice.

        `generation` is the one that they were made in. Raises `Refusal`: `MALFORMED_UPDATE`, `DOCUMENT_UNSUPPORTED`,
        `NOT_FOUND`, `DOCUMENT_QUARANTINED`, and `HEAD_MOVED` where the document was replaced since.
        """
        for update in updates:
            _check(update)

        async def run(work: UnitOfWork) -> Head:
            row = await locked(work, document_id)
            if generation is not None and generation != row.generation:
                raise Refusal(
                    ErrorCode.HEAD_MOVED,
                    f"the document was replaced: it is in generation {row.generation}, the update is of {generation}",
                    subject=document_id,
                    remedy="load the document anew; what was typed in the old one does not belong to it",
                )
            kept = set()
            for update in updates:
                digest = digest_bytes(update)
                if update == EMPTY_UPDATE or digest in kept or await _is_known(work, document_id, digest):
                    continue
                kept.add(digest)
                put(work, row, update, actor)
            self._checkpoint(FaultPoint.APPEND_BEFORE_COMMIT)
            return head_of(row)

        return await self._committed(run)

    async def replace(self, document_id: str, update: bytes, *, replacing: int, actor: Actor = SYSTEM) -> Head:
        """Put another document in the place of this one, which begins a new generation; `replacing` names the old one.

        Raises `Refusal` as `append` does.
        """
        _check(update)

        async def run(work: UnitOfWork) -> Head:
            row = await locked(work, document_id)
            if row.generation == replacing + 1 and await _is_known(work, document_id, digest_bytes(update)):
                return head_of(row)
            if row.generation != replacing:
                raise Refusal(
                    ErrorCode.HEAD_MOVED,
                    f"the document is in generation {row.generation}, not in {replacing}",
                    subject=document_id,
                    remedy="look at the document, and decide again",
                )
            row.generation += 1
            row.snapshot, row.snapshot_sequence, row.receipt = None, row.sequence, None
            await drop(work, document_id, row.sequence)
            await release(work, "document", document_id)
            note(work, row, "document_replaced", f"generation {row.generation} begins", actor)
            put(work, row, update, actor)
            self._checkpoint(FaultPoint.APPEND_BEFORE_COMMIT)
            return head_of(row)

        return await self._committed(run)

    async def head(self, document_id: str) -> Head:
        """The head. Raises `Refusal` (`NOT_FOUND`)."""

        async def look(work: UnitOfWork) -> Head:
            return head_of(await found(work, document_id))

        return await self._database.read(look)

    async def quarantine(self, document_id: str, detail: str) -> None:
        """Serve nothing from a document any more: a part of it is not what it was."""

        async def run(work: UnitOfWork) -> None:
            row = await work.session.get(DocumentRow, document_id, lock=True)
            if row is None or row.state == QUARANTINED:
                return
            row.state = QUARANTINED
            row.problem = Problem(code=ErrorCode.BLOB_CORRUPT, detail=detail).model_dump_json()
            note(work, row, "document_quarantined", detail, SYSTEM)

        await self._database.run(run)

    async def release(self, document_id: str, actor: Actor = SYSTEM) -> None:
        """Serve a document again. Whoever calls this has checked all its parts."""

        async def run(work: UnitOfWork) -> None:
            row = await work.session.get(DocumentRow, document_id, lock=True)
            if row is not None and row.state == QUARANTINED:
                row.state, row.problem = LIVE, None
                note(work, row, "document_released", "all parts are what they were", actor)

        await self._database.run(run)

    async def _committed(self, run: Callable[[UnitOfWork], Awaitable[T]]) -> T:
        made = await self._database.run(run)
        self._checkpoint(FaultPoint.APPEND_COMMITTED)
        return made


async def found(work: UnitOfWork, document_id: str, *, lock: bool = False) -> DocumentRow:
    """A document's row. Raises `Refusal` (`NOT_FOUND`)."""
    row = await work.session.get(DocumentRow, document_id, lock=lock)
    if row is None:
        raise Refusal(
            ErrorCode.NOT_FOUND, "there is no such document", subject=document_id, remedy="create it before it is used"
        )
    return row


async def locked(work: UnitOfWork, document_id: str) -> DocumentRow:
    """The row of a document that may be written to, locked. Raises `Refusal`: `NOT_FOUND`, `DOCUMENT_QUARANTINED`."""
    row = await found(work, document_id, lock=True)
    require_served(row)
    return row


def require_served(row: DocumentRow) -> None:
    """Raises `Refusal` (`DOCUMENT_QUARANTINED`)."""
    if row.state == QUARANTINED:
        detail = "a part of it is corrupt" if row.problem is None else Problem.model_validate_json(row.problem).detail
        raise Refusal(
            ErrorCode.DOCUMENT_QUARANTINED,
            detail,
            subject=row.id,
            remedy="restore the part that is named from a backup, then release the document",
        )


async def tail(work: UnitOfWork, row: DocumentRow, after: int) -> Tail:
    """The updates after a sequence."""
    asked = {"document": row.id, "after": after}
    return Tail(row, await work.session.all(DocumentUpdateRow, _TAIL, asked))


async def drop(work: UnitOfWork, document_id: str, until: int) -> int:
    """Delete the updates up to a sequence; how many there were."""
    await work.session.flush()
    return (await work.session.execute(_DROP, {"document": document_id, "until": until})).rowcount


def head_of(row: DocumentRow) -> Head:
    """The head that a row says."""
    return Head(generation=row.generation, sequence=row.sequence, snapshot_digest=_snapshot_digest(row))


def snapshot_of(row: DocumentRow) -> BlobRef | None:
    """The snapshot that the log goes on from."""
    return None if row.snapshot is None else BlobRef.model_validate_json(row.snapshot)


def put(work: UnitOfWork, row: DocumentRow, update: bytes, actor: Actor) -> int:
    """Append an update to a locked document; its sequence."""
    row.sequence += 1
    row.updated_at = work.now
    work.session.add(
        DocumentUpdateRow(
            document_id=row.id,
            sequence=row.sequence,
            digest=digest_bytes(update),
            payload=update,
            actor=actor.model_dump_json(exclude_none=True),
            at=work.now,
        )
    )
    return row.sequence


def note(work: UnitOfWork, row: DocumentRow, kind: str, summary: str, actor: Actor, **data: object) -> None:
    """Record something about a document. Its row must be locked by this unit."""
    ledger.append(work, row, Entry(kind=kind, summary=summary, actor=actor, data=data))


def _snapshot_digest(row: DocumentRow) -> str | None:
    ref = snapshot_of(row)
    return None if ref is None else ref.digest


async def _is_known(work: UnitOfWork, document_id: str, digest: str) -> bool:
    return (await work.session.execute(_KNOWN, {"document": document_id, "digest": digest})).first() is not None


def _check(update: bytes) -> None:
    if len(update) > UPDATE_LIMIT_BYTES:
        raise Refusal(
            ErrorCode.INPUT_TOO_LARGE,
            f"the update has {len(update)} bytes, the limit is {UPDATE_LIMIT_BYTES}",
            subject="update",
            remedy="send it in parts",
        )
    decode(update)


def _check_id(document_id: str) -> None:
    if not 0 < len(document_id) <= ID_LENGTH or any(
        character < " " or character == "\x7f" for character in document_id
    ):
        raise Refusal(
            ErrorCode.BAD_REQUEST,
            f"a document's id has 1 to {ID_LENGTH} characters, without control characters",
            subject=document_id[:80],
            remedy="give it another id",
        )
