"""What a host asks for: one application operation, its owner, its resources, its limits.

An operation's identity is its claim: the pair (session, idempotency key). The operation id is derived from the claim;
it is the workflow's id and the idempotency key the target sees.
"""

from __future__ import annotations

import base64
import hashlib
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from counterfoil.models.common import (
    SCHEMA_VERSION,
    Contract,
    Identifier,
    Instant,
    Money,
    Text,
    canonical_json,
    digest_of,
)

INLINE_LIMIT_BYTES = 8 * 1024
"""A request's input larger than this (canonical JSON) is kept as a blob; rows and histories carry its digest."""

INPUT_LIMIT_BYTES = 1024 * 1024
"""A request's input larger than this is refused with `INPUT_TOO_LARGE`: pass a file or a blob by name instead."""


class ResourceKind(StrEnum):
    """What sort of thing a resource is. A query is only read: it is locked shared, everything else exclusively."""

    FILE = "file"
    NATIVE_PROJECT = "native_project"
    REMOTE_ENTITY = "remote_entity"
    QUERY = "query"
    APPLICATION_STATE = "application_state"


class Resource(Contract):
    """One thing the operation touches, named the way its system names things."""

    kind: ResourceKind
    system: Identifier
    identity: Identifier
    account_id: Identifier | None = None
    tenant_id: Identifier | None = None
    version: Identifier | None = None


class Owner(Contract):
    """Whose operation this is. Sessions belong to one workspace; a turn belongs to one session."""

    workspace: Identifier
    session: Identifier
    turn: Identifier | None = None
    epoch: Annotated[int, Field(ge=0)] = 0
    """How often this session's whole work had been cancelled when the run began that asks.

    A run that was cancelled asks in an epoch that has passed, and starts nothing new.
    """


class DecisionRequest(Contract):
    """A question a person must answer before anything is dispatched."""

    reason: Text
    question: Text
    expires_after_seconds: Annotated[float, Field(gt=0, le=366 * 86400)] | None = None


class Constraints(Contract):
    """Bounds that hold for the whole life of the operation."""

    background_required: bool = False
    max_attempts: Annotated[int, Field(ge=1, le=100)] = 1
    max_polls: Annotated[int, Field(ge=0, le=100_000)] = 120
    max_adapter_calls: Annotated[int, Field(ge=1, le=200_000)] = 1000
    deadline: Instant | None = None
    max_cost: Money | None = None
    verification_max_age_seconds: Annotated[float, Field(gt=0)] | None = None


class Assumption(Contract):
    """A subject's version that the request was written against."""

    subject: Identifier
    version: Annotated[int, Field(ge=0)]


class OnCreate(StrEnum):
    """How far a new operation goes by itself."""

    EXECUTE = "execute"
    PREPARE = "prepare"
    HOLD = "hold"


class OperationRequest(Contract):
    """A change an agent wants made in the outside world, by one route, on named resources.

    The same request under the same (session, idempotency key) is the same operation, for ever; anything else under
    that key is refused with `IDEMPOTENCY_CONFLICT`.
    """

    schema_version: Literal[1] = SCHEMA_VERSION
    owner: Owner
    idempotency_key: Identifier
    capability: Identifier
    route_id: Identifier
    objective: Text
    input: dict[str, Any]
    resources: Annotated[tuple[Resource, ...], Field(max_length=32)] = ()
    plan_revision: Annotated[int, Field(ge=0)] = 0
    depends_on: Annotated[tuple[Identifier, ...], Field(max_length=32)] = ()
    supersedes: Identifier | None = None
    decision: DecisionRequest | None = None
    constraints: Constraints = Constraints()
    assumptions: Annotated[tuple[Assumption, ...], Field(max_length=32)] = ()
    on_create: OnCreate = OnCreate.EXECUTE

    @field_validator("input")
    @classmethod
    def _input_is_json(cls, value: dict[str, Any]) -> dict[str, Any]:
        try:
            canonical_json(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"the input is not JSON: {error}"[:300]) from None
        return value

    @model_validator(mode="after")
    def _resources_are_distinct(self) -> OperationRequest:
        seen = {(r.system, r.identity, r.account_id, r.tenant_id) for r in self.resources}
        if len(seen) != len(self.resources):
            raise ValueError("the same resource is listed twice")
        return self

    @property
    def operation_id(self) -> str:
        """The id this request's claim gives it."""
        return operation_id(self.owner.session, self.idempotency_key)

    @property
    def digest(self) -> str:
        """What makes two requests under one key the same request, in whichever epoch they are made."""
        spelled = self.model_dump(mode="json")
        del spelled["owner"]["epoch"]
        return digest_of(spelled)


@lru_cache(maxsize=4096)
def operation_id(session: str, idempotency_key: str) -> str:
    """The id of the operation that (session, idempotency key) claims: `op-` and 32 lower-case base-32 characters."""
    claim = hashlib.sha256(f"{session}\x00{idempotency_key}".encode()).digest()
    return "op-" + base64.b32encode(claim).decode().lower()[:32]


@lru_cache(maxsize=4096)
def resource_digest(resource: Resource) -> str:
    """Identity of a *normalised* resource, whichever kind or version it was named with. Locks are taken on this."""
    return digest_of([resource.system, resource.identity, resource.account_id or "", resource.tenant_id or ""])


@lru_cache(maxsize=1024)
def workspace_digest(workspace: str) -> str:
    """The lock identity of a whole workspace."""
    return digest_of(["counterfoil.workspace", workspace])
