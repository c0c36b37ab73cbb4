"""An adapter's answer that waits until a test lets it go."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from counterfoil.activities.adapters.base import AdapterContext, Order

PATIENCE_SECONDS = 60


class Gate:
    """Script it as an answer: the adapter's call blocks in it, and then gives `answer`."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self._reached = threading.Event()
        self._opened = threading.Event()
        self.passed = threading.Event()

    def __call__(self, context: AdapterContext, order: Order) -> Any:
        self._reached.set()
        self._opened.wait(PATIENCE_SECONDS)
        self.passed.set()
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer(context, order) if callable(self._answer) else self._answer

    async def reached(self) -> None:
        """Until the adapter is inside its call."""
        assert await asyncio.to_thread(self._reached.wait, PATIENCE_SECONDS)

    def open(self) -> None:
        """Let the call, and every later one, answer."""
        self._opened.set()
