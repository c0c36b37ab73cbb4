"""What something refers to is kept; the rest is removed, safely while others write."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from random import Random

import pytest

from counterfoil.activities.documents import uses
from counterfoil.activities.documents.system import DocumentSystem
from counterfoil.activities.documents.uses import BeingRemoved, Content, keeping, release, use
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.common import BlobRef
from counterfoil.models.documents.captures import Recheck
from counterfoil.models.documents.consumption import FetchOutcome
from counterfoil.models.errors import CounterfoilError, Refusal
from counterfoil.models.tables import BlobRow
from support.documents import Editor, capture_of

AT_ONCE = timedelta(seconds=-5)
"""However young."""


def there(documents: DocumentSystem, ref: BlobRef) -> bool:
    try:
        documents.blobs.get(ref)
    except CounterfoilError:
        return False
    return True


async def keep(documents: DocumentSystem, content: bytes, holder: str) -> BlobRef:
    async def hold(work: UnitOfWork, refs: list[BlobRef]) -> BlobRef:
        await use(work, refs[0].digest, "test", holder)
        return refs[0]

    return await keeping(documents.database, documents.blobs, [Content(content, "text/plain")], hold)


async def test_snapshots_and_projections_are_kept_as_long_as_something_refers_to_them(documents: DocumentSystem):
    editor = Editor("text")
    await documents.log.create("notes", "acme", update=editor.typed())
    snapshot = await documents.capturer.capture(capture_of("c1"))
    loose = documents.blobs.put(b"nobody needs this")
    editor.add("more")
    await documents.log.append("notes", editor.typed())
    await documents.compactor.compact("notes")

    removed = await documents.collector.collect(AT_ONCE)

    assert (removed, there(documents, loose)) == (1, False)
    assert there(documents, snapshot.snapshot)
    assert there(documents, snapshot.projection)
    await documents.database.run(partial(release, kind="action_snapshot", holder=snapshot.snapshot_id))
    assert await documents.collector.collect(AT_ONCE) == 2
    assert not there(documents, snapshot.snapshot)
    assert await documents.documents.read("notes", lambda loaded: loaded.projection.markdown) == "text\n\nmore\n"


async def test_a_snapshot_is_forgotten_once_nobody_refers_to_it_any_more(documents: DocumentSystem):
    editor = Editor("text")
    await documents.log.create("notes", "acme", update=editor.typed())
    snapshot = await documents.capturer.capture(capture_of("c1", message_id="m1", conversation="chat"))
    checked = await documents.capturer.capture(capture_of("c2", choice=Recheck(snapshot_id=snapshot.snapshot_id)))
    receipt = (await documents.consumption.fetch("m1", snapshot.snapshot_id, 1)).receipt
    editor.add("more")
    await documents.log.append("notes", editor.typed())
    await documents.compactor.compact("notes")
    gone = []
    for kind, holder in (
        ("message", "m1"),
        ("receipt", receipt.receipt_id),
        ("capture", "c2"),
        ("action_snapshot", checked.snapshot_id),
    ):
        gone.append(await documents.collector.let_snapshots_go(AT_ONCE))
        await documents.database.run(partial(release, kind=kind, holder=holder))
    gone.append(await documents.collector.let_snapshots_go(AT_ONCE))

    assert gone == [0, 0, 0, 1, 1]
    await documents.collector.collect(AT_ONCE)
    assert not there(documents, snapshot.snapshot)
    with pytest.raises(Refusal, match="SNAPSHOT_UNAVAILABLE"):
        await documents.capturer.capture(capture_of("c1", message_id="m1", conversation="chat"))
    fetched = await documents.consumption.fetch("m1", snapshot.snapshot_id, 2, conversation="chat")
    assert fetched.receipt.fetch_outcome is FetchOutcome.UNAVAILABLE


async def test_what_was_put_a_moment_ago_is_not_taken_for_unused(documents: DocumentSystem):
    fresh = documents.blobs.put(b"about to be used")

    assert await documents.collector.collect(timedelta(hours=1)) == 0
    assert there(documents, fresh)


async def test_whoever_needs_a_blob_that_is_being_removed_waits_and_puts_it_again(documents: DocumentSystem):
    content = b"wanted again"
    ref = documents.blobs.put(content)
    reached, go_on = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    remove = documents.blobs.remove

    def slowly(digest: str) -> None:
        loop.call_soon_threadsafe(reached.set)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(10)
        remove(digest)

    documents.collector._blobs.remove = slowly  # type: ignore[method-assign]
    collecting = asyncio.create_task(documents.collector.collect(AT_ONCE))
    await reached.wait()

    keeping_it = asyncio.create_task(keep(documents, content, "me"))
    await asyncio.sleep(0.2)
    assert not keeping_it.done()
    go_on.set()
    await collecting
    await keeping_it

    assert there(documents, ref)
    assert await documents.collector.collect(AT_ONCE) == 0


async def test_a_remover_that_died_leaves_a_condemnation_that_runs_out(documents: DocumentSystem):
    ref = documents.blobs.put(b"condemned by the dead")

    async def condemn(work: UnitOfWork) -> None:
        work.session.add(BlobRow(digest=ref.digest, condemned_until=work.now - 3 * uses.REMOVAL))

    await documents.database.run(condemn)

    await keep(documents, b"condemned by the dead", "me")

    assert there(documents, ref)


async def test_a_condemned_blob_is_not_used(documents: DocumentSystem):
    async def condemn(work: UnitOfWork) -> None:
        work.session.add(BlobRow(digest="sha256:" + "0" * 64, condemned_until=work.now + uses.REMOVAL))

    await documents.database.run(condemn)

    with pytest.raises(BeingRemoved):
        await documents.database.run(lambda work: use(work, "sha256:" + "0" * 64, "test", "me"))


async def test_whatever_is_used_is_there_while_everything_unused_is_removed_all_the_time(documents: DocumentSystem):
    random = Random(3)
    contents = [f"content {number}".encode() for number in range(6)]
    done = asyncio.Event()
    missing = 0

    async def holder(name: str) -> None:
        nonlocal missing
        for _ in range(40):
            ref = await keep(documents, random.choice(contents), name)
            await asyncio.sleep(random.random() / 200)
            missing += not there(documents, ref)
            await documents.database.run(partial(release, kind="test", holder=name))

    async def collect() -> int:
        removed = 0
        while not done.is_set():
            removed += await documents.collector.collect(AT_ONCE)
            await asyncio.sleep(0)
        return removed

    collecting = asyncio.create_task(collect())
    await asyncio.gather(*(holder(f"holder {number}") for number in range(4)))
    done.set()

    assert await collecting > 5
    assert missing == 0


async def test_the_note_of_a_writer_that_died_keeps_its_bytes_until_it_is_old(documents: DocumentSystem):
    ref = documents.blobs.put(b"about to be used by the dead")
    now = documents.database.clock()

    async def announce(work: UnitOfWork) -> None:
        await use(work, ref.digest, uses.ABOUT_TO, f"{now.isoformat()} dead")

    await documents.database.run(announce)
    assert await documents.collector.collect(AT_ONCE) == 0

    documents.database.clock = lambda: now + 2 * uses.OLDEST_WRITER
    assert await documents.collector.collect(AT_ONCE) == 1
