"""Who needs what is kept, and how what nobody needs is removed while others write.

A blob is put first and then used, in the transaction that refers to it. A remover condemns a blob that nothing uses, in a
transaction; then deletes its bytes; then forgets it. Whoever meets a condemned blob waits until it is forgotten, and puts
the bytes again. A remover that died leaves a condemnation that runs out, and deletes nothing after that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

from sqlalchemy import bindparam, delete, select

from counterfoil.activities.fault_points import Checkpoint, FaultPoint, no_fault
from counterfoil.activities.store.blobs import BlobStore
from counterfoil.activities.store.database import Database
from counterfoil.activities.store.prepared import Prepared
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.errors import ErrorCode, Unavailable
from counterfoil.models.tables import CONDEMNED, USES, CondemnedRow, UseRow

T = TypeVar("T")

GRACE = timedelta(days=1)
"""How old a blob must be before it counts as unused: bytes are put a moment before they are referred to."""
REMOVAL = timedelta(seconds=30)
PAUSE_SECONDS = 0.05
TRIES = 40

_USED = Prepared(select(USES.c.holder).where(USES.c.subject == bindparam("subject")).limit(1))
_RELEASE = delete(USES).where(USES.c.holder_kind == bindparam("kind"), USES.c.holder == bindparam("holder"))
_RELEASE_ONE = delete(USES).where(
    USES.c.subject == bindparam("subject"),
    USES.c.holder_kind == bindparam("kind"),
    USES.c.holder == bindparam("holder"),
)


class BeingRemoved(Exception):
    """A blob that this transaction needs is being removed: put it again, and try again."""


async def use(work: UnitOfWork, subject: str, kind: str, holder: str) -> None:
    """Note that something is needed. Raises `BeingRemoved`."""
    if await work.session.get(CondemnedRow, subject, lock=True) is not None:
        raise BeingRemoved(subject)
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
    database: Database, put: Callable[[], Awaitable[None]], work: Callable[[UnitOfWork], Awaitable[T]]
) -> T:
    """Put bytes and run a transaction that uses them, again where they were just being removed.

    Raises `Unavailable` (`STORE_UNAVAILABLE`) where that lasts.
    """
    for _ in range(TRIES):
        await put()
        try:
            return await database.run(work)
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
        await work.session.execute(delete(CONDEMNED).where(CONDEMNED.c.until < work.now - REMOVAL))

    await database.run(forget)


class Collector:
    """Removes blobs that nothing uses."""

    def __init__(self, database: Database, blobs: BlobStore, checkpoint: Checkpoint = no_fault) -> None:
        self._database = database
        self._blobs = blobs
        self._checkpoint = checkpoint

    async def collect(self, grace: timedelta = GRACE) -> int:
        """Remove what nothing has used for that long; how many blobs were removed."""
        removed = 0
        for digest in await asyncio.to_thread(self._blobs.digests, older_than=self._database.clock() - grace):
            removed += await self._remove(digest)
        return removed

    async def _remove(self, digest: str) -> bool:
        async def condemn(work: UnitOfWork) -> bool:
            row = await work.session.get(CondemnedRow, digest, lock=True)
            if row is not None and row.until >= work.now:
                return False  # another remover is at it
            if row is None and await is_used(work, digest):
                return False
            if row is None:
                work.session.add(CondemnedRow(digest=digest, until=work.now + REMOVAL))
            else:
                row.until = work.now + REMOVAL
            self._checkpoint(FaultPoint.CONDEMN_BEFORE_COMMIT)
            return True

        async def forget(work: UnitOfWork) -> None:
            await work.session.execute(delete(CONDEMNED).where(CONDEMNED.c.digest == digest))
            self._checkpoint(FaultPoint.FORGET_BEFORE_COMMIT)

        if not await self._database.run(condemn):
            return False
        self._checkpoint(FaultPoint.CONDEMNED)
        await asyncio.wait_for(asyncio.to_thread(self._blobs.remove, digest), REMOVAL.total_seconds() / 2)
        self._checkpoint(FaultPoint.REMOVED)
        await self._database.run(forget)
        return True
