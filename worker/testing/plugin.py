"""The pytest fixtures: one server for the session, one stack for each test that asks for it.

Light on purpose: what it needs is imported when the first test asks for a stack.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from counterfoil.models.errors import CounterfoilError

if TYPE_CHECKING:
    from counterfoil.worker.testing.background import Background
    from counterfoil.worker.testing.stack import Stack

FOREIGN = ("COUNTERFOIL_", "TEMPORAL_")


@pytest.fixture
def counterfoil_adapters() -> Sequence[Any]:
    """Adapters of your own that the stack serves, or functions that register them. Override it in your conftest.py."""
    return ()


@pytest.fixture(scope="session")
def counterfoil_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Background]:
    """A real Temporal server for the session; under pytest-xdist, one for each worker."""
    from counterfoil.worker.testing.background import in_the_background

    folder = tmp_path_factory.mktemp("counterfoil")
    running = in_the_background(folder)
    try:
        background = running.__enter__()
    except CounterfoilError as error:
        # Not skipped: tests that are silently left out prove nothing.
        pytest.fail(f"no stack can be had: {error.detail}; {error.remedy}", pytrace=False)
    try:
        yield background
    finally:
        running.__exit__(None, None, None)


@pytest.fixture
def counterfoil_stack(
    counterfoil_server: Background,
    counterfoil_adapters: Sequence[Any],
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Stack]:
    """A running stack of this test's own, which `counterfoil.connect()` finds, and an adapter to script."""
    from counterfoil.worker.testing.stack import Stack

    stack = Stack(counterfoil_server, tmp_path_factory.mktemp("stack"), counterfoil_adapters)
    for name in [name for name in os.environ if name.startswith(FOREIGN)]:
        monkeypatch.delenv(name)
    try:
        stack.start()
        for name, value in stack.environment.items():
            monkeypatch.setenv(name, value)
        yield stack
    finally:
        stack.close()
