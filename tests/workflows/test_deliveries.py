"""Callbacks through a real worker: each event once, however the receiver behaves, and in nobody's way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.client import Client, WorkflowExecutionStatus

from counterfoil import verify_callback
from counterfoil.models.operations.outcomes import UnknownEffect
from support.callback_receiver import KEY, Receiver, receiving, until
from support.scripted import request, scripted
from support.stack import Stack, settled

QUESTION = {"reason": "it is live data", "question": "Set the value to 2?"}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as running:
        yield running


@pytest_asyncio.fixture
async def telling(
    client: Client, tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Stack]:
    """A stack, not started yet, that tells `receiver`."""
    monkeypatch.setenv("CALLBACK_TEST_KEY", KEY)
    made = Stack(
        client, tmp_path, heartbeat_seconds=15, callback_url=receiver.url, callback_key="env:CALLBACK_TEST_KEY"
    )
    try:
        yield made
    finally:
        await made.close()


async def received(receiver: Receiver, count: int, seconds: float = 20) -> None:
    await asyncio.to_thread(until, lambda: len(receiver.received) >= count, seconds)


async def test_a_receiver_is_told_once_that_an_operation_asks_and_once_that_it_settled(
    telling: Stack, receiver: Receiver
):
    scripted(telling.catalog)
    await telling.start()
    control_plane = telling.control_plane()

    created = await control_plane.create(request(decision=QUESTION))
    await received(receiver, 1)
    asks = receiver.told()[0]
    await control_plane.decide(created.operation_id, "approve", proposal_digest=asks["proposal_digest"])
    operation = await settled(control_plane, created.operation_id)
    await received(receiver, 2)

    assert [(one["type"], one["state"], one["verification"]) for one in receiver.told()] == [
        ("operation.awaits_decision", "awaiting_decision", "pending"),
        ("operation.settled", "completed", "verified"),
    ]
    assert receiver.told()[1]["version"] == operation.version
    assert receiver.told()[1]["proposal_digest"] is None
    sent = receiver.received[1]
    assert verify_callback(bytes.fromhex(KEY), sent.headers, sent.body).operation_id == created.operation_id
