"""The oracle: the editors' own libraries, run by node."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.npm import installed

ORACLE = Path(__file__).parents[2] / "oracle"
Ask = Callable[..., Iterator[str]]


@pytest.fixture(scope="session")
def oracle() -> Ask:
    """`oracle("positions.mjs", 1, 2, 30, told="…")`: the lines that a script of the oracle answers with."""
    installed(ORACLE)

    def ask(script: str, *arguments: object, told: str = "") -> Iterator[str]:
        answered = subprocess.run(
            ["node", script, *map(str, arguments)],
            cwd=ORACLE,
            input=told,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert answered.returncode == 0, answered.stderr[-2000:]
        return iter(answered.stdout.splitlines())

    return ask
