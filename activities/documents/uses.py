"""Who needs what is kept, and how what nobody needs is removed while others write.

Whoever is about to refer to a blob notes that first, in a transaction of its own; then puts the bytes; then refers to
them, in the transaction that also ends the note. A remover condemns a blob that nobody needs or is about to; then
deletes its bytes; then forgets it. Both lock the blob's row, so that one of them comes first. Whoever meets a condemned
blob waits until it is forgotten. A remover that died leaves a condemnation that runs out, and deletes nothing after
that; a writer that died leaves a note, which keeps the bytes until it is old.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple, TypeVar

from sqlalchemy import bindparam, delete, select

from counterfoil.activities.fault_points import Checkpoint, FaultPoint, no_fault
from counterfoil.activities.store.blobs import BlobStore
from counterfoil.activities.store.database import Database
from counterfoil.activities.store.prepared import Prepared
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.common import BlobRef, digest_bytes
from counterfoil.models.errors import ErrorCode, Unavailable
from counterfoil.models.tables import ACTION_SNAPSHOTS, BLOBS, USES, ActionSnapshotRow, BlobRow, UseRow

T = TypeVar("T")

GRACE = timedelta(days=1)
"""How old bytes must be before they count as unused."""
OLDEST_WRITER = timedelta(hours=1)
"""How long a note of what is about to be used stands at least."""
REMOVAL = timedelta(seconds=30)
PAUSE_SECONDS = 0.05
TRIES = 40
ABOUT_TO = "about_to"
ACTION_SNAPSHOT = "action_snapshot"
"""Kinds of holders: a writer, by its note; a snapshot, by its id."""

_USED = Prepared(select(USES.c.holder).where(USES.c.subject == bindparam("subject")).limit(1))
_UNNEEDED = Prepared(
    select(ACTION_SNAPSHOTS.c.id)
    .where(
        ACTION_SNAPSHOTS.c.created_at < bindparam("before"),
        ACTION_SNAPSHOTS.c.contract.is_not(None),
        ~select(USES.c.holder).where(USES.c.subject == ACTION_SNAPSHOTS.c.id).exists(),
    )
    .order_by(ACTION_SNAPSHOTS.c.created_at)
    .limit(1000)
)
_RELEASE = delete(USES).where(USES.c.holder_kind == bindparam("kind"), USES.c.holder == bindparam("holder"))
_RELEASE_ONE = delete(USES).where(
    USES.c.subject == bindparam("subject"),
    USES.c.holder_kind == bindparam("kind"),
    USES.c.holder == bindparam("holder"),
)


class Content(NamedTuple):
    """Bytes to keep."""

    data: bytes
    media_type: str


class BeingRemoved(Exception):
    """A blob that this transaction needs is being removed: wait, and try again."""


async def use(work: UnitOfWork, digest: str, kind: str, holder: str) -> None:
    """Note that a blob is needed. Raises `BeingRemoved`."""
    row = await work.session.get(BlobRow, digest, lock=True)
    if row is None:
        work.session.add(BlobRow(digest=digest, condemned_until=None))
    elif row.condemned_until is not None:
        raise BeingRemoved(digest)
    await refer(work, digest, kind, holder)


async def refer(work: UnitOfWork, subject: str, kind: str, holder: str) -> None:
    """Note that something is needed that is no blob, or a blob that cannot be condemned now."""
    if await work.session.get(UseRow, (subject, kind, holder)) is None:
        work.session.add(UseRow(subject=subject, holder_kind=kind, holder=holder))


async def release(work: UnitOfWork, kind: str, holder: str, *, subject: str | None = None) -> None:
    """A holder needs nothing any more, or this one thing."""
    await work.session.flush()
    if subject is None:
        await work.session.execute(_RELEASE, {"kind": kind, "holder": holder})
    else:
        await work.session.execute(_RELEASE_ONE, {"subject": subject, "kind": kind, "holder": holder})


async def is_used(work: UnitOfWork, subject: str) -> bool:
    """Whether anybody needs it."""
    return (await work.session.execute(_USED, {"subject": subject})).first() is not None


async def keeping(
    database: Database,
    blobs: BlobStore,
    contents: Sequence[Content],
    work: Callable[[UnitOfWork, list[BlobRef]], Awaitable[T]],
    put: Callable[[], None] = lambda: None,
) -> T:
    """Put bytes and run a transaction that refers to them by `use`; `put` is called in between.

    Raises `Unavailable` (`STORE_UNAVAILABLE`) where bytes that are needed are being removed without an end.
    """
    note = f"{database.clock().isoformat()} {uuid.uuid4().hex}"
    digests = sorted({digest_bytes(content.data) for content in contents})

    async def announce(unit: UnitOfWork) -> None:
        for digest in digests:
            await use(unit, digest, ABOUT_TO, note)

    async def run(unit: UnitOfWork) -> T:
        made = await work(unit, refs)
        await release(unit, ABOUT_TO, note)
        return made

    await _announced(database, announce)
    refs = [await asyncio.to_thread(blobs.put, content.data, content.media_type) for content in contents]
    put()
    try:
        return await database.run(run)
    except Exception:
        await database.run(lambda unit: release(unit, ABOUT_TO, note))
        raise


async def _forget_notes(work: UnitOfWork, until: datetime) -> None:
    """End the notes of writers that died."""
    await work.session.execute(delete(USES).where(USES.c.holder_kind == ABOUT_TO, USES.c.holder < until.isoformat()))


async def _announced(database: Database, announce: Callable[[UnitOfWork], Awaitable[None]]) -> None:
    for _ in range(TRIES):
        try:
            return await database.run(announce)
        except BeingRemoved:
            await _finish_removals(database)
            await asyncio.sleep(PAUSE_SECONDS)
    raise Unavailable(
        ErrorCode.STORE_UNAVAILABLE,
        "bytes that are needed are being removed, and that does not end",
        subject="blobs",
        remedy="this is tried again by itself",
    )


async def _finish_removals(database: Database) -> None:
    """Forget condemnations whose remover has died: it deletes nothing any more."""

    async def forget(work: UnitOfWork) -> None:
        await work.session.execute(delete(BLOBS).where(BLOBS.c.condemned_until < work.now - REMOVAL))

    await database.run(forget)


class Collector:
    """Forgets action snapshots that nobody needs, and removes blobs that nothing uses."""

    def __init__(self, database: Database, blobs: BlobStore, checkpoint: Checkpoint = no_fault) -> None:
        self._database = database
        self._blobs = blobs
        self._checkpoint = checkpoint

    async def collect(self, grace: timedelta = GRACE) -> int:
        """Remove what nothing has used for that long; how many blobs were removed."""
        removed = 0
        await self._database.run(partial(_forget_notes, until=self._database.clock() - max(grace, OLDEST_WRITER)))
        for digest in await asyncio.to_thread(self._blobs.digests, older_than=self._database.clock() - grace):
            removed += await self._remove(digest)
        return removed

    async def let_snapshots_go(self, grace: timedelta = GRACE) -> int:
        """Forget action snapshots that nobody has needed for that long; how many. Their bytes are collected later."""
        asked = {"before": self._database.clock() - grace}

        async def find(work: UnitOfWork) -> list[str]:
            found: list[str] = (await work.session.execute(_UNNEEDED, asked)).scalars()
            return found

        async def forget(work: UnitOfWork, snapshot_id: str) -> bool:
            row = await work.session.get(ActionSnapshotRow, snapshot_id, lock=True)
            if row is None or row.contract is None or await is_used(work, snapshot_id):
                return False
            # The row stays, without its content: an id that was given once is not given again.
            row.contract = None
            await release(work, ACTION_SNAPSHOT, snapshot_id)
            self._checkpoint(FaultPoint.LET_GO_BEFORE_COMMIT)
            return True

        gone = 0
        for snapshot_id in await self._database.read(find):
            gone += await self._database.run(partial(forget, snapshot_id=snapshot_id))
        return gone

    async def _remove(self, digest: str) -> bool:
        async def condemn(work: UnitOfWork) -> bool:
            row = await work.session.get(BlobRow, digest, lock=True)
            if row is None:
                row = BlobRow(digest=digest, condemned_until=None)
                work.session.add(row)
            elif row.condemned_until is not None and row.condemned_until >= work.now:
                return False  # another remover is at it
            if await is_used(work, digest):
                return False
            row.condemned_until = work.now + REMOVAL
            self._checkpoint(FaultPoint.CONDEMN_BEFORE_COMMIT)
            return True

        async def forget(work: UnitOfWork) -> None:
            await work.session.execute(delete(BLOBS).where(BLOBS.c.digest == digest))
            self._checkpoint(FaultPoint.FORGET_BEFORE_COMMIT)

        if not await self._database.run(condemn):
            return False
        self._checkpoint(FaultPoint.CONDEMNED)
        await asyncio.wait_for(asyncio.to_thread(self._blobs.remove, digest), REMOVAL.total_seconds() / 2)
        self._checkpoint(FaultPoint.REMOVED)
        await self._database.run(forget)
        return True
