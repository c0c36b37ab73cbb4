"""Every stored byte that changes is noticed, the part is named, and nothing is served from it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from sqlalchemy import delete, update

from counterfoil.activities.documents import log as logs
from counterfoil.activities.documents.system import DocumentSystem
from counterfoil.activities.store.database import Database
from counterfoil.activities.store.migration import migrate
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.errors import Refusal
from counterfoil.models.tables import DOCUMENT_UPDATES
from support.documents import Editor, capture_of, system

TEXT = "Ein Satz, noch ein Satz.\n\nund mehr 😀\n"


@pytest_asyncio.fixture
async def documents(tmp_path: Path) -> AsyncIterator[DocumentSystem]:
    """A document with a snapshot and one update after it, on SQLite."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    migrate(url)
    database = Database(url)
    made = system(database, tmp_path)
    editor = Editor("Ein Satz, noch ein Satz.", client_id=1)
    await made.log.create("notes", "acme", update=editor.typed())
    await made.compactor.compact("notes")
    editor.add("und mehr 😀")
    await made.log.append("notes", editor.typed())
    yield made
    await database.close()


async def served(documents: DocumentSystem) -> str | None:
    """What is served after a restart; None where it is refused as quarantined."""
    documents.documents.forget("notes")
    try:
        return await documents.documents.read("notes", lambda loaded: loaded.projection.markdown)
    except Refusal as refusal:
        told = refusal
    assert told.code == "DOCUMENT_QUARANTINED"
    assert "snapshot sha256:" in told.detail or "update 2" in told.detail
    return None


async def lifted(documents: DocumentSystem) -> None:
    await documents.documents.check("notes")
    await documents.log.release("notes")


def changed(content: bytes) -> list[bytes]:
    """Each byte with one bit flipped, a different one each time; and each truncation."""
    flipped = [content[:at] + bytes([content[at] ^ (1 << at % 8)]) + content[at + 1 :] for at in range(len(content))]
    return flipped + [content[:length] for length in range(len(content))]


async def test_a_snapshot_with_any_byte_changed_or_cut_off_is_never_served(documents: DocumentSystem):
    row = await documents.database.read(lambda work: logs.found(work, "notes"))
    ref = logs.snapshot_of(row)
    assert ref is not None
    assert documents.blobs._directory is not None
    name = ref.digest.removeprefix("sha256:")
    path = documents.blobs._directory / "sha256" / name[:2] / name
    content = path.read_bytes()
    wrong = 0
    for broken in changed(content):
        path.write_bytes(broken)
        wrong += await served(documents) is not None
        path.write_bytes(content)
        await lifted(documents)

    assert wrong == 0
    assert len(content) > 50
    path.unlink()
    assert await served(documents) is None
    path.write_bytes(content)
    await lifted(documents)
    assert await served(documents) == TEXT


async def test_an_update_with_any_byte_changed_or_cut_off_is_never_served(documents: DocumentSystem):
    async def payload(work: UnitOfWork) -> bytes:
        return (await logs.tail(work, await logs.found(work, "notes"), 1)).updates[0].payload

    async def put(content: bytes) -> None:
        async def run(work: UnitOfWork) -> None:
            await work.session.execute(update(DOCUMENT_UPDATES).values(payload=content))

        await documents.database.run(run)

    content = await documents.database.read(payload)
    wrong = 0
    for broken in changed(content):
        await put(broken)
        wrong += await served(documents) is not None
        await put(content)
        await lifted(documents)

    assert wrong == 0
    assert len(content) > 30
    assert await served(documents) == TEXT


async def test_an_update_that_is_gone_is_noticed(documents: DocumentSystem):
    async def run(work: UnitOfWork) -> None:
        await work.session.execute(delete(DOCUMENT_UPDATES))

    await documents.database.run(run)

    assert await served(documents) is None


async def test_a_quarantined_document_takes_and_gives_nothing_until_all_its_parts_are_right(
    documents: DocumentSystem,
):
    async def spoil(work: UnitOfWork) -> None:
        await work.session.execute(update(DOCUMENT_UPDATES).values(payload=b"\x00\x00"))

    await documents.database.run(spoil)
    assert await served(documents) is None

    for refused in (
        documents.log.append("notes", Editor("x").update()),
        documents.compactor.compact("notes"),
        documents.capturer.capture(capture_of("c1")),
        documents.capturer.receipt("notes"),
        documents.review.current("notes"),
        documents.documents.check("notes"),
    ):
        with pytest.raises(Refusal, match="DOCUMENT_QUARANTINED"):
            await refused
