"""The completion callback: what a host is told about an operation, and what is kept of each telling.

A callback carries no content: no request, no result, no question. Who is told reads the operation for that.
"""

from __future__ import annotations

from enum import StrEnum

from counterfoil.models.common import Digest, Identifier, Instant, Stored
from counterfoil.models.operations.lifecycle import Cancellation, State, Verification


class CallbackType(StrEnum):
    """What a callback says."""

    SETTLED = "operation.settled"
    """Closed and, where completed, its verification decided. Sent again where a later one decides otherwise."""
    AWAITS_DECISION = "operation.awaits_decision"
    UNKNOWN = "operation.unknown"
    """Sent again where observation ends and only a person can tell."""


class Callback(Stored):
    """The body of a callback: an operation as it stood at `timestamp`.

    Callbacks may come twice, and in another order: `version` only grows, so an older one is known by it.
    """

    schema_version: int = 1
    type: CallbackType
    timestamp: Instant
    operation_id: Identifier
    workspace: str
    session: str
    turn: str | None = None
    capability: str
    route_id: str
    state: State
    verification: Verification
    cancellation: Cancellation
    revision: int
    version: int
    """The ledger's head for this operation."""
    proposal_digest: Digest | None = None
    """What a decision must name, where one is asked for."""
    awaits_attestation: bool = False
    """Unknown, and not observed any more: a person must look at the target and attest."""


class DeliveryState(StrEnum):
    """How far a callback has come."""

    PENDING = "pending"
    DELIVERED = "delivered"
    GIVEN_UP = "given_up"


class Delivery(Stored):
    """A callback that was, or is to be, sent."""

    id: str
    """Its `webhook-id`: the same at every try."""
    type: CallbackType
    state: DeliveryState
    tries: int
    created_at: Instant
    due_at: Instant | None = None
    settled_at: Instant | None = None
    status: int | None = None
    """What the receiver answered last, where it answered."""
    problem: str | None = None
    """Why the last try failed."""


class Rest(Stored):
    """What a turn of delivering left: when the next callback is due; None where none waits."""

    next_in_seconds: float | None = None
