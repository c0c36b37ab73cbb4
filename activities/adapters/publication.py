"""Puts one file in place so that, whatever dies when, somebody can later tell whether it happened.

The writer holds the target's lock, passes the operation's fence, stages the bytes beside the target, records its
intent, and renames. The rename consumes the staged file: with an intent on record, a staged file that is gone means
published, whatever became of the target since, and one still there means not published. The observer takes the same
lock, raises the fence, and reads the answer off; a lock it cannot have means that the writer may still be at work.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from counterfoil.activities.adapters.base import AdapterContext
from counterfoil.activities.adapters.jail import WorkspaceRoot, normalise_path
from counterfoil.activities.adapters.publication_journal import Intent, PublicationJournal, Published, Record
from counterfoil.activities.adapters.staging import (
    Place,
    certainly_unwritten,
    stage,
    staged_name,
    swap,
    unsure,
    unwritten,
    was_published,
)
from counterfoil.activities.fault_points import FaultPoint
from counterfoil.models.common import digest_bytes, utc_now
from counterfoil.models.errors import CounterfoilError, ErrorCode, Refusal
from counterfoil.models.operations.outcomes import Evidence

ABSENT_VERSION = "absent"
"""The version of a file that does not exist."""


@dataclass(frozen=True)
class Publication:
    """One file to put in place, its bytes already exact."""

    path: str
    """Relative to the root, in the spelling of `normalise_path`."""
    content: bytes
    content_digest: str
    expected_digest: str | None
    """The digest the target must have now; None: the target must not exist."""


@dataclass(frozen=True)
class Applied:
    """It was published. `still_current`: the target holds these very bytes now."""

    evidence: Evidence
    still_current: bool


@dataclass(frozen=True)
class Absent:
    """Authoritative: it was not published, and this generation can no longer be."""

    evidence: Evidence


@dataclass(frozen=True)
class Undecided:
    """It cannot be told from here and now."""

    detail: str


class PublicationFenced(Refusal):
    """This attempt came after an observer had ruled it out; it wrote nothing."""

    def __init__(self, path: str, generation: int, fence: int) -> None:
        super().__init__(
            ErrorCode.FENCED,
            f"attempt {generation} may not publish any more: attempts up to {fence} were ruled out",
            subject=path,
            remedy="nothing to do: the observer's answer stands",
        )


class Publisher:
    """Publishes files below `root`; keeps its locks and records in `state_dir`, which must lie outside it.

    Who writes through a `Publisher` with the same `state_dir` is kept apart by the lock. An editor that does not take
    it is noticed up to the last `stat` before the rename; one that saves in the microseconds between those two system
    calls is overwritten when a file is replaced (never when one is created: that rename refuses to replace). No POSIX
    call closes that window.

    Folders made for a new file stay, empty, if the publication is then refused or dies.
    """

    def __init__(self, root: WorkspaceRoot, state_dir: Path, *, lock_wait_seconds: float = 5.0) -> None:
        self._root = root
        self._journal = PublicationJournal(state_dir)
        self._lock_wait_seconds = lock_wait_seconds

    def publish(self, context: AdapterContext, publication: Publication, generation: int) -> Evidence:
        """Put the file in place, at most once an operation: a repetition gets the first one's evidence.

        Raises `Refusal` when it was certainly not applied: `SOURCE_CHANGED`, `TARGET_EXISTS`, `FILE_NOT_FOUND`,
        `PATH_REFUSED`, `WRITE_FAILED`, `NOT_POSSIBLE`, and `PublicationFenced`. Anything else it raises (`Unavailable`
        where the lock cannot be had, `OSError`) leaves the answer to `observe`.
        """
        path = normalise_path(publication.path)
        _check_content(publication)
        with self._journal.locked(path, self._wait_seconds(context)):
            context.checkpoint(FaultPoint.PUBLISH_LOCKED)
            record = self._settle(self._journal.load(context.operation_id, path))
            if record.published is not None:
                return _repeated(record.published, publication)
            if generation <= record.fence:
                raise PublicationFenced(path, generation, record.fence)
            # Whoever comes later with an older attempt has been overtaken.
            record = record.model_copy(update={"fence": generation - 1})
            with certainly_unwritten(path):
                folder = self._root.open_parent(path, create=publication.expected_digest is None)
            try:
                place = Place(folder, path.rpartition("/")[2], path)
                return self._put_in_place(context, publication, generation, record, place)
            finally:
                os.close(folder)

    def observe(
        self, context: AdapterContext, *, path: str, content_digest: str, generation: int
    ) -> Applied | Absent | Undecided:
        """What became of the attempts up to `generation`; those that did not publish never will. Raises nothing."""
        try:
            path = normalise_path(path)
            with self._journal.locked(path, self._wait_seconds(context)):
                record = self._journal.load(context.operation_id, path)
                if record.fence < generation:
                    record = self._journal.save(record.model_copy(update={"fence": generation}))
                context.checkpoint(FaultPoint.OBSERVE_FENCED)
                record = self._settle(record)
                if record.published is not None:
                    return self._applied(record.published, content_digest, path)
                self._remove_staged(record, generation)
                return Absent(self._reading(path, {"fenced_generation": record.fence})[0])
        except CounterfoilError as error:
            return Undecided(error.detail)
        except OSError as error:
            return Undecided(f"the publication cannot be looked at: {error.strerror}")

    def _put_in_place(
        self, context: AdapterContext, publication: Publication, generation: int, record: Record, place: Place
    ) -> Evidence:
        before = place.require(publication.expected_digest)
        staged = staged_name(context.operation_id, generation, place.path)
        with certainly_unwritten(place.path):
            inode = stage(place, staged, publication.content, before)
        context.checkpoint(FaultPoint.PUBLISH_STAGED)
        intent = Intent(
            generation=generation,
            staged_name=staged,
            staged_inode=inode,
            folder_inode=os.fstat(place.folder).st_ino,
            content_digest=publication.content_digest,
            expected_digest=publication.expected_digest,
            replaced_inode=None if before is None else before.inode,
            replaced_changed_ns=None if before is None else before.changed_ns,
        )
        record = self._journal.save(record.model_copy(update={"intent": intent}))
        context.checkpoint(FaultPoint.PUBLISH_INTENDED)
        try:
            swap(place, staged, place.require(publication.expected_digest))
        except (Refusal, OSError) as error:
            # Without an atomic exclusive rename, the link may have been made and only the clean-up have failed.
            if place.inode(place.name) != inode:
                self._withdraw(record, place)
                raise unwritten(place.path, error) from error
        context.checkpoint(FaultPoint.PUBLISH_DONE)
        return self._conclude(record, intent, place).evidence

    def _settle(self, record: Record) -> Record:
        """Decide an intent that nobody concluded. Called under the lock, so its writer is gone."""
        if record.intent is None or record.published is not None:
            return record
        try:
            with self._root.parent(record.path) as (folder, name):
                place = Place(folder, name, record.path)
                if not was_published(place, record.intent):
                    return self._withdraw(record, place)
                published = self._conclude(record, record.intent, place)
        except Refusal as refusal:
            raise unsure(record.path, f"the folder of the file is not what it was: {refusal.detail}") from refusal
        return record.model_copy(update={"published": published})

    def _withdraw(self, record: Record, place: Place) -> Record:
        """Record the absence, then remove the staged file: the other way round, a crash between them would lie."""
        assert record.intent is not None
        withdrawn = self._journal.save(record.model_copy(update={"intent": None}))
        place.remove(record.intent.staged_name)
        return withdrawn

    def _conclude(self, record: Record, intent: Intent, place: Place) -> Published:
        """Make a publication that happened durable, and record it."""
        os.fsync(place.folder)
        facts = {"path": place.path, "generation": intent.generation, "replaced_digest": intent.expected_digest}
        evidence = Evidence(
            source=_source(place.path),
            observed_at=utc_now(),
            version=intent.content_digest,
            digest=intent.content_digest,
            facts=facts | {"staged_file_consumed": True},
        )
        published = Published(generation=intent.generation, content_digest=intent.content_digest, evidence=evidence)
        place.remove(intent.staged_name)  # there only if a hard link stood in for the exclusive rename
        self._journal.save(record.model_copy(update={"published": published}))
        return published

    def _applied(self, published: Published, content_digest: str, path: str) -> Applied | Undecided:
        if published.content_digest != content_digest:
            return Undecided("the operation published other content to this file than it is asked about")
        facts = published.evidence.facts | {"published_at": published.evidence.observed_at.isoformat()}
        evidence, digest = self._reading(path, facts)
        return Applied(evidence, still_current=digest == content_digest)

    def _reading(self, path: str, facts: dict[str, object]) -> tuple[Evidence, str | None]:
        """The target as it is now, whatever it is now."""
        try:
            digest = self._root.digest(path)
            version = digest or ABSENT_VERSION
        except Refusal as refusal:
            digest, version = None, refusal.code
        evidence = Evidence(
            source=_source(path),
            observed_at=utc_now(),
            version=version,
            digest=digest,
            facts={"path": path} | facts,
        )
        return evidence, digest

    def _remove_staged(self, record: Record, generation: int) -> None:
        """What a writer left that died after staging and before its intent."""
        with suppress(Refusal), self._root.parent(record.path) as (folder, name):
            for attempt in range(1, generation + 1):
                Place(folder, name, record.path).remove(staged_name(record.operation_id, attempt, record.path))

    def _wait_seconds(self, context: AdapterContext) -> float:
        # Half the call's time-out leaves the other half for the work.
        return min(self._lock_wait_seconds, context.timeout_seconds / 2)


def _check_content(publication: Publication) -> None:
    if digest_bytes(publication.content) != publication.content_digest:
        raise Refusal(
            ErrorCode.BLOB_CORRUPT,
            "the bytes to publish are not those their digest names",
            subject=publication.path,
            remedy="prepare the change again",
        )


def _repeated(published: Published, publication: Publication) -> Evidence:
    if published.content_digest != publication.content_digest:
        raise Refusal(
            ErrorCode.NOT_POSSIBLE,
            "this operation has published other content to this file already",
            subject=publication.path,
            remedy="ask for the further change as an operation of its own",
        )
    return published.evidence


def _source(path: str) -> str:
    return f"file:{path}"[:200]
