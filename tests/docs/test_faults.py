"""The page on the fault harness: its options are the command's, and its target works as it stands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.main import get_command

from counterfoil.worker.faults.__main__ import faults

DOCS = Path(__file__).parents[2] / "docs"


def program(page: str, name: str) -> str:
    """The code block of a page that says which file it is."""
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    return next(block for block in blocks if block.startswith(f"# {name}\n"))


def test_every_option_is_explained() -> None:
    app = typer.Typer()
    app.command()(faults)
    options = [parameter.opts[0] for parameter in get_command(app).params if parameter.name in faults.__annotations__]
    told = re.findall(r"^\| `(--[a-z]+)` \|", (DOCS / "faults.md").read_text(), re.MULTILINE)

    assert sorted(told) == sorted(options)


@pytest.mark.slow
def test_the_target_of_the_page_is_hurt_and_found_honest(tmp_path: Path) -> None:
    (tmp_path / "guestbook.py").write_text(program("adapters.md", "guestbook.py"))
    (tmp_path / "guestbook_target.py").write_text(program("faults.md", "guestbook_target.py"))
    options = ["--rows", "none", "--operations", "20", "--batch", "20", "--database", "sqlite", "--seed", "1"]

    told = subprocess.run(
        [sys.executable, "-m", "counterfoil.worker.faults", *options, "--target", "guestbook_target:GuestbookTarget"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if not name.startswith("COUNTERFOIL_")},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )

    assert told.returncode == 0, told.stdout + told.stderr
    cells = [line.split("│")[3:-1] for line in told.stdout.splitlines() if line.startswith("│ random schedules")]
    assert [[cell.strip() for cell in line[1:2] + line[3:]] for line in cells] == [["20", "0", "0", "0", "0"]]
