"""Sending what is in the outbox, to a real receiver that misbehaves: until it is taken, or for three days."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio
from temporalio.testing import ActivityEnvironment

from counterfoil import verify_callback
from counterfoil.activities.deliveries import outbox
from counterfoil.activities.deliveries.activities import DeliveryActivities, DeliveryParts
from counterfoil.activities.deliveries.bell import Bell
from counterfoil.activities.deliveries.post import Post
from counterfoil.activities.store.database import Database
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.deliveries.contract import Callback, CallbackType, Delivery
from support.callback_receiver import KEY, Receiver, receiving

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
SECRETS = (KEY, "in-the-address")


class Deliverer:
    """The outbox on one database, a clock to set, and somebody who sends."""

    def __init__(self, database: Database, url: str) -> None:
        self.database = database
        self.now = NOON
        database.clock = lambda: self.now
        post = Post(url, bytes.fromhex(KEY), timeout_seconds=0.5)
        self.bell = Bell(unneeded)
        self.activities = DeliveryActivities(DeliveryParts(database, post, self.bell, chance=lambda: 0.0))

    async def put(self, operation_id: str = "op-1", version: int = 3) -> None:
        callback = Callback(
            type=CallbackType.SETTLED,
            timestamp=self.now,
            operation_id=operation_id,
            workspace="w",
            session="s",
            capability="record.update",
            route_id="scripted.v1",
            state="completed",
            verification="verified",
            cancellation="none",
            revision=3,
            version=version,
        )

        async def enqueue(work: UnitOfWork) -> None:
            outbox.put(work, callback)

        await self.database.run(enqueue)

    async def send(self, *, after: timedelta = timedelta()) -> Delivery:
        """Send what is due after a while; how the first operation's callback stands then."""
        self.now += after
        await self.activities.send_due()
        return (await self.about())[0]

    async def about(self, operation_id: str = "op-1") -> tuple[Delivery, ...]:
        return await self.database.read(lambda work: outbox.about(work, operation_id))


async def unneeded() -> None:
    raise AssertionError("nobody is to be woken")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as running:
        yield running


@pytest_asyncio.fixture
async def deliverer(database: Database, receiver: Receiver) -> AsyncIterator[Deliverer]:
    yield Deliverer(database, receiver.url)


async def test_what_is_taken_is_sent_once_signed_and_to_the_whole_address(deliverer: Deliverer, receiver: Receiver):
    await deliverer.put()

    first = await deliverer.send()
    again = await deliverer.send(after=timedelta(days=1))

    assert (first.state, first.tries, first.status, first.due_at, first.settled_at) == ("delivered", 1, 204, None, NOON)
    assert again == first
    assert len(receiver.received) == 1
    sent = receiver.received[0]
    assert sent.path == "/hook?token=in-the-address"
    assert sent.headers["content-type"] == "application/json"
    assert verify_callback(bytes.fromhex(KEY), sent.headers, sent.body).operation_id == "op-1"
    assert sent.id == first.id


@pytest.mark.parametrize(
    ("answer", "status", "problem"),
    [
        (500, 500, "it was answered with 500"),
        (404, 404, "it was answered with 404"),
        (301, 301, "it was answered with 301"),
        ("reset", None, "the exchange failed: ReadError"),
        ("hang", None, "no answer within 0.5 s"),
    ],
)
async def test_what_is_not_taken_is_sent_again_under_the_same_id_and_signed_anew(
    deliverer: Deliverer, receiver: Receiver, answer: int | str, status: int | None, problem: str
):
    receiver.answers.append(answer)
    await deliverer.put()

    failed = await deliverer.send()
    too_soon = await deliverer.send(after=timedelta(seconds=4))
    taken = await deliverer.send(after=timedelta(seconds=1))

    assert (failed.state, failed.tries, failed.status, failed.problem) == ("pending", 1, status, problem)
    assert failed.due_at == NOON + timedelta(seconds=5)
    assert too_soon == failed
    assert (taken.state, taken.tries, taken.status, taken.problem) == ("delivered", 2, 204, None)
    first, second = receiver.received
    assert (first.id, first.body) == (second.id, second.body)
    for sent in (first, second):
        verify_callback(bytes.fromhex(KEY), sent.headers, sent.body)


async def test_nobody_at_the_address_is_no_loss(database: Database, receiver: Receiver):
    deliverer = Deliverer(database, "http://127.0.0.1:1/nobody?token=in-the-address")
    await deliverer.put()

    failed = await deliverer.send()

    assert (failed.state, failed.problem) == ("pending", "no connection")


async def test_a_redirect_is_not_followed(deliverer: Deliverer, receiver: Receiver):
    receiver.always = 307
    receiver.answer_headers = {"Location": receiver.url.replace("/hook", "/elsewhere")}
    await deliverer.put()

    failed = await deliverer.send()

    assert (failed.state, failed.status) == ("pending", 307)
    assert [sent.path for sent in receiver.received] == ["/hook?token=in-the-address"]


async def test_a_receiver_that_asks_for_a_pause_gets_it(deliverer: Deliverer, receiver: Receiver):
    receiver.answers.append(429)
    receiver.answer_headers = {"Retry-After": "90"}
    await deliverer.put()

    assert (await deliverer.send()).due_at == NOON + timedelta(seconds=90)


@pytest.mark.parametrize("asked", ["soon", "-1", "9" * 50, "Wed, 21 Oct 2026 07:28:00 GMT", ""])
async def test_a_pause_that_cannot_be_read_is_no_pause(deliverer: Deliverer, receiver: Receiver, asked: str):
    receiver.answers.append(503)
    receiver.answer_headers = {"Retry-After": asked}
    await deliverer.put()

    assert (await deliverer.send()).due_at == NOON + timedelta(seconds=5)


async def test_it_is_given_up_after_eleven_tries_in_three_days_and_that_is_logged(
    deliverer: Deliverer, receiver: Receiver, caplog: pytest.LogCaptureFixture
):
    receiver.always = 500
    await deliverer.put()
    waited = 0

    while (found := await deliverer.send()).state == "pending":
        assert found.due_at is not None
        waited += 1
        deliverer.now = found.due_at

    assert (found.state, found.tries, found.status, found.due_at) == ("given_up", 11, 500, None)
    assert found.settled_at is not None
    assert found.settled_at - NOON == timedelta(hours=75, minutes=35, seconds=35)
    assert (waited, len(receiver.received)) == (10, 11)
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert told == [
        f"callback {found.id} (operation.settled) is given up after 11 tries: it was answered with 500",
    ]
    assert await deliverer.activities.next_in_seconds() is None


async def test_a_receiver_that_is_gone_is_told_no_more_of_it(deliverer: Deliverer, receiver: Receiver):
    receiver.always = 410
    await deliverer.put()

    found = await deliverer.send()

    assert (found.state, found.tries, found.status) == ("given_up", 1, 410)


async def test_many_are_sent_a_few_at_a_time_and_each_once(deliverer: Deliverer, receiver: Receiver):
    for version in range(1, 251):
        await deliverer.put(version=version)

    while await deliverer.activities.next_in_seconds() is not None:
        await deliverer.activities.send_due()

    versions = [sent.told["version"] for sent in receiver.received]
    assert sorted(versions) == list(range(1, 251))
    assert {one.state for one in await deliverer.about()} == {"delivered"}


async def test_one_that_is_never_taken_holds_up_no_other(deliverer: Deliverer, receiver: Receiver):
    receiver.answers.append("hang")
    await deliverer.put(version=1)
    await deliverer.send()
    await deliverer.put(version=2)

    await deliverer.send(after=timedelta(seconds=1))

    assert [(one.tries, one.state) for one in await deliverer.about()] == [(1, "pending"), (1, "delivered")]
    assert await deliverer.activities.next_in_seconds() == 4.0


async def test_a_turn_ends_where_the_next_try_is_far_off_and_says_how_far(deliverer: Deliverer, receiver: Receiver):
    receiver.answers.append(503)
    receiver.answer_headers = {"Retry-After": "3600"}
    await deliverer.put()

    rest = await ActivityEnvironment().run(deliverer.activities.deliver)

    assert rest.next_in_seconds == 3600


async def test_a_turn_ends_at_once_where_the_worker_is_told_to_stop(deliverer: Deliverer, receiver: Receiver):
    receiver.answers.append(503)
    await deliverer.put()
    environment = ActivityEnvironment()

    turn = asyncio.create_task(environment.run(deliverer.activities.deliver))
    await asyncio.sleep(0.5)
    environment.worker_shutdown()
    rest = await asyncio.wait_for(turn, 2)

    assert rest.next_in_seconds == 5


async def test_what_is_put_in_while_a_turn_is_about_to_end_is_sent_in_it(
    deliverer: Deliverer, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
):
    receiver.answers.append(503)
    receiver.answer_headers = {"Retry-After": "3600"}
    await deliverer.put(version=1)
    look = deliverer.activities.next_in_seconds
    looks: list[float | None] = []

    async def and_then_one_more_comes() -> float | None:
        looks.append(await look())
        if len(looks) == 1:
            await deliverer.put(version=2)
            deliverer.bell.ring()
        return looks[-1]

    monkeypatch.setattr(deliverer.activities, "next_in_seconds", and_then_one_more_comes)

    rest = await ActivityEnvironment().run(deliverer.activities.deliver)

    assert [sent.told["version"] for sent in receiver.received] == [1, 2]
    assert (looks, rest.next_in_seconds) == ([3600, 3600], 3600)


async def test_two_who_send_the_same_record_it_once(deliverer: Deliverer, receiver: Receiver):
    await deliverer.put()

    await asyncio.gather(deliverer.activities.send_due(), deliverer.activities.send_due())

    [found] = await deliverer.about()
    assert (found.state, found.tries) == ("delivered", 1)
    assert len({sent.id for sent in receiver.received}) == 1


async def test_what_is_told_after_a_restore_does_not_pass_for_what_was_told_before(deliverer: Deliverer):
    await deliverer.put()
    [before] = await deliverer.about()
    deliverer.now += timedelta(minutes=1)
    await deliverer.put()

    ids = {one.id for one in await deliverer.about()}

    assert len(ids) == 2
    assert before.id in ids


async def test_no_secret_is_logged_or_kept_however_it_fails(
    deliverer: Deliverer, receiver: Receiver, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    for name in ("httpx2", "httpcore2"):
        logging.getLogger(name).setLevel(logging.NOTSET)
    Post(receiver.url, bytes.fromhex(KEY))
    receiver.answers.extend([500, "reset", "hang", 302, 204])
    await deliverer.put()

    while (found := await deliverer.send()).state == "pending":
        assert not any(secret in repr(found) for secret in SECRETS)
        deliverer.now = found.due_at or deliverer.now

    assert found.tries == 5
    written = caplog.text + repr(found)
    assert not any(secret in written for secret in SECRETS)
    assert "hook" not in written


async def test_a_ring_that_is_not_heard_here_wakes_the_workflow_seldom_however_often_it_rings():
    woken: list[float] = []

    async def wake() -> None:
        woken.append(asyncio.get_running_loop().time())

    bell = Bell(wake)
    for _ in range(50):
        bell.ring()
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.6)

    assert 2 <= len(woken) <= 4


async def test_a_ring_that_cannot_be_passed_on_is_logged_and_forgotten(caplog: pytest.LogCaptureFixture):
    async def wake() -> None:
        raise OSError("Temporal is away")

    bell = Bell(wake)
    bell.ring()
    await asyncio.sleep(0.05)

    assert "the sweep will: Temporal is away" in caplog.text
    bell.stop()


async def test_a_ring_that_is_heard_here_wakes_nobody():
    bell = Bell(unneeded)
    with bell.listening():
        bell.ring()
        await asyncio.sleep(0.05)

        assert bell.rung.is_set()


async def test_what_waits_longer_than_a_minute_past_its_time_is_overdue(deliverer: Deliverer):
    await deliverer.put()
    deliverer.now += timedelta(seconds=60)
    assert await deliverer.database.read(outbox.is_overdue) is False

    deliverer.now += timedelta(seconds=1)
    assert await deliverer.database.read(outbox.is_overdue) is True
