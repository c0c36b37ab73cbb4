"""The fault harness finds a lying adapter out: played for real, with nothing else going wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterfoil.models.errors import Refusal
from counterfoil.worker.faults.play import Play
from counterfoil.worker.faults.run import random_stage
from counterfoil.worker.faults.schedules import Schedule, crowd
from counterfoil.worker.faults.target import load_targets
from support.liars import LIES, LiarsTarget


async def test_an_adapter_that_acts_twice_not_at_all_or_otherwise_than_it_says_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    targets = [LiarsTarget()]
    drawn = crowd(1, len(LIES), targets)
    ids = {plan.request.input["lie"]: plan.operation_id for plan in drawn.operations}

    async with random_stage(tmp_path, "sqlite", targets) as stage:
        played = await Play(stage, Schedule(drawn.name, drawn.operations, ())).run()

    told = "is 'completed', 'verified', and"
    assert played.verdict.doubles == [f"{ids['twice']} has 2 effects"]
    assert played.verdict.lost == [f"{ids['not at all']} {told} the log has no effect of it"]
    assert sorted(played.verdict.dishonest) == sorted(
        [
            f"{ids['in spite of it']} is 'failed', 'unavailable', and the log has its effect",
            f"{ids['something else']} {told} the target was left with 'whatever'",
        ]
    )
    assert played.verdict.stuck == []


@pytest.mark.parametrize("name", ["support.liars", "support.liars:Nobody", "no.such.module:targets", ""])
def test_a_target_that_cannot_be_loaded_is_refused_with_its_name(name: str) -> None:
    with pytest.raises(Refusal, match="cannot be loaded"):
        list(load_targets(name))
