"""The desk: a target server in a process of its own that misbehaves on order and logs every effect before it replies.

It keeps records (with ETags, idempotency keys and a look-up by key) for the JSON adapter, and parcels (fenced, slow,
cancellable) for the courier's. `PUT /orders/<key>` says how requests about that key go wrong. Run as
`python -m counterfoil.worker.faults.desk FOLDER`: the log is FOLDER/effects.jsonl, the port is in FOLDER/port.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

LOG_FILE = "effects.jsonl"
PORT_FILE = "port"

COMMITS_WITHIN_SECONDS = 2.8
"""A request that has waited longer than this, for whatever reason, takes no effect any more."""
SLOW_SECONDS = 2.2
LATE_SECONDS = 1.0
HOLD_SECONDS = 1.2
BRIEF_RETENTION_SECONDS = 2.0
LAG_SECONDS = 2.5
FOR_EVER = 1_000_000
"""More requests than anybody makes."""

CHANGES = (
    "drop",
    "drop_after",
    "error",
    "error_after",
    "late",
    "slow",
    "slow_before",
    "hold",
    "nameless",
    "garbled",
    "alters",
    "partly",
    "refuse",
)
"""How a change may go wrong: before or after it takes effect, slowly, or with another effect than was asked for."""
READS = ("blind", "lagging")
"""How looking may go wrong: an error each time, or a look-up that does not see yet what is new."""

Reply = tuple[int, dict[str, str], Any]


@dataclass
class Record:
    """A record of the JSON API."""

    value: dict[str, Any]
    version: int = 1
    made_at: float = field(default_factory=time.monotonic)


@dataclass
class Parcel:
    """A parcel of the courier: on its way, delivered, or stopped."""

    value: Any
    locker: str
    beside: list[str]
    """Parcels that were on their way from the same locker when this one was taken: there should be none."""
    status: str = "running"


@dataclass
class Ordered:
    """A misbehaviour, and for how many requests more it is ordered."""

    how: str
    times: int


class Desk:
    """What the server keeps. Everything is done under one lock."""

    def __init__(self, log: Path) -> None:
        self._log = log.open("a")
        self._lock = threading.RLock()
        self._orders: dict[str, list[Ordered]] = {}
        self._records: dict[str, Record] = {}
        self._replies: dict[tuple[str, str], tuple[float, Reply]] = {}
        self._parcels: dict[str, Parcel] = {}
        self._fences: dict[str, int] = {}
        self._lagging: set[str] = set()
        self._numbered = 0

    def order(self, key: str, how: str, times: int) -> None:
        with self._lock:
            if how == "lagging":
                self._lagging.add(key)
            self._orders.setdefault(key, []).append(Ordered(how, times))

    def ordered(self, keys: list[str], kind: tuple[str, ...]) -> str | None:
        """How the next request about any of `keys` goes wrong."""
        with self._lock:
            for key in keys:
                for order in self._orders.get(key, ()):
                    if order.how in kind and order.times > 0:
                        order.times -= 1
                        return order.how
        return None

    def effect(self, operation_id: str, content: Any) -> None:
        """Write one effect down, to the disk, before anybody is told of it."""
        self._log.write(json.dumps({"operation": operation_id, "content": content, "at": time.time()}) + "\n")
        self._log.flush()
        os.fsync(self._log.fileno())

    # records

    def change(
        self, method: str, path: str, key: str, match: str | None, body: dict[str, Any], how: str | None
    ) -> Reply:
        with self._lock:
            known = self._replies.get((path, key))
            retention = BRIEF_RETENTION_SECONDS if path.startswith("brief/") else 3600
            if known is not None and time.monotonic() - known[0] < retention:
                return known[1]
            reply = self._changed(method, path, key, match, body, how)
            if reply[0] < 300:
                self._replies[path, key] = (time.monotonic(), reply)
            return reply

    def _changed(
        self, method: str, path: str, key: str, match: str | None, body: dict[str, Any], how: str | None
    ) -> Reply:
        body = _as_kept(body, how)
        if method == "POST":
            self._numbered += 1
            record_id = f"r{self._numbered}"
            record = Record({**body, "id": record_id})
            self._records[f"{path}/{record_id}"] = record
            status = 201
        else:
            found = self._records.get(path)
            if found is None:
                return 404, {}, {"error": {"message": "no such record"}}
            if match is not None and match != f'"{found.version}"':
                return 412, {}, {"error": {"message": "stale"}}
            found.value = {**found.value, **body}
            found.version += 1
            record, record_id, status = found, str(found.value["id"]), 200
        self.effect(key, {name: value for name, value in body.items() if name != "external_ref"})
        headers = {"ETag": f'"{record.version}"'}
        if status == 201:
            headers["Location"] = f"/{path}/{record_id}"
        return status, headers, record.value

    def look(self, path: str, query: dict[str, str]) -> Reply:
        with self._lock:
            record = self._records.get(path)
            if record is not None:
                return 200, {"ETag": f'"{record.version}"'}, record.value
            if not query:
                return 404, {}, {"error": {"message": "no such record"}}
            found = [
                one.value
                for name, one in self._records.items()
                if name.startswith(f"{path}/") and self._is_seen(one) and _matches(one.value, query)
            ]
            return 200, {}, {"items": found}

    def _is_seen(self, record: Record) -> bool:
        lags = record.value.get("external_ref") in self._lagging
        return not lags or time.monotonic() - record.made_at > LAG_SECONDS

    def seed(self, path: str, value: dict[str, Any]) -> Reply:
        """A record that somebody else made, or changed: no operation's effect."""
        with self._lock:
            found = self._records.setdefault(path, Record({"id": path.rpartition("/")[2]}, version=0))
            found.value = {**found.value, **value}
            found.version += 1
            return 200, {}, found.value

    # parcels

    def post(self, operation_id: str, sent: dict[str, Any], how: str | None) -> Reply:
        with self._lock:
            known = self._parcels.get(operation_id)
            if known is None and self._fences.get(operation_id, 0) >= sent["generation"]:
                return 409, {}, {"status": "ruled_out"}
            if known is None:
                value = _as_kept({"value": sent["value"]}, how)["value"]
                locker = sent["locker"]
                beside = [
                    name for name, one in self._parcels.items() if one.locker == locker and one.status == "running"
                ]
                known = self._parcels[operation_id] = Parcel(value, locker, beside)
                if sent["seconds"] > 0:
                    threading.Timer(sent["seconds"], self._deliver, [operation_id]).start()
                elif sent["seconds"] == 0:
                    self._deliver(operation_id)
            return 200, {}, {"status": known.status, "value": known.value}

    def _deliver(self, operation_id: str) -> None:
        with self._lock:
            parcel = self._parcels[operation_id]
            if parcel.status == "running":
                parcel.status = "delivered"
                self.effect(operation_id, {"value": parcel.value, "beside": parcel.beside})

    def fence(self, operation_id: str, generation: int) -> Reply:
        with self._lock:
            if operation_id not in self._parcels:
                self._fences[operation_id] = max(self._fences.get(operation_id, 0), generation)
            return self.parcel(operation_id)

    def parcel(self, operation_id: str) -> Reply:
        with self._lock:
            known = self._parcels.get(operation_id)
            return 200, {}, {"status": "absent"} if known is None else {"status": known.status, "value": known.value}

    def stop_parcel(self, operation_id: str) -> Reply:
        with self._lock:
            known = self._parcels.get(operation_id)
            if known is not None and known.status == "running":
                known.status = "stopped"
            return self.parcel(operation_id)


def _as_kept(body: dict[str, Any], how: str | None) -> dict[str, Any]:
    """What the target makes of what it was sent."""
    own = [name for name in body if name != "external_ref"]
    if how == "alters":
        return {**body, **{name: f"not {body[name]}" for name in own}}
    if how == "partly":
        return {**body, **dict.fromkeys(own[-2:])}
    return body


def _matches(value: dict[str, Any], query: dict[str, str]) -> bool:
    return all(value.get(name) == wanted for name, wanted in query.items())


def serve(folder: Path) -> None:
    """Serve until killed."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _answers_of(Desk(folder / LOG_FILE)))
    server.daemon_threads = True
    staged = folder / f"{PORT_FILE}.new"
    staged.write_text(str(server.server_port))
    staged.replace(folder / PORT_FILE)
    server.serve_forever()


def _answers_of(desk: Desk) -> type[BaseHTTPRequestHandler]:
    class Answers(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30

        def handle(self) -> None:
            with contextlib.suppress(ConnectionError, TimeoutError):
                super().handle()

        def log_message(self, *_: Any) -> None:
            pass

        def answer(self) -> None:
            came = time.monotonic()
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"null") or {}
            parts = urlsplit(self.path)
            section, _, path = parts.path.strip("/").partition("/")
            query = dict(parse_qsl(parts.query))
            if section == "orders":
                desk.order(path, body["how"], body["times"])
                self.reply(200, {}, {})
            elif section == "seed":
                self.reply(*desk.seed(path, body))
            elif self.command == "GET" or path.endswith("/fence"):
                operation_id = path.partition("/")[0]
                how = desk.ordered([*query.values(), path, operation_id], READS[:1])
                if how is not None:
                    self.reply(500, {}, {"error": {"message": "as ordered"}})
                elif section != "courier":
                    self.reply(*desk.look(f"{section}/{path}", query))
                elif self.command == "GET":
                    self.reply(*desk.parcel(path))
                else:
                    self.reply(*desk.fence(operation_id, body["generation"]))
            elif section == "courier":
                how = desk.ordered([path], CHANGES)
                act = desk.stop_parcel if self.command == "DELETE" else None
                self.acted(how, came, (lambda: act(path)) if act else (lambda: desk.post(path, body, how)))
            else:
                key, match = self.headers.get("Idempotency-Key", ""), self.headers.get("If-Match")
                how = desk.ordered([key], CHANGES)
                self.acted(how, came, lambda: desk.change(self.command, f"{section}/{path}", key, match, body, how))

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

        def acted(self, how: str | None, came: float, act: Callable[[], Reply]) -> None:
            """Make the change, or not, and say so, or something else."""

            def in_time() -> Reply:
                if time.monotonic() - came > COMMITS_WITHIN_SECONDS:
                    return 503, {}, {"error": {"message": "too late"}}
                return act()

            match how:
                case "drop":
                    self.reset()
                case "refuse":
                    self.reply(422, {}, {"error": {"message": "as ordered"}})
                case "error":
                    self.reply(500, {}, {"error": {"message": "as ordered"}})
                case "late":
                    threading.Timer(LATE_SECONDS, in_time).start()
                    self.reset()
                case "slow_before":
                    time.sleep(SLOW_SECONDS)
                    self.reply(*in_time())
                case "drop_after":
                    in_time()
                    self.reset()
                case "error_after":
                    in_time()
                    self.reply(500, {}, {"error": {"message": "as ordered"}})
                case "slow":
                    reply = in_time()
                    time.sleep(SLOW_SECONDS)
                    self.reply(*reply)
                case "hold":
                    reply = in_time()
                    time.sleep(HOLD_SECONDS)
                    self.reply(*reply)
                case "nameless":
                    in_time()
                    self.reply(202, {}, {})
                case "garbled":
                    status, headers, _ = in_time()
                    self.raw(status, headers, b'{"id": ')
                case _:
                    self.reply(*in_time())

        def reset(self) -> None:
            """End the connection with RST instead of an answer."""
            self.close_connection = True
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()

        def reply(self, status: int, headers: dict[str, str], body: Any) -> None:
            self.raw(status, headers, json.dumps(body).encode())

        def raw(self, status: int, headers: dict[str, str], content: bytes) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    return Answers


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
