"""The page on testing is followed as a stranger would: its files in a folder of their own, run by pytest."""

from __future__ import annotations

import re
from pathlib import Path

import counterfoil.testing
from counterfoil.worker.testing import scripting, stack
from support.projects import Project

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()


def test_the_examples_run_as_they_are_printed(tmp_path: Path):
    project = Project(tmp_path)
    for name, text in re.findall(r"```python\n# (\S+)\n(.*?)```", PAGE, re.DOTALL):
        project.write(name, text)

    ended = project.run()

    assert ended.returncode == 0, ended.stdout
    assert "4 passed" in ended.stdout


def test_the_first_example_has_ten_lines_at_most():
    _, text = next(
        found for found in re.findall(r"```python\n# (\S+)\n(.*?)```", PAGE, re.DOTALL) if "test_" in found[0]
    )

    assert len([line for line in text.splitlines() if line.strip()]) <= 10


def test_everything_that_is_shown_exists_and_every_answer_is_shown():
    shown = re.findall(r"^\| `(\w+)\(", PAGE, re.MULTILINE)
    of_the_stack = [name for name in shown if hasattr(stack.Stack, name)]
    answers = {name for name in shown if name not in of_the_stack}

    assert of_the_stack == ["script", "request", "create", "call"]
    assert answers <= set(counterfoil.testing.__all__)
    verifications = {"verified", "partial", "contradicted", "unverifiable"}
    functions = {name for name in counterfoil.testing.__all__ if name.islower() and hasattr(scripting, name)}
    assert answers | verifications | {"evidence"} == functions
