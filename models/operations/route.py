"""A route: one way an adapter reaches one environment, and what it can honestly promise there."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from counterfoil.models.common import Identifier, Money, Stored


class PreparationSupport(StrEnum):
    """Whether a route can prepare, and whether preparing is itself an effect."""

    NONE = "none"
    PURE = "pure"
    EFFECTFUL = "effectful"


class ReplayGuarantee(Stored):
    """What the target promises when the same operation id reaches it twice.

    `by_key`: it recognises the idempotency key for `retention_seconds` after the first dispatch.
    `conditional`: it applies the change only while its own version token still matches.
    """

    kind: Literal["none", "by_key", "conditional"] = "none"
    retention_seconds: Annotated[float, Field(gt=0)] | None = None


class Route(Stored):
    """How an adapter reaches its target. Pinned on the operation at creation, with the adapter's version.

    `environment` names the place the adapter acts in (a machine's disk, an account's cloud); only a worker of that
    environment and adapter version is ever asked to act or to look.
    """

    id: Identifier
    adapter: Identifier
    adapter_version: Identifier
    capabilities: tuple[Identifier, ...]
    protocol: Identifier
    control: Identifier
    environment: Identifier = "local"
    readiness: bool = False
    preparation: PreparationSupport = PreparationSupport.NONE
    observation: bool = False
    cancellation: bool = False
    verification: bool = False
    background: bool = True
    read_only: bool = False
    """It changes nothing: its resources are only shared, and a lost call is a failure, not an unknown effect."""
    replay: ReplayGuarantee = ReplayGuarantee()
    cost_estimate: Money | None = None
    call_timeout_seconds: Annotated[float, Field(ge=1, le=120)] = 30
    max_concurrent_calls: Annotated[int, Field(ge=1, le=256)] = 8
