"""A stranger's project: a folder with tests of its own, run by a pytest of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

FOREIGN = ("COUNTERFOIL_", "TEMPORAL_", "PYTEST_", "CI")
SECONDS = 180


class Project:
    """The folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "project"
        self.folder.mkdir()
        self._kept = folder / "kept"

    def write(self, name: str, text: str) -> None:
        """Put a file there."""
        (self.folder / name).write_text(text)

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run its tests to their end."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        options = ["-p", "no:cacheprovider", f"--basetemp={self._kept}", "-o", "addopts="]
        return subprocess.run(
            [sys.executable, "-m", "pytest", *options, *arguments],
            cwd=self.folder,
            env=inherited | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
