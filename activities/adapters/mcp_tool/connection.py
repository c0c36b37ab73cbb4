"""One connection to one server: handshake, tools, requests. What a server asks of us is answered by `Questions`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, ValidationError

from counterfoil.activities.adapters.mcp_tool.http import http_streams
from counterfoil.activities.adapters.mcp_tool.profile import HttpTransport, ServerProfile
from counterfoil.activities.adapters.mcp_tool.questions import Questions
from counterfoil.activities.adapters.mcp_tool.references import Secrets, environment_of, headers_of
from counterfoil.activities.adapters.mcp_tool.schemas import ToolDescription, described
from counterfoil.activities.adapters.mcp_tool.stdio import stdio_streams
from counterfoil.activities.adapters.mcp_tool.streams import Traffic
from counterfoil.models.errors import CounterfoilError

if TYPE_CHECKING:
    from mcp.client.session import ClientSession
    from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher

MOST_PAGES = 100
MOST_TOOLS = 5000

log = logging.getLogger(__name__)


class Unreachable(Exception):
    """The server could not be used. Nothing was called."""


class ServerError(Exception):
    """The server answered a request with an error. `code` is its JSON-RPC code; `detail` is scrubbed and bounded."""

    def __init__(self, code: int, detail: str, data: Any = None) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.data = data


class NoAnswer(Exception):
    """The connection ended, or what came was no answer."""


class Whole(BaseModel):
    """An answer exactly as it came."""

    model_config = ConfigDict(extra="allow")


class Connection:
    """A server that has answered the handshake."""

    def __init__(
        self,
        profile: ServerProfile,
        secrets: Secrets,
        questions: Questions,
        traffic: Traffic,
        session: ClientSession,
        dispatcher: JSONRPCDispatcher[Any],
    ) -> None:
        self.profile = profile
        self.secrets = secrets
        self.questions = questions
        self.traffic = traffic
        self._session = session
        self._dispatcher = dispatcher

    @property
    def runs_tasks(self) -> bool:
        """Whether the server takes tool calls as tasks."""
        capabilities = self._session.server_capabilities
        tasks = None if capabilities is None else capabilities.tasks
        requests = None if tasks is None else tasks.requests
        return requests is not None and requests.tools is not None and requests.tools.call is not None

    @property
    def cancels_tasks(self) -> bool:
        """Whether the server lets its tasks be cancelled."""
        capabilities = self._session.server_capabilities
        return capabilities is not None and capabilities.tasks is not None and capabilities.tasks.cancel is not None

    async def tool(self, name: str) -> ToolDescription | None:
        """What the server says of a tool now, or None where it has none of that name. Raises `Unreachable`."""
        from mcp_types import PaginatedRequestParams

        cursor: str | None = None
        seen = 0
        try:
            for _ in range(MOST_PAGES):
                params = None if cursor is None else PaginatedRequestParams(cursor=cursor)
                with _server_errors(self.secrets):
                    page = await self._session.list_tools(params=params)
                for tool in page.tools:
                    if tool.name == name:
                        return described(tool.model_dump(by_alias=True, mode="json", exclude_none=True))
                seen += len(page.tools)
                cursor = page.next_cursor
                if cursor is None or seen > MOST_TOOLS:
                    return None
        except ServerError as error:
            raise Unreachable(f"the server does not list its tools: {error.detail}") from None
        except ValidationError:
            raise Unreachable("the server's list of tools cannot be read") from None
        except NoAnswer as error:
            raise Unreachable(f"the server does not list its tools: {error}") from None
        return None

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The raw result of a request. Raises `ServerError` or `NoAnswer`; the caller sets the deadline."""
        from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
        from mcp_types import InitializeResult, Request

        with _server_errors(self.secrets):
            if isinstance(self._session.initialize_result, InitializeResult):
                # Not through the session: it takes a task for a malformed answer.
                told = self._session.protocol_version or ""
                return await self._dispatcher.send_raw_request(
                    method, params, {"headers": {MCP_PROTOCOL_VERSION_HEADER: told}}
                )
            try:
                request = Request[dict[str, Any], str](method=method, params=params)
                answer = await self._session.send_request(request, Whole)
                return dict(answer.model_extra or {})
            except ValidationError:
                raise NoAnswer("the server's answer is malformed") from None


@asynccontextmanager
async def connected(profile: ServerProfile, questions: Questions) -> AsyncIterator[Connection]:
    """Reach a server. Raises `Unreachable` until the block is entered; after that nothing is raised for the server."""
    _keep_quiet()
    traffic = Traffic()
    entered = False
    try:
        async with _streams(profile, traffic) as (secrets, incoming, outgoing):
            from mcp.client.session import ClientSession
            from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
            from mcp_types import Implementation

            dispatcher: JSONRPCDispatcher[Any] = JSONRPCDispatcher(incoming, outgoing)
            session = ClientSession(
                dispatcher=dispatcher,
                elicitation_callback=questions.answer,
                client_info=Implementation(name="counterfoil", version=version("counterfoil")),
            )
            async with session:
                await _handshake(session, profile, secrets)
                entered = True
                yield Connection(profile, secrets, questions, traffic, session, dispatcher)
    except Unreachable:
        raise
    except (Exception, BaseExceptionGroup) as error:
        if entered:
            # Who waits for an answer has been told that the connection ended; the rest is the library's noise.
            log.debug("the connection to '%s' ended with %s", profile.name, type(error).__name__)
            return
        raise Unreachable(_why(error)) from None


@asynccontextmanager
async def _streams(profile: ServerProfile, traffic: Traffic) -> AsyncIterator[tuple[Secrets, Any, Any]]:
    transport = profile.transport
    if isinstance(transport, HttpTransport):
        headers, secrets = headers_of(transport)
        async with http_streams(transport, headers, traffic) as (incoming, outgoing):
            yield secrets, incoming, outgoing
    else:
        environment, secrets = environment_of(transport)
        async with stdio_streams(transport, environment, traffic) as (incoming, outgoing):
            yield secrets, incoming, outgoing


async def _handshake(session: ClientSession, profile: ServerProfile, secrets: Secrets) -> None:
    """The handshake all servers know first; then the one that newer servers may know only."""
    try:
        async with asyncio.timeout(profile.start_timeout_seconds):
            try:
                with _server_errors(secrets):
                    await session.initialize()
            except ServerError as refused:
                try:
                    with _server_errors(secrets):
                        await session.discover()
                except ServerError:
                    raise Unreachable(f"the server refused the handshake: {refused.detail}") from None
    except TimeoutError:
        raise Unreachable(f"the server did not answer the handshake in {profile.start_timeout_seconds:g} s") from None
    except NoAnswer as error:
        raise Unreachable(f"the server ended the handshake: {error}") from None


class _server_errors:
    """The library's errors as ours, scrubbed."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        from mcp.shared.exceptions import MCPError
        from mcp_types import CONNECTION_CLOSED

        if not isinstance(error, MCPError):
            return
        if error.code == CONNECTION_CLOSED:
            raise NoAnswer("the connection ended") from None
        detail = self._secrets.scrub(str(error.message))[:300]
        raise ServerError(error.code, detail, self._secrets.scrub_json(error.data)) from None


def _why(error: BaseException) -> str:
    """Why a server could not be reached, without anything the library may have quoted."""
    if isinstance(error, CounterfoilError):
        return error.detail
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, CounterfoilError | Unreachable):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"the server cannot be started: {error.strerror}"
    return f"the server cannot be reached: {type(error).__name__}"


def _keep_quiet() -> None:
    """The library logs what servers send, which may hold secrets. It is told to log nothing."""
    logging.getLogger("mcp").setLevel(logging.CRITICAL + 1)
    session_log = logging.getLogger("client")
    if _not_the_librarys not in session_log.filters:
        session_log.addFilter(_not_the_librarys)


def _not_the_librarys(record: logging.LogRecord) -> bool:
    return "mcp" not in record.pathname.replace("\\", "/").split("/")
