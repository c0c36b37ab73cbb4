"""The sandbox is Temporal's own, only entered at less cost: it refuses what it always refused."""

from __future__ import annotations

import pytest
from temporalio import workflow
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import RestrictedWorkflowAccessError, _runner

from counterfoil.worker import sandbox
from counterfoil.worker.build import workflow_runner


@workflow.defn
class ReadsTheClock:
    @workflow.run
    async def run(self) -> str:
        import datetime

        try:
            return datetime.datetime.now().isoformat()
        except RestrictedWorkflowAccessError as error:
            raise ApplicationError("restricted", type="RESTRICTED") from error


async def test_what_is_not_deterministic_is_refused_inside_the_sandbox(client: Client) -> None:
    async with Worker(client, task_queue="sandbox", workflows=[ReadsTheClock], workflow_runner=workflow_runner()):
        with pytest.raises(WorkflowFailureError) as failure:
            await client.execute_workflow(ReadsTheClock.run, id="reads-the-clock", task_queue="sandbox")

    assert isinstance(failure.value.cause, ApplicationError)
    assert failure.value.cause.type == "RESTRICTED"


async def test_the_sandbox_enters_a_workflow_by_code_that_is_compiled_once(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the saving rests on in Temporal's SDK is still there."""
    entries = []
    run_code = _runner._Instance._run_code

    def watched(instance: _runner._Instance, code: object, **given: object) -> None:
        entries.append(code)
        run_code(instance, code, **given)  # type: ignore[arg-type]

    monkeypatch.setattr(_runner._Instance, "_run_code", watched)
    sandbox._compiled.cache_clear()
    async with Worker(client, task_queue="sandbox", workflows=[ReadsTheClock], workflow_runner=workflow_runner()):
        for number in range(3):
            with pytest.raises(WorkflowFailureError):
                await client.execute_workflow(ReadsTheClock.run, id=f"reads-{number}", task_queue="sandbox")

    assert not any(isinstance(code, str) for code in entries)
    assert sandbox._compiled.cache_info().misses <= 8 < len(entries)
