"""Work that goes on at the target after its `202 Accepted`: followed by its address, cancelled by it."""

from __future__ import annotations

from counterfoil.activities.adapters.http_json.answers import retry_after_seconds
from counterfoil.activities.adapters.http_json.entity import Jobs
from counterfoil.activities.adapters.http_json.fields import word_at
from counterfoil.activities.adapters.http_json.look import Look
from counterfoil.activities.adapters.http_json.reading import NoAnswer, Target
from counterfoil.activities.adapters.http_json.records import RecordLooker
from counterfoil.activities.adapters.http_json.results import evidence_of, reason_in
from counterfoil.activities.adapters.http_json.sending import Call, Reply
from counterfoil.activities.adapters.http_json.spelling import same_origin
from counterfoil.activities.adapters.text_preview import visible
from counterfoil.models.errors import ErrorCode
from counterfoil.models.operations.outcomes import (
    CancelAccepted,
    Cancelled,
    CancelOutcome,
    CancelTooLate,
    Completed,
    Failed,
    Observation,
    Running,
    UnknownEffect,
)

_PASSING = frozenset({408, 425, 429})


class JobFollower:
    """Follows the jobs of one target."""

    def __init__(self, target: Target, jobs: Jobs, records: RecordLooker) -> None:
        self._target = target
        self._jobs = jobs
        self._records = records

    def accepted(self, reply: Reply) -> Running | UnknownEffect:
        """A 202: the job's address, if it names one that may be looked at."""
        field = self._jobs.location_field
        named = reply.headers.get("location") if field is None else word_at(reply.record, field)
        job = None if named is None else same_origin(self._target.profile.base_url, reply.url, named)
        if job is None:
            why = "names no job" if named is None else "names a job elsewhere, or at an address that cannot be kept"
            return UnknownEffect(code=ErrorCode.REPLY_UNCLEAR, detail=f"the target accepted the change, and {why}")
        return self._still(job, reply, "the target accepted the change")

    async def follow(self, look: Look, job: str) -> Observation:
        """One look at a job. Where it is gone, or proves nothing, the record is looked at."""
        answer = await self._target.send(Call("GET", job), look.budget)
        if not isinstance(answer, Reply):
            return self._still(job, None, f"the job was not seen: {answer.why}")
        if answer.status in (404, 410):
            return await self._records.look(look)
        if answer.status in _PASSING or answer.status >= 500:
            return self._still(job, answer, f"the job was not seen: the target answered {answer.status}")
        if answer.status == 303:
            return await self._done(look, answer)
        if answer.status not in (200, 201, 202):
            return look.unclear(f"the target answered {answer.status} when it was asked for the job")
        word = word_at(answer.record, self._jobs.status_field)
        if word in self._jobs.done:
            return await self._done(look, answer)
        if word in self._jobs.running or (word is None and (answer.status == 202 or answer.unreadable is not None)):
            return self._still(job, answer, f"the job is {word}" if word else "the job goes on")
        if word in self._jobs.failed or word in self._jobs.cancelled:
            return await self._ended(look, job, answer, str(word))
        said = "no status" if word is None else f"'{visible(word)}', which the profile does not explain"
        return look.unclear(f"the job says {said}")

    async def record_id(self, look: Look, job: str) -> str | None:
        """The id of the record that a finished job names, read again."""
        answer = await self._target.send(Call("GET", job), look.budget)
        return self._named_by(look, answer) if isinstance(answer, Reply) else None

    async def cancel(self, look: Look, job: str) -> CancelOutcome:
        """Ask the target to stop a job. The operation's key is not sent: it would replay another answer."""
        path, _, query = job.partition("?")
        address = f"{path}{self._jobs.cancel_suffix}" + (f"?{query}" if query else "")
        answer = await self._target.send(Call(str(self._jobs.cancel), address), look.budget)
        if not isinstance(answer, Reply):
            return _cancel_unknown(f"no answer to the cancellation: {answer.why}")
        if 200 <= answer.status <= 204:
            word = word_at(answer.record, self._jobs.status_field)
            if word in self._jobs.cancelled and self._jobs.ends_clean:
                return Cancelled(
                    detail="the target stopped the job",
                    evidence=evidence_of(self._target.profile, job, answer, None, job=word),
                )
            if word in self._jobs.done:
                return CancelTooLate(detail="the job was done already")
            return CancelAccepted(detail="the target took the cancellation")
        if answer.status == 409:
            return CancelTooLate(detail="the target answered 409: the job is beyond cancelling")
        return _cancel_unknown(f"the target answered {answer.status} to the cancellation")

    def _still(self, job: str, reply: Reply | None, summary: str) -> Running:
        asked = None if reply is None else retry_after_seconds(reply.headers, reply.read_at)
        return Running(external_id=job, summary=summary, poll_after_seconds=max(self._jobs.poll_seconds, asked or 0.0))

    async def _done(self, look: Look, reply: Reply) -> Completed:
        record_id = look.change.id or self._named_by(look, reply)
        if record_id is None and look.entity.client_key is not None:
            found = await self._target.find(look.entity.client_key, look.collection, look.operation_id, look.budget)
            if not isinstance(found, NoAnswer) and len(found.records) == 1:
                record_id = self._target.id_in(look.entity, found.records[0])
        return look.completed(self._target, record_id, reply)

    def _named_by(self, look: Look, reply: Reply) -> str | None:
        if self._jobs.result_id_field is not None:
            return self._target.id_in(self._jobs.result_id_field, reply.record)
        named = reply.headers.get("location")
        if self._jobs.result_location_field is not None:
            named = word_at(reply.record, self._jobs.result_location_field) or named
        return self._target.id_at(look.collection, reply.url, named)

    async def _ended(self, look: Look, job: str, reply: Reply, word: str) -> Observation:
        profile = self._target.profile
        detail = f"the job ended as '{visible(word)}'{reason_in(profile, reply)}"
        if not self._jobs.ends_clean:
            seen = await self._records.look(look)
            if isinstance(seen, Completed):
                return seen
            told = f"{detail}, and may have done a part of its work"
            return UnknownEffect(code=ErrorCode.JOB_FAILED, detail=told, external_id=job)
        if word in self._jobs.cancelled:
            return Cancelled(detail=detail, evidence=evidence_of(profile, job, reply, None, job=word))
        return Failed(code=ErrorCode.JOB_FAILED, detail=detail)


def _cancel_unknown(detail: str) -> UnknownEffect:
    return UnknownEffect(code=ErrorCode.REPLY_UNCLEAR, detail=detail)
