"""A workflow that runs today goes on tomorrow: recorded histories replay under the present code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

from counterfoil.control_plane.temporal import data_converter
from counterfoil.worker.build import WORKFLOWS, workflow_runner
from counterfoil.workflows.lenient import OneArgument

HISTORIES = sorted((Path(__file__).parent / "histories").glob("*.json"))


def recorded(file: Path) -> WorkflowHistory:
    kept = json.loads(file.read_text())
    return WorkflowHistory.from_json(kept["workflow_id"], kept["history"])


def replayer() -> Replayer:
    return Replayer(
        workflows=WORKFLOWS,
        workflow_runner=workflow_runner(),
        interceptors=[OneArgument()],
        data_converter=data_converter(),
    )


def test_there_are_histories_of_every_story():
    assert len(HISTORIES) == 9


@pytest.mark.parametrize("file", HISTORIES, ids=lambda file: file.stem)
async def test_a_recorded_history_replays(file: Path):
    await replayer().replay_workflow(recorded(file))


async def test_a_history_that_does_not_fit_the_code_is_noticed():
    kept = json.loads(HISTORIES[0].read_text())
    for event in kept["history"]["events"]:
        kind = "activityTaskScheduledEventAttributes"
        if kind in event:
            event[kind]["activityType"]["name"] = "something_else"

    with pytest.raises(Exception, match=r"(?i)nondeterminism|non-deterministic|TMPRL1100"):
        await replayer().replay_workflow(WorkflowHistory.from_json(kept["workflow_id"], kept["history"]))
