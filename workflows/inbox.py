"""The commands an operation was sent: taken in order, answered by ticket. Handlers only put; one loop takes."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue

with workflow.unsafe.imports_passed_through():
    from counterfoil.models.operations.commands import Answer, CommandName
    from counterfoil.models.operations.sealing import Received
    from counterfoil.workflows.lenient import Unreadable


JSON = (dict, list, str, int, float, bool, type(None))


@dataclass(frozen=True)
class Ticketed:
    """A command with the ticket its sender waits on."""

    ticket: int
    received: Received


class Inbox:
    """Commands that wait, and answers that were not fetched yet."""

    def __init__(self) -> None:
        self._waiting: deque[Ticketed] = deque()
        self._answers: dict[int, Answer] = {}
        self._tickets = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, received: Received) -> int:
        """Keep a command; the ticket is what its answer will be found under."""
        self._tickets += 1
        self._waiting.append(Ticketed(self._tickets, received))
        return self._tickets

    def has_due(self, *, hold_decisions: bool = False) -> bool:
        """Whether a command may be taken now. Decisions are held while their proposal is still being prepared."""
        return self._place(hold_decisions) is not None

    def take(self, *, hold_decisions: bool = False) -> Ticketed:
        """The next command that may be taken."""
        place = self._place(hold_decisions)
        assert place is not None
        taken = self._waiting[place]
        del self._waiting[place]
        return taken

    def put_back(self, taken: Ticketed) -> None:
        """Keep a command that could not be taken, before all others."""
        self._waiting.appendleft(taken)

    def answer(self, taken: Ticketed, answer: Answer) -> None:
        """Leave an answer for whoever waits for it; a signal's sender does not."""
        if taken.received.channel == "update":
            self._answers[taken.ticket] = answer

    async def answer_to(self, ticket: int) -> Answer:
        """The answer to a command, once there is one."""
        await workflow.wait_condition(lambda: ticket in self._answers)
        return self._answers.pop(ticket)

    def _place(self, hold_decisions: bool) -> int | None:
        for place, waiting in enumerate(self._waiting):
            if not (hold_decisions and waiting.received.name == CommandName.DECIDE):
                return place
        return None


def decoded(arguments: Sequence[RawValue], limit_bytes: int | None = None) -> tuple[Any, str | None]:
    """What one raw argument says in JSON, or why nothing can be read from what came. Never raises."""
    if len(arguments) != 1:
        return None, f"one argument is needed, {len(arguments)} came"
    value: Any = arguments[0]
    if isinstance(value, RawValue):
        size_bytes = len(value.payload.data)
        if limit_bytes is not None and size_bytes > limit_bytes:
            return None, f"the argument has {size_bytes} bytes, the limit is {limit_bytes}"
        value = workflow.payload_converter().from_payloads([value.payload])[0]
    if isinstance(value, Unreadable):
        return None, value.reason
    if not isinstance(value, JSON):
        # Raw bytes and protobuf messages decode well, and could not be handed on.
        return None, f"the argument is {type(value).__name__}, not JSON"
    return value, None


def printable(name: str) -> str:
    """A stranger's name for a command, fit to be recorded."""
    return "".join(char if char.isprintable() else "?" for char in name[:200]) or "?"
