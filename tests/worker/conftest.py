"""A real `counterfoil dev`, shared by the tests of one module."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from support.cli import Dev


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    running = Dev(tmp_path_factory.mktemp("dev"), "--adapters", "support.unhurried:register")
    try:
        running.wait_until_ready()
        yield running
        running.signal(signal.SIGTERM)
        running.wait()
    finally:
        running.end()
