"""These tests use what hosts use."""

from __future__ import annotations

from counterfoil.testing import counterfoil_adapters, counterfoil_server, counterfoil_stack

__all__ = ["counterfoil_adapters", "counterfoil_server", "counterfoil_stack"]
