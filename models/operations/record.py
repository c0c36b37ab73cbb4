"""An operation as people and hosts read it: everything the store knows, in the words of the domain."""

from __future__ import annotations

from typing import Any

from counterfoil.models.common import Actor, Digest, Identifier, Instant, Money, Stored
from counterfoil.models.deliveries.contract import Delivery
from counterfoil.models.operations.commands import Verdict
from counterfoil.models.operations.contract import OperationRequest, Resource
from counterfoil.models.operations.lifecycle import Cancellation, State, Verification
from counterfoil.models.operations.outcomes import Evidence, Prepared, Problem, TypedResult
from counterfoil.models.operations.route import Route
from counterfoil.models.operations.view import Blocked


class DecisionRecord(Stored):
    """A decision that was given, and what it was bound to."""

    verdict: Verdict
    proposal_digest: Digest
    notes: str = ""
    actor: Actor
    at: Instant


class AttemptRecord(Stored):
    """One journaled attempt: what was sent where, and what came back."""

    generation: int
    kind: str
    adapter: str
    adapter_version: str
    environment: str
    journaled_at: Instant
    settled_at: Instant | None = None
    outcome: dict[str, Any] | None = None


class ClaimRecord(Stored):
    """A resource the operation holds, or waits for."""

    name: str
    exclusive: bool
    held: bool
    since: Instant
    overtakable: bool = False
    """It waits for an unknown effect, so those that do not conflict with that may go first."""


class DependencyRecord(Stored):
    """An operation that must be completed and verified first; where it was superseded, what took its place."""

    named: str
    operation_id: str
    state: State
    verification: Verification


class SessionRecord(Stored):
    """A session as hosts and operators see it: whether its work may go on, and in which epoch."""

    session: str
    workspace: str
    epoch: int
    """What a run passes as `owner.epoch` to begin work of its own."""
    paused: bool
    timeline: int
    """The newest entry of its timeline."""


class LedgerEntry(Stored):
    """One thing that happened."""

    version: int
    kind: str
    summary: str
    actor: Actor
    material: bool
    at: Instant
    evidence: Evidence | None = None
    data: dict[str, Any] | None = None


class Swept(Stored):
    """What one sweep found."""

    open_operations: int = 0
    restarted: int = 0
    woken: int = 0
    doubted: int = 0
    """Finished for Temporal, open in the store: the store is older than the workflow. Waits for a repair."""
    lost_calls: int = 0
    """Direct tool calls whose process is gone: they hold their workspace no longer."""


class OperationSummary(Stored):
    """One line of a list."""

    operation_id: Identifier
    workspace: str
    session: str
    capability: str
    route_id: str
    objective: str
    state: State
    verification: Verification
    cancellation: Cancellation
    revision: int
    reverifying: bool = False
    """Its verification is being refreshed."""
    created_at: Instant
    updated_at: Instant
    callback_given_up: bool = False
    """Whether a callback about it never reached its receiver, who may not know."""


class Operation(OperationSummary):
    """The whole record of one operation.

    `verification` is read against the clock: evidence that has outlived `verification_max_age_seconds` is `expired`.
    """

    request: OperationRequest
    request_digest: Digest
    route: Route
    resources: tuple[Resource, ...]
    prepared: Prepared | None = None
    proposal_digest: Digest | None = None
    decision: DecisionRecord | None = None
    decision_expires_at: Instant | None = None
    deadline: Instant | None = None
    external_id: str | None = None
    blocked: Blocked | None = None
    observation_exhausted: bool = False
    polls: int = 0
    version: int = 0
    """The ledger's head for this operation."""
    attempts: tuple[AttemptRecord, ...] = ()
    claims: tuple[ClaimRecord, ...] = ()
    """What it holds or waits for now; empty once it is settled."""
    dependencies: tuple[DependencyRecord, ...] = ()
    superseded_by: str | None = None
    estimated_cost: Money | None = None
    """Of all attempts made so far, by the route's estimate; None where it gives none."""
    result: TypedResult | None = None
    evidence: Evidence | None = None
    problem: Problem | None = None
    closed_at: Instant | None = None
    attested: bool = False
    late_replies: tuple[LedgerEntry, ...] = ()
    deliveries: tuple[Delivery, ...] = ()
    """The callbacks about it, oldest first; none where the deployment has nobody to tell."""
