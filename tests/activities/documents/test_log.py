"""The log: what is acknowledged is durable, whatever it builds on; and what it makes is read from the newest head."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from counterfoil.activities.documents.system import DocumentSystem
from counterfoil.activities.store.ledger import history
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.documents.heads import Head
from counterfoil.models.errors import Refusal
from counterfoil.models.tables import DocumentRow
from support.documents import Editor, system


async def markdown(documents: DocumentSystem) -> str:
    return await documents.documents.read("notes", lambda loaded: loaded.projection.markdown)


async def test_a_document_is_made_once_and_grows_by_what_editors_send(documents: DocumentSystem):
    editor = Editor("one")

    first = await documents.log.create("notes", "acme", update=editor.typed())
    again = await documents.log.create("notes", "acme", update=editor.update())
    editor.add("two")
    second = await documents.log.append("notes", editor.typed())

    assert first == again == Head(generation=1, sequence=1)
    assert second == Head(generation=1, sequence=2)
    assert await markdown(documents) == "one\n\ntwo\n"


async def test_an_update_sent_again_after_a_lost_reply_is_not_kept_twice(documents: DocumentSystem):
    editor = Editor("one")
    await documents.log.create("notes", "acme")
    update = editor.typed()

    first = await documents.log.append("notes", update)
    second = await documents.log.append("notes", update, update)

    assert first == second == Head(generation=1, sequence=1)


async def test_updates_out_of_order_wait_for_what_they_build_on(documents: DocumentSystem):
    editor = Editor("a", client_id=1)
    updates = [editor.typed()]
    for letter in "bc":
        editor.type(0, 1, letter)
        updates.append(editor.typed())
    await documents.log.create("notes", "acme", update=updates[0])

    await documents.log.append("notes", updates[2])
    waiting = await documents.documents.read("notes", lambda loaded: len(loaded.waiting))
    assert (await markdown(documents), waiting) == ("a\n", 1)
    await documents.log.append("notes", updates[1])

    assert await markdown(documents) == "acb\n"
    assert await documents.documents.read("notes", lambda loaded: loaded.waiting) == []


async def test_an_offline_editor_that_returns_with_old_updates_loses_nothing(documents: DocumentSystem):
    editor = Editor("shared")
    await documents.log.create("notes", "acme", update=editor.typed())
    offline = Editor(update=editor.update())
    offline.type(0, 6, " offline")
    for number in range(5):
        editor.add(f"line {number}")
        await documents.log.append("notes", editor.typed())
    await documents.compactor.compact("notes")

    await documents.log.append("notes", offline.typed(), generation=1)

    assert (await markdown(documents)).startswith("shared offline\n\nline 0")
    have = await documents.documents.read("notes", lambda loaded: loaded.state_vector)
    offline.take(await documents.documents.read("notes", lambda loaded: loaded.lacking(offline.state_vector())))
    assert offline.state_vector() == have


async def test_content_is_not_duplicated_when_an_editor_of_a_replaced_document_reconnects(documents: DocumentSystem):
    editor = Editor("imported text")
    await documents.log.create("notes", "acme", update=editor.typed())
    editor.type(0, 0, "my ")
    head = await documents.log.replace("notes", Editor("imported text").update(), replacing=1)

    with pytest.raises(Refusal, match="HEAD_MOVED"):
        await documents.log.append("notes", editor.typed(), generation=1)

    assert head.generation == 2
    assert await markdown(documents) == "imported text\n"
    with pytest.raises(Refusal, match="HEAD_MOVED"):
        await documents.log.replace("notes", Editor("other").update(), replacing=1)


@pytest.mark.parametrize("update", [b"", b"\x00", b"junk", Editor("text", client_id=1).update()[:-1], b"\xff" * 40])
async def test_bytes_that_are_no_update_are_refused_and_nothing_is_kept(documents: DocumentSystem, update: bytes):
    await documents.log.create("notes", "acme")

    with pytest.raises(Refusal, match="MALFORMED_UPDATE"):
        await documents.log.append("notes", Editor("good").update(), update)

    assert await documents.log.head("notes") == Head(generation=1, sequence=0)


@pytest.mark.parametrize("document_id", ["", "x" * 181, "a\nb"])
async def test_an_id_that_cannot_be_one_is_refused(documents: DocumentSystem, document_id: str):
    with pytest.raises(Refusal, match="BAD_REQUEST"):
        await documents.log.create(document_id, "acme")


async def test_a_document_that_is_not_there_is_named(documents: DocumentSystem):
    for asked in (documents.log.append("nothing", Editor("x").update()), documents.log.head("nothing")):
        with pytest.raises(Refusal, match="NOT_FOUND"):
            await asked
    await documents.log.create("notes", "acme")
    with pytest.raises(Refusal, match="IDEMPOTENCY_CONFLICT"):
        await documents.log.create("notes", "elsewhere")


async def test_what_one_process_appends_another_that_has_the_document_in_memory_reads(
    documents: DocumentSystem, tmp_path
):
    editor = Editor("one")
    await documents.log.create("notes", "acme", update=editor.typed())
    other = system(documents.database, tmp_path)
    assert await markdown(other) == "one\n"

    editor.add("two")
    await documents.log.append("notes", editor.typed())
    assert await markdown(other) == "one\n\ntwo\n"
    await documents.compactor.compact("notes")
    editor.add("three")
    await documents.log.append("notes", editor.typed())

    assert await markdown(other) == "one\n\ntwo\n\nthree\n"


async def test_a_document_that_is_let_go_from_memory_while_it_is_written_is_whole_again(documents: DocumentSystem):
    editors = [Editor(client_id=number + 1) for number in range(4)]
    await documents.log.create("notes", "acme")
    random = Random(1)

    async def write(editor: Editor) -> None:
        for number in range(15):
            editor.add(f"{editor.doc.client_id}-{number}")
            await documents.log.append("notes", editor.typed())
            if random.random() < 0.4:
                documents.documents.forget("notes")
            await markdown(documents)

    await asyncio.gather(*map(write, editors))

    lines = (await markdown(documents)).split()
    assert sorted(lines) == sorted(f"{client}-{number}" for client in range(1, 5) for number in range(15))


async def test_making_replacing_and_quarantining_are_recorded_with_who_did_it(documents: DocumentSystem):
    await documents.log.create("notes", "acme", update=Editor("x").update())
    await documents.log.replace("notes", Editor("y").update(), replacing=1)
    await documents.log.quarantine("notes", "its update 2 is not what its checksum says")
    await documents.log.release("notes")

    async def look(work: UnitOfWork) -> list[str]:
        row = await work.session.get(DocumentRow, "notes")
        assert row is not None
        entries = await history(work, row)
        assert isinstance(entries, list)
        return [entry.kind for entry in entries]

    assert await documents.database.read(look) == [
        "document_created",
        "document_replaced",
        "document_quarantined",
        "document_released",
    ]
