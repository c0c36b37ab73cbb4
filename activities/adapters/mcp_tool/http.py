"""A server over streamable HTTP: the protocol is the library's; which requests reached the server is noted here."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from counterfoil.activities.adapters.mcp_tool.profile import HttpTransport
from counterfoil.activities.adapters.mcp_tool.streams import (
    MESSAGE_LIMIT_BYTES,
    Incoming,
    Outgoing,
    StreamsOf,
    Traffic,
)

if TYPE_CHECKING:
    import httpx2
    from mcp.shared.message import SessionMessage

CONNECT_SECONDS = 10.0
READ_SECONDS = 120.0
"""No step lasts longer; the step's own deadline comes first."""


@asynccontextmanager
async def http_streams(transport: HttpTransport, headers: dict[str, str], traffic: Traffic) -> StreamsOf:
    """Speak to the server. What goes wrong with a connection is raised when the block is left, in a group."""
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    timeouts = httpx2.Timeout(CONNECT_SECONDS, read=READ_SECONDS)
    client = httpx2.AsyncClient(headers=headers, timeout=timeouts, transport=_noting(traffic), trust_env=False)
    async with (
        client,
        streamable_http_client(transport.url, http_client=client, max_sse_event_size=MESSAGE_LIMIT_BYTES) as (
            received,
            sent,
        ),
    ):

        async def write(item: SessionMessage) -> None:
            await sent.send(item)

        incoming = Incoming(received.__anext__, traffic)
        incoming.aclose = received.aclose  # type: ignore[method-assign]
        outgoing = Outgoing(write)
        outgoing.aclose = sent.aclose  # type: ignore[method-assign]
        yield incoming, outgoing


def _noting(traffic: Traffic) -> httpx2.AsyncBaseTransport:
    """A transport that notes whether a call may have reached the server, and ends answers that are too large."""
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        def __init__(self, stream: httpx2.AsyncByteStream) -> None:
            self._stream = stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            received = 0
            async for chunk in self._stream:
                received += len(chunk)
                if received > MESSAGE_LIMIT_BYTES:
                    raise httpx2.ReadError(f"the answer is larger than {MESSAGE_LIMIT_BYTES} bytes")
                yield chunk

        async def aclose(self) -> None:
            await self._stream.aclose()

    class Noting(httpx2.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            calls = request.method == "POST" and b'"method":"tools/call"' in request.content
            before, traffic.call_sent = traffic.call_sent, traffic.call_sent or calls
            try:
                response = await super().handle_async_request(request)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                # No connection, so not a byte of this request went out.
                traffic.call_sent = before
                raise
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = Bounded(response.stream)
            return response

    return Noting()
