"""The demonstration, run as `make demo` runs it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"
LONGEST_SECONDS = 120
SUMMARY = [
    ("1 approve and verify", "completed", "verified"),
    ("2 same key again", "completed", "verified"),
    ("3 same key, other request", "completed", "verified"),
    ("4 killed with -9", "completed", "verified"),
    ("5 attested", "completed", "unavailable"),
]


@pytest.mark.slow
def test_the_demonstration_tells_its_five_stories_in_time_and_leaves_nothing_running(tmp_path: Path) -> None:
    # Its folders are made where it is told that temporary ones belong.
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("COUNTERFOIL_", "TEMPORAL"))
    }
    began = time.monotonic()
    with subprocess.Popen(
        [sys.executable, DEMO],
        env=environment | {"TMPDIR": str(tmp_path)},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as demo:
        try:
            told, _ = demo.communicate(timeout=2 * LONGEST_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(demo.pid, signal.SIGKILL)
            raise
    seconds = time.monotonic() - began

    assert demo.returncode == 0, told
    assert _summary(told) == SUMMARY, told
    assert told.count("/namespaces/default/workflows/op-") == len(SUMMARY)
    assert "All stories ended as they should" in told
    assert seconds < LONGEST_SECONDS, told
    assert list(tmp_path.iterdir()) == []
    assert _started_below(tmp_path) == []


def _summary(told: str) -> list[tuple[str, ...]]:
    """The first columns of the table at the end; a row that goes on in the next line has nothing in its first."""
    lines = told.partition(" Summary ")[2].splitlines()
    rows = [tuple(cell.strip() for cell in line.split("│")[1:4]) for line in lines if line.startswith("│")]
    return [row for row in rows if row[0]]


def _started_below(folder: Path) -> list[str]:
    """Processes that were left behind: their command lines name the demonstration's folder."""
    running = psutil.process_iter(["cmdline"])
    lines = [" ".join(process.info["cmdline"] or []) for process in running]
    return [line for line in lines if str(folder) in line]
