"""Calling adapters: places, time-outs, what is left behind, and what counts as an answer."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import UTC, datetime

import pytest

from counterfoil.activities.adapters.runner import (
    AdapterJunk,
    AdapterRaised,
    AdapterRunner,
    AdapterTimedOut,
    checked,
)
from counterfoil.models.common import BlobRef, digest_bytes
from counterfoil.models.errors import Refusal
from counterfoil.models.operations.outcomes import (
    Completed,
    Evidence,
    Failed,
    NotApplied,
    Outcome,
    Ready,
    Running,
    TypedResult,
)
from support.scripted import scripted_route

ROUTE = scripted_route(max_concurrent_calls=1)
OTHER = scripted_route("other.v1", max_concurrent_calls=1)


class Panic(BaseException):
    """What a Rust extension's panic is to Python."""


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise SystemExit("not even this")


@pytest.fixture
def runner() -> AdapterRunner:
    return AdapterRunner(slot_wait_seconds=0.2)


async def called(runner: AdapterRunner, method, *arguments, timeout_seconds: float = 5, route=ROUTE):
    async with runner.slot(route) as slot:
        return await slot.call(method, *arguments, timeout_seconds=timeout_seconds)


# calls


async def test_a_blocking_method_runs_off_the_event_loop(runner: AdapterRunner):
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.create_task(tick())
    await called(runner, time.sleep, 0.3)
    ticking.cancel()

    assert ticks > 10


async def test_a_coroutine_runs_on_a_loop_and_in_a_thread_of_its_own(runner: AdapterRunner):
    async def where():
        await asyncio.sleep(0)
        return threading.current_thread(), asyncio.get_running_loop()

    thread, loop = await called(runner, where)

    assert thread is not threading.current_thread()
    assert loop is not asyncio.get_running_loop()


async def test_arguments_and_answers_pass_through(runner: AdapterRunner):
    assert await called(runner, lambda a, b: a + b, 1, 2) == 3


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (ValueError("half \ud83d"), "ValueError: half ?"),
        (ValueError("boom"), "ValueError: boom"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt: "),
        (Panic("rust"), "Panic: rust"),
        (StopIteration(1), "StopIteration: 1"),
        (GeneratorExit(), "GeneratorExit: "),
        (asyncio.CancelledError(), "CancelledError: "),
        (Unspeakable(), "Unspeakable"),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("is_async", [False, True])
async def test_whatever_a_method_raises_comes_as_one_kind_of_error(runner: AdapterRunner, raised, told, is_async):
    def blocking():
        raise raised

    async def awaited():
        raise raised

    with pytest.raises(AdapterRaised) as error:
        await called(runner, awaited if is_async else blocking)
    if not (is_async and isinstance(raised, StopIteration)):  # Python itself makes it a RuntimeError there
        assert error.value.detail == told
    assert await called(runner, lambda: "the place is free again") == "the place is free again"


# time-outs


async def test_a_call_that_hangs_is_given_up_in_time(runner: AdapterRunner):
    gate = threading.Event()
    started = time.monotonic()

    with pytest.raises(AdapterTimedOut, match=r"no answer within 0\.2 s"):
        await called(runner, gate.wait, timeout_seconds=0.2)

    assert time.monotonic() - started < 2
    gate.set()


async def test_a_call_that_hangs_keeps_its_routes_place_and_nobody_elses(runner: AdapterRunner):
    gate = threading.Event()
    with pytest.raises(AdapterTimedOut):
        await called(runner, gate.wait, timeout_seconds=0.05)

    with pytest.raises(Refusal, match="ROUTE_BUSY"):
        await called(runner, lambda: 1)
    assert await called(runner, lambda: 1, route=OTHER) == 1

    gate.set()
    await asyncio.sleep(0.1)
    assert await called(runner, lambda: 2) == 2


async def test_a_place_given_back_late_is_given_back_once(runner: AdapterRunner):
    gates = [threading.Event() for _ in range(3)]
    for gate in gates:
        with pytest.raises(AdapterTimedOut):
            await called(runner, gate.wait, timeout_seconds=0.05)
        gate.set()
        await asyncio.sleep(0.1)
    entered = asyncio.Event()

    async def hold() -> None:
        async with runner.slot(ROUTE):
            entered.set()
            await asyncio.sleep(1)

    holding = asyncio.create_task(hold())
    await entered.wait()
    with pytest.raises(Refusal, match="ROUTE_BUSY"):
        await called(runner, lambda: 1)
    holding.cancel()


async def test_the_late_answer_of_a_call_that_was_given_up_can_still_be_had(runner: AdapterRunner):
    gate = threading.Event()

    def late():
        gate.wait()
        return "after all"

    with pytest.raises(AdapterTimedOut) as error:
        await called(runner, late, timeout_seconds=0.05)
    gate.set()

    assert await asyncio.wait_for(error.value.late, 5) == "after all"


async def test_a_hanging_coroutine_is_cancelled_and_its_place_is_free_again(runner: AdapterRunner):
    cancelled = threading.Event()

    async def hang():
        try:
            await asyncio.sleep(600)
        finally:
            cancelled.set()

    with pytest.raises(AdapterTimedOut):
        await called(runner, hang, timeout_seconds=0.1)

    assert await asyncio.to_thread(cancelled.wait, 5)
    await asyncio.sleep(0.1)
    assert await called(runner, lambda: 1) == 1


async def test_a_coroutine_that_blocks_its_loop_hurts_nobody(runner: AdapterRunner):
    async def block():
        time.sleep(0.5)  # noqa: ASYNC251  what nobody should write in a coroutine

    with pytest.raises(AdapterTimedOut):
        await called(runner, block, timeout_seconds=0.1)
    assert await called(runner, lambda: 1, route=OTHER) == 1


async def test_a_cancelled_call_gives_its_coroutine_up(runner: AdapterRunner):
    begun, cancelled = threading.Event(), threading.Event()

    async def hang():
        begun.set()
        try:
            await asyncio.sleep(600)
        finally:
            cancelled.set()

    calling = asyncio.create_task(called(runner, hang, timeout_seconds=60))
    await asyncio.to_thread(begun.wait, 5)
    calling.cancel()

    assert await asyncio.to_thread(cancelled.wait, 5)
    with pytest.raises(asyncio.CancelledError):
        await calling


async def test_places_are_counted_for_each_route(runner: AdapterRunner):
    route = scripted_route("wide.v1", max_concurrent_calls=3)
    inside, most = 0, 0
    lock = threading.Lock()

    def count():
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        time.sleep(0.02)
        with lock:
            inside -= 1

    patient = AdapterRunner(slot_wait_seconds=20)
    await asyncio.gather(*(called(patient, count, route=route) for _ in range(12)))

    assert 2 <= most <= 3


# answers


class Blobs:
    """Keeps what is put, in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def __call__(self, data: bytes, media_type: str) -> BlobRef:
        digest = digest_bytes(data)
        self.kept[digest] = data
        return BlobRef(digest=digest, size_bytes=len(data), media_type=media_type)


class Hostile(Completed):
    """An answer that is no plain one."""

    def model_dump_json(self, **_):
        raise AttributeError("no")


def evidence() -> Evidence:
    return Evidence(source="s", observed_at=datetime(2026, 1, 1, tzinfo=UTC))


def test_an_answer_in_the_contracts_words_is_believed():
    done = Completed(result=TypedResult(kind="k", summary="s", data={"value": 2}))

    assert checked(done, Outcome, Blobs()) == done
    assert checked(Failed(code="C", detail="d"), Outcome, Blobs()).status == "failed"


@pytest.mark.parametrize(
    "value",
    [
        None,
        0,
        "completed",
        {"status": "completed"},
        object(),
        [],
        Completed,
        Ready(),
        NotApplied(detail="x", evidence=evidence()),
        Completed.model_construct(status="completed"),
        Completed.model_construct(status="completed", result=5),
        Completed.model_construct(status="failed", result=TypedResult(kind="k", summary="s")),
        Running.model_construct(status="running", external_id="x" * 5000),
        Completed(result=TypedResult(kind="k", summary="s", data={"x": object()})),
        Completed(result=TypedResult(kind="k", summary="s", data={"x": "\ud800"})),
        Completed(result=TypedResult.model_construct(kind="k\x00", summary="s", data={}, blob=None)),
        Hostile(result=TypedResult(kind="k", summary="s")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_anything_else_is_junk(value):
    with pytest.raises(AdapterJunk):
        checked(value, Outcome, Blobs())


def test_data_that_contains_itself_is_junk():
    data: dict[str, object] = {}
    data["self"] = data

    with pytest.raises(AdapterJunk):
        checked(Completed(result=TypedResult.model_construct(kind="k", summary="s", data=data)), Outcome, Blobs())


def test_a_small_result_stays_where_it_is_and_a_large_one_becomes_a_blob():
    blobs = Blobs()
    small = checked(Completed(result=TypedResult(kind="k", summary="s", data={"t": "x" * 4000})), Outcome, blobs)
    large = checked(Completed(result=TypedResult(kind="k", summary="s", data={"t": "x" * 5_000_000})), Outcome, blobs)

    assert (small.result.blob, len(small.result.data["t"])) == (None, 4000)
    assert (large.result.data, large.result.blob.size_bytes) == ({}, 5_000_008)
    assert [len(content) for content in blobs.kept.values()] == [5_000_008]


def test_a_result_beyond_all_measure_is_junk():
    result = TypedResult(kind="k", summary="s", data={"t": "x" * (65 * 1024 * 1024)})

    with pytest.raises(AdapterJunk, match="the limit is 67108864"):
        checked(Completed(result=result), Outcome, Blobs())


def test_an_answer_that_is_large_beside_its_result_is_junk():
    facts = {"t": "x" * 300_000}
    claim = evidence().model_copy(update={"facts": facts})

    with pytest.raises(AdapterJunk, match="limited to 262144 bytes"):
        checked(NotApplied(detail="d", evidence=claim), NotApplied, Blobs())


def test_a_blob_store_that_is_away_is_not_the_adapters_fault():
    def away(_data: bytes, _media_type: str) -> BlobRef:
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        checked(Completed(result=TypedResult(kind="k", summary="s", data={"t": "x" * 5000})), Outcome, away)
