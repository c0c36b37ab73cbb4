"""Fixtures for tests of the workflows: a patient stack, and a server on which time is skipped."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.client import Client
from temporalio.common import SearchAttributeKey
from temporalio.testing import WorkflowEnvironment

from counterfoil.control_plane.temporal import data_converter
from counterfoil.worker.embedded import find_temporal
from counterfoil.workflows import search_attributes
from support import scripted
from support.stack import Stack


@pytest_asyncio.fixture
async def stack(client: Client, tmp_path: Path) -> AsyncIterator[Stack]:
    """A stack that is not started yet, and that does not take a slow machine for a lost worker."""
    made = Stack(client, tmp_path, heartbeat_seconds=15)
    try:
        yield made
    finally:
        await made.close()


@pytest_asyncio.fixture(scope="session")
async def skipping_client() -> AsyncIterator[Client]:
    """A client of a real server that skips the time for which its workflows only wait."""
    attributes = [key for key in vars(search_attributes).values() if isinstance(key, SearchAttributeKey)]
    environment = await WorkflowEnvironment.start_time_skipping_v2(
        dev_server_existing_path=str(find_temporal()),
        dev_server_extra_args=["--dynamic-config-value", "frontend.WorkflowTimeSkippingEnabled=true"],
        search_attributes=attributes,
        data_converter=data_converter(),
    )
    async with environment:
        yield environment.client


@pytest_asyncio.fixture
async def skipping(skipping_client: Client, tmp_path: Path) -> AsyncIterator[Stack]:
    """A stack, not started yet, whose workflows wait for days in no time."""
    made = Stack(skipping_client, tmp_path, heartbeat_seconds=15)
    try:
        yield made
    finally:
        await made.close()


@pytest.fixture(autouse=True)
def session(monkeypatch: pytest.MonkeyPatch) -> str:
    """A session of this test's own: operations are named by their session and key, and the server is shared."""
    name = f"s-{uuid.uuid4().hex[:12]}"
    monkeypatch.setattr(scripted, "SESSION", name)
    return name
