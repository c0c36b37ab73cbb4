"""What `COUNTERFOIL_FAULT` may say, and a store write that happens and is reported as timed out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from counterfoil.activities.fault_points import WRITES, FaultPoint, KillOnce, TimeOutOnce, checkpoint_of, no_fault
from counterfoil.activities.store.database import Database
from counterfoil.models.errors import Unavailable
from counterfoil.models.tables import SessionRow


def test_without_a_fault_a_checkpoint_goes_on(tmp_path: Path) -> None:
    assert checkpoint_of(None, tmp_path) is no_fault


def test_a_point_by_its_name_kills(tmp_path: Path) -> None:
    assert isinstance(checkpoint_of("journal.committed", tmp_path), KillOnce)


@pytest.mark.parametrize("fault", ["nowhere", "timeout:nowhere", "timeout:"])
def test_a_point_that_is_not_registered_is_refused(fault: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not a valid FaultPoint"):
        checkpoint_of(fault, tmp_path)


def test_every_write_has_a_point_just_before_its_commit() -> None:
    assert [point.value for point in WRITES] == [
        "open.before_commit",
        "gate.before_commit",
        "prepare.before_commit",
        "command.before_commit",
        "session.before_commit",
        "expire.before_commit",
        "journal.before_commit",
        "refuse.before_commit",
        "block.before_commit",
        "outcome.before_commit",
        "fence.before_commit",
        "exhaust.before_commit",
        "observe.before_commit",
        "cancel_journal.before_commit",
        "cancel.before_commit",
        "verify.before_commit",
    ]


async def test_a_write_that_times_out_happened_and_is_reported_once(database_url: str, tmp_path: Path) -> None:
    fault = checkpoint_of("timeout:journal.before_commit", tmp_path)
    assert isinstance(fault, TimeOutOnce)
    database = Database(database_url, commit_fault=fault)

    async def write(unit: Any) -> str:
        row = await unit.session.get(SessionRow, "s")
        if row is None:
            unit.session.add(SessionRow(id="s", workspace="w", timeline=0))
        fault(FaultPoint.OUTCOME_BEFORE_COMMIT)  # another write's
        fault(FaultPoint.JOURNAL_BEFORE_COMMIT)
        return "made" if row is None else "found"

    try:
        with pytest.raises(Unavailable, match=r"the commit at journal\.before_commit timed out"):
            await database.run(write)
        assert await database.run(write) == "found"
    finally:
        await database.close()


async def test_a_write_that_does_not_pass_the_point_is_left_alone(database_url: str, tmp_path: Path) -> None:
    fault = checkpoint_of("timeout:journal.before_commit", tmp_path)
    assert isinstance(fault, TimeOutOnce)
    database = Database(database_url, commit_fault=fault)

    async def write(unit: Any) -> None:
        unit.session.add(SessionRow(id="s", workspace="w", timeline=0))

    try:
        await database.run(write)
    finally:
        await database.close()
    assert list(tmp_path.glob("fault.*")) == []
