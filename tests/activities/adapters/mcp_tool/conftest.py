"""What tests of `mcp.tool.v1` share: the misbehaving server, servers from npm, and calls as the runner makes them."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from counterfoil.activities.adapters.base import AdapterContext
from counterfoil.activities.adapters.mcp_tool.adapter import McpTools
from counterfoil.activities.adapters.mcp_tool.profile import ServerProfile
from support.mcp_calls import Calls, EffectLog, misbehaving
from support.npm import installed

NPM = Path(__file__).parents[3] / "npm"


@pytest.fixture
def log(tmp_path: Path) -> EffectLog:
    return EffectLog(tmp_path / "effects.jsonl")


@pytest.fixture
def profile(log: EffectLog) -> Callable[..., ServerProfile]:
    """`profile(mode="", tools={}, **more)`: the server that misbehaves."""

    return partial(misbehaving, log.path)


@pytest.fixture
def calls(make_context: Callable[..., AdapterContext], blobs: Any) -> Iterator[Callable[..., Calls]]:
    """`calls(profile, …)`: a way to call an adapter with these servers. All its connections end with the test."""
    made: list[McpTools] = []

    def make(*profiles: ServerProfile) -> Calls:
        made.append(McpTools(profiles))
        return Calls(made[-1], make_context, blobs)

    yield make
    for adapter in made:
        adapter.station.close()


@pytest.fixture(scope="session")
def npm() -> Path:
    """The folder of the programs of the MCP servers from npm, installed on first use from the lock."""
    return installed(NPM) / ".bin"


@pytest.fixture
def everything(npm: Path) -> Callable[..., ServerProfile]:
    """`everything(tools={})`: the reference server that does everything, as a process."""

    def make(tools: dict[str, Any] | None = None, **more: Any) -> ServerProfile:
        transport = {"kind": "stdio", "command": str(npm / "mcp-server-everything"), "args": ("stdio",)}
        values = {"name": "everything", "transport": transport, "tools": tools or {}, "call_timeout_seconds": 40}
        return ServerProfile.model_validate(values | more)

    return make


@pytest_asyncio.fixture(scope="session")
async def everything_url(npm: Path) -> AsyncIterator[str]:
    """The address of the reference server that does everything, over streamable HTTP."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "PORT": str(port)}
    command = [str(npm / "mcp-server-everything"), "streamableHttp"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 30
        while time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                await asyncio.sleep(0.1)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait(10)
