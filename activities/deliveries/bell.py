"""The bell: rung when a callback was put into the outbox, it is heard by whoever delivers.

Where this process is delivering already, that costs nothing. Else the deliveries' workflow is woken, at most twice a
second, however much settles. A ring that is lost is made good by the sweep.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from counterfoil.activities.fault_points import Checkpoint, FaultPoint, no_fault

log = logging.getLogger(__name__)

SPACING_SECONDS = 0.5


class Bell:
    """Of one process. `wake` wakes the deliveries' workflow."""

    def __init__(self, wake: Callable[[], Awaitable[None]], checkpoint: Checkpoint = no_fault) -> None:
        self._wake = wake
        self._checkpoint = checkpoint
        self._listeners = 0
        self.rung = asyncio.Event()
        """Whether it was heard; cleared by whoever goes to look at the outbox."""
        self._again = False
        self._waking: asyncio.Task[None] | None = None

    def ring(self) -> None:
        """Something was put into the outbox, and committed."""
        self._checkpoint(FaultPoint.DELIVERY_ENQUEUED)
        self._again = True
        if self._listeners:
            self.rung.set()
        elif self._waking is None:
            self._waking = asyncio.get_running_loop().create_task(self._wake_up())

    @contextmanager
    def listening(self) -> Iterator[None]:
        """While the block runs, rings are heard in it."""
        self._listeners += 1
        try:
            yield
        finally:
            self._listeners -= 1

    def stop(self) -> None:
        """The process is ending."""
        if self._waking is not None:
            self._waking.cancel()

    async def _wake_up(self) -> None:
        try:
            while self._again and not self._listeners:
                self._again = False
                try:
                    await self._wake()
                except Exception as error:
                    log.warning("could not have callbacks delivered, the sweep will: %s", error)
                await asyncio.sleep(SPACING_SECONDS)
        finally:
            self._waking = None
