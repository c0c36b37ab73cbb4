"""Temporal's workflow sandbox, entered at less cost.

The sandbox enters a workflow by a few lines of source, some twenty times for a short one, and has Python compile them
each time: a tenth of a busy worker's time. Here each is compiled once a process. Nothing else about it is changed.
"""

from __future__ import annotations

from functools import lru_cache
from types import CodeType
from typing import Any

from temporalio.worker import WorkflowInstance, WorkflowInstanceDetails
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner
from temporalio.worker.workflow_sandbox._runner import _Instance


class CompiledOnce(SandboxedWorkflowRunner):
    """The sandbox, with its entries compiled once."""

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        return _CompiledOnceInstance(det, self.runner_class, self.restrictions)


class _CompiledOnceInstance(_Instance):
    def _run_code(self, code: Any, **extra_globals: Any) -> None:
        super()._run_code(_compiled(code), **extra_globals)  # type: ignore[arg-type]  # `exec` takes both


@lru_cache(maxsize=256)
def _compiled(code: str) -> CodeType:
    return compile(code, "<string>", "exec")
