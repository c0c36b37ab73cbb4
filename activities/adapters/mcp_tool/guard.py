"""Run as a program, on Linux: becomes a server's own program, which the kernel kills when the worker is gone.

A worker that is killed cannot end what it started. `guard.py WORKER_PID PROGRAM ARGUMENT…`; imports nothing of
Counterfoil.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(worker: int, program: str, arguments: list[str]) -> None:
    """Never returns."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != worker:  # it was gone before we asked
        sys.exit(1)
    os.execv(program, [program, *arguments])  # noqa: S606


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
