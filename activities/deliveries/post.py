"""One try at delivering a callback: a signed POST, and what became of it in words that hold no secret.

Redirects are not followed, and of an answer only its status is read. The address is a secret where it has a query, so
it is never in what is told, and never logged.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from dataclasses import dataclass
from datetime import timedelta

import httpx2

from counterfoil.models.common import Clock, utc_now
from counterfoil.models.deliveries.signing import ID_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, signature

TIMEOUT_SECONDS = 15.0


@dataclass(frozen=True)
class Tried:
    """What one try came to: the status that was answered, why it failed, and the pause the receiver asked for."""

    status: int | None = None
    problem: str | None = None
    pause: timedelta | None = None

    @property
    def taken(self) -> bool:
        return self.problem is None


class Post:
    """Sends callbacks to one address under one key."""

    def __init__(
        self, url: str, key: bytes, *, timeout_seconds: float = TIMEOUT_SECONDS, clock: Clock = utc_now
    ) -> None:
        self._url = url
        self._key = key
        self._timeout_seconds = timeout_seconds
        self._clock = clock
        self._trust: ssl.SSLContext | None = None
        # These write down the address of every request, and the headers of every answer.
        logging.getLogger("httpx2").setLevel(logging.WARNING)
        logging.getLogger("httpcore2").setLevel(logging.INFO)

    async def __call__(self, message_id: str, body: bytes) -> Tried:
        """Send one callback. Never raises for what the network or the receiver does."""
        sent_at = int(self._clock().timestamp())
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "counterfoil",
            ID_HEADER: message_id,
            TIMESTAMP_HEADER: str(sent_at),
            SIGNATURE_HEADER: signature(self._key, message_id, sent_at, body),
        }
        try:
            async with (
                asyncio.timeout(self._timeout_seconds),
                httpx2.AsyncClient(
                    verify=self._trusted(), trust_env=False, follow_redirects=False, timeout=self._timeout_seconds
                ) as client,
                client.stream("POST", self._url, content=body, headers=headers) as response,
            ):
                return _judged(response)
        except (TimeoutError, httpx2.TimeoutException):
            return Tried(problem=f"no answer within {self._timeout_seconds:g} s")
        except httpx2.ConnectError:
            return Tried(problem="no connection")
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            return Tried(problem=f"the exchange failed: {type(error).__name__}")

    def _trusted(self) -> ssl.SSLContext:
        """Made once: it reads a file of certificates."""
        if self._trust is None:
            self._trust = httpx2.create_ssl_context(trust_env=False)
        return self._trust


def _judged(response: httpx2.Response) -> Tried:
    status = response.status_code
    if 200 <= status < 300:
        return Tried(status=status)
    asked = response.headers.get("Retry-After", "")
    pause = timedelta(seconds=int(asked)) if asked.isascii() and asked.isdigit() and len(asked) < 8 else None
    return Tried(status=status, problem=f"it was answered with {status}", pause=pause)
