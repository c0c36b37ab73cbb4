"""Compaction: deleted words are forgotten, waiting parts are kept, and no row goes that was not merged."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest
from sqlalchemy import select

from counterfoil.activities.documents import log as logs
from counterfoil.activities.documents.system import DocumentSystem
from counterfoil.activities.store.database import Database
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.tables import DOCUMENT_UPDATES, DocumentRow
from support.documents import Editor, system


async def stored(documents: DocumentSystem) -> tuple[bytes, list[int]]:
    """The snapshot's bytes, and the numbers of the updates in the log."""

    async def look(work: UnitOfWork) -> tuple[DocumentRow, list[int]]:
        found = await work.session.execute(select(DOCUMENT_UPDATES.c.sequence).order_by(DOCUMENT_UPDATES.c.sequence))
        return await logs.found(work, "notes"), found.scalars()

    row, sequences = await documents.database.read(look)
    ref = logs.snapshot_of(row)
    return (b"" if ref is None else documents.blobs.get(ref)), sequences


async def markdown(documents: DocumentSystem) -> str:
    documents.documents.forget("notes")
    return await documents.documents.read("notes", lambda loaded: loaded.projection.markdown)


async def test_after_compaction_no_deleted_word_is_in_the_stored_bytes(documents: DocumentSystem):
    editor = Editor("kept")
    await documents.log.create("notes", "acme", update=editor.typed())
    for number in range(30):
        editor.type(0, 4, f" secret{number}")
        await documents.log.append("notes", editor.typed())
        editor.erase(0, 4, 4 + len(f" secret{number}"))
        await documents.log.append("notes", editor.typed())

    head = await documents.compactor.compact("notes")

    content, sequences = await stored(documents)
    assert (b"secret" in content, b"kept" in content, sequences) == (False, True, [])
    assert head.sequence == 61
    assert await markdown(documents) == "kept\n"


async def test_parts_that_wait_for_others_are_kept_and_their_deletions_too(documents: DocumentSystem):
    editor = Editor("a", client_id=1)
    first = editor.typed()
    editor.type(0, 1, "b")
    second = editor.typed()
    editor.type(0, 2, "c")
    editor.erase(0, 1, 2)
    third = editor.typed()
    await documents.log.create("notes", "acme", update=first)
    await documents.log.append("notes", third)

    await documents.compactor.compact("notes")
    assert await markdown(documents) == "a\n"
    await documents.log.append("notes", second)

    assert await markdown(documents) == "ac\n"
    await documents.compactor.compact("notes")
    assert await markdown(documents) == "ac\n"


async def test_updates_that_come_while_a_snapshot_is_made_stay_in_the_log(
    documents: DocumentSystem, database: Database, tmp_path: Path
):
    editor = Editor("one")
    await documents.log.create("notes", "acme", update=editor.typed())
    put = documents.blobs.put
    late: list[bytes] = []

    def put_late(data: bytes, media_type: str = ""):
        ref = put(data, media_type)
        if not late:
            editor.add("two")
            late.append(editor.typed())
            asyncio.run_coroutine_threadsafe(documents.log.append("notes", late[0]), loop).result(10)
        return ref

    loop = asyncio.get_running_loop()
    documents.compactor._blobs.put = put_late  # type: ignore[method-assign]
    await documents.compactor.compact("notes")

    assert (await stored(documents))[1] == [2]
    assert await markdown(documents) == "one\n\ntwo\n"


async def test_two_compactions_at_once_lose_nothing(documents: DocumentSystem, tmp_path: Path):
    editor = Editor("one")
    await documents.log.create("notes", "acme", update=editor.typed())
    others = [documents, system(documents.database, tmp_path), system(documents.database, tmp_path)]
    for number in range(5):
        editor.add(f"line {number}")
        await documents.log.append("notes", editor.typed())
        await asyncio.gather(*(other.compactor.compact("notes") for other in others))

    assert (await stored(documents))[1] == []
    assert (await markdown(documents)).count("line") == 5


@pytest.mark.parametrize("seed", [1, 2])
async def test_writers_and_compactions_in_any_order_lose_no_update(
    documents: DocumentSystem, tmp_path: Path, seed: int
):
    random = Random(seed)
    editors = [Editor(client_id=number + 1) for number in range(8)]
    await documents.log.create("notes", "acme")
    second = system(documents.database, tmp_path)
    done = asyncio.Event()

    async def write(editor: Editor) -> None:
        for number in range(12):
            editor.add(f"{editor.doc.client_id}.{number}")
            if random.random() < 0.3 and number:
                editor.type(0, 0, "x")
            await random.choice([documents, second]).log.append("notes", editor.typed())
            await asyncio.sleep(0)

    async def compact() -> int:
        count = 0
        while not done.is_set():
            await random.choice([documents, second]).compactor.compact("notes")
            count += 1
            await asyncio.sleep(0.002)
        return count

    compacting = asyncio.create_task(compact())
    await asyncio.gather(*map(write, editors))
    done.set()
    compactions = await compacting

    assert compactions > 0
    everything = Editor()
    for editor in editors:
        everything.take(editor.update())
    wanted = await documents.documents.read("notes", lambda loaded: loaded.lacking(everything.state_vector()))
    everything.take(wanted)
    assert len(everything.root.children) == 96
    have = await documents.documents.read("notes", lambda loaded: loaded.state)
    assert sorted(have) == list(range(1, 9))
    assert (await markdown(documents)).count(".") == 96
