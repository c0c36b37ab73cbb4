"""The arguments and options that several commands share. Light on purpose: it is imported to print the help."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout instead of tables.")]
OperationId = Annotated[str, typer.Argument(metavar="ID", help="The operation's id: op-…")]
Key = Annotated[str | None, typer.Option(help="Makes repetitions of this command one command.")]
Limit = Annotated[int, typer.Option(min=1, max=10_000, help="At most so many.")]
TimeoutSeconds = Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds to wait for a worker's answer.")]
WaitSeconds = Annotated[float | None, typer.Option("--timeout", min=0.1, help="Seconds to wait; by default for ever.")]


class Verdict(StrEnum):
    """The answers of `models.operations.commands.Verdict`, which is too heavy to import for a help text."""

    APPROVE = "approve"
    DECLINE = "decline"
    REVISE = "revise"


class Permission(StrEnum):
    """The words of `models.operations.tools.Permission`."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class Status(StrEnum):
    """The answers of `models.operations.commands.ResolutionStatus`."""

    APPLIED = "applied"
    NOT_APPLIED = "not_applied"
    STOPPED = "stopped"
