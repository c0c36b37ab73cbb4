"""What people and hosts may tell a session's work as a whole: stop it for good, hold it, let it go on.

Cancelling ends an epoch. What was asked for in it is asked to stop and never begun; a run that begins afterwards asks
in the next epoch. A pause only keeps new dispatches back.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from counterfoil.models.common import Contract, Identifier, Scope, Stored, Text
from counterfoil.models.operations.commands import AnswerStatus
from counterfoil.models.operations.sealing import Received, Vocabulary


class SessionCommandName(StrEnum):
    """The commands a session understands."""

    CANCEL = "cancel_session"
    PAUSE = "pause_session"
    RESUME = "resume_session"


class CancelSession(Contract):
    """Stop everything that was asked for up to this epoch, and begin the next one."""

    epoch: Annotated[int, Field(ge=0)]
    reason: Text


class PauseSession(Contract):
    """Dispatch nothing new. What was issued goes on, and is observed to its end."""

    reason: Text


class ResumeSession(Contract):
    """Dispatch again."""

    reason: Text = ""


SessionCommand = CancelSession | PauseSession | ResumeSession

SESSION_COMMANDS = Vocabulary[SessionCommand](
    kind=SessionCommandName,
    contracts={
        SessionCommandName.CANCEL: CancelSession,
        SessionCommandName.PAUSE: PauseSession,
        SessionCommandName.RESUME: ResumeSession,
    },
    scopes={
        SessionCommandName.CANCEL: Scope.OPERATE,
        SessionCommandName.PAUSE: Scope.OPERATE,
        SessionCommandName.RESUME: Scope.OPERATE,
    },
)


class SessionAnswer(Stored):
    """What the transaction that took a session's command said, and how the session stands after it."""

    status: AnswerStatus
    session: Identifier
    epoch: int = 0
    paused: bool = False
    operations: int = 0
    """How many operations were asked to stop, or were told that they may go on."""
    code: str | None = None
    detail: str = ""
    remedy: str = ""


class SessionOrder(Stored):
    """A session's command on its way to the transaction that takes it, and then to the operations it concerns."""

    session: Identifier
    received: Received
    epoch: int = 0
    after: str = ""
    """Operations up to this one were told."""


class Told(Stored):
    """A page of operations was told of a session's command: how many, and the last one; None where no more follow."""

    operations: int
    after: str | None
