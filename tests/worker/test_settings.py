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
        ("CALLBACK_URL", "https://a.example/hook", "callback_url and callback_key are given together or not at all"),
        ("CALLBACK_KEY", "env:KEY", "callback_url and callback_key are given together or not at all"),
    ],
)
def test_a_wrong_setting_is_named(name: str, value: str, told: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(f"COUNTERFOIL_{name}", value)

    with pytest.raises(Refusal, match=re.escape(told)) as refused:
        load_settings(WorkerSettings)

    assert refused.value.code == "SETTINGS_INVALID"


@pytest.mark.parametrize(
    "url",
    [
        "http://agents.example/hook?token=secret",
        "http://10.0.0.1/hook?token=secret",
        "http://127.0.0.1.agents.example/hook?token=secret",
        "http:///hook?token=secret",
        "https://?token=secret",
        "https://agents.example:port/?token=secret",
        "ftp://127.0.0.1/?token=secret",
        "agents.example/hook?token=secret",
    ],
)
def test_an_address_that_others_could_read_along_is_refused_and_not_repeated(url: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COUNTERFOIL_CALLBACK_URL", url)
    monkeypatch.setenv("COUNTERFOIL_CALLBACK_KEY", "env:KEY")

    with pytest.raises(Refusal, match=r"COUNTERFOIL_CALLBACK_URL: a callback goes to https://…") as refused:
        load_settings(WorkerSettings)
    with pytest.raises(ValueError) as plain:
        WorkerSettings()

    assert "secret" not in str(refused.value.as_details()) + str(plain.value)


@pytest.mark.parametrize(
    "url", ["https://agents.example/hook", "http://127.0.0.1:8080/hook", "http://[::1]/hook", "http://localhost/hook"]
)
def test_an_address_that_nobody_else_can_read_is_taken_and_not_shown(url: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COUNTERFOIL_CALLBACK_URL", url)
    monkeypatch.setenv("COUNTERFOIL_CALLBACK_KEY", "env:KEY")
    monkeypatch.setenv("KEY", "00" * 24)

    settings = load_settings(WorkerSettings)

    assert settings.callback_url == url
    assert settings.callback_signing_key() == bytes(24)
    assert url not in repr(settings)


def test_a_callback_whose_key_cannot_be_had_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COUNTERFOIL_CALLBACK_URL", "https://agents.example/hook")
    monkeypatch.setenv("COUNTERFOIL_CALLBACK_KEY", "env:NOT_SET_ANYWHERE")

    with pytest.raises(Refusal, match="no key can be had from 'env:NOT_SET_ANYWHERE'"):
        load_settings(WorkerSettings).callback_signing_key()
