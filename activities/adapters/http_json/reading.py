"""Reading the target: a record by its id, a record by the operation's key, a job. Every read is fresh and bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from counterfoil.activities.adapters.base import AdapterContext
from counterfoil.activities.adapters.http_json.answers import retry_after_seconds
from counterfoil.activities.adapters.http_json.entity import ClientKey, Entity
from counterfoil.activities.adapters.http_json.fields import digest_without, pick, word_at
from counterfoil.activities.adapters.http_json.memory import Memory
from counterfoil.activities.adapters.http_json.names import FieldPath
from counterfoil.activities.adapters.http_json.profile import HttpProfile
from counterfoil.activities.adapters.http_json.sending import Answer, Call, NotSent, Reply, Sender, call_seconds
from counterfoil.activities.adapters.http_json.spelling import check_segment, same_origin
from counterfoil.models.common import digest_of


@dataclass(frozen=True)
class Found:
    """A record as it is now. `etag` is None where the target sends none, or the profile does not trust them."""

    record: dict[str, Any]
    etag: str | None
    version: str
    """The ETag, or a digest that stands for the version."""
    reply: Reply


@dataclass(frozen=True)
class Gone:
    """The target says that there is no such record (404, 410)."""

    reply: Reply


@dataclass(frozen=True)
class NoAnswer:
    """It cannot be told. `passing`: it may be another time."""

    why: str
    passing: bool


@dataclass(frozen=True)
class Matches:
    """The records that carry the operation's key. `filtered`: the target gave nothing else, as a filter does."""

    records: tuple[dict[str, Any], ...]
    filtered: bool
    reply: Reply


class Budget:
    """The time of one adapter call, for all its requests together. Made inside the running loop."""

    def __init__(self, profile: HttpProfile, context: AdapterContext, *, at_most_seconds: float = 3600) -> None:
        self._loop = asyncio.get_running_loop()
        seconds = min(call_seconds(profile), context.timeout_seconds * 0.95, at_most_seconds)
        self._until = self._loop.time() + seconds

    def left(self) -> float:
        """Seconds left."""
        return max(0.0, self._until - self._loop.time())


class Target:
    """The target of one profile."""

    def __init__(self, profile: HttpProfile, sender: Sender, memory: Memory) -> None:
        self.profile = profile
        self.memory = memory
        self._sender = sender

    async def send(self, call: Call, budget: Budget) -> Answer:
        """Send one request; the target's wish to be left alone is remembered."""
        answer = await self._sender.send(call, seconds=budget.left())
        if isinstance(answer, Reply) and answer.status in (429, 503):
            wait = retry_after_seconds(answer.headers, answer.read_at)
            if wait:
                self.memory.keep_quiet(wait)
        return answer

    async def read(self, entity: Entity, path: str, budget: Budget) -> Found | Gone | NoAnswer:
        """The record at a path below the base address."""
        answer = await self.send(Call("GET", path), budget)
        reply = _usable(answer)
        if isinstance(reply, NoAnswer):
            return reply
        if reply.status in (404, 410):
            return Gone(reply)
        if reply.status != 200:
            return _no_answer_of(reply)
        record = reply.record
        if record is None:
            return NoAnswer(f"the record cannot be read: {reply.unreadable or 'it is no object'}", passing=True)
        etag = reply.headers.get("etag") if entity.etags else None
        return Found(record, etag, _version(record, etag, entity), reply)

    async def find(self, key: ClientKey, collection: str, operation_id: str, budget: Budget) -> Matches | NoAnswer:
        """The records of a collection that carry the operation's key."""
        if key.query is None:
            return NoAnswer("the profile declares no look-up by key", passing=False)
        answer = await self.send(Call("GET", collection, query={key.query: operation_id}), budget)
        reply = _usable(answer)
        if isinstance(reply, NoAnswer):
            return reply
        if reply.status != 200:
            return _no_answer_of(reply)
        listed = reply.body if key.items is None else pick(reply.body, key.items)
        if reply.unreadable is not None or not isinstance(listed, list):
            return NoAnswer(f"the look-up gave no list: {reply.unreadable or 'something else'}", passing=True)
        records = [one for one in listed if isinstance(one, dict) and word_at(one, key.field) == operation_id]
        return Matches(tuple(records), filtered=len(records) == len(listed), reply=reply)

    def id_in(self, where: Entity | FieldPath, record: Mapping[str, Any] | None) -> str | None:
        """The id a record says it has (or another field names), where it is one that a path can hold."""
        return _plain(word_at(record, where if isinstance(where, str) else where.id_field))

    def id_at(self, collection: str, here: str, location: str | None) -> str | None:
        """The id in the address of a record of this collection; None for any other address."""
        local = None if location is None else same_origin(self.profile.base_url, here, location)
        if local is None:
            return None
        prefix = "/" + self.profile.base_url.split("/", 3)[3] if self.profile.base_url.count("/") > 2 else ""
        path, _, last = local.partition("?")[0].rstrip("/").rpartition("/")
        return _plain(last) if path == f"{prefix}/{collection}" and "%" not in last else None


def _plain(value: str | None) -> str | None:
    if value is None:
        return None
    try:
        return check_segment(value)
    except ValueError:
        return None


def _version(record: Mapping[str, Any], etag: str | None, entity: Entity) -> str:
    if etag is None:
        return digest_without(record, entity.volatile_fields)
    return etag if len(etag) <= 200 and etag.isprintable() else digest_of(etag)


def _usable(answer: Answer) -> Reply | NoAnswer:
    if isinstance(answer, Reply):
        return answer
    what = "the target was not reached" if isinstance(answer, NotSent) else "the reply was lost"
    return NoAnswer(f"{what}: {answer.why}", passing=True)


def _no_answer_of(reply: Reply) -> NoAnswer:
    return NoAnswer(
        f"the target answered {reply.status}", passing=reply.status in (408, 425, 429) or reply.status > 499
    )
