"""A worker's settings: what `ConnectionSettings` says, and how this worker serves."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from counterfoil.control_plane.settings import ConnectionSettings


class WorkerSettings(ConnectionSettings):
    """From `COUNTERFOIL_…` variables; docs/operating.md lists them."""

    environment: str = "local"
    """The place this worker acts in: it serves the routes of this environment only."""
    adapter_queues: Literal["shared", "separate"] = "separate"
    """`separate`: one task queue for each environment and adapter version. `shared`: the workflows' own queue, for a
    single worker that is the only one of its environment (as the embedded stack's is)."""
    allow_unsealed: bool = False
    """Honour commands without a seal (a bare Temporal signal), recorded as unauthenticated."""
    heartbeat_seconds: Annotated[float, Field(ge=1, le=300)] = 10
    """An adapter activity unheard of for so long is taken for lost."""
    drain_seconds: Annotated[float, Field(ge=0, le=3600)] = 30
    """How long running activities may finish after SIGTERM."""
    sweep_seconds: Annotated[float, Field(ge=1)] = 60
    """How often the sweep looks for operations that nobody serves."""
    connect_tries: Annotated[int, Field(ge=1)] = 60
    """How often a worker tries to reach Temporal and the database at start, with growing pauses."""
    max_concurrent_activities: Annotated[int, Field(ge=1)] = 100
    max_cached_workflows: Annotated[int, Field(ge=0)] = 1000
    deployment_name: str | None = None
    """With `build_id`: the Temporal worker deployment this worker is a version of."""
    build_id: str | None = None
    log_level: Literal["debug", "info", "warning", "error"] = "warning"
    """What a worker logs on stderr."""
    fault: str | None = None
    """A fault point at which this process kills itself once; after `timeout:`, a store write (or `every` one) that
    happens and is reported as timed out, once. For fault tests and the demonstration only."""
    clock_shift_seconds: float = 0
    """How wrong this process's clock is. For fault tests only."""

    @model_validator(mode="after")
    def _version_is_whole(self) -> Self:
        if (self.deployment_name is None) != (self.build_id is None):
            raise ValueError("deployment_name and build_id are given together or not at all")
        return self
