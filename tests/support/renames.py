"""The kernel's own record of what took a name in a folder: the oracle of how often a file was published.

It asks nothing of ours. Polling could miss a file that was replaced twice within moments; inotify misses none.
"""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path
from types import TracebackType
from typing import Self

MOVED_TO = 0x80
OVERFLOWED = 0x4000
_HEADER = struct.Struct("iIII")
_BUFFER_BYTES = 64 * 1024


class Renames:
    """Counts the files that were renamed to a name in `folder` while the block runs. Linux only."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: list[str] = []
        self._file = -1

    def __enter__(self) -> Self:
        libc = ctypes.CDLL(None, use_errno=True)
        self._file = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        watch = libc.inotify_add_watch(self._file, os.fsencode(self._folder), ctypes.c_uint32(MOVED_TO))
        if self._file < 0 or watch < 0:
            raise OSError(ctypes.get_errno(), "the folder cannot be watched")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)

    def of(self, name: str) -> int:
        """How many files took this name so far."""
        while events := self._read():
            while events:
                _, mask, _, length = _HEADER.unpack_from(events)
                assert not mask & OVERFLOWED, "the kernel dropped some"
                if mask & MOVED_TO:
                    self._seen.append(os.fsdecode(events[_HEADER.size : _HEADER.size + length].rstrip(b"\0")))
                events = events[_HEADER.size + length :]
        return self._seen.count(name)

    def _read(self) -> bytes:
        try:
            return os.read(self._file, _BUFFER_BYTES)
        except BlockingIOError:
            return b""
