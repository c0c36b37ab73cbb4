"""What the records say of a request whose reply proves nothing: read by id, or looked up by the operation's key.

`NotApplied` needs all of: the profile says when a request can no longer take effect, this process has watched for so
long by a clock that nobody sets, the read shows every earlier write, and the record is as it was. Whatever is less
stays unknown.
"""

from __future__ import annotations

from counterfoil.activities.adapters.http_json.fields import compare, word_at
from counterfoil.activities.adapters.http_json.inputs import CreateRecord, DeleteRecord, UpdateRecord
from counterfoil.activities.adapters.http_json.look import Look
from counterfoil.activities.adapters.http_json.reading import Found, Gone, NoAnswer, Target
from counterfoil.activities.adapters.http_json.results import evidence_of
from counterfoil.activities.adapters.http_json.sending import Reply
from counterfoil.models.operations.outcomes import Completed, NotApplied, UnknownEffect

Finding = Completed | NotApplied | UnknownEffect


class RecordLooker:
    """Looks at records, and never acts."""

    def __init__(self, target: Target) -> None:
        self._target = target

    async def look(self, look: Look) -> Finding:
        """What the record or the look-up says became of the change."""
        # Asked before the read: the read must come after the moment from which nothing can happen any more.
        settled = self._settled(look)
        if isinstance(look.change, CreateRecord) and look.change.id is None:
            return await self._by_key(look, settled)
        found = await self._target.read(look.entity, look.path, look.budget)
        if isinstance(found, NoAnswer):
            return look.pending(found.why)
        settled = settled and look.entity.reads == "strong"
        match look.change:
            case CreateRecord():
                return self._created(look, look.change, found, settled)
            case UpdateRecord():
                return self._updated(look, look.change, found, settled)
            case DeleteRecord():
                return self._deleted(look, found, settled)

    def _settled(self, look: Look) -> bool:
        settles = self._target.profile.settles_after_seconds
        watched = self._target.memory.watched_seconds(look.operation_id, look.generation)
        return settles is not None and watched >= settles

    async def _by_key(self, look: Look, settled: bool) -> Finding:
        key = look.entity.client_key
        if key is None:
            return look.pending("the profile declares no look-up by key")
        found = await self._target.find(key, look.collection, look.operation_id, look.budget)
        if isinstance(found, NoAnswer):
            return look.pending(found.why)
        if len(found.records) > 1:
            return look.unclear(f"{len(found.records)} records carry the operation's key")
        if found.records:
            record = found.records[0]
            return look.completed(self._target, self._target.id_in(look.entity, record), found.reply, record)
        if settled and found.filtered and key.lookup == "strong":
            return self._absent(look, found.reply, None, "no record carries the operation's key")
        return look.pending("no record carries the operation's key, so far")

    def _created(self, look: Look, change: CreateRecord, found: Found | Gone, settled: bool) -> Finding:
        if isinstance(found, Gone):
            if settled:
                return self._absent(look, found.reply, None, "there is no record of this id")
            return look.pending("there is no record of this id, so far")
        key = look.entity.client_key
        foreign = key is not None and word_at(found.record, key.field) != look.operation_id
        if foreign or not compare(change.fields, found.record).whole:
            return look.unclear("the record of this id is not the one that was asked for")
        return self._made(look, found)

    def _updated(self, look: Look, change: UpdateRecord, found: Found | Gone, settled: bool) -> Finding:
        if isinstance(found, Gone):
            return look.unclear("the record is gone; the change may have come first")
        if compare(change.fields, found.record).whole:
            return self._made(look, found)
        if found.version != look.plan.version:
            return look.unclear("somebody changed the record since; this change may have come first")
        if settled:
            return self._absent(look, found.reply, found, "the record is as it was")
        return look.pending("the record is as it was, so far")

    def _deleted(self, look: Look, found: Found | Gone, settled: bool) -> Finding:
        if isinstance(found, Gone):
            return look.completed(self._target, look.change.id, found.reply)
        # Where clients give ids, a record of this id may be another one, made since.
        if settled and (look.entity.ids == "target" or found.version == look.plan.version):
            return self._absent(look, found.reply, found, "the record is still there")
        return look.pending("the record is still there, so far")

    def _made(self, look: Look, found: Found) -> Completed:
        return look.completed(self._target, look.change.id, found.reply, found.record, found.version)

    def _absent(self, look: Look, reply: Reply, found: Found | None, what: str) -> NotApplied:
        profile = self._target.profile
        return NotApplied(
            detail=f"{what}, and the request can no longer take effect",
            evidence=evidence_of(
                profile, look.path, reply, found, watched_at_least_seconds=profile.settles_after_seconds
            ),
        )
