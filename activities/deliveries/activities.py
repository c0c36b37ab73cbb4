"""The activity that delivers callbacks: sends what is due, listens for more, and says when the next one is due.

Each try is recorded in a transaction of its own, after it was made. So a callback is sent at least once; where a
process dies between the two it is sent once more, under the same id.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from temporalio import activity

from counterfoil.activities.deliveries import outbox
from counterfoil.activities.deliveries.bell import Bell
from counterfoil.activities.fault_points import Checkpoint, FaultPoint, no_fault
from counterfoil.activities.store.database import Database
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.deliveries.contract import DeliveryState, Rest
from counterfoil.models.deliveries.schedule import pause_after
from counterfoil.models.tables import DeliveryRow

if TYPE_CHECKING:
    from counterfoil.activities.deliveries.post import Post, Tried

log = logging.getLogger(__name__)

AT_A_TIME = 8
TURN_SECONDS = 300
LINGER_SECONDS = 2.0
"""One that comes right after the last is sent without another turn."""
HEARTBEAT_SECONDS = 3.0
PATIENCE_SECONDS = 40.0
"""A try that is due within this is waited for here; a longer wait is the workflow's."""
SHORTEST_WAIT_SECONDS = 0.05


@dataclass(frozen=True)
class DeliveryParts:
    """What delivering is made of. `post` is None in a deployment that has nobody to tell."""

    database: Database
    post: Post | None
    bell: Bell
    checkpoint: Checkpoint = no_fault
    chance: Callable[[], float] = random.random


class DeliveryActivities:
    """What the deliveries' workflow asks to have done."""

    def __init__(self, parts: DeliveryParts) -> None:
        self._parts = parts
        self._database = parts.database

    @activity.defn
    async def deliver(self) -> Rest:
        """Deliver for a while: until nothing is due any more, or only after a longer wait."""
        if self._parts.post is None:
            log.warning("callbacks may wait that were put in while one was configured; this worker has no address")
            return Rest()
        async with self._heart(), _ending() as ending:
            with self._parts.bell.listening():
                return await self._turn(ending)

    async def _turn(self, ending: asyncio.Event) -> Rest:
        until = asyncio.get_running_loop().time() + TURN_SECONDS
        rung = self._parts.bell.rung
        while True:
            rung.clear()
            await self.send_due(ending)
            wait = await self.next_in_seconds()
            # Between each look at `rung` and the end of listening nothing is awaited: no ring falls between.
            if ending.is_set() or asyncio.get_running_loop().time() > until:
                return Rest(next_in_seconds=0 if rung.is_set() else wait)
            if wait is not None and wait > PATIENCE_SECONDS and not rung.is_set():
                return Rest(next_in_seconds=wait)
            patience = LINGER_SECONDS if wait is None else max(wait, SHORTEST_WAIT_SECONDS)
            if not await self._heard(rung, ending, patience) and wait is None:
                return Rest()

    async def _heard(self, rung: asyncio.Event, ending: asyncio.Event, patience_seconds: float) -> bool:
        waiting = [asyncio.create_task(rung.wait()), asyncio.create_task(ending.wait())]
        try:
            await asyncio.wait(waiting, timeout=patience_seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waiting:
                one.cancel()
        return rung.is_set() or ending.is_set()

    async def send_due(self, ending: asyncio.Event | None = None) -> None:
        """Send what has been due longest, a few at a time, each once. More may be due still."""
        places = asyncio.Semaphore(AT_A_TIME)

        async def send(row: DeliveryRow) -> None:
            async with places:
                if ending is None or not ending.is_set():
                    await self._send(row)

        rows = await self._database.read(outbox.due)
        for failed in await asyncio.gather(*(send(row) for row in rows), return_exceptions=True):
            if failed is not None:
                raise failed

    async def resume(self) -> None:
        """Have it known, when a worker starts, that something waits: whoever put it in may have died at once."""
        if self._parts.post is not None and await self.next_in_seconds() is not None:
            self._parts.bell.ring()

    async def next_in_seconds(self) -> float | None:
        """In how many seconds the next one is due; None where none waits."""

        async def look(work: UnitOfWork) -> float | None:
            due_at = await outbox.next_due(work)
            return None if due_at is None else max(0.0, (due_at - work.now).total_seconds())

        return await self._database.read(look)

    async def _send(self, row: DeliveryRow) -> None:
        assert self._parts.post is not None
        tried = await self._parts.post(row.id, row.body.encode())
        self._parts.checkpoint(FaultPoint.DELIVERY_POSTED)
        await self._database.run(lambda work: self._record(work, row.id, row.tries + 1, tried))
        self._parts.checkpoint(FaultPoint.DELIVERY_RECORDED)

    async def _record(self, work: UnitOfWork, delivery_id: str, tries: int, tried: Tried) -> None:
        row = await work.session.get(DeliveryRow, delivery_id, lock=True)
        # Where another turn was given its place meanwhile, what that one recorded stands, unless this one was taken.
        if row is None or row.state != DeliveryState.PENDING or (row.tries >= tries and not tried.taken):
            return
        row.tries, row.status, row.problem = max(row.tries, tries), tried.status, tried.problem
        pause = pause_after(tries, status=tried.status, asked=tried.pause, chance=self._parts.chance())
        if tried.taken:
            row.state = DeliveryState.DELIVERED
        elif pause is None:
            row.state = DeliveryState.GIVEN_UP
            log.error("callback %s (%s) is given up after %d tries: %s", row.id, row.type, tries, tried.problem)
        else:
            row.due_at = work.now + pause
            log.warning("callback %s (%s) was not taken, try %d: %s", row.id, row.type, tries, tried.problem)
            return
        row.due_at = None
        row.settled_at = work.now

    @asynccontextmanager
    async def _heart(self) -> AsyncIterator[None]:
        async def beat() -> None:
            while True:
                await asyncio.sleep(HEARTBEAT_SECONDS)
                activity.heartbeat()

        beating = asyncio.create_task(beat())
        try:
            yield
        finally:
            beating.cancel()


@asynccontextmanager
async def _ending() -> AsyncIterator[asyncio.Event]:
    """Set once this worker is told to stop: what is under way is finished, nothing else is begun."""
    ending = asyncio.Event()

    async def watch() -> None:
        await activity.wait_for_worker_shutdown()
        ending.set()

    watching = asyncio.create_task(watch())
    try:
        yield ending
    finally:
        watching.cancel()
