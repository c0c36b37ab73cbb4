"""A workbook file as its parts: read under limits, written so that the same parts always give the same bytes."""

from __future__ import annotations

import io
import posixpath
import re
import stat
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from counterfoil.models.errors import ErrorCode, Refusal

MAX_PARTS = 10_000
MAX_TOTAL_BYTES = 256 * 1024 * 1024
MAX_RATIO = 400
"""Total inflation above which a file is a bomb; real workbooks stay below 100."""
_RATIO_COUNTS_FROM_BYTES = 8 * 1024 * 1024
_NEW_PART_DATE = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Package:
    """All parts of a zip container in their order, by name without a leading slash."""

    parts: Mapping[str, bytes]
    entries: tuple[zipfile.ZipInfo, ...]

    def find(self, name: str) -> str | None:
        """The part's name as spelled in the container (part names are compared without case), or None."""
        if name in self.parts:
            return name
        wanted = name.casefold()
        return next((part for part in self.parts if part.removeprefix("/").casefold() == wanted), None)


def read_package(content: bytes) -> Package:
    """The parts of a container. Raises `Refusal` (`WORKBOOK_CORRUPT`) where any of it is unsound or over a limit."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as container:
            entries = [entry for entry in container.infolist() if not entry.is_dir()]
            _check(entries, len(content))
            return Package({entry.filename: _inflate(container, entry) for entry in entries}, tuple(entries))
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError, ValueError) as error:
        raise corrupt(f"the container cannot be read: {error}") from error


def write_package(source: Package, changed: Mapping[str, bytes], removed: frozenset[str]) -> bytes:
    """The container with some parts replaced, removed or (last, by name) added; every other part is carried over."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as container:
        for entry in source.entries:
            if entry.filename not in removed:
                content = changed.get(entry.filename, source.parts[entry.filename])
                container.writestr(_like(entry), content)
        for name in sorted(set(changed) - set(source.parts)):
            fresh = zipfile.ZipInfo(name, _NEW_PART_DATE)
            fresh.compress_type = zipfile.ZIP_DEFLATED
            fresh.create_system = 0
            container.writestr(fresh, changed[name])
    return target.getvalue()


def resolve(base: str, target: str) -> str:
    """The part a relationship of the part `base` points to."""
    if target.startswith("/"):
        return posixpath.normpath(target.lstrip("/"))
    return posixpath.normpath(posixpath.join(posixpath.dirname(base), target))


def relationships_of(part: str) -> str:
    """The name of the part that holds a part's relationships."""
    folder, name = posixpath.split(part)
    return posixpath.join(folder, "_rels", f"{name}.rels")


def corrupt(detail: str) -> Refusal:
    """The refusal of an unsound file."""
    return Refusal(
        ErrorCode.WORKBOOK_CORRUPT,
        detail,
        subject="source",
        remedy="open the file in its application, let it repair it, and save it anew",
    )


def _check(entries: list[zipfile.ZipInfo], size_bytes: int) -> None:
    if len(entries) > MAX_PARTS:
        raise corrupt(f"the container has {len(entries)} parts; at most {MAX_PARTS} are read")
    total = sum(entry.file_size for entry in entries)
    if total > MAX_TOTAL_BYTES:
        raise corrupt(f"the parts inflate to {total} bytes; at most {MAX_TOTAL_BYTES} are read")
    if total > _RATIO_COUNTS_FROM_BYTES and total > MAX_RATIO * size_bytes:
        raise corrupt(f"the parts inflate to {total // max(size_bytes, 1)} times the size of the file")
    seen: set[str] = set()
    for entry in entries:
        name = entry.filename
        if name.startswith("//") or re.match(r"[A-Za-z]:", name) or ".." in re.split(r"[\\/]", name) or "\\" in name:
            raise corrupt(f"the container has a part outside itself: '{name[:100]}'")
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise corrupt(f"the part '{name[:100]}' is a link")
        if entry.flag_bits & 0x1:
            raise corrupt(f"the part '{name[:100]}' is encrypted")
        # A leading slash, which some writers leave in, is the part's full name and no way out of the container.
        folded = name.removeprefix("/").casefold()
        if folded in seen:
            raise corrupt(f"the container has the part '{name[:100]}' twice")
        seen.add(folded)


def _inflate(container: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    # The size in the directory is only a claim: read at most one byte more than it, the checksum settles the rest.
    with container.open(entry) as stream:
        content = stream.read(entry.file_size + 1)
    if len(content) != entry.file_size:
        raise corrupt(f"the part '{entry.filename[:100]}' is not as long as the container says")
    return content


def _like(entry: zipfile.ZipInfo) -> zipfile.ZipInfo:
    fresh = zipfile.ZipInfo(entry.filename, entry.date_time)
    fresh.compress_type = zipfile.ZIP_STORED if entry.compress_type == zipfile.ZIP_STORED else zipfile.ZIP_DEFLATED
    fresh.external_attr = entry.external_attr
    fresh.create_system = entry.create_system
    return fresh
