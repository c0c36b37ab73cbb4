"""Verification: the record is read afresh by its id, and every asked field is compared.

What a later look may show raises `VerifyAgain`, so that it is tried again before verification is called unavailable.
"""

from __future__ import annotations

from counterfoil.activities.adapters.http_json.fields import compare
from counterfoil.activities.adapters.http_json.inputs import DeleteRecord
from counterfoil.activities.adapters.http_json.jobs import JobFollower
from counterfoil.activities.adapters.http_json.look import Look
from counterfoil.activities.adapters.http_json.reading import Found, Gone, NoAnswer, Target
from counterfoil.activities.adapters.http_json.results import evidence_of, result_of
from counterfoil.activities.adapters.http_json.spelling import record_path
from counterfoil.models.operations.outcomes import (
    Contradicted,
    Partial,
    VerificationOutcome,
    VerificationUnavailable,
    Verified,
)


class VerifyAgain(Exception):
    """Nothing can be said yet; another look may tell."""


class Verifier:
    """Verifies changes at one target."""

    def __init__(self, target: Target, jobs: JobFollower | None) -> None:
        self._target = target
        self._jobs = jobs

    async def verify(self, look: Look) -> VerificationOutcome:
        """Fresh evidence of the change. Raises `VerifyAgain`."""
        record_id = await self._record_id(look)
        if record_id is None:
            return VerificationUnavailable(detail="nothing tells this process the id of the new record")
        path = record_path(look.entity, look.change.parameters, record_id)
        found = await self._target.read(look.entity, path, look.budget)
        match found:
            case NoAnswer(why, True):
                raise VerifyAgain(why)
            case NoAnswer(why, _):
                return VerificationUnavailable(detail=why)
            case Gone():
                return self._gone(look, record_id, path, found)
            case Found():
                return self._there(look, record_id, path, found)

    async def _record_id(self, look: Look) -> str | None:
        known = look.change.id or self._target.memory.record_of(look.operation_id) or look.recorded_id
        if known is not None:
            return known
        if look.external_id is not None and self._jobs is not None:
            named = await self._jobs.record_id(look, look.external_id)
            if named is not None:
                return named
        key = look.entity.client_key
        if key is None or key.query is None:
            return None
        found = await self._target.find(key, look.collection, look.operation_id, look.budget)
        if isinstance(found, NoAnswer):
            if found.passing:
                raise VerifyAgain(found.why)
            return None
        if len(found.records) > 1:
            raise VerifyAgain(f"{len(found.records)} records carry the operation's key")
        if not found.records:
            raise VerifyAgain("no record carries the operation's key, so far")
        return self._target.id_in(look.entity, found.records[0])

    def _gone(self, look: Look, record_id: str, path: str, found: Gone) -> VerificationOutcome:
        profile = self._target.profile
        if isinstance(look.change, DeleteRecord):
            evidence = evidence_of(profile, path, found.reply, None, deleted_version=look.plan.version)
            return Verified(
                evidence=evidence, result=result_of(profile, look.change, record_id, reply=None, record=None)
            )
        if look.entity.reads != "strong":
            raise VerifyAgain("there is no record of this id, so far")
        return Contradicted(
            evidence=evidence_of(profile, path, found.reply, None), detail="there is no record of this id"
        )

    def _there(self, look: Look, record_id: str, path: str, found: Found) -> VerificationOutcome:
        profile = self._target.profile
        may_lag = look.entity.reads != "strong" and found.version == look.plan.version
        if isinstance(look.change, DeleteRecord):
            if look.entity.reads != "strong":
                raise VerifyAgain("the record is still there, so far")
            evidence = evidence_of(profile, path, found.reply, found)
            return Contradicted(evidence=evidence, detail="the record is still there")
        compared = compare(look.change.fields, found.record)
        evidence = evidence_of(
            profile,
            path,
            found.reply,
            found,
            fields_as_asked=list(compared.held),
            fields_otherwise=list(compared.other),
        )
        result = result_of(
            profile, look.change, record_id, reply=found.reply, record=found.record, version=found.version
        )
        if compared.whole:
            return Verified(evidence=evidence, result=result)
        if may_lag:
            raise VerifyAgain("the record is as it was before the change, so far")
        detail = f"not as asked: {', '.join(compared.other)}"[:1000]
        if compared.held:
            return Partial(evidence=evidence, detail=detail, result=result)
        return Contradicted(evidence=evidence, detail=detail)
