"""The protocol by which activities reach the workflows above them: waking one, and asking whether one runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from enum import StrEnum
from typing import Any, Protocol


class EngineStatus(StrEnum):
    """What Temporal says of an operation's workflow."""

    RUNNING = "running"
    FINISHED = "finished"
    """It returned its result: its row was settled then."""
    BEHIND = "behind"
    """It was stopped while it knew that the store is behind it, and waited for a repair."""
    STOPPED = "stopped"
    """It was terminated, failed, timed out or cancelled."""
    MISSING = "missing"


class Engine(Protocol):
    """The workflows, as seen from below."""

    async def wake(self, operation_id: str) -> None:
        """Tell an operation's workflow to look at its row again, starting one where none runs."""
        ...

    async def cancel(self, operation_id: str, command: dict[str, Any]) -> None:
        """Send an operation's workflow a command to cancel, starting one where none runs."""
        ...

    async def doubt(self, operation_id: str) -> None:
        """Start a workflow that does nothing but wait for a repair: the store contradicts what was finished."""
        ...

    async def deliver(self) -> None:
        """Have what waits in the outbox sent, by a workflow of the whole deployment."""
        ...

    def running(self) -> AsyncIterator[str]:
        """The operations whose workflows run now, as far as Temporal can tell."""
        ...

    async def status(self, operation_id: str) -> EngineStatus:
        """Whether a workflow runs for this operation."""
        ...
