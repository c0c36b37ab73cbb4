"""The page on JSON APIs says what the code says."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from counterfoil.activities.adapters.http_json.adapter import HttpJson
from counterfoil.activities.adapters.http_json.entity import Entity, Jobs
from counterfoil.activities.adapters.http_json.inputs import INPUTS
from counterfoil.activities.adapters.http_json.profile import HttpProfile
from counterfoil.models.operations.contract import OperationRequest

PAGE = (Path(__file__).parents[4] / "docs" / "adapters-http.md").read_text()


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


def first_column(heading: str) -> list[str]:
    table = PAGE.split(f"| {heading} |", 1)[1].split("\n\n", 1)[0]
    return [name for line in table.splitlines()[2:] for name in re.findall(r"`([^`]+)`", line.split("|")[1])]


@pytest.mark.parametrize(
    ("heading", "contract"),
    [("field of a profile", HttpProfile), ("field of an entity", Entity), ("field of `jobs`", Jobs)],
)
def test_every_field_is_explained(heading: str, contract: Any):
    assert sorted(first_column(heading)) == sorted(contract.model_fields)


def test_every_capability_is_explained():
    assert first_column("capability") == list(INPUTS)


def test_the_example_of_an_input_is_taken_under_the_example_of_a_profile():
    adapter = HttpJson(HttpProfile.model_validate(tomllib.loads(block("toml"))))
    request = OperationRequest.model_validate(
        {
            "owner": {"workspace": "w", "session": "s"},
            "idempotency_key": "k",
            "capability": "record.create",
            "route_id": "http.json.v1:crm",
            "objective": "o",
            "input": json.loads(block("json")),
            "resources": [{"kind": "remote_entity", "system": "crm", "identity": "contacts", "account_id": "acct-42"}],
        }
    )

    assert adapter.route.id == request.route_id
    assert adapter.validate_input(request).fields == {"name": "Ada Lovelace"}
