"""The extension point: what an application adapter is, and what it is given.

An adapter is one small class. It declares a `Route` (what it can honestly promise), validates input purely, and does
the work; preparing, observing, cancelling and verifying are optional and declared on the route. Methods may be plain
blocking functions or coroutines; the runner calls them off the worker's event loop, one thread a call, with the
route's time-out. Raise `Refusal` from `validate_input`; return `Failed` only when the effect certainly did not happen.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from pydantic import BaseModel

from counterfoil.activities.fault_points import Checkpoint, no_fault
from counterfoil.models.common import BlobRef
from counterfoil.models.errors import ErrorCode, Refusal
from counterfoil.models.operations.contract import OperationRequest, Resource
from counterfoil.models.operations.outcomes import (
    CancelOutcome,
    Observation,
    Outcome,
    PreparationOutcome,
    Prepared,
    Readiness,
    TypedResult,
    VerificationOutcome,
)
from counterfoil.models.operations.route import Route
from counterfoil.models.operations.tools import Tool

T = TypeVar("T")
MaybeAwaitable: TypeAlias = T | Awaitable[T]


class Phase(StrEnum):
    """Which adapter call a context belongs to. Only effectful `prepare`, `execute` and `cancel` may act."""

    READINESS = "readiness"
    PREPARE = "prepare"
    EXECUTE = "execute"
    OBSERVE = "observe"
    CANCEL = "cancel"
    VERIFY = "verify"


class BlobAccess(Protocol):
    """Content-addressed bytes, as blocking calls an adapter may make from its thread."""

    def put(self, data: bytes, media_type: str = "application/octet-stream") -> BlobRef: ...

    def get(self, ref: BlobRef) -> bytes:
        """The bytes, checked against their digest. Raises `CounterfoilError` (`BLOB_MISSING`, `BLOB_CORRUPT`)."""
        ...


class Tools(Protocol):
    """The registered tools, as far as this call of this operation may use them.

    Every call looks the session's permission up anew. Both raise `Refusal` where nothing was called (`TOOL_UNKNOWN`,
    `TOOL_DENIED`, `TOOL_NEEDS_DECISION`, `TOOL_MUTATES`, `ACCOUNT_MISMATCH`, `INVALID_INPUT`, `FENCED`) or where the
    tool itself says that nothing changed; `Unavailable` where the store was away and nothing was called; and
    `ToolFailed` where the tool was called and gave no result.
    """

    def call(self, name: str, arguments: dict[str, Any], *, account_id: str | None = None) -> Any:
        """The tool's answer, from a blocking method."""
        ...

    async def acall(self, name: str, arguments: dict[str, Any], *, account_id: str | None = None) -> Any:
        """The tool's answer, from a coroutine."""
        ...


class NoTools:
    """What is given where no gateway stands behind the call."""

    def call(self, name: str, arguments: dict[str, Any], *, account_id: str | None = None) -> Any:
        raise Refusal(
            ErrorCode.TOOL_UNKNOWN,
            f"no tools can be had here, so '{name}' was not called",
            subject=name,
            remedy="call the adapter through a worker",
        )

    async def acall(self, name: str, arguments: dict[str, Any], *, account_id: str | None = None) -> Any:
        return self.call(name, arguments, account_id=account_id)


@dataclass(frozen=True)
class AdapterContext:
    """What every adapter call is given."""

    phase: Phase
    operation_id: str
    blobs: BlobAccess
    now: datetime
    """When the call began (UTC)."""
    timeout_seconds: float
    """How long the runner waits for this call before it gives up on it."""
    checkpoint: Checkpoint = no_fault
    """Named places where a fault test may stop the process."""
    tools: Tools = field(default_factory=NoTools)
    """Calls registered tools under the operation's account and its session's permissions."""


@dataclass(frozen=True)
class Order:
    """The work itself: what was asked, what was prepared, and which attempt this is.

    `operation_id` on the context is the idempotency key to send downstream. `generation` counts attempts: a target
    that can check it (a fence file, an ETag) must refuse an older one.
    """

    request: OperationRequest
    resources: tuple[Resource, ...]
    """The request's resources, normalised."""
    typed_input: BaseModel
    prepared: Prepared | None
    generation: int
    dispatched_at: datetime | None = None
    external_id: str | None = None
    result: TypedResult | None = None
    """What this operation is recorded to have done, where that is known: a verification may start from it."""
    approved: bool = False
    """Whether a person approved exactly this proposal."""


@runtime_checkable
class ApplicationAdapter(Protocol):
    """The two methods every adapter has. The optional ones are the protocols below."""

    @property
    def route(self) -> Route: ...

    def validate_input(self, request: OperationRequest) -> BaseModel:
        """The request's input, typed. Pure: no I/O, no clock.

        Checks too that input and resources name the same targets and the same account. Raises `Refusal`
        (`INVALID_INPUT`, `RESOURCE_MISMATCH`, `ACCOUNT_MISMATCH`).
        """
        ...

    def execute(self, context: AdapterContext, order: Order) -> MaybeAwaitable[Outcome]:
        """Make the change, once. Called only after the attempt was journaled and its locks are held."""
        ...


@runtime_checkable
class PromisesByInput(Protocol):
    def route_for(self, typed_input: BaseModel) -> Route:
        """`route`, with only what it can promise for this input. Pure.

        What it returns is pinned on the operation. It may promise less than `route`, or name other limits; id, adapter,
        version, environment and preparation stay.
        """
        ...


@runtime_checkable
class CallsTools(Protocol):
    def tools_for(self, typed_input: BaseModel) -> tuple[Tool, ...]:
        """The tools that the effect of this input cannot do without. Pure.

        What the session may not call is then refused when the operation is created, and again before it is dispatched.
        """
        ...


@runtime_checkable
class DescribesInput(Protocol):
    def input_schema(self, capability: str) -> dict[str, Any]:
        """The JSON Schema of a capability's input, for whoever writes requests."""
        ...


@runtime_checkable
class HasReadiness(Protocol):
    def readiness(self, context: AdapterContext) -> MaybeAwaitable[Readiness]:
        """Whether the route can be used now. Reads only."""
        ...


@runtime_checkable
class CanPrepare(Protocol):
    def prepare(self, context: AdapterContext, order: Order) -> MaybeAwaitable[PreparationOutcome]:
        """Work out the change without making it: preview, bound versions, private material."""
        ...


@runtime_checkable
class CanObserve(Protocol):
    def observe(self, context: AdapterContext, order: Order) -> MaybeAwaitable[Observation]:
        """Look what became of a dispatched attempt. `NotApplied` only if it can no longer happen."""
        ...


@runtime_checkable
class CanCancel(Protocol):
    def cancel(self, context: AdapterContext, order: Order) -> MaybeAwaitable[CancelOutcome]:
        """Ask the target to stop. Called at most once an operation."""
        ...


@runtime_checkable
class CanVerify(Protocol):
    def verify(self, context: AdapterContext, order: Order) -> MaybeAwaitable[VerificationOutcome]:
        """Read the target back, freshly and independently, and compare with what was asked."""
        ...
