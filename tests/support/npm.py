"""Packages from npm, installed from a lock on first use."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path

from conftest import absent


def installed(folder: Path) -> Path:
    """The folder of a lock's packages; skips where there is no npm, fails in CI."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        absent("node and npm")
    with (folder / "package.json").open() as one_at_a_time:
        fcntl.flock(one_at_a_time, fcntl.LOCK_EX)
        _install(folder)
    return folder / "node_modules"


def _install(folder: Path) -> None:
    lock, done = folder / "package-lock.json", folder / "node_modules" / ".counterfoil"
    if done.exists() and done.read_text() == lock.read_text():
        return
    made = subprocess.run(["npm", "ci"], cwd=folder, capture_output=True, text=True, timeout=200)
    if made.returncode != 0:
        absent(f"the packages of {folder.name}: {made.stderr.strip()[-300:]}")
    done.write_text(lock.read_text())
