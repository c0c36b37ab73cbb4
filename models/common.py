"""What every system's contracts share: the contract base, digests, identifiers, money, actors, clocks.

A digest is always a `sha256:<64 hex>` string over bytes, or over the canonical JSON of a contract.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Literal, Protocol

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints

SCHEMA_VERSION: Literal[1] = 1
"""Version written into every contract that outlives a process. Readers accept older ones and ignore newer fields."""

Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
"""A content digest, `sha256:<hex>`."""

Identifier = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
"""A name given by a host or an adapter: no control characters, at most 200 characters."""

Text = Annotated[str, StringConstraints(max_length=4000, pattern=r"^[^\x00]*$")]
"""A sentence or a note for people, at most 4,000 characters, without NUL."""

Instant = AwareDatetime


class Contract(BaseModel):
    """A frozen contract as an outsider may send it: unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Stored(BaseModel):
    """A frozen contract as we keep it: fields a newer version added are ignored, so a rollback can still read it."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Clock(Protocol):
    """Gives the present instant in UTC. Injected wherever time decides something."""

    def __call__(self) -> datetime: ...


def utc_now() -> datetime:
    """The wall clock, in UTC."""
    return datetime.now(UTC)


class Money(Contract):
    """An amount in one currency (ISO 4217 code)."""

    amount: Annotated[Decimal, Field(ge=0, max_digits=18, decimal_places=6)]
    currency: Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}$")]


class Scope(StrEnum):
    """What a principal may do at the control plane."""

    READ = "read"
    OPERATE = "operate"
    REVIEW = "review"
    ATTEST = "attest"
    ADMIN = "admin"


class Actor(Stored):
    """Who did or said something: a principal, how far it was authenticated, and under which scope."""

    principal: Identifier
    authenticated: bool = False
    scope: Scope | None = None


SYSTEM = Actor(principal="counterfoil", authenticated=True)
"""The system itself: timers, sweeps, workers."""

UNAUTHENTICATED = Actor(principal="unauthenticated", authenticated=False)
"""A command that carried no seal, such as a bare Temporal signal."""


class BlobRef(Stored):
    """A reference to content-addressed bytes in the blob store."""

    digest: Digest
    size_bytes: Annotated[int, Field(ge=0)]
    media_type: Identifier = "application/octet-stream"


def canonical_json(value: Any) -> bytes:
    """The one JSON spelling of a value: sorted keys, no spaces, UTF-8, no NaN; defaults are spelled out."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def digest_bytes(data: bytes) -> str:
    """sha256 of bytes, as a `Digest`."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def digest_of(value: BaseModel | Mapping[str, Any] | list[Any] | str) -> str:
    """sha256 of a value's canonical JSON, as a `Digest`."""
    return digest_bytes(canonical_json(value))
