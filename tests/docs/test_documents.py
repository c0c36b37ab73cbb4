"""The example of docs/documents.md, on a running stack."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil.control_plane.client import ControlPlane
from support.stack import Stack

PAGE = Path(__file__).parents[2] / "docs" / "documents.md"


async def test_the_example_captures_the_selected_passage_and_shows_no_more(
    stack: Stack, control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    await stack.start()

    async def connect() -> ControlPlane:
        return control_plane

    monkeypatch.setattr(counterfoil, "connect", connect, raising=False)
    monkeypatch.setattr(asyncio, "run", lambda coroutine: coroutine)
    example: dict[str, Any] = {}
    found = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    exec(found[1].replace("asyncio.run(main())", "running = main()"), example)
    await example["running"]

    assert capsys.readouterr().out == "lazy dog | […]\n\nlazy dog\n\n[…] | available\n"


async def test_a_selection_beyond_the_end_or_of_nothing_is_refused(stack: Stack, control_plane: ControlPlane):
    await stack.start()
    await control_plane.documents.create("empty", workspace="acme")

    for anchor, head, code in ((0, 99, "BAD_REQUEST"), (-1, 0, "BAD_REQUEST"), (0, 0, "TARGET_UNRESOLVED")):
        with pytest.raises(counterfoil.Refusal, match=code):
            await control_plane.documents.target("empty", anchor, head)
