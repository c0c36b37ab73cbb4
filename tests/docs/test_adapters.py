"""The adapters shown in the pages are run as they are printed, against a real Temporal server."""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from counterfoil import AdapterContext, NotApplied, OperationRequest, Order
from support.stack import Stack, settled

REPOSITORY = Path(__file__).parents[2]


def printed(page: str, name: str) -> dict[str, Any]:
    """The module that a page prints under `# name`, executed."""
    blocks = re.findall(r"```python\n(.*?)```", (REPOSITORY / page).read_text(), re.S)
    block = next(block for block in blocks if block.startswith(f"# {name}\n"))
    module: dict[str, Any] = {"__name__": name.removesuffix(".py")}
    exec(compile(block, name, "exec"), module)
    return module


def request(route: str, capability: str, text: str, **changes: Any) -> OperationRequest:
    return OperationRequest.model_validate(
        {
            "owner": {"workspace": "w", "session": uuid.uuid4().hex},
            "idempotency_key": text,
            "capability": capability,
            "route_id": route,
            "objective": "try what the page says",
            "input": {"text": text},
        }
        | changes
    )


@pytest.mark.parametrize("page", ["README.md", "docs/adapters.md"])
async def test_the_smallest_adapter_acts_once_and_claims_nothing_more(
    page: str, stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    printed(page, "letterbox.py")["register"](stack.catalog)
    await stack.start()
    control_plane = stack.control_plane()

    created = await control_plane.create(request("letterbox.v1", "letter.post", "hello"))
    operation = await settled(control_plane, created.operation_id)

    assert (operation.state, operation.verification) == ("completed", "unavailable")
    assert (tmp_path / "letters.txt").read_text() == f"{created.operation_id} hello\n"


@pytest.fixture
def guestbook(tmp_path: Path) -> Any:
    return printed("docs/adapters.md", "guestbook.py")["Guestbook"](tmp_path / "book.jsonl")


async def test_the_guestbook_is_verified(stack: Stack, guestbook: Any, tmp_path: Path):
    stack.catalog.register(guestbook)
    await stack.start()
    control_plane = stack.control_plane()

    created = await control_plane.create(request("guestbook.v1", "entry.add", "hello"))
    operation = await settled(control_plane, created.operation_id)

    assert (operation.state, operation.verification) == ("completed", "verified")
    assert texts(tmp_path) == ["hello"]


async def test_a_lost_reply_of_the_guestbook_is_observed_and_not_repeated(
    stack: Stack, guestbook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    acts = type(guestbook).execute
    calls = []

    def acts_and_dies(self: Any, context: AdapterContext, order: Order) -> Any:
        calls.append(order.generation)
        acts(self, context, order)
        raise ConnectionError("the line went dead")

    monkeypatch.setattr(type(guestbook), "execute", acts_and_dies)
    stack.catalog.register(guestbook)
    await stack.start()
    control_plane = stack.control_plane()

    created = await control_plane.create(request("guestbook.v1", "entry.add", "hello"))
    operation = await settled(control_plane, created.operation_id)

    assert (operation.state, operation.verification) == ("completed", "verified")
    assert calls == [1]
    assert texts(tmp_path) == ["hello"]


def test_an_attempt_of_the_guestbook_that_was_ruled_out_writes_nothing(guestbook: Any, tmp_path: Path):
    context = SimpleNamespace(operation_id="op-1")
    entry = guestbook.validate_input(request("guestbook.v1", "entry.add", "hello"))
    slow, again = (SimpleNamespace(typed_input=entry, generation=generation) for generation in (1, 2))

    seen = guestbook.observe(context, slow)
    late = guestbook.execute(context, slow)
    afterwards = texts(tmp_path)
    replayed = guestbook.execute(context, again)

    assert isinstance(seen, NotApplied)
    assert (late.status, afterwards) == ("failed", [])
    assert (replayed.status, texts(tmp_path)) == ("completed", ["hello"])


def texts(folder: Path) -> list[str]:
    lines = map(json.loads, (folder / "book.jsonl").read_text().splitlines())
    return [line["text"] for line in lines if "text" in line]
