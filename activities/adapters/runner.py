"""Calls adapters so that none can hurt another: off the worker's event loop, one thread a call, bounded per route.

A call that outlives its time-out is given up; its thread keeps the route's slot until it ends, so a route whose calls
hang runs out of slots, and nobody else's do. What comes back is checked: an adapter is believed only in the words of
`models.operations.outcomes`.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import UnionType
from typing import Any, TypeVar, get_args

from pydantic import BaseModel

from counterfoil.models.common import BlobRef, canonical_json
from counterfoil.models.errors import ErrorCode, Refusal
from counterfoil.models.operations.outcomes import TypedResult
from counterfoil.models.operations.route import Route

R = TypeVar("R", bound=BaseModel)

RESULT_INLINE_LIMIT_BYTES = 4096
RESULT_LIMIT_BYTES = 64 * 1024 * 1024
ANSWER_LIMIT_BYTES = 256 * 1024


class AdapterRaised(Exception):
    """The adapter raised; `detail` names what, without a traceback."""

    code: ErrorCode = ErrorCode.ADAPTER_RAISED

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail[:1000]


class AdapterTimedOut(AdapterRaised):
    """The adapter did not answer in the route's time. It may still act, and `late` is what it answers then."""

    code = ErrorCode.ADAPTER_TIMED_OUT

    def __init__(self, detail: str, late: asyncio.Future[Any]) -> None:
        super().__init__(detail)
        self.late = late


class AdapterJunk(AdapterRaised):
    """The adapter returned something that is no answer."""

    code = ErrorCode.ADAPTER_JUNK


class Slot:
    """One of a route's places for a running call."""

    def __init__(self, semaphore: asyncio.Semaphore) -> None:
        self._semaphore = semaphore
        self._stray: int = 0
        self._closed = False

    async def call(
        self,
        method: Callable[..., Any],
        *arguments: Any,
        timeout_seconds: float,
        check: Callable[[Any], Any] = lambda value: value,
    ) -> Any:
        """Run a blocking or async adapter method in a thread of its own; what it raises comes as `AdapterRaised`.

        `check` looks at what it returned, in the same thread and time, and returns what is believed of it.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        answer.add_done_callback(_looked_at)
        call = _Call(method, arguments, check)

        def finish(value: Any, error: BaseException | None) -> None:
            self._stray -= 1
            self._give_back()
            if answer.done():
                return
            if error is None:
                answer.set_result(value)
            else:
                answer.set_exception(error if isinstance(error, AdapterRaised) else AdapterRaised(told(error)))

        def run() -> None:
            value, error = call.run()
            try:
                loop.call_soon_threadsafe(finish, value, error)
            except RuntimeError:
                return  # the loop is gone: the process is ending

        try:
            threading.Thread(target=run, name=f"adapter:{getattr(method, '__qualname__', '?')}", daemon=True).start()
        except RuntimeError as error:
            raise AdapterRaised(f"no thread can be had for the call: {error}") from error
        self._stray += 1
        try:
            return await asyncio.wait_for(asyncio.shield(answer), timeout_seconds)
        except TimeoutError:
            call.give_up()
            raise AdapterTimedOut(f"no answer within {timeout_seconds:g} s", answer) from None
        except asyncio.CancelledError:
            call.give_up()
            raise

    def close(self) -> None:
        self._closed = True
        self._give_back()

    def _give_back(self) -> None:
        if self._closed and self._stray == 0:
            self._stray = -1
            self._semaphore.release()


def told(error: BaseException) -> str:
    """An exception in one line; one that cannot even be written down, by its type."""
    try:
        # Half a character, which a program may well put into a message, can be written down nowhere.
        return f"{type(error).__name__}: {error}".encode("utf-8", "replace").decode()
    except BaseException:  # a hostile __str__ must not pass for silence
        return type(error).__name__


def _looked_at(answer: asyncio.Future[Any]) -> None:
    if not answer.cancelled():
        answer.exception()


class _Call:
    """A method call that may be a coroutine, with a loop of its own that can be told to give up."""

    def __init__(self, method: Callable[..., Any], arguments: tuple[Any, ...], check: Callable[[Any], Any]) -> None:
        self._method = method
        self._arguments = arguments
        self._check = check
        self._running: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None
        self._given_up = False

    def run(self) -> tuple[Any, BaseException | None]:
        try:
            value = self._method(*self._arguments)
            if inspect.isawaitable(value):
                value = asyncio.run(self._awaited(value))
            return self._check(value), None
        except BaseException as error:  # a panic or an exit in an adapter's thread must not pass for silence
            return None, error

    async def _awaited(self, value: Any) -> Any:
        task = asyncio.ensure_future(value)
        self._running = (asyncio.get_running_loop(), task)
        if self._given_up:
            task.cancel()
        return await task

    def give_up(self) -> None:
        """Cancel a coroutine. A blocking method cannot be stopped: it is left to end by itself."""
        self._given_up = True
        if self._running is not None:
            loop, task = self._running
            try:
                loop.call_soon_threadsafe(task.cancel)
            except RuntimeError:
                return  # it ended just now


class AdapterRunner:
    """Slots for every route, made on first use."""

    def __init__(self, slot_wait_seconds: float = 20.0) -> None:
        self._slot_wait_seconds = slot_wait_seconds
        self._semaphores: dict[str, asyncio.Semaphore] = {}

    @asynccontextmanager
    async def slot(self, route: Route) -> AsyncIterator[Slot]:
        """A place for calls of this route. Raises `Refusal` (`ROUTE_BUSY`) when none becomes free."""
        async with self.place(route.id, route.max_concurrent_calls) as slot:
            yield slot

    @asynccontextmanager
    async def place(self, name: str, places: int) -> AsyncIterator[Slot]:
        """One of `places` that go by this name. Raises `Refusal` (`ROUTE_BUSY`) when none becomes free."""
        semaphore = self._semaphores.setdefault(name, asyncio.Semaphore(places))
        try:
            await asyncio.wait_for(semaphore.acquire(), self._slot_wait_seconds)
        except TimeoutError:
            raise Refusal(
                ErrorCode.ROUTE_BUSY,
                f"all {places} places of the route are taken, perhaps by calls that hang",
                subject=name,
                remedy="nothing was dispatched; it is tried again by itself",
            ) from None
        slot = Slot(semaphore)
        try:
            yield slot
        finally:
            slot.close()


def checked(value: Any, allowed: UnionType | type[R], put: Callable[[bytes, str], BlobRef]) -> Any:
    """An adapter's answer as one of the allowed contracts, its large result data moved to a blob.

    Raises `AdapterJunk` for anything else: `value` is whatever the adapter returned.
    """
    classes = get_args(allowed) or (allowed,)
    if not isinstance(value, classes):
        raise AdapterJunk(f"{type(value).__name__} is no answer; one of {', '.join(c.__name__ for c in classes)} is")
    large = _large_result(value)
    if large is not None:
        if len(large) > RESULT_LIMIT_BYTES:
            raise AdapterJunk(f"the result has {len(large)} bytes, the limit is {RESULT_LIMIT_BYTES}")
        blob = put(large, "application/json")
        value = value.model_copy(update={"result": value.result.model_copy(update={"data": {}, "blob": blob})})
    return _kept(value)


def _large_result(value: Any) -> bytes | None:
    result = getattr(value, "result", None)
    if not isinstance(result, TypedResult):
        return None
    with _junk_otherwise():
        content = canonical_json(result.model_dump(mode="json")["data"])
    return content if len(content) > RESULT_INLINE_LIMIT_BYTES else None


def _kept(value: Any) -> Any:
    with _junk_otherwise():
        kept = type(value).model_validate_json(value.model_dump_json(warnings=False))
    if len(kept.model_dump_json()) > ANSWER_LIMIT_BYTES:
        raise AdapterJunk(f"the answer, its result aside, is limited to {ANSWER_LIMIT_BYTES} bytes")
    return kept


@contextmanager
def _junk_otherwise() -> Iterator[None]:
    """Whatever an answer that was not made by the contract's own constructor raises, it is no answer."""
    try:
        yield
    except Exception as error:
        raise AdapterJunk(f"the answer cannot be kept: {told(error)}") from error
