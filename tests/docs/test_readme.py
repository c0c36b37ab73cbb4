"""The README's host program runs as it is printed, against a running stack."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from counterfoil.worker.embedded import TemporalServer
from support.stack import Stack

README = (Path(__file__).parents[2] / "README.md").read_text()


async def test_the_host_program_starts_approves_and_prints_the_evidence(
    stack: Stack, server: TemporalServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    await stack.start()
    monkeypatch.setenv("TEMPORAL_ADDRESS", server.address)
    monkeypatch.setenv("COUNTERFOIL_STATE_DIR", str(stack.settings.state_dir))
    monkeypatch.setenv("COUNTERFOIL_WORKSPACE_ROOT", str(stack.workspace))
    monkeypatch.setenv("COUNTERFOIL_TASK_QUEUE", stack.settings.task_queue)
    block = next(
        block for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if block.startswith("# host.py")
    )
    program: dict[str, Any] = {"__name__": "host"}

    exec(compile(block, "host.py", "exec"), program)
    await program["main"]()

    assert capsys.readouterr().out.startswith("completed verified source='file:note.txt'")
    assert (stack.workspace / "note.txt").read_text() == "hello\n"


def test_the_readme_starts_with_its_two_commands():
    first = re.search(r"```sh\n(.*?)```", README, re.DOTALL)
    assert first is not None

    assert first.group(1).split("\n") == ["make demo", "make test", ""]
