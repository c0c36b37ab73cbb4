"""A real JSON API on loopback that misbehaves on order, and keeps its own append-only log of effects: the oracle.

It knows idempotency keys with a retention, ETags, look-ups by key that may lag, jobs behind 202, and a bearer token.
`order(...)` says how the next request of a kind goes wrong.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import struct
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

How = Literal[
    "drop_before_reading",
    "drop",
    "reset_in_body",
    "broken_json",
    "drip_body",
    "drip_headers",
    "huge",
    "status",
    "deep_json",
    "lone_surrogate",
    "gzip",
    "empty",
]


@dataclass(frozen=True)
class Fault:
    """How one request goes wrong, and whether its change is made all the same."""

    how: How
    commits: bool = False
    status: int = 500
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None
    commits_after_seconds: float | None = None
    on: Literal["change", "read"] = "change"


@dataclass
class Kept:
    """A record, its version, and when it may be seen."""

    value: dict[str, Any]
    version: int
    seen_from: float


@dataclass
class Job:
    polls_left: int
    change: Any
    status: str = "running"
    result: dict[str, Any] | None = None


class JsonTarget:
    """The API. Every attribute may be changed while it serves."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.log.touch()
        self.token: str | None = None
        self.etags = True
        self.key_retention_seconds = 3600.0
        self.read_lag_seconds = 0.0
        self.ignores_filter = False
        self.job_polls: int | None = None
        self.job_ends = "done"
        self.job_retry_after: str | None = None
        self.job_location = "/v1/jobs/{id}"
        self.echoes = False
        self.normalises: dict[str, Any] = {}
        """Fields the target sets to values of its own, whatever was asked."""
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.records: dict[str, Kept] = {}
        self.jobs: dict[str, Job] = {}
        self.lock = threading.RLock()
        self._faults: list[Fault] = []
        self._keys: dict[str, tuple[float, tuple[int, dict[str, str], Any]]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._server.daemon_threads = True

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def base_url(self) -> str:
        return f"{self.origin}/v1"

    @contextmanager
    def serving(self) -> Iterator[JsonTarget]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def order(self, *faults: Fault) -> None:
        """How the next requests of each kind go wrong, in turn."""
        self._faults += faults

    def taken(self, kind: str) -> Fault | None:
        with self.lock:
            for fault in self._faults:
                if fault.on == kind:
                    self._faults.remove(fault)
                    return fault
        return None

    def next_drops_before_reading(self) -> bool:
        with self.lock:
            for fault in self._faults:
                if fault.how == "drop_before_reading":
                    self._faults.remove(fault)
                    return True
        return False

    def effects(self) -> list[dict[str, Any]]:
        """What really happened, in order."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def add(self, path: str, **fields: Any) -> str:
        """A record that is there already; its id."""
        record_id = fields.pop("id", None) or uuid.uuid4().hex[:8]
        self.records[f"{path}/{record_id}"] = Kept({"id": record_id, **fields}, 1, 0.0)
        return record_id

    def changes_sent(self) -> list[tuple[str, str]]:
        """Method and path of the requests that were no reads."""
        return [(method, path) for method, path, _ in self.requests if method != "GET"]

    def _effect(self, action: str, path: str, value: dict[str, Any] | None, key: str | None) -> None:
        with self.log.open("a") as log:
            log.write(json.dumps({"action": action, "path": path, "value": value, "key": key}) + "\n")

    # what it does

    def change(self, method: str, path: str, headers: dict[str, str], body: Any) -> tuple[int, dict[str, str], Any]:
        with self.lock:
            key = headers.get("idempotency-key")
            if key is not None and key in self._keys:
                at, answer = self._keys[key]
                if time.monotonic() < at + self.key_retention_seconds:
                    return answer
            answer = self._change(method, path, headers, body, key)
            if key is not None and answer[0] < 500:
                self._keys[key] = (time.monotonic(), answer)
            return answer

    def _change(
        self, method: str, path: str, headers: dict[str, str], body: Any, key: str | None
    ) -> tuple[int, dict[str, str], Any]:
        kept = self.records.get(path)
        match method:
            case "POST":
                record_id = uuid.uuid4().hex[:8]
                made = {**body, **self.normalises, "id": record_id}
                self.records[f"{path}/{record_id}"] = Kept(made, 1, time.monotonic() + self.read_lag_seconds)
                self._effect("create", f"{path}/{record_id}", made, key)
                return 201, {"ETag": '"1"', "Location": f"/v1/{path}/{record_id}"}, made
            case "PUT" if headers.get("if-none-match") == "*":
                if kept is not None:
                    return 412, {}, {"error": {"message": "exists"}}
                made = {**body, **self.normalises, "id": unquote(path.rpartition("/")[2])}
                self.records[path] = Kept(made, 1, time.monotonic() + self.read_lag_seconds)
                self._effect("create", path, made, key)
                return 201, {"ETag": '"1"'}, made
            case _ if kept is None:
                return 404, {}, {"error": {"message": "no such record"}}
            case _ if self.etags and headers.get("if-match", f'"{kept.version}"') != f'"{kept.version}"':
                return 412, {}, {"error": {"message": "stale"}}
            case "DELETE":
                del self.records[path]
                self._effect("delete", path, None, key)
                return 204, {}, None
            case _:
                value = {**(kept.value if method == "PATCH" else {}), **body, **self.normalises}
                value["id"] = kept.value["id"]
                self.records[path] = Kept(value, kept.version + 1, 0.0)
                self._effect("update", path, value, key)
                return 200, {"ETag": f'"{kept.version + 1}"'}, value

    def accept(self, method: str, path: str, headers: dict[str, str], body: Any) -> tuple[int, dict[str, str], Any]:
        """Take a change on as a job."""
        with self.lock:
            job_id = uuid.uuid4().hex[:8]
            assert self.job_polls is not None
            self.jobs[job_id] = Job(self.job_polls, (method, path, headers, body))
            return 202, {"Location": self.job_location.format(id=job_id)}, {"status": "running"}

    def read(self, path: str, query: dict[str, str]) -> tuple[int, dict[str, str], Any]:
        with self.lock:
            if path == "health":
                return 200, {}, {"status": "up"}
            if path.startswith("jobs/"):
                return self._poll(path.removeprefix("jobs/"))
            now = time.monotonic()
            kept = self.records.get(path)
            if kept is not None and now >= kept.seen_from:
                return 200, {"ETag": f'"{kept.version}"'} if self.etags else {}, kept.value
            if kept is None and "/" not in path:
                seen = [
                    one.value
                    for name, one in self.records.items()
                    if name.startswith(f"{path}/") and now >= one.seen_from
                ]
                if not self.ignores_filter:
                    seen = [one for one in seen if all(one.get(name) == value for name, value in query.items())]
                return 200, {}, {"items": seen}
            return 404, {}, {"error": {"message": "no such record"}}

    def _poll(self, job_id: str) -> tuple[int, dict[str, str], Any]:
        job = self.jobs.get(job_id)
        if job is None:
            return 404, {}, None
        headers = {} if self.job_retry_after is None else {"Retry-After": self.job_retry_after}
        if job.status == "running":
            job.polls_left -= 1
            if job.polls_left >= 0:
                return 200, headers, {"status": "running"}
            job.status = self.job_ends
            if self.job_ends == "done":
                job.result = self._change(*job.change, job.change[2].get("idempotency-key"))[2]
        result = {} if job.result is None else {"result": {"id": job.result["id"]}}
        return 200, headers, {"status": job.status, "error": {"message": "as ordered"}} | result

    def cancel_job(self, job_id: str) -> tuple[int, dict[str, str], Any]:
        with self.lock:
            job = self.jobs.get(job_id)
            if job is None:
                return 404, {}, None
            if job.status != "running":
                return 409, {}, {"status": job.status}
            job.status = "cancelled"
            return 202, {}, {"status": "cancelling"}


def _handler_of(target: JsonTarget) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30

        def handle(self) -> None:
            if target.next_drops_before_reading():
                # Not before something was sent: a client that is reset sooner may well say that it sent nothing.
                select.select([self.connection], [], [], self.timeout)
                reset(self.connection)
                return
            with contextlib.suppress(ConnectionError, TimeoutError):
                super().handle()

        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            self.serve("read")

        def serve(self, kind: Literal["change", "read"] = "change") -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"null")
            headers = {name.lower(): value for name, value in self.headers.items()}
            parts = urlsplit(self.path)
            path = parts.path.removeprefix("/v1/").strip("/")
            target.requests.append((self.command, self.path, headers))
            if target.token is not None and headers.get("authorization") != f"Bearer {target.token}":
                self.reply(401, {}, {"error": {"message": f"not {headers.get('authorization')}"}})
                return
            fault = target.taken(kind)

            def act() -> tuple[int, dict[str, str], Any]:
                if kind == "read":
                    return target.read(path, dict(parse_qsl(parts.query)))
                if path.startswith("jobs/"):
                    return target.cancel_job(path.removeprefix("jobs/").removesuffix("/cancel"))
                acts = target.change if target.job_polls is None else target.accept
                return acts(self.command, path, headers, body)

            if fault is None:
                self.reply(*act())
            else:
                self.misbehave(fault, act)

        do_POST = do_PUT = do_PATCH = do_DELETE = serve

        def misbehave(self, fault: Fault, act: Any) -> None:
            if fault.commits_after_seconds is not None:
                threading.Timer(fault.commits_after_seconds, act).start()
            answer = act() if fault.commits or fault.on == "read" else (200, {}, {"id": "x" * 8})
            status, headers, body = answer
            whole = json.dumps(body).encode()
            self.close_connection = True
            match fault.how:
                case "drop":
                    reset(self.connection)
                case "reset_in_body":
                    self.head(status, headers, len(whole) + 100)
                    self.wfile.write(whole)
                    self.wfile.flush()
                    time.sleep(0.05)
                    reset(self.connection)
                case "broken_json":
                    self.raw(status, headers, whole[: len(whole) // 2])
                case "deep_json":
                    self.raw(status, headers, b'{"id":' + b"[" * 100_000 + b"]" * 100_000 + b"}")
                case "lone_surrogate":
                    self.raw(status, headers, b'{"id": "x", "name": "\\ud800"}')
                case "gzip":
                    self.raw(status, {**headers, "Content-Encoding": "gzip"}, b"\x1f\x8b" + b"\0" * 64)
                case "huge":
                    self.raw(status, headers, b'{"id": "x", "fill": "' + b"a" * 3_000_000 + b'"}')
                case "empty":
                    self.raw(status, {}, b"")
                case "drip_body":
                    self.head(status, headers, len(whole))
                    self.drip(whole)
                case "drip_headers":
                    self.drip(b"HTTP/1.1 200 OK\r\nX-Drip: " + b"d" * 1000)
                case "status":
                    self.reply(fault.status, fault.headers, fault.body)

        def drip(self, content: bytes) -> None:
            for byte in content:
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
                time.sleep(0.1)

        def reply(self, status: int, headers: dict[str, str], body: Any) -> None:
            if target.echoes:
                sent = self.headers.get("Authorization", "")
                headers = {**headers, "X-Echo": sent, "Set-Cookie": f"session={sent}"}
                body = {**body, "echo": sent, sent: "name"} if isinstance(body, dict) else body
            self.raw(status, headers, b"" if body is None else json.dumps(body).encode())

        def raw(self, status: int, headers: dict[str, str], content: bytes) -> None:
            self.head(status, headers, len(content))
            self.wfile.write(content)

        def head(self, status: int, headers: dict[str, str], length: int) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if status != 204:
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.flush()

    return Handler


def reset(connection: socket.socket) -> None:
    """End a connection with RST instead of FIN."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
