"""What adapters say: preparation, outcomes of a dispatch, observations, answers to a cancel, verification, evidence.

Every union is discriminated by `status`. What an adapter does not say in one of these words is not believed: an
exception or a stray value after dispatch is `unknown`, never `failed`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field

from counterfoil.models.common import BlobRef, Digest, Identifier, Stored, Text
from counterfoil.models.operations.contract import Resource

PREVIEW_ROWS = 40
"""Rows of a preview that are kept with the operation; the rest are counted."""


class Evidence(Stored):
    """A fresh observation of the target: where it was read, when, and what it was."""

    source: Identifier
    observed_at: AwareDatetime
    version: Identifier | None = None
    digest: Digest | None = None
    facts: dict[str, Any] = Field(default_factory=dict)


class TypedResult(Stored):
    """A domain result: `kind` says how to read `data`. Large data is moved to a blob by the runner."""

    kind: Identifier
    summary: Text
    data: dict[str, Any] = Field(default_factory=dict)
    blob: BlobRef | None = None


class Problem(Stored):
    """Why an operation failed, is unknown, or how it was attested."""

    code: str
    detail: str


class Preview(Stored):
    """The prepared change as a table a person can decide on."""

    columns: Annotated[tuple[str, ...], Field(min_length=1, max_length=8)]
    rows: Annotated[tuple[tuple[str, ...], ...], Field(max_length=PREVIEW_ROWS)] = ()
    omitted_rows: Annotated[int, Field(ge=0)] = 0


class BoundVersion(Stored):
    """The version of a resource that must not change between preparation and effect, as its adapter defines it."""

    resource: Resource
    version: Identifier


class Prepared(Stored):
    """A persisted proposal: what would be done, and to which versions.

    `material` is the adapter's private bytes (already in the blob store); `data` its private JSON, at most 8 KiB.
    """

    status: Literal["prepared"] = "prepared"
    summary: Text
    preview: Preview | None = None
    versions: Annotated[tuple[BoundVersion, ...], Field(max_length=32)] = ()
    material: BlobRef | None = None
    data: dict[str, Any] = Field(default_factory=dict)


class Running(Stored):
    """The target accepted the work and will finish later; `external_id` is how to look at it."""

    status: Literal["running"] = "running"
    external_id: Identifier
    summary: Text = ""
    poll_after_seconds: Annotated[float, Field(ge=0)] | None = None


class Completed(Stored):
    """The target says it is done."""

    status: Literal["completed"] = "completed"
    result: TypedResult


class Failed(Stored):
    """The effect was *certainly not applied*. An adapter that is not certain says `UnknownEffect` instead."""

    status: Literal["failed"] = "failed"
    code: Identifier
    detail: Text


class UnknownEffect(Stored):
    """Nobody can know, from here and now, whether the effect happened."""

    status: Literal["unknown"] = "unknown"
    code: Identifier
    detail: Text
    external_id: Identifier | None = None


class NotApplied(Stored):
    """Authoritative: the original request did not happen *and can no longer happen*. "Not found" alone is not this."""

    status: Literal["not_applied"] = "not_applied"
    detail: Text
    evidence: Evidence


class Cancelled(Stored):
    """The target confirms that the work was stopped before it took effect."""

    status: Literal["cancelled"] = "cancelled"
    detail: Text
    evidence: Evidence


class CancelAccepted(Stored):
    """The target took the cancellation; whether it was in time, observation will tell."""

    status: Literal["accepted"] = "accepted"
    detail: Text = ""


class CancelTooLate(Stored):
    """The target says the work was already done."""

    status: Literal["too_late"] = "too_late"
    detail: Text = ""


class Verified(Stored):
    """Fresh evidence shows the whole asked change, and nothing else. May carry a refined result."""

    status: Literal["verified"] = "verified"
    evidence: Evidence
    result: TypedResult | None = None


class Partial(Stored):
    """Fresh evidence shows a part of the asked change."""

    status: Literal["partial"] = "partial"
    evidence: Evidence
    detail: Text
    result: TypedResult | None = None


class Contradicted(Stored):
    """Fresh evidence shows something else than was claimed."""

    status: Literal["contradicted"] = "contradicted"
    evidence: Evidence
    detail: Text


class VerificationUnavailable(Stored):
    """No fresh evidence can be had."""

    status: Literal["unavailable"] = "unavailable"
    detail: Text


class Ready(Stored):
    """The route can be used now."""

    status: Literal["ready"] = "ready"


class NotReady(Stored):
    """The route cannot be used now; say why, and when to ask again."""

    status: Literal["not_ready"] = "not_ready"
    detail: Text
    retry_after_seconds: Annotated[float, Field(gt=0)] = 5


Readiness = Ready | NotReady
PreparationOutcome = Prepared | Failed | UnknownEffect
Outcome = Running | Completed | Failed | UnknownEffect
Observation = Running | Completed | Failed | UnknownEffect | NotApplied | Cancelled | Prepared
CancelOutcome = Cancelled | CancelAccepted | CancelTooLate | UnknownEffect
VerificationOutcome = Verified | Partial | Contradicted | VerificationUnavailable
