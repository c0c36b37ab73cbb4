"""Captures: one head, one snapshot, one Markdown, one receipt; about exactly the passage that was chosen."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from counterfoil.activities.documents.capture import TRIES
from counterfoil.activities.documents.system import DocumentSystem
from counterfoil.models.common import digest_bytes
from counterfoil.models.documents.anchoring import How, Quote
from counterfoil.models.documents.applicability import Applies, Misplaced, NoReceipt, PlacementProblem, Unknown
from counterfoil.models.documents.captures import (
    AffirmedRecheck,
    CaptureRequest,
    Reach,
    Recapture,
    Recheck,
)
from counterfoil.models.documents.markdown.projection import project
from counterfoil.models.documents.snapshots import ActionSnapshot
from counterfoil.models.documents.targets import DocumentTarget
from counterfoil.models.documents.yjs.index import DocumentIndex
from counterfoil.models.errors import Refusal
from support.documents import Editor, capture_of, passage, system

TEXT = ("One two three.", "Four five six.", "Seven eight nine.")


@pytest.fixture
async def editor(documents: DocumentSystem) -> Editor:
    made = Editor(*TEXT)
    await documents.log.create("notes", "acme", update=made.typed())
    return made


async def target(documents: DocumentSystem, text: str) -> DocumentTarget:
    return await documents.documents.read("notes", lambda loaded: passage(loaded, text))


def frozen(documents: DocumentSystem, snapshot: ActionSnapshot) -> str:
    return documents.blobs.get(snapshot.projection).decode()


async def test_a_capture_freezes_the_document_the_passage_and_how_far_they_may_be_used(
    documents: DocumentSystem, editor: Editor
):
    about = await target(documents, "five")

    snapshot = await documents.capturer.capture(
        capture_of("c1", about, egress=Reach.TARGET, message_id="m1", conversation="chat", label="five")
    )
    editor.type(1, 5, "FIVE ")
    await documents.log.append("notes", editor.typed())

    assert frozen(documents, snapshot) == "One two three.\n\nFour five six.\n\nSeven eight nine.\n"
    assert snapshot.target is not None
    assert frozen(documents, snapshot)[snapshot.target.markdown_start : snapshot.target.markdown_end] == "five"
    assert (snapshot.context.whole, snapshot.allowed.ranges, snapshot.egress.ranges) == (True, ((21, 25),), ((21, 25),))
    assert snapshot.receipt.projection_digest == digest_bytes(frozen(documents, snapshot).encode())
    assert snapshot.head == snapshot.receipt.head
    assert (snapshot.head.sequence, snapshot.head.snapshot_digest) == (1, snapshot.snapshot.digest)
    assert snapshot.reference.label == "five"


async def test_the_same_capture_again_is_the_same_snapshot_and_another_request_is_refused(
    documents: DocumentSystem, editor: Editor
):
    first = await documents.capturer.capture(capture_of("c1"))
    editor.add("later")
    await documents.log.append("notes", editor.typed())

    assert await documents.capturer.capture(capture_of("c1")) == first
    with pytest.raises(Refusal, match="IDEMPOTENCY_CONFLICT"):
        await documents.capturer.capture(capture_of("c1", label="another"))


async def test_it_waits_until_the_log_covers_what_the_editor_has_seen(documents: DocumentSystem, editor: Editor):
    editor.add("typed just now")
    capturing = asyncio.create_task(documents.capturer.capture(capture_of("c1", state_vector=editor.state_vector())))
    await asyncio.sleep(0.2)
    assert not capturing.done()
    await documents.log.append("notes", editor.typed())

    assert "typed just now" in frozen(documents, await capturing)


async def test_what_the_log_never_gets_ends_the_wait_with_a_reason(documents: DocumentSystem, editor: Editor):
    documents.capturer._patience_seconds = 0.2
    editor.add("never sent")

    with pytest.raises(Refusal, match="DOCUMENT_INCOMPLETE"):
        await documents.capturer.capture(capture_of("c1", state_vector=editor.state_vector()))


async def test_an_editor_s_own_markdown_is_compared_with_the_derived_one(documents: DocumentSystem, editor: Editor):
    right = digest_bytes(b"One two three.\n\nFour five six.\n\nSeven eight nine.\n")
    seen = {"state_vector": editor.state_vector()}

    await documents.capturer.capture(capture_of("right", projection_digest=right, **seen))
    with pytest.raises(Refusal, match="PROJECTION_MISMATCH"):
        await documents.capturer.capture(capture_of("wrong", projection_digest=digest_bytes(b"x"), **seen))
    editor.add("by somebody else")
    await documents.log.append("notes", editor.typed())
    newer = await documents.capturer.capture(capture_of("overtaken", projection_digest=right, **seen))

    assert "somebody else" in frozen(documents, newer)


async def test_an_unresolved_target_blocks_the_action_and_nothing_is_kept(documents: DocumentSystem, editor: Editor):
    about = await target(documents, "five")
    editor.erase(1, 0, len(TEXT[1]))
    await documents.log.append("notes", editor.typed())

    with pytest.raises(Refusal, match="TARGET_UNRESOLVED"):
        await documents.capturer.capture(capture_of("c1", about))

    with pytest.raises(Refusal, match="NOT_FOUND"):
        await documents.database.read(lambda work: _find(work, "c1"))


async def _find(work: Any, capture_id: str) -> ActionSnapshot:
    from counterfoil.activities.documents import snapshots
    from counterfoil.activities.documents.taking import snapshot_id

    return await snapshots.find(work, snapshot_id(capture_id))


async def test_a_target_of_another_document_or_generation_is_refused(documents: DocumentSystem, editor: Editor):
    about = await target(documents, "five")

    with pytest.raises(Refusal, match="RESOURCE_MISMATCH"):
        await documents.capturer.capture(capture_of("c1", about.model_copy(update={"document_id": "other"})))
    with pytest.raises(Refusal, match="HEAD_MOVED"):
        await documents.capturer.capture(capture_of("c2", generation=2))


# again: pinned to the first target


async def first_of(documents: DocumentSystem, text: str = "five", **given: Any) -> ActionSnapshot:
    values = {"message_id": "m1", "conversation": "chat"} | given
    return await documents.capturer.capture(capture_of("first", await target(documents, text), **values))


def again(choice: Any, capture_id: str = "again", **given: Any) -> CaptureRequest:
    return capture_of(capture_id, choice=choice, message_id="m1", conversation="chat", **given)


async def test_a_message_is_captured_again_once_with_its_first_target(documents: DocumentSystem, editor: Editor):
    first = await first_of(documents)
    editor.type(1, 0, "Now: ")
    await documents.log.append("notes", editor.typed())

    second = await documents.capturer.capture(again(Recapture(snapshot_id=first.snapshot_id)))

    assert second.target is not None
    assert first.target is not None
    assert second.target.target == first.target.target
    assert second.chosen_from == first.snapshot_id
    assert frozen(documents, second)[second.target.markdown_start : second.target.markdown_end] == "five"
    with pytest.raises(Refusal, match="NOT_POSSIBLE"):
        await documents.capturer.capture(again(Recapture(snapshot_id=second.snapshot_id), "third"))


async def test_another_message_does_not_take_a_recapture(documents: DocumentSystem, editor: Editor):
    first = await first_of(documents)

    with pytest.raises(Refusal, match="NOT_POSSIBLE"):
        await documents.capturer.capture(
            capture_of("c2", choice=Recapture(snapshot_id=first.snapshot_id), message_id="m2")
        )


async def test_a_recheck_goes_by_the_proposal_s_own_target_as_often_as_it_is_asked(
    documents: DocumentSystem, editor: Editor
):
    first = await first_of(documents)
    for number in range(3):
        editor.type(1, 0, "x")
        await documents.log.append("notes", editor.typed())
        found = await documents.capturer.capture(
            capture_of(f"check {number}", choice=Recheck(snapshot_id=first.snapshot_id))
        )
        assert found.target is not None
        assert first.target is not None
        assert found.target.target == first.target.target


async def test_an_unresolved_recheck_needs_a_new_target_and_a_separate_affirmation(
    documents: DocumentSystem, editor: Editor
):
    first = await first_of(documents)
    other = await target(documents, "eight")

    with pytest.raises(Refusal, match="NOT_POSSIBLE"):
        await documents.capturer.capture(
            again(AffirmedRecheck(snapshot_id=first.snapshot_id, target=other, affirmed=True), "too early")
        )
    editor.erase(1, 0, len(TEXT[1]))
    await documents.log.append("notes", editor.typed())
    with pytest.raises(Refusal, match="TARGET_UNRESOLVED"):
        await documents.capturer.capture(again(Recheck(snapshot_id=first.snapshot_id), "lost"))
    with pytest.raises(ValueError, match="affirmed"):
        AffirmedRecheck.model_validate({"snapshot_id": first.snapshot_id, "target": other, "affirmed": False})

    found = await documents.capturer.capture(
        again(AffirmedRecheck(snapshot_id=first.snapshot_id, target=other, affirmed=True), "affirmed")
    )

    assert found.target is not None
    assert found.target.target == other


# under fire


async def test_no_capture_under_eight_writers_mixes_two_heads(documents: DocumentSystem, tmp_path: Path):
    first = Editor("A passage to hold on to.", *(f"{writer}: 0;" for writer in range(8)), client_id=99)
    await documents.log.create("notes", "acme", update=first.typed())
    editors = [Editor(update=first.update(), client_id=number + 1) for number in range(8)]
    about = await target(documents, "passage to hold")
    second = system(documents.database, tmp_path)
    done = asyncio.Event()
    captures = 200 if documents.database.on_sqlite else 60

    async def write(writer: int) -> int:
        editor, number = editors[writer], 0
        while not done.is_set():
            number += 1
            editor.erase(writer + 1, 3, len(str(editor.text(writer + 1))))
            editor.type(writer + 1, 3, f"{number};")
            await (documents, second)[number % 2].log.append("notes", editor.typed())
            await asyncio.sleep(0.005)
        return number

    async def capture(worker: int) -> list[ActionSnapshot]:
        system = (documents, second)[worker % 2]
        return [
            await system.capturer.capture(capture_of(f"{worker}.{number}", about if number % 2 else None))
            for number in range(captures // 4)
        ]

    writing = [asyncio.create_task(write(writer)) for writer in range(8)]
    captured = [one for taken in await asyncio.gather(*map(capture, range(4))) for one in taken]
    done.set()
    written = await asyncio.gather(*writing)

    assert len(captured) == captures
    for snapshot in captured:
        content = documents.blobs.get(snapshot.snapshot)
        derived = project(DocumentIndex.build(content).document())
        assert derived.digest == snapshot.receipt.projection_digest == snapshot.projection.digest
        assert digest_bytes(content) == snapshot.snapshot.digest == snapshot.receipt.snapshot_digest
        assert snapshot.receipt.head == snapshot.head
        if snapshot.target is not None:
            start, end = snapshot.target.markdown_start, snapshot.target.markdown_end
            assert derived.markdown[start:end] == "passage to hold"
    last = await documents.documents.read("notes", lambda loaded: loaded.text.text)
    assert last.split("\n")[1:] == [f"{writer}: {number};" for writer, number in enumerate(written)]


async def test_the_last_try_holds_the_writers_back(documents: DocumentSystem, editor: Editor):
    commits = 0
    commit = documents.capturer._committed

    async def overtaken(*given: Any) -> ActionSnapshot:
        nonlocal commits
        commits += 1
        editor.add(f"overtaking {commits}")
        await documents.log.append("notes", editor.typed())
        return await commit(*given)

    documents.capturer._committed = overtaken  # type: ignore[method-assign]

    snapshot = await documents.capturer.capture(capture_of("c1"))

    assert commits == TRIES - 1
    assert f"overtaking {commits}" in frozen(documents, snapshot)


# receipts and review


async def test_a_receipt_is_current_until_the_next_update_or_compaction(documents: DocumentSystem, editor: Editor):
    receipt = await documents.capturer.receipt("notes")
    assert await documents.review.current("notes") == receipt

    editor.add("more")
    await documents.log.append("notes", editor.typed())
    assert await documents.review.current("notes") is None
    newer = await documents.capturer.receipt("notes")
    assert await documents.review.current("notes") == newer
    await documents.compactor.compact("notes")
    later = await documents.review.current("notes")

    assert later in (None, newer)
    assert newer.projection_digest != receipt.projection_digest


async def test_a_proposal_applies_is_misplaced_or_is_not_known(documents: DocumentSystem, editor: Editor):
    quotes = [Quote(exact="Four five"), Quote(exact="ten"), Quote(exact="e")]
    assert await documents.review.applicability("notes", quotes) == [Unknown(NoReceipt.MISSING)] * 3

    receipt = await documents.capturer.receipt("notes")
    assert await documents.review.applicability("notes", quotes) == [
        Applies(16, 25, How.EXACT),
        PlacementProblem(Misplaced.MISSING),
        PlacementProblem(Misplaced.AMBIGUOUS),
    ]
    editor.type(0, 0, "Zero ")
    await documents.log.append("notes", editor.typed())
    assert await documents.review.applicability("notes", quotes[:1]) == [Unknown(NoReceipt.OUTDATED)]
    newer = await documents.capturer.receipt("notes")
    assert await documents.review.applicability("notes", quotes[:1]) == [Applies(21, 30, How.EXACT)]
    (tmp := documents.blobs._directory) and (tmp / _path(newer.projection.digest)).write_bytes(b"other")
    assert await documents.review.applicability("notes", quotes[:1]) == [Unknown(NoReceipt.INVALID)]
    assert receipt != newer


def _path(digest: str) -> str:
    name = digest.removeprefix("sha256:")
    return f"sha256/{name[:2]}/{name}"
