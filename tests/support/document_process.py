"""A process that works on the document `notes` and may be killed anywhere.

Usage: python -m support.document_process <url> <folder> <fault> <what>

Each step is done again by the next process, under the same ids, as whoever asked for it would.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from functools import partial
from pathlib import Path

from counterfoil.activities.adapters.document_edit.desk import Edit
from counterfoil.activities.documents.desk import WorkerDesk
from counterfoil.activities.documents.system import DocumentSystem
from counterfoil.activities.documents.uses import release
from counterfoil.activities.fault_points import checkpoint_of
from counterfoil.activities.store.database import Database
from counterfoil.models.common import digest_bytes
from counterfoil.models.documents.consumption import Reply
from counterfoil.models.errors import ErrorCode, Refusal
from support.documents import Editor, capture_of, passage, system

UPDATES = [Editor(f"line {number}", client_id=number + 10).update() for number in range(5)]
SAID = digest_bytes(b"an answer")


async def append(documents: DocumentSystem) -> None:
    done = (await documents.log.head("notes")).sequence
    for update in UPDATES[done:]:
        await documents.log.append("notes", update)


async def compact(documents: DocumentSystem) -> None:
    await append(documents)
    await documents.compactor.compact("notes")


async def capture(documents: DocumentSystem) -> None:
    await append(documents)
    about = await documents.documents.read("notes", lambda loaded: passage(loaded, "line 3"))
    await documents.capturer.capture(capture_of("c1", about, message_id="m1", conversation="chat"))


async def consume(documents: DocumentSystem) -> None:
    await append(documents)
    snapshot = await documents.capturer.capture(capture_of("c1", message_id="m1", conversation="chat"))
    receipt = (await documents.consumption.fetch("m1", snapshot.snapshot_id, 1)).receipt
    await documents.consumption.reply(
        Reply(reply_id="r1", message_id="m1", receipt_id=receipt.receipt_id, content_digest=SAID)
    )
    await documents.consumption.acknowledge("m1", receipt.receipt_id, "r1")


async def edit(documents: DocumentSystem, desk: WorkerDesk) -> None:
    await append(documents)
    update = Editor("edited by the operation", client_id=77).update()
    before, head = await documents.documents.read("notes", lambda loaded: (loaded.update, loaded.head))
    nothing = digest_bytes(b"")
    made = Edit("operation-1", 1, "notes", head, update, before, nothing, nothing)
    await asyncio.to_thread(desk.edit, made)


async def collect(documents: DocumentSystem) -> None:
    await capture(documents)
    for number in range(3):
        documents.blobs.put(b"nobody needs %d" % number)
    try:
        loose = await documents.capturer.capture(capture_of("c0"))
    except Refusal as refusal:
        if refusal.code is not ErrorCode.SNAPSHOT_UNAVAILABLE:
            raise  # else it was forgotten before this process began
    else:
        await documents.database.run(partial(release, kind="capture", holder="c0", subject=loose.snapshot_id))
    await documents.collector.let_snapshots_go(timedelta(seconds=-5))
    await documents.collector.collect(timedelta(seconds=-5))


async def main(url: str, folder: str, fault: str, what: str) -> None:
    checkpoint = checkpoint_of(None if fault == "none" else fault, Path(folder))
    database = Database(url)
    documents = system(database, Path(folder), checkpoint)
    await documents.log.create("notes", "acme")
    if what == "edit":
        await edit(
            documents, WorkerDesk(database, documents.blobs, documents.documents, documents.consumption, checkpoint)
        )
    else:
        await {"append": append, "compact": compact, "capture": capture, "consume": consume, "collect": collect}[what](
            documents
        )
    await database.close()
    print("done")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
