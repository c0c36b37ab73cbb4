"""What a server may send us, and what we know of what we sent it: both transports pass through here.

Only answers and requests go on to the protocol. Notifications are dropped where they are read: none of them decides
anything, and a server that floods us with them must cost neither memory nor the deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

MESSAGE_LIMIT_BYTES = 32 * 1024 * 1024
"""A larger message ends the connection."""

MOST_IGNORED = 50_000
"""Notifications and lines that are no messages which one connection may bring before it is ended."""

MOST_REQUESTS = 100
"""Requests a server may make of us (questions, pings) on one connection."""

_YIELD_EVERY = 64


class Traffic:
    """What is known of a connection's traffic."""

    def __init__(self) -> None:
        self.call_sent = False
        """Whether a call may have reached the server."""
        self._ignored = 0
        self._requests = 0

    async def admits(self, item: SessionMessage | Exception) -> bool:
        """Whether an incoming item goes on. Raises `StopAsyncIteration` when the connection brought too much."""
        from mcp_types import JSONRPCNotification, JSONRPCRequest

        if isinstance(item, Exception) or isinstance(item.message, JSONRPCNotification):
            await self.ignore()
            return False
        if isinstance(item.message, JSONRPCRequest):
            self._requests += 1
            if self._requests > MOST_REQUESTS:
                raise StopAsyncIteration
        return True

    async def ignore(self) -> None:
        """Count something that is dropped, and let others run now and then: a flood never waits by itself."""
        self._ignored += 1
        if self._ignored > MOST_IGNORED:
            raise StopAsyncIteration
        if self._ignored % _YIELD_EVERY == 0:
            await asyncio.sleep(0)


class Incoming:
    """A read stream as the protocol wants it, fed by `read`, which raises `StopAsyncIteration` at the end."""

    def __init__(self, read: Callable[[], Awaitable[SessionMessage | Exception]], traffic: Traffic) -> None:
        self._read = read
        self._traffic = traffic

    def __aiter__(self) -> Incoming:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        while True:
            item = await self._read()
            if await self._traffic.admits(item):
                return item

    async def receive(self) -> SessionMessage | Exception:
        import anyio

        try:
            return await self.__anext__()
        except StopAsyncIteration:
            raise anyio.EndOfStream from None

    async def aclose(self) -> None:
        return None

    async def __aenter__(self) -> Incoming:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class Outgoing:
    """A write stream as the protocol wants it, that hands every message to `write`."""

    def __init__(self, write: Callable[[SessionMessage], Awaitable[None]]) -> None:
        self._write = write

    async def send(self, item: SessionMessage, /) -> None:
        await self._write(item)

    async def aclose(self) -> None:
        return None

    async def __aenter__(self) -> Outgoing:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


Streams = tuple[Incoming, Outgoing]
StreamsOf = AsyncIterator[Streams]


def is_call(message: Any) -> bool:
    """Whether an outgoing message is the one that may have an effect."""
    return getattr(message, "method", None) == "tools/call"
