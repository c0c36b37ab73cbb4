"""Whether whoever answers has seen what the message is about: fetch, reply, acknowledge, restart."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from counterfoil.activities.documents.system import DocumentSystem
from counterfoil.activities.store.ledger import history
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.common import digest_bytes
from counterfoil.models.documents.captures import Reach
from counterfoil.models.documents.consumption import FetchOutcome, Reply
from counterfoil.models.documents.snapshots import ActionSnapshot
from counterfoil.models.errors import Refusal
from counterfoil.models.tables import ConsumptionReceiptRow
from support.documents import Editor, capture_of, passage

SAID = digest_bytes(b"an answer")


@pytest.fixture
async def snapshot(documents: DocumentSystem) -> ActionSnapshot:
    """What the message `m1` of the conversation `chat` is about."""
    await documents.log.create("notes", "acme", update=Editor("Known to all.", "A secret.").typed())
    about = await documents.documents.read("notes", lambda loaded: passage(loaded, "Known"))
    return await documents.capturer.capture(
        capture_of("c1", about, egress=Reach.TARGET, message_id="m1", conversation="chat")
    )


def lose(documents: DocumentSystem, snapshot: ActionSnapshot, content: bytes | None = b"something else") -> None:
    name = snapshot.projection.digest.removeprefix("sha256:")
    assert documents.blobs._directory is not None
    path = documents.blobs._directory / "sha256" / name[:2] / name
    path.unlink() if content is None else path.write_bytes(content)


def reply(receipt_id: str, **given: Any) -> Reply:
    values = {"reply_id": "r1", "message_id": "m1", "receipt_id": receipt_id, "content_digest": SAID}
    return Reply.model_validate(values | given)


async def test_the_frozen_view_is_shown_with_a_receipt_and_only_as_far_as_it_may_leave(
    documents: DocumentSystem, snapshot: ActionSnapshot
):
    fetched = await documents.consumption.fetch("m1", snapshot.snapshot_id, 1)
    again = await documents.consumption.fetch("m1", snapshot.snapshot_id, 1)

    assert fetched.view is not None
    assert fetched.receipt.fetch_outcome is FetchOutcome.AVAILABLE
    assert "secret" not in fetched.view.text
    assert fetched.view.target_start is not None
    assert fetched.view.text[fetched.view.target_start : fetched.view.target_end] == "Known"
    assert again == fetched


async def test_reply_and_acknowledgement_echo_the_receipt_and_are_harmless_when_repeated(
    documents: DocumentSystem, snapshot: ActionSnapshot
):
    receipt = (await documents.consumption.fetch("m1", snapshot.snapshot_id, 1)).receipt

    first = await documents.consumption.reply(reply(receipt.receipt_id))
    assert await documents.consumption.reply(reply(receipt.receipt_id)) == first
    done = await documents.consumption.acknowledge("m1", receipt.receipt_id, "r1")

    assert done.acknowledged_at is not None
    assert await documents.consumption.acknowledge("m1", receipt.receipt_id, "r1") == done


async def test_without_a_receipt_of_this_message_nothing_is_said(documents: DocumentSystem, snapshot: ActionSnapshot):
    receipt = (await documents.consumption.fetch("m1", snapshot.snapshot_id, 1)).receipt

    for wrong in (reply("receipt-none"), reply(receipt.receipt_id, message_id="m2")):
        with pytest.raises(Refusal, match="RECEIPT_MISMATCH"):
            await documents.consumption.reply(wrong)
    with pytest.raises(Refusal, match="RECEIPT_MISMATCH"):
        await documents.consumption.acknowledge("m1", receipt.receipt_id, "r1")
    with pytest.raises(Refusal, match="RECEIPT_MISMATCH"):
        await documents.consumption.fetch("m2", snapshot.snapshot_id, 1)


@pytest.mark.parametrize("content", [b"something else", None])
async def test_a_view_that_is_missing_or_corrupt_authorises_a_truthful_reply_and_no_proposal(
    documents: DocumentSystem, snapshot: ActionSnapshot, content: bytes | None
):
    lose(documents, snapshot, content)

    fetched = await documents.consumption.fetch("m1", snapshot.snapshot_id, 1)

    assert (fetched.view, fetched.receipt.fetch_outcome) == (None, FetchOutcome.UNAVAILABLE)
    with pytest.raises(Refusal, match="SNAPSHOT_UNAVAILABLE"):
        await documents.consumption.reply(reply(fetched.receipt.receipt_id, proposes=True))
    await documents.consumption.reply(reply(fetched.receipt.receipt_id))
    assert (await documents.consumption.acknowledge("m1", fetched.receipt.receipt_id, "r1")).acknowledged_at


async def test_a_snapshot_that_is_not_in_the_store_does_not_hold_the_turn_up(documents: DocumentSystem):
    fetched = await documents.consumption.fetch("m1", "snapshot-gone", 1, conversation="chat")

    assert (fetched.view, fetched.receipt.fetch_outcome) == (None, FetchOutcome.UNAVAILABLE)
    await documents.consumption.reply(reply(fetched.receipt.receipt_id))
    await documents.consumption.acknowledge("m1", fetched.receipt.receipt_id, "r1")


async def test_a_view_lost_after_it_was_opened_needs_a_new_generation(
    documents: DocumentSystem, snapshot: ActionSnapshot
):
    await documents.consumption.fetch("m1", snapshot.snapshot_id, 1)
    lose(documents, snapshot)

    with pytest.raises(Refusal, match="SNAPSHOT_UNAVAILABLE"):
        await documents.consumption.fetch("m1", snapshot.snapshot_id, 1)
    later = await documents.consumption.fetch("m1", snapshot.snapshot_id, 2)

    assert later.receipt.fetch_outcome is FetchOutcome.UNAVAILABLE


async def test_a_restart_takes_up_the_standing_reply_and_both_receipts_stay(
    documents: DocumentSystem, snapshot: ActionSnapshot
):
    first = (await documents.consumption.fetch("m1", snapshot.snapshot_id, 1)).receipt
    standing = await documents.consumption.reply(reply(first.receipt_id))
    second = (await documents.consumption.fetch("m1", snapshot.snapshot_id, 2)).receipt

    taken_up = await documents.consumption.reply(reply(second.receipt_id))
    done = await documents.consumption.acknowledge("m1", second.receipt_id, "r1")

    assert second.receipt_id != first.receipt_id
    assert taken_up == standing
    assert taken_up.receipt_id == first.receipt_id
    assert (done.consumer_generation, done.reply_id) == (2, "r1")

    async def look(work: UnitOfWork) -> list[list[str]]:
        found = []
        for receipt_id in (first.receipt_id, second.receipt_id):
            row = await work.session.get(ConsumptionReceiptRow, receipt_id)
            assert row is not None
            entries = await history(work, row)
            assert isinstance(entries, list)
            found.append([entry.kind for entry in entries])
        return found

    assert await documents.database.read(look) == [
        ["action_snapshot_fetched", "reply_committed"],
        ["action_snapshot_fetched", "reply_committed", "message_acknowledged"],
    ]


async def test_an_older_generation_is_fenced(documents: DocumentSystem, snapshot: ActionSnapshot):
    first = (await documents.consumption.fetch("m1", snapshot.snapshot_id, 1)).receipt
    await documents.consumption.fetch("m1", snapshot.snapshot_id, 2)

    with pytest.raises(Refusal, match="RECEIPT_MISMATCH"):
        await documents.consumption.reply(reply(first.receipt_id))


async def test_a_generation_that_comes_late_is_refused(documents: DocumentSystem, snapshot: ActionSnapshot):
    await documents.consumption.fetch("m1", snapshot.snapshot_id, 3)

    with pytest.raises(Refusal, match="RECEIPT_MISMATCH"):
        await documents.consumption.fetch("m1", snapshot.snapshot_id, 2)


@pytest.mark.parametrize(
    "changed",
    [
        {"content_digest": digest_bytes(b"another answer")},
        {"reply_id": "r2"},
    ],
)
async def test_a_message_has_one_reply_that_says_one_thing(
    documents: DocumentSystem, snapshot: ActionSnapshot, changed: dict[str, str]
):
    receipt = (await documents.consumption.fetch("m1", snapshot.snapshot_id, 1)).receipt
    await documents.consumption.reply(reply(receipt.receipt_id))

    with pytest.raises(Refusal, match="REPLY_CONFLICT"):
        await documents.consumption.reply(reply(receipt.receipt_id, **changed))


async def test_a_reply_is_not_taken_up_for_another_target_or_for_another_turn(
    documents: DocumentSystem, snapshot: ActionSnapshot
):
    first = (await documents.consumption.fetch("m1", snapshot.snapshot_id, 1)).receipt
    await documents.consumption.reply(reply(first.receipt_id))
    whole = await documents.capturer.capture(capture_of("c2", message_id="m1", conversation="chat"))
    other = (await documents.consumption.fetch("m1", whole.snapshot_id, 2)).receipt
    with pytest.raises(Refusal, match="REPLY_CONFLICT"):
        await documents.consumption.reply(reply(other.receipt_id))

    next_turn = await documents.capturer.capture(capture_of("c3", message_id="m2", conversation="chat"))
    receipt = (await documents.consumption.fetch("m2", next_turn.snapshot_id, 1)).receipt
    with pytest.raises(Refusal, match="REPLY_CONFLICT"):
        await documents.consumption.reply(reply(receipt.receipt_id, message_id="m2"))


async def test_an_answer_to_a_question_is_bound_to_the_question_s_snapshot(documents: DocumentSystem):
    await documents.log.create("notes", "acme", update=Editor("Text.").typed())
    question = await documents.capturer.capture(capture_of("question", conversation="chat"))

    fetched = await documents.consumption.fetch("answer-1", question.snapshot_id, 1, conversation="chat")

    assert fetched.receipt.snapshot_id == question.snapshot_id
    assert fetched.receipt.fetch_outcome is FetchOutcome.AVAILABLE


async def test_of_two_attempts_at_once_one_reply_stands(documents: DocumentSystem, snapshot: ActionSnapshot):
    receipt = (await documents.consumption.fetch("m1", snapshot.snapshot_id, 1)).receipt
    replies = [documents.consumption.reply(reply(receipt.receipt_id, reply_id=f"r{number}")) for number in range(6)]

    made = await asyncio.gather(*replies, return_exceptions=True)

    stand = [one for one in made if not isinstance(one, BaseException)]
    assert len(stand) == 1
    assert all(isinstance(one, Refusal) for one in made if one is not stand[0])
