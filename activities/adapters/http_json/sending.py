"""Sends one request and says how far it came: it was never sent, its reply was lost, or there is a reply.

A reply is bounded in size and time, and holds no credential: one that the target echoes is struck out. Nothing is
retried, no redirect is followed, no connection is kept: a reused one may die in a way that proves nothing.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import httpx2

from counterfoil.activities.adapters.http_json.profile import HttpProfile
from counterfoil.models.common import canonical_json, utc_now

SHORTEST_CREDENTIAL = 8
"""Shorter ones are refused: they could not be struck out of what the target echoes without harming it."""

STRUCK_OUT = "***"


@dataclass(frozen=True)
class Call:
    """One request. `path` starts below the base address, or at the origin's root where it begins with a slash."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: dict[str, Any] | None = None


@dataclass(frozen=True)
class Reply:
    """What the target answered. `unreadable` says why there is no body to believe, where there should be one."""

    status: int
    url: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: Any
    unreadable: str | None
    read_at: datetime
    struck_out: bool = False
    """Whether the body held the credential: what was struck out must not be sent back."""

    @property
    def record(self) -> dict[str, Any] | None:
        """The body, where it is an object."""
        return self.body if self.unreadable is None and isinstance(self.body, dict) else None


@dataclass(frozen=True)
class NotSent:
    """Certainly no byte of the request was written."""

    why: str


@dataclass(frozen=True)
class Lost:
    """Some of the request may have arrived, and there is no reply."""

    why: str


Answer = Reply | NotSent | Lost


class TooLate(Exception):
    """The time in which the request may be sent has passed."""


class Sender:
    """Sends requests to the target of one profile. The credential is read for each request, and kept nowhere."""

    def __init__(self, profile: HttpProfile, environ: Mapping[str, str] = os.environ) -> None:
        self._profile = profile
        self._environ = environ
        self._trust: ssl.SSLContext | None = None
        # At debug level the library writes down every header of a reply: cookies, and credentials that are echoed.
        logging.getLogger("httpcore2").setLevel(logging.INFO)

    def credential_problem(self) -> str | None:
        """Why there is no credential to send; None if there is, or none is needed."""
        credential = self._profile.credential
        if credential is None:
            return None
        secret = self._environ.get(credential.variable, "")
        if not secret:
            return f"the variable {credential.variable} is not set"
        if len(secret) < SHORTEST_CREDENTIAL:
            return f"the variable {credential.variable} holds fewer than {SHORTEST_CREDENTIAL} characters"
        if not all("\x21" <= character <= "\x7e" for character in secret):
            return f"the variable {credential.variable} holds characters that no header can carry"
        return None

    async def send(self, call: Call, *, seconds: float) -> Answer:
        """Send a request, and read the reply to its end or as far as the profile's limits allow.

        `seconds` bounds all of it. Raises nothing.
        """
        problem = self.credential_problem()
        if problem is not None:
            return NotSent(problem)
        progress = _Progress(asyncio.get_running_loop().time() + seconds)
        try:
            async with asyncio.timeout(seconds):
                return await self._exchange(call, progress)
        except TooLate:
            return NotSent("its time was over before it was sent")
        except TimeoutError:
            why = f"no whole reply within {seconds:g} s"
            if progress.only_connecting or not progress.handed_over:
                return NotSent("no connection in time")
            return progress.lost(why, self._scrubbed)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            if progress.sending:
                return progress.lost(type(error).__name__, self._scrubbed)
            return NotSent(f"no connection to the target ({_cause(error)})")
        except Exception as error:  # whatever else goes wrong once it was handed over, the request may have arrived
            if progress.handed_over:
                return progress.lost(type(error).__name__, self._scrubbed)
            return NotSent(f"the request could not be made ({type(error).__name__})")

    async def _exchange(self, call: Call, progress: _Progress) -> Reply:
        profile = self._profile
        limits = httpx2.Timeout(call_seconds(profile), connect=profile.connect_timeout_seconds)
        async with httpx2.AsyncClient(
            verify=self._trusted(), trust_env=profile.proxy_from_env, follow_redirects=False, timeout=limits
        ) as client:
            request = client.build_request(
                call.method,
                self._address(call.path),
                params=dict(call.query) or None,
                headers=self._headers(call),
                content=None if call.body is None else canonical_json(call.body),
                extensions={"trace": progress.trace},
            )
            progress.handed_over = True
            response = await client.send(request, stream=True)
            try:
                progress.answered = response
                content = bytearray()
                async for chunk in response.aiter_raw():
                    content += chunk
                    if len(content) > profile.reply_limit_bytes:
                        return self._reply(response, None, f"it has more than {profile.reply_limit_bytes} bytes")
            finally:
                await response.aclose()
        return self._read(response, bytes(content))

    def _address(self, path: str) -> str:
        base = self._profile.base_url
        if path.startswith("/"):
            scheme, _, rest = base.partition("://")
            return f"{scheme}://{rest.partition('/')[0]}{path}"
        return f"{base}/{path}" if path else base

    def _headers(self, call: Call) -> dict[str, str]:
        profile = self._profile
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "counterfoil"}
        headers |= profile.headers
        if call.body is not None:
            headers["Content-Type"] = "application/json"
        headers |= call.headers
        if profile.credential is not None:
            secret = self._environ[profile.credential.variable]
            by_bearer = profile.credential.bearer_env is not None
            headers[profile.credential.header_name] = f"Bearer {secret}" if by_bearer else secret
        return headers

    def _trusted(self) -> ssl.SSLContext:
        if self._trust is None:
            ca_file = self._profile.ca_file
            if ca_file is not None:
                self._trust = ssl.create_default_context(cafile=str(ca_file))
            elif self._profile.base_url.startswith("https:"):
                self._trust = httpx2.create_ssl_context(trust_env=False)
            else:
                self._trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return self._trust

    def _read(self, response: httpx2.Response, content: bytes) -> Reply:
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            return self._reply(response, None, "it is encoded in a way that was not asked for")
        if not content:
            return self._reply(response, None, None)
        try:
            body = json.loads(content, parse_constant=_no_constant)
            canonical_json(body)  # what cannot be written again (a lone surrogate, too deep) cannot be kept either
        except (ValueError, RecursionError):
            return self._reply(response, None, "it is no JSON")
        return self._reply(response, body, None)

    def _reply(self, response: httpx2.Response, body: Any, unreadable: str | None) -> Reply:
        return self._scrubbed(
            Reply(
                status=response.status_code,
                url=str(response.request.url),
                headers=dict(response.headers),
                body=body,
                unreadable=unreadable,
                read_at=utc_now(),
            )
        )

    def _scrubbed(self, reply: Reply) -> Reply:
        credential = self._profile.credential
        secret = "" if credential is None else self._environ.get(credential.variable, "")
        if not secret:
            return reply
        headers = {name: value.replace(secret, STRUCK_OUT) for name, value in reply.headers.items()}
        body = _without(reply.body, secret)
        return replace(reply, headers=headers, body=body, struck_out=body != reply.body)


def call_seconds(profile: HttpProfile) -> float:
    """How long a call of the route may take here, so that its answer is in time for whoever waits for it."""
    return profile.call_timeout_seconds - min(1.0, profile.call_timeout_seconds / 4)


class _Progress:
    """How far an exchange has come. Connecting writes nothing of the request; anything later may have."""

    def __init__(self, until: float) -> None:
        self._until = until
        self._connecting = False
        self.handed_over = False
        self.sending = False
        self.answered: httpx2.Response | None = None

    @property
    def only_connecting(self) -> bool:
        return self._connecting and not self.sending

    async def trace(self, event: str, _info: Mapping[str, Any]) -> None:
        if event.startswith("connection."):
            self._connecting = True
            return
        first = event.endswith(".send_request_headers.started") and not self.sending
        # A process that was stopped for a while must not send what others meanwhile take for ended.
        if first and asyncio.get_running_loop().time() >= self._until:
            raise TooLate
        self.sending = True

    def lost(self, why: str, scrubbed: Any) -> Reply | Lost:
        if self.answered is None:
            return Lost(why)
        reply: Reply = scrubbed(
            Reply(
                status=self.answered.status_code,
                url=str(self.answered.request.url),
                headers=dict(self.answered.headers),
                body=None,
                unreadable=f"it broke off ({why})",
                read_at=utc_now(),
            )
        )
        return reply


def _without(value: Any, secret: str) -> Any:
    if isinstance(value, str):
        return value.replace(secret, STRUCK_OUT)
    if isinstance(value, list):
        return [_without(one, secret) for one in value]
    if isinstance(value, dict):
        return {name.replace(secret, STRUCK_OUT): _without(one, secret) for name, one in value.items()}
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _cause(error: BaseException) -> str:
    """The kind of the innermost cause: its text may hold whatever a library put there."""
    inner = error.__cause__ or error.__context__
    return type(error).__name__ if inner is None else _cause(inner)
