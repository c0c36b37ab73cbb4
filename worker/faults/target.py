"""The protocol by which the harness drives a target: what to ask of it, how to hurt it, and what it really did.

A target is an application that some adapter reaches. The harness asks for operations on it, orders misbehaviour for
some of them, and judges what the store claims by the target's own append-only log of effects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, Protocol

from counterfoil.models.errors import ErrorCode, Refusal
from counterfoil.models.operations.contract import OperationRequest, Owner


@dataclass(frozen=True)
class Effect:
    """One line of a target's log: what an operation did to it, and what the target held since."""

    operation_id: str
    content: Any


class Target(Protocol):
    """An application the harness may hurt. Its methods are called from one thread, and may block for moments."""

    @property
    def name(self) -> str:
        """What it is called, once in a run."""
        ...

    @property
    def adapters(self) -> Sequence[str]:
        """What the worker registers, as `package.module:register`; none for an adapter that comes with Counterfoil."""
        ...

    @property
    def misbehaviours(self) -> Sequence[str]:
        """What can be ordered, each of it for one operation. Empty where the target only ever behaves."""
        ...

    def start(self, folder: Path) -> Mapping[str, str]:
        """Begin to serve, keeping the log in `folder`; the environment variables that a worker needs."""
        ...

    def stop(self) -> None:
        """End whatever `start` began. The log stays."""
        ...

    def request(self, draw: Random, owner: Owner, key: str) -> OperationRequest:
        """Some operation on this target, all of it drawn from `draw`. Few resources make for many conflicts."""
        ...

    def order(self, operation_id: str, misbehaviour: str) -> None:
        """Have the target misbehave for this operation, which does not exist yet."""
        ...

    def wanted(self, request: OperationRequest) -> Any:
        """The content that this request's effect must leave, to be compared with that of the log."""
        ...

    def effects(self) -> Sequence[Effect]:
        """The whole log, in order."""
        ...


def load_targets(name: str) -> Iterator[Target]:
    """The targets that `package.module:factory` makes: one, or several.

    Raises `Refusal` (`SETTINGS_INVALID`) where there is no such factory.
    """
    module, _, factory = name.partition(":")
    try:
        made = getattr(import_module(module), factory)()
    except (ImportError, AttributeError, ValueError) as error:
        raise Refusal(
            ErrorCode.SETTINGS_INVALID,
            f"the target '{name}' cannot be loaded: {error}",
            subject="target",
            remedy="name it as package.module:factory, importable from here",
        ) from error
    yield from made if isinstance(made, list | tuple) else [made]


def needs_of(targets: Sequence[Target], folder: Path) -> dict[str, str]:
    """Start all targets; what a worker needs to reach them, as environment variables."""
    needs: dict[str, str] = {}
    adapters: dict[str, None] = {}
    for target in targets:
        needs |= target.start(folder)
        adapters |= dict.fromkeys(target.adapters)
    return needs | {"COUNTERFOIL_ADAPTERS": ",".join(adapters)}
