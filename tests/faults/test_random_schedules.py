"""The short version of the fault harness: one seeded batch of random operations, judged by the targets' logs.

The seed is a new one each time; `make faults` with the options that a failure names plays the same schedule again.
"""

from __future__ import annotations

from pathlib import Path
from random import SystemRandom

import pytest

from counterfoil.worker.faults.builtin import targets
from counterfoil.worker.faults.play import Play
from counterfoil.worker.faults.run import random_stage
from counterfoil.worker.faults.schedules import Hurt, drawn

OPERATIONS = 60


@pytest.mark.slow
async def test_random_operations_with_faults_are_never_doubled_lost_stuck_or_dishonest(tmp_path: Path) -> None:
    seed = SystemRandom().randrange(1_000_000)
    asked = targets()
    async with random_stage(tmp_path, "sqlite", asked) as stage:
        played = await Play(stage, drawn(seed, 0, OPERATIONS, asked, hurts=tuple(Hurt))).run()

    again = f'make faults SEED={seed} ARGS="--rows none --operations 60 --batch 60 --database sqlite"'
    assert played.verdict.findings == [], again
    assert played.faults.total() > 20, again
    assert played.effects > 10, again


def test_a_seed_draws_the_same_schedule_each_time() -> None:
    one, other = (drawn(7, 3, 40, targets(), hurts=tuple(Hurt)) for _ in range(2))

    assert one.disturbances == other.disturbances
    assert [
        (plan.target.name, plan.at_seconds, plan.misbehaviour, plan.acts, plan.verdict, plan.request.input)
        for plan in one.operations
    ] == [
        (plan.target.name, plan.at_seconds, plan.misbehaviour, plan.acts, plan.verdict, plan.request.input)
        for plan in other.operations
    ]


def test_another_seed_draws_another_schedule() -> None:
    one, other = (drawn(seed, 0, 40, targets(), hurts=tuple(Hurt)) for seed in (7, 8))

    assert one.disturbances != other.disturbances
    assert [plan.at_seconds for plan in one.operations] != [plan.at_seconds for plan in other.operations]
