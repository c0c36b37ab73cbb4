"""A dispatch that is cancelled at the worst moment: while the transaction that grants it is on its way to the disk."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from sqlalchemy import Connection
from temporalio.testing import ActivityEnvironment

from counterfoil.activities.adapters.runner import AdapterRunner
from counterfoil.activities.operations.activities import OperationActivities
from counterfoil.activities.operations.gateway import Gateway
from counterfoil.activities.operations.steps import Parts
from counterfoil.activities.operations.views import Timing
from counterfoil.activities.store.database import Database
from counterfoil.activities.store.migration import migrate
from counterfoil.models.operations.view import StepInput
from support.scripted import scripted
from tests.activities.operations.conftest import Bench, SetClock


class NoEngine:
    """Nobody is to be woken here."""

    async def wake(self, operation_id: str) -> None:
        raise AssertionError(operation_id)

    async def doubt(self, operation_id: str) -> None:
        raise AssertionError(operation_id)

    async def status(self, operation_id: str):
        raise AssertionError(operation_id)


async def test_an_attempt_that_was_journaled_is_made_though_its_activity_was_cancelled_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    migrate(url)
    bench = Bench(Database(url), tmp_path, SetClock())
    adapter = scripted(bench.catalog)
    activities = OperationActivities(
        Parts(
            database=bench.database,
            blobs=bench.blobs,
            catalog=bench.catalog,
            creator=bench.creator,
            runner=AdapterRunner(),
            engine=NoEngine(),
            policy=bench.policy,
            timing=Timing(),
            gateway=Gateway(bench.database, bench.catalog.tools, NoEngine()),
        )
    )
    operation_id = (await bench.create()).id
    committing, go_on = threading.Event(), threading.Event()
    commit = Connection.commit

    def held_up(connection: Connection) -> None:
        committing.set()
        go_on.wait(10)
        commit(connection)

    monkeypatch.setattr(Connection, "commit", held_up)
    dispatch = asyncio.create_task(
        ActivityEnvironment().run(activities.dispatch, StepInput(operation_id=operation_id, generation=1))
    )
    await asyncio.to_thread(committing.wait, 10)
    dispatch.cancel()
    await asyncio.sleep(0.05)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await dispatch

    for _ in range(200):
        operation = await bench.read(operation_id)
        if operation.state == "completed":
            break
        await asyncio.sleep(0.02)
    assert operation.state == "completed"
    assert adapter.effects == [(operation_id, 1)]
    await bench.database.close()
