"""A real receiver of callbacks on loopback that misbehaves on order, and keeps what it was sent, byte for byte."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "aa" * 32
"""The key of these tests, in hexadecimal."""


@dataclass(frozen=True)
class Sent:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def told(self) -> dict[str, Any]:
        return json.loads(self.body)

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]


class Receiver(ThreadingHTTPServer):
    """Answers 204, unless `answers` says how the next requests go wrong: a status, `reset`, or `hang`."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Exchange)
        self.received: list[Sent] = []
        self.answers: deque[int | str] = deque()
        self.answer_headers: dict[str, str] = {}
        self.always: int | str = 204
        self.released = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hook?token=in-the-address"

    def told(self, operation_id: str | None = None) -> list[dict[str, Any]]:
        """The bodies that came, of one operation or of all."""
        return [one.told for one in self.received if operation_id in (None, one.told["operation_id"])]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A sender that gave up is no news."""


class _Exchange(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.received.append(Sent(self.path, headers, body))
        answer = self.server.answers.popleft() if self.server.answers else self.server.always
        self.close_connection = True
        if answer == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        elif answer == "hang":
            self.server.released.wait(60)
        else:
            self._answer(int(answer))

    def do_GET(self) -> None:
        self.server.received.append(Sent(self.path, {}, b"{}"))
        self._answer(200)

    def _answer(self, status: int) -> None:
        self.send_response(status)
        for name, value in self.server.answer_headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Silence."""


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Run a receiver while the block runs."""
    receiver = Receiver()
    thread = threading.Thread(target=receiver.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.released.set()
        receiver.shutdown()
        with contextlib.suppress(OSError):
            receiver.server_close()
        thread.join(5)


def until(condition: Any, seconds: float = 20) -> None:
    """Wait, in a thread of its own, until something is so."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not become so in time"
        time.sleep(0.02)
