"""Rename within a folder that never replaces what is there: the one step POSIX leaves out."""

from __future__ import annotations

import ctypes
import errno
import os
import sys

_EXCLUSIVE = {"linux": ("renameat2", 1), "darwin": ("renameatx_np", 4)}
_UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP}


def rename_exclusive(folder: int, source: str, target: str) -> None:
    """Rename `source` to `target`, both in the opened `folder`; `FileExistsError` if `target` exists, links included.

    One atomic step where the system and the file system have it. Elsewhere a hard link and an unlink: after a crash
    between the two both names lead to one inode, by which an observer recognises it.
    """
    try:
        _rename_atomically(folder, source, target)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        os.link(source, target, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        os.unlink(source, dir_fd=folder)


def _rename_atomically(folder: int, source: str, target: str) -> None:
    name, flag = _EXCLUSIVE.get(sys.platform, ("", 0))
    function = getattr(ctypes.CDLL(None, use_errno=True), name, None) if name else None
    if function is None:
        raise OSError(errno.ENOSYS, "no exclusive rename here")
    status = function(
        ctypes.c_int(folder),
        ctypes.c_char_p(os.fsencode(source)),
        ctypes.c_int(folder),
        ctypes.c_char_p(os.fsencode(target)),
        ctypes.c_uint(flag),
    )
    if status != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)
