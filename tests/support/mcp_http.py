"""An MCP server over HTTP that misbehaves on order. Every payment it makes stands in `paid`: the oracle."""

from __future__ import annotations

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SCHEMA = {"type": "object"}


class HttpServer:
    """Runs from construction until `close`. `behaviour` says what it does with a call."""

    def __init__(self) -> None:
        self.behaviour = "pay"
        self.paid: list[dict[str, Any]] = []
        self.calls = 0
        self.headers: list[dict[str, str]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/mcp"

    def close(self) -> None:
        """Stop listening: whoever connects from now on is refused."""
        self._server.shutdown()
        self._server.server_close()

    def _handler(server) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                message = json.loads(self.rfile.read(int(self.headers["content-length"])))
                server.headers.append(dict(self.headers.items()))
                server._answer(self, message)

            def do_GET(self) -> None:
                self.send_error(405)

            def log_message(self, *_: Any) -> None:
                return None

            def reply(self, content: bytes, status: int = 200, kind: str = "application/json") -> None:
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
                self.wfile.flush()

            def drop(self) -> None:
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True

        return Handler

    def _answer(self, handler: Any, message: dict[str, Any]) -> None:
        id, method = message.get("id"), message.get("method")

        def result(value: dict[str, Any]) -> bytes:
            return json.dumps({"jsonrpc": "2.0", "id": id, "result": value}).encode()

        if method == "initialize":
            info = {"name": "http", "version": "1"}
            handler.reply(result({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}))
        elif id is None:
            handler.reply(b"", 202)
        elif method == "tools/list":
            if self.behaviour == "gone before the call":
                self.close()  # every request comes on a connection of its own
            handler.reply(result({"tools": [{"name": "pay", "inputSchema": SCHEMA}]}))
        else:
            self._call(handler, message, result)

    def _call(self, handler: Any, message: dict[str, Any], result: Any) -> None:
        self.calls += 1
        if self.behaviour in ("refuse", "no session", "wrong params"):
            status = {"refuse": 403, "no session": 404, "wrong params": 400}[self.behaviour]
            error = {"code": -32602, "message": "wrong"}
            told = json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode()
            handler.reply(
                told if status == 400 else b"no", status, "application/json" if status == 400 else "text/plain"
            )
            return
        if self.behaviour == "elsewhere":
            handler.send_response(307)
            handler.send_header("location", "http://127.0.0.1:9/elsewhere")
            handler.send_header("content-length", "0")
            handler.end_headers()
            return
        self.paid.append(message["params"]["arguments"])
        done = {"content": [{"type": "text", "text": "paid"}]}
        match self.behaviour:
            case "pay":
                handler.reply(result(done))
            case "pay then drop":
                handler.drop()
            case "pay then half an answer":
                handler.send_response(200)
                handler.send_header("content-type", "application/json")
                handler.send_header("content-length", "5000")
                handler.end_headers()
                handler.wfile.write(result(done)[:10])
                handler.drop()
            case "pay then 500":
                handler.reply(b"oops", 500, "text/plain")
            case "pay then a page":
                handler.reply(b"<html>", 200, "text/html")
            case "pay then too much":
                handler.reply(result({"content": [{"type": "text", "text": "x" * 40_000_000}]}))
            case "pay then 202":
                handler.reply(b"", 202)
