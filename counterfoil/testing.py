"""What a host tests with: `pytest_plugins = ["counterfoil.testing"]`, and the answers a test may set.

docs/testing.md explains it. It needs pytest and the `embedded` extra, and is imported by nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from counterfoil.worker.testing.plugin import counterfoil_adapters, counterfoil_server, counterfoil_stack
from counterfoil.worker.testing.scripting import (
    Answer,
    Call,
    ScriptedAdapter,
    cancelled,
    completed,
    contradicted,
    evidence,
    failed,
    late,
    not_applied,
    partial,
    running,
    unknown,
    unverifiable,
    verified,
)

if TYPE_CHECKING:
    from counterfoil.worker.testing.stack import Stack

__all__ = [
    "Answer",
    "Call",
    "ScriptedAdapter",
    "Stack",
    "cancelled",
    "completed",
    "contradicted",
    "counterfoil_adapters",
    "counterfoil_server",
    "counterfoil_stack",
    "evidence",
    "failed",
    "late",
    "not_applied",
    "partial",
    "running",
    "unknown",
    "unverifiable",
    "verified",
]


def __getattr__(name: str) -> Any:
    """`Stack` is loaded when it is first used: with it comes all that a worker needs."""
    if name == "Stack":
        from counterfoil.worker.testing.stack import Stack

        return Stack
    raise AttributeError(f"module 'counterfoil.testing' has no attribute '{name}'")
