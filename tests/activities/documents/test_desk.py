"""An operation's edit: once, or ruled out; found together with its row in the log, or not at all."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from counterfoil.activities.adapters.document_edit.desk import Edit
from counterfoil.activities.documents.desk import WorkerDesk
from counterfoil.activities.documents.system import DocumentSystem
from counterfoil.models.common import digest_bytes
from counterfoil.models.errors import Refusal
from support.documents import Editor

NOTHING = digest_bytes(b"")


@pytest.fixture
async def desk(documents: DocumentSystem) -> WorkerDesk:
    await documents.log.create("notes", "acme", update=Editor("text").typed())
    return WorkerDesk(documents.database, documents.blobs, documents.documents, documents.consumption)


async def edit(documents: DocumentSystem, *, attempt: int = 1) -> Edit:
    before, head = await documents.documents.read("notes", lambda loaded: (loaded.update, loaded.head))
    return Edit("operation-1", attempt, "notes", head, Editor("edited", client_id=5).update(), before, NOTHING, NOTHING)


async def edits(documents: DocumentSystem) -> int:
    return await documents.documents.read("notes", lambda loaded: loaded.projection.markdown.count("edited"))


async def test_the_same_operation_s_edit_again_is_given_back_and_not_made_again(
    documents: DocumentSystem, desk: WorkerDesk
):
    asked = await edit(documents)

    first = await asyncio.to_thread(desk.edit, asked)
    again = await asyncio.to_thread(desk.edit, replace(asked, generation=2, update=Editor("edited twice").update()))

    assert again == first
    assert (first.sequence, await edits(documents)) == (2, 1)
    assert await asyncio.to_thread(desk.settle, "operation-1", "notes", 1) == first


async def test_an_attempt_that_was_ruled_out_edits_nothing_and_a_later_one_may(
    documents: DocumentSystem, desk: WorkerDesk
):
    late = await edit(documents)
    assert await asyncio.to_thread(desk.settle, "operation-1", "notes", 1) is None

    with pytest.raises(Refusal, match="FENCED"):
        await asyncio.to_thread(desk.edit, late)
    assert await edits(documents) == 0
    await asyncio.to_thread(desk.edit, replace(late, generation=2))

    assert await edits(documents) == 1


async def test_an_edit_of_an_older_head_is_refused_and_leaves_no_record(documents: DocumentSystem, desk: WorkerDesk):
    stale = await edit(documents)
    await documents.log.append("notes", Editor("typed").update())

    with pytest.raises(Refusal, match="HEAD_MOVED"):
        await asyncio.to_thread(desk.edit, stale)

    assert await edits(documents) == 0
    assert await asyncio.to_thread(desk.settle, "operation-1", "notes", 0) is None


async def test_observing_and_editing_at_once_agree(documents: DocumentSystem, desk: WorkerDesk):
    asked = await edit(documents)

    made, settled = await asyncio.gather(
        asyncio.to_thread(desk.edit, asked),
        asyncio.to_thread(desk.settle, "operation-1", "notes", 1),
        return_exceptions=True,
    )

    assert (await edits(documents), settled is None) in ((1, False), (0, True))
    assert isinstance(made, Refusal) is (settled is None)


async def test_what_is_compacted_since_is_still_settled_with_what_stood_before_it(
    documents: DocumentSystem, desk: WorkerDesk
):
    asked = await edit(documents)
    await asyncio.to_thread(desk.edit, asked)
    await documents.compactor.compact("notes")

    settled = await asyncio.to_thread(desk.settle, "operation-1", "notes", 1)

    assert settled is not None
    assert (settled.before, settled.update) == (asked.before, asked.update)
