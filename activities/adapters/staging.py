"""The steps of a publication that touch the workspace: stage beside the target, swap in, read off what happened."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from counterfoil.activities.adapters.exclusive_rename import rename_exclusive
from counterfoil.activities.adapters.jail import RESERVED_PREFIX, FileState, state_in
from counterfoil.activities.adapters.publication_journal import Intent, write_all
from counterfoil.models.errors import ErrorCode, Refusal, Unavailable

_PREPARE_AGAIN = "look at the file and prepare the change again"


@dataclass(frozen=True)
class Place:
    """Where the target is: the opened folder, its name there, and the path for people."""

    folder: int
    name: str
    path: str

    def require(self, expected_digest: str | None) -> FileState | None:
        """The target's state, if it is what it must be; None where it must not exist and does not."""
        state = state_in(self.folder, self.name, self.path)
        if expected_digest is None:
            if state is not None:
                raise _target_exists(self.path)
        elif state is None:
            raise Refusal(
                ErrorCode.FILE_NOT_FOUND, "the file does not exist any more", subject=self.path, remedy=_PREPARE_AGAIN
            )
        elif state.digest != expected_digest:
            raise _source_changed(self.path)
        return state

    def inode(self, name: str) -> int | None:
        try:
            return os.stat(name, dir_fd=self.folder, follow_symlinks=False).st_ino
        except FileNotFoundError:
            return None

    def changed_ns(self) -> int:
        return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False).st_ctime_ns

    def remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.folder)


def was_published(place: Place, intent: Intent) -> bool:
    """Read off the folder whether the rename happened. Raises `Unavailable` where the signs contradict each other."""
    target = place.inode(place.name)
    if target == intent.staged_inode:
        return True
    staged = place.inode(intent.staged_name)
    if staged == intent.staged_inode:
        return False
    if staged is not None:
        raise unsure(place.path, "a file that is not ours bears the staged file's name")
    if os.fstat(place.folder).st_ino != intent.folder_inode:
        raise unsure(place.path, "the folder was replaced, so the missing staged file proves nothing")
    # The rename would have taken the old file's name away. If the very same file still bears it, untouched, then
    # somebody else removed the staged one.
    return target is None or target != intent.replaced_inode or place.changed_ns() != intent.replaced_changed_ns


def stage(place: Place, staged: str, content: bytes, before: FileState | None) -> int:
    """Write the staged file durably, its name too, and return its inode; on failure leave nothing behind."""
    place.remove(staged)  # a dead writer's: this attempt's lock is ours
    mode = 0o644 if before is None else 0o600
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(staged, flags, mode, dir_fd=place.folder)
    try:
        if before is not None:
            os.fchmod(file, before.mode & 0o777)
        write_all(file, content)
        os.fsync(file)
        # Were the intent durable and this name not, a power cut would make it look as if the rename had happened.
        os.fsync(place.folder)
        return os.fstat(file).st_ino
    except OSError:
        place.remove(staged)
        raise
    finally:
        os.close(file)


def swap(place: Place, staged: str, before: FileState | None) -> None:
    """Let the staged file take the target's name, if the target still is `before`; None: if there is none."""
    if before is None:
        rename_exclusive(place.folder, staged, place.name)
        return
    if not before.is_still(os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)):
        raise _source_changed(place.path)
    os.replace(staged, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)


def staged_name(operation_id: str, generation: int, path: str) -> str:
    """The hidden name under which an attempt stages. Derived, so an observer finds it without a record."""
    plain = re.fullmatch(r"[A-Za-z0-9._-]{1,100}", operation_id)
    operation = operation_id if plain else hashlib.sha256(operation_id.encode()).hexdigest()[:32]
    return f"{RESERVED_PREFIX}{operation}-{generation}-{hashlib.sha256(path.encode()).hexdigest()[:8]}"


@contextmanager
def certainly_unwritten(path: str) -> Iterator[None]:
    """Before the intent nothing can have been published, so the system's refusals are refusals of ours."""
    try:
        yield
    except OSError as error:
        raise unwritten(path, error) from error


def unwritten(path: str, error: Refusal | OSError) -> Refusal:
    """The refusal that an error amounts to where the file was certainly not put in place."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, FileExistsError):
        return _target_exists(path)
    return Refusal(
        ErrorCode.WRITE_FAILED,
        f"the file could not be written, nothing was changed: {error.strerror}",
        subject=path,
        remedy="see that the folder is writable and the disk has room",
    )


def unsure(path: str, why: str) -> Unavailable:
    """That the signs do not tell whether the file was put in place."""
    return Unavailable(ErrorCode.OBSERVATION_PENDING, why, subject=path, remedy="look at the file and attest")


def _target_exists(path: str) -> Refusal:
    return Refusal(
        ErrorCode.TARGET_EXISTS, "a file of this name exists", subject=path, remedy="replace it, or choose another name"
    )


def _source_changed(path: str) -> Refusal:
    return Refusal(
        ErrorCode.SOURCE_CHANGED,
        "the file is not what it was when the change was prepared",
        subject=path,
        remedy=_PREPARE_AGAIN,
    )
