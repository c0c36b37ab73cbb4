"""The page on callbacks says what is sent, and its receivers run as they are printed, against the real sender."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from werkzeug.serving import make_server

from counterfoil.activities.deliveries.post import TIMEOUT_SECONDS, Post
from counterfoil.models.common import canonical_json
from counterfoil.models.deliveries.contract import Callback, CallbackType
from counterfoil.models.deliveries.schedule import PAUSES
from support.callback_receiver import KEY, receiving

PAGE = (Path(__file__).parents[2] / "docs" / "callbacks.md").read_text()
CALLBACK = Callback.model_validate_json(re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)[0])


def program(name: str) -> dict[str, Any]:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    block = next(block for block in blocks if block.startswith(f"# {name}"))
    program: dict[str, Any] = {"__name__": "receiver"}
    exec(compile(block, name, "exec"), program)
    return program


@contextmanager
def served(app: Any) -> Iterator[str]:
    server = make_server("127.0.0.1", 0, app)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/counterfoil"
    finally:
        server.shutdown()
        thread.join(5)


async def test_the_receiver_takes_what_is_genuine_and_refuses_what_is_forged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("CALLBACK_KEY", KEY)
    body = canonical_json(CALLBACK)

    with served(program("receiver.py")["app"]) as url:
        taken = await Post(url, bytes.fromhex(KEY))("id-1", body)
        forged = await Post(url, b"not the key, but as long as one")("id-1", body)

    assert (taken.status, taken.taken) == (204, True)
    assert (forged.status, forged.taken) == (403, False)
    assert "operation.settled op-… completed verified" in capsys.readouterr().out


async def test_the_receiver_without_counterfoil_does_the_same():
    verify = program("verify.py")["verify"]
    body = canonical_json(CALLBACK)
    with receiving() as receiver:
        await Post(receiver.url, bytes.fromhex(KEY))("id-1", body)
        await Post(receiver.url, bytes.fromhex(KEY), clock=lambda: datetime(2020, 1, 1, tzinfo=UTC))("id-2", body)
    lately, long_ago = receiver.received

    assert verify(bytes.fromhex(KEY), lately.headers, lately.body)["operation_id"] == "op-…"
    for sent, key, content in (
        (lately, bytes(32), body),
        (lately, bytes.fromhex(KEY), body + b" "),
        (long_ago, bytes.fromhex(KEY), body),
    ):
        with pytest.raises(PermissionError):
            verify(key, sent.headers, content)


def test_every_type_and_every_field_is_shown():
    told = re.findall(r"^\| `(operation\.\w+)` \|", PAGE, re.MULTILINE)
    shown = json.loads(re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)[0])

    assert sorted(told) == sorted(CallbackType)
    assert set(shown) == set(Callback.model_fields)


def test_the_schedule_on_the_page_is_the_one_that_is_kept():
    assert "within 15 seconds" in PAGE
    assert "after 5 and 30 seconds,\n5 and 30 minutes, 2, 5, 10, 14, 20 and 24 hours" in PAGE
    minute, hour = 60, 3600
    expected = [5, 30, 5 * minute, 30 * minute, *(hours * hour for hours in (2, 5, 10, 14, 20, 24))]
    assert [pause.total_seconds() for pause in PAUSES] == expected
    assert TIMEOUT_SECONDS == 15
