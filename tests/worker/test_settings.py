"""Settings: what the page lists is what there is, and a wrong one is named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from counterfoil.control_plane.settings import load_settings
from counterfoil.models.errors import Refusal
from counterfoil.worker.settings import WorkerSettings

OPERATING = Path(__file__).parents[2] / "docs" / "operating.md"


def test_the_page_on_operating_lists_exactly_the_settings_there_are():
    listed = re.findall(r"^\| `COUNTERFOIL_([A-Z_]+)` \|", OPERATING.read_text(), flags=re.MULTILINE)

    assert sorted(name.lower() for name in listed) == sorted(WorkerSettings.model_fields)


def test_the_page_on_operating_gives_the_default_of_each_setting():
    rows = dict(re.findall(r"^\| `COUNTERFOIL_([A-Z_]+)` \| (.*?) \|", OPERATING.read_text(), flags=re.MULTILINE))
    plain = {
        name: field.default
        for name, field in WorkerSettings.model_fields.items()
        if isinstance(field.default, int | float | str | bool)
    }

    told = {name.lower(): default.strip("`") for name, default in rows.items()}

    assert {name: told[name] for name in plain} == {name: str(value).lower() for name, value in plain.items()}


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("DATABASE_URL", "mysql://x", "COUNTERFOIL_DATABASE_URL: a database is named as sqlite:///file or postgresql"),
        ("HEARTBEAT_SECONDS", "0", "COUNTERFOIL_HEARTBEAT_SECONDS: Input should be greater than or equal to 1"),
        ("ADAPTER_QUEUES", "both", "COUNTERFOIL_ADAPTER_QUEUES: Input should be 'shared' or 'separate'"),
        ("BUILD_ID", "7", "deployment_name and build_id are given together or not at all"),
    ],
)
def test_a_wrong_setting_is_named(name: str, value: str, told: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(f"COUNTERFOIL_{name}", value)

    with pytest.raises(Refusal, match=re.escape(told)) as refused:
        load_settings(WorkerSettings)

    assert refused.value.code == "SETTINGS_INVALID"
