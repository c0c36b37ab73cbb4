"""A misbehaving target, and the adapter in front of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from counterfoil.activities.adapters.base import AdapterContext, Order
from counterfoil.activities.adapters.http_json.profile import HttpProfile
from support.http_desk import TOKEN, Desk, profile_values
from support.json_target import JsonTarget


@pytest.fixture
def target(tmp_path: Path) -> Iterator[JsonTarget]:
    with JsonTarget(tmp_path / "effects.jsonl").serving() as serving:
        serving.token = TOKEN
        yield serving


@pytest.fixture
def desk_of(
    target: JsonTarget, make_context: Callable[..., AdapterContext], make_order: Callable[..., Order]
) -> Callable[..., Desk]:
    """`desk_of(**changes of the profile)`."""

    def make(**changes: Any) -> Desk:
        profile = HttpProfile.model_validate(profile_values(**{"base_url": target.base_url} | changes))
        return Desk(profile, make_context, make_order)

    return make


@pytest.fixture
def desk(desk_of: Callable[..., Desk]) -> Desk:
    return desk_of()
