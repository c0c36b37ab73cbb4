"""A workspace root that nothing escapes: every path below it is opened component by component, by descriptor.

A path is never resolved as a string. Each folder is opened relative to the one before it without following links, so
a link anywhere below the root, put there at any moment, is refused and not followed. Works wherever `openat` does.
"""

from __future__ import annotations

import hashlib
import os
import stat
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from counterfoil.models.errors import ErrorCode, Refusal
from counterfoil.models.operations.contract import Resource

FILE_SYSTEM = "file"
"""The `system` of resources that are files below a workspace root."""

RESERVED_PREFIX = ".counterfoil-"
"""Names that begin so are our own staging files; nobody may ask for one."""

COMPONENT_LIMIT_BYTES = 255
PATH_LIMIT_BYTES = 4096

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CHUNK_BYTES = 1024 * 1024

_UNSEEN_CATEGORIES = {"Cc": "a control", "Cf": "an invisible format", "Cs": "a lone surrogate", "Zl": "a line break"}
_UNSEEN_CATEGORIES["Zp"] = _UNSEEN_CATEGORIES["Zl"]
_BLANK_CHARACTERS = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
    + "".join(map(chr, [*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)]))
)
"""Characters that show nothing although Unicode does not class them as format characters."""


@dataclass(frozen=True)
class FileState:
    """What a regular file was when it was read, and what tells it from a successor of the same name."""

    digest: str
    size_bytes: int
    mode: int
    inode: int
    modified_ns: int
    changed_ns: int

    def is_still(self, now: os.stat_result) -> bool:
        """Whether `now` is the very same file, untouched since it was read."""
        return (self.inode, self.size_bytes, self.modified_ns, self.changed_ns) == (
            now.st_ino,
            now.st_size,
            now.st_mtime_ns,
            now.st_ctime_ns,
        )


class WorkspaceRoot:
    """A folder an adapter may work in. Paths are relative, in the spelling `normalise_path` gives.

    Every method raises `Refusal`: `PATH_REFUSED` for a path that is badly spelled, leads through a link, or names
    something other than a regular file; `FILE_NOT_FOUND` where a folder or the file is missing.
    """

    def __init__(self, root: Path, closed: Sequence[Path] = ()) -> None:
        """Folders in `closed` are never entered, wherever they lie: the system's own state, for one."""
        self._root = root
        self._closed = tuple(closed)

    @property
    def path(self) -> Path:
        """The folder itself, as it was configured."""
        return self._root

    def open_root(self) -> int:
        """A descriptor of the root. The root's own name may be a link: it is the operator's, not the request's."""
        try:
            return os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise Refusal(
                ErrorCode.NOT_READY,
                f"the workspace root cannot be opened: {error.strerror}",
                subject=str(self._root),
                remedy="create the folder, or correct the setting that names it",
            ) from error

    def open_parent(self, path: str, create: bool = False) -> int:
        """A descriptor of the folder that holds `path`; the caller closes it. `create` makes missing folders."""
        folder = self.open_root()
        try:
            for component in normalise_path(path).split("/")[:-1]:
                below = _open_folder(folder, component, path, create)
                os.close(folder)
                folder = below
                self._refuse_closed(folder, path)
        except BaseException:
            os.close(folder)
            raise
        return folder

    def _refuse_closed(self, folder: int, path: str) -> None:
        """By what the folder is, not by how it is called."""
        here = os.fstat(folder)
        for closed in self._closed:
            try:
                there = closed.stat()
            except OSError:
                continue
            if (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino):
                raise Refusal(
                    ErrorCode.PATH_REFUSED,
                    "the folder holds the system's own state",
                    subject=path,
                    remedy="choose another folder of the workspace",
                )

    @contextmanager
    def parent(self, path: str, create: bool = False) -> Iterator[tuple[int, str]]:
        """The descriptor of the folder that holds `path`, and the file's own name in it; closed at the end."""
        folder = self.open_parent(path, create)
        try:
            yield folder, normalise_path(path).rpartition("/")[2]
        finally:
            os.close(folder)

    def read_file(self, path: str, limit_bytes: int) -> bytes:
        """The bytes of a regular file. `FILE_TOO_LARGE` above the limit, however it grows while being read."""
        with self.parent(path) as (folder, name), _regular_file(folder, name, path) as file:
            content = bytearray()
            while chunk := os.read(file, min(_CHUNK_BYTES, limit_bytes + 1 - len(content))):
                content += chunk
                if len(content) > limit_bytes:
                    raise Refusal(
                        ErrorCode.FILE_TOO_LARGE,
                        f"the file is larger than {limit_bytes} bytes",
                        subject=path,
                        remedy="work on a smaller file",
                    )
            return bytes(content)

    def state(self, path: str) -> FileState | None:
        """What the file is now, hashed afresh; None where its folder or the file does not exist."""
        try:
            with self.parent(path) as (folder, name):
                return state_in(folder, name, path)
        except Refusal as refusal:
            if refusal.code is ErrorCode.FILE_NOT_FOUND:
                return None
            raise

    def digest(self, path: str) -> str | None:
        """The digest of the file now; None where it does not exist."""
        state = self.state(path)
        return None if state is None else state.digest

    def refuse_twin(self, path: str) -> None:
        """Refuse a new file next to one whose name differs in Unicode spelling only: people cannot tell them apart."""
        try:
            with self.parent(path) as (folder, name):
                names = [] if name.isascii() else os.listdir(folder)  # noqa: PTH208 (pathlib lists no descriptor)
        except Refusal as refusal:
            if refusal.code is ErrorCode.FILE_NOT_FOUND:
                return
            raise
        if any(other != name and unicodedata.normalize("NFC", other) == name for other in names):
            raise _refused(path, "a file of the same name in another Unicode spelling exists already")


def state_in(folder: int, name: str, path: str) -> FileState | None:
    """The state of the regular file `name` in an opened folder; None where there is none."""
    try:
        with _regular_file(folder, name, path) as file:
            sha = hashlib.sha256()
            while chunk := os.read(file, _CHUNK_BYTES):
                sha.update(chunk)
            status = os.fstat(file)
    except Refusal as refusal:
        if refusal.code is ErrorCode.FILE_NOT_FOUND:
            return None
        raise
    return FileState(
        digest="sha256:" + sha.hexdigest(),
        size_bytes=status.st_size,
        mode=stat.S_IMODE(status.st_mode),
        inode=status.st_ino,
        modified_ns=status.st_mtime_ns,
        changed_ns=status.st_ctime_ns,
    )


def normalise_path(identity: str) -> str:
    """The one spelling of a relative path: `./` and `//` collapsed. Raises `Refusal` (`PATH_REFUSED`), saying why.

    Names are refused, not repaired, where two spellings look alike or where one means different things elsewhere.
    """
    if not identity:
        raise _refused(identity, "the path is empty")
    if identity.startswith("/"):
        raise _refused(identity, "the path is absolute; name it relative to the workspace root")
    if "\\" in identity:
        raise _refused(identity, "the path contains a backslash; folders are separated by '/'")
    for character in identity:
        kind = _UNSEEN_CATEGORIES.get(unicodedata.category(character))
        if kind is not None or character in _BLANK_CHARACTERS:
            raise _refused(identity, f"the path contains {kind or 'a blank'} character, U+{ord(character):04X}")
    if unicodedata.normalize("NFC", identity) != identity:
        raise _refused(identity, "the path is not NFC-normalised, so another file could bear the same visible name")
    raw = identity.split("/")
    if raw[-1] in ("", "."):
        raise _refused(identity, "the path names a folder")
    components = [component for component in raw if component not in ("", ".")]
    for component in components:
        _check_component(identity, component)
    path = "/".join(components)
    if len(path.encode()) > PATH_LIMIT_BYTES:
        raise _refused(identity, f"the path is longer than {PATH_LIMIT_BYTES} bytes")
    return path


def normalise_file_resource(resource: Resource) -> Resource:
    """A resource of the system `file` with its identity in the one spelling. Raises `Refusal` (`PATH_REFUSED`)."""
    return resource.model_copy(update={"identity": normalise_path(resource.identity)})


def _check_component(identity: str, component: str) -> None:
    if component == "..":
        raise _refused(identity, "the path contains '..'")
    if component != component.strip():
        raise _refused(identity, "a name in the path begins or ends with white space")
    if component.startswith(RESERVED_PREFIX):
        raise _refused(identity, f"names that begin with '{RESERVED_PREFIX}' are reserved")
    if len(component.encode()) > COMPONENT_LIMIT_BYTES:
        raise _refused(identity, f"a name in the path is longer than {COMPONENT_LIMIT_BYTES} bytes")


def _open_folder(parent: int, name: str, path: str, create: bool) -> int:
    if create:
        try:
            os.mkdir(name, 0o755, dir_fd=parent)
            os.fsync(parent)
        except FileExistsError:
            pass
    try:
        return os.open(name, _FOLDER, dir_fd=parent)
    except FileNotFoundError as error:
        raise _missing(path, f"the folder '{name}' does not exist") from error
    except OSError as error:
        raise _refused(path, f"'{name}' cannot be entered: {_what_is(parent, name, error)}") from error


@contextmanager
def _regular_file(folder: int, name: str, path: str) -> Iterator[int]:
    """A descriptor of a regular file, never of anything else.

    The kind is looked at before opening, because opening a device or a pipe can itself do something, and again on the
    descriptor, because the name may have changed hands in between. `O_NONBLOCK` keeps a pipe swapped in from hanging.
    """
    try:
        _require_regular(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode, path)
        file = os.open(name, _FILE, dir_fd=folder)
    except FileNotFoundError as error:
        raise _missing(path, "the file does not exist") from error
    except OSError as error:
        raise _refused(path, f"the file cannot be opened: {_what_is(folder, name, error)}") from error
    try:
        _require_regular(os.fstat(file).st_mode, path)
        yield file
    finally:
        os.close(file)


def _require_regular(mode: int, path: str) -> None:
    if not stat.S_ISREG(mode):
        raise _refused(path, f"the path names {_kind(mode)}, not a regular file")


def _what_is(folder: int, name: str, error: OSError) -> str:
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except OSError:
        return error.strerror or "it cannot be read"
    if stat.S_ISLNK(mode) or error.errno is None:
        return "it is a link, and links are not followed"
    return f"it is {_kind(mode)} ({error.strerror})"


def _kind(mode: int) -> str:
    kinds = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    kinds |= {stat.S_IFBLK: "a device", stat.S_IFCHR: "a device", stat.S_IFREG: "a regular file"}
    return kinds.get(stat.S_IFMT(mode), "something unknown")


def _refused(path: str, why: str) -> Refusal:
    return Refusal(
        ErrorCode.PATH_REFUSED,
        why,
        subject=ascii(path)[1:-1][:200],
        remedy="name a regular file below the workspace root by its plain relative path",
    )


def _missing(path: str, why: str) -> Refusal:
    return Refusal(ErrorCode.FILE_NOT_FOUND, why, subject=path, remedy="check the path")
