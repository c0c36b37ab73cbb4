"""What publication remembers outside the workspace: a lock per target, and a durable record per operation and target.

The folder is private to one environment and lies on a local disk: `flock` and `fsync` must mean what they say there.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from counterfoil.models.common import SCHEMA_VERSION, Digest, Stored
from counterfoil.models.errors import ErrorCode, Refusal, Unavailable
from counterfoil.models.operations.outcomes import Evidence

_LOCK_POLL_SECONDS = 0.01


class Intent(Stored):
    """Written before the rename: what is about to be put in place, and how to tell afterwards whether it was."""

    generation: int
    staged_name: str
    staged_inode: int
    folder_inode: int
    content_digest: Digest
    expected_digest: Digest | None
    replaced_inode: int | None
    replaced_changed_ns: int | None


class Published(Stored):
    """Written after the rename: the attempt that did it, and what it saw."""

    generation: int
    content_digest: Digest
    evidence: Evidence


class Record(Stored):
    """All that is known about one operation's publication to one target.

    Attempts up to `fence` may not publish any more. An `intent` without `published` is in doubt until somebody looks
    under the lock; a settled absence clears it.
    """

    schema_version: Literal[1] = SCHEMA_VERSION
    operation_id: str
    path: str
    fence: Annotated[int, Field(ge=0)] = 0
    intent: Intent | None = None
    published: Published | None = None


class PublicationJournal:
    """Locks and records in `state_dir`, which is made when first needed. Records are touched only under the lock."""

    def __init__(self, state_dir: Path) -> None:
        self._locks = state_dir / "locks"
        self._records = state_dir / "records"

    @contextmanager
    def locked(self, path: str, wait_seconds: float) -> Iterator[None]:
        """Hold the target's lock. Raises `Unavailable` (`LOCKED`) when somebody else holds it for that long.

        The kernel releases it when its holder dies, however it dies, and not while the holder is merely stopped: who
        gets the lock knows that no writer is at work. Lock files are never removed, or two holders could each lock
        their own.
        """
        file = self._acquire(path, wait_seconds)
        try:
            yield
        finally:
            os.close(file)

    def load(self, operation_id: str, path: str) -> Record:
        """The record, or an empty one. Raises `Unavailable` (`STORE_UNAVAILABLE`) if it cannot be understood."""
        try:
            record = Record.model_validate_json(self._file(operation_id, path).read_bytes())
        except FileNotFoundError:
            return Record(operation_id=operation_id, path=path)
        except ValidationError as error:
            raise Unavailable(
                ErrorCode.STORE_UNAVAILABLE,
                "the publication record cannot be understood",
                subject=str(self._file(operation_id, path)),
                remedy="look at the target and attest what happened",
            ) from error
        return record

    def save(self, record: Record) -> Record:
        """Make a record durable, whole or not at all, before returning it."""
        _make_private(self._records)
        final = self._file(record.operation_id, record.path)
        fresh = final.with_suffix(".tmp")
        file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            write_all(file, record.model_dump_json().encode())
            os.fsync(file)
        finally:
            os.close(file)
        os.replace(fresh, final)  # noqa: PTH105 (the crash tests count os calls)
        _sync_folder(self._records)
        return record

    def _acquire(self, path: str, wait_seconds: float) -> int:
        try:
            _make_private(self._locks)
            name = self._locks / f"{_name_of(path)}.lock"
            file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise Refusal(
                ErrorCode.WRITE_FAILED,
                f"the lock of the file cannot be opened, nothing was changed: {error.strerror}",
                subject=str(self._locks),
                remedy="see that the state folder is writable and the disk has room",
            ) from error
        try:
            deadline = time.monotonic() + wait_seconds
            while not _try_lock(file):
                if time.monotonic() >= deadline:
                    raise Unavailable(
                        ErrorCode.LOCKED,
                        f"another writer or observer has held the file for {wait_seconds:g} seconds",
                        subject=path,
                        remedy="look again when it has finished or was ended",
                    )
                time.sleep(_LOCK_POLL_SECONDS)
        except BaseException:
            os.close(file)
            raise
        return file

    def _file(self, operation_id: str, path: str) -> Path:
        return self._records / f"{_name_of(operation_id, path)}.json"


def write_all(file: int, content: bytes) -> None:
    """Write every byte; `os.write` may take fewer."""
    view = memoryview(content)
    while view:
        view = view[os.write(file, view) :]


def _name_of(*parts: str) -> str:
    return hashlib.sha256("\x00".join(parts).encode()).hexdigest()


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _make_private(folder: Path) -> None:
    if not folder.is_dir():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
