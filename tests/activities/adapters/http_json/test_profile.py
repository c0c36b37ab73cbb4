"""Profiles: what can be declared, what is refused at start, and that they say what they are about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from counterfoil.activities.adapters.builtin import build_catalog
from counterfoil.activities.adapters.catalog import Catalog
from counterfoil.activities.adapters.http_json.profile import (
    HttpProfile,
    load_profile,
    load_profiles,
    require_credentials,
)
from counterfoil.activities.adapters.http_json.registration import register
from counterfoil.control_plane.settings import load_settings
from counterfoil.models.errors import Refusal
from counterfoil.worker.build import build_unit
from counterfoil.worker.settings import WorkerSettings
from support.http_desk import CONTACTS, profile_values

EXAMPLE = Path(__file__).parents[4] / "examples" / "http-profile.toml"
BASE = "https://api.acme.test/v1"


def profile(**changes: Any) -> HttpProfile:
    return HttpProfile.model_validate(profile_values(**{"base_url": BASE} | changes))


def test_the_example_is_a_profile():
    made = load_profile(EXAMPLE)

    assert (made.route_id, made.system_name, sorted(made.entities)) == ("http.json.v1:crm", "crm", ["contact", "task"])
    assert made.entities["task"].parameters == ("project",)


def test_the_default_profile_has_the_plain_route():
    assert profile(name="default").route_id == "http.json.v1"


@pytest.mark.parametrize(
    ("written", "spelled"),
    [
        ("HTTPS://API.Acme.test:443/v1/", "https://api.acme.test/v1"),
        ("https://api.acme.test./", "https://api.acme.test"),
        ("https://[::1]:8443/a%2db", "https://[::1]:8443/a-b"),
        ("http://localhost:8080", "http://localhost:8080"),
    ],
)
def test_a_base_address_has_one_spelling(written: str, spelled: str):
    assert profile(base_url=written).base_url == spelled


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no scheme": ({"base_url": "api.acme.test"}, "base_url is http"),
    "a file": ({"base_url": "file:///etc/passwd"}, "base_url is http"),
    "a password": ({"base_url": "https://ada:pw@api.acme.test"}, "holds a name or a password"),
    "a query": ({"base_url": "https://api.acme.test?key=1"}, "no query"),
    "a way out": ({"base_url": "https://api.acme.test/v1/%2e%2e"}, "dot segment"),
    "plain http": ({"base_url": "http://api.acme.test"}, "plain http"),
    "an unknown field": ({"bearer": "x"}, "Extra inputs"),
    "two forms of credential": ({"credential": {"bearer_env": "A", "header": "X-Key", "env": "B"}}, "give bearer_env"),
    "half a credential": ({"credential": {"header": "X-Key"}}, "give bearer_env"),
    "a secret as a header": ({"headers": {"Authorization": "Bearer x"}}, "headers may not set Authorization"),
    "the key as a header": ({"headers": {"Idempotency-Key": "x"}}, "headers may not set Idempotency-Key"),
    "a header with a line end": ({"headers": {"X-A": "b\r\nHost: c"}}, "headers.X-A"),
    "a cookie that is kept": ({"kept_headers": ["Set-Cookie"]}, "kept_headers may not keep Set-Cookie"),
    "settles sooner than a call ends": ({"settles_after_seconds": 3}, "less than twice call_timeout_seconds"),
    "no entities": ({"entities": {}}, "entities"),
    "a path that leads out": ({"entities": {"a": {"path": "../admin"}}}, "a path is plain segments"),
    "a path with a query": ({"entities": {"a": {"path": "contacts?x=1"}}}, "a path is plain segments"),
    "an absolute path": ({"entities": {"a": {"path": "/contacts"}}}, "a path is plain segments"),
    "a parameter twice": ({"entities": {"a": {"path": "{p}/x/{p}"}}}, "each parameter once"),
    "the key is the id": (
        {"entities": {"a": CONTACTS | {"client_key": {"field": "id"}}}},
        "client_key.field is the id",
    ),
    "a word with two meanings": ({"jobs": {"done": ["x"], "failed": ["x"]}}, "means one thing"),
    "4xx before acting": ({"refuses_before_acting": [409]}, "refuses_before_acting"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_profile_is_named(name: str, tmp_path: Path):
    changes, told = WRONG[name]
    with pytest.raises(ValueError, match=told):
        profile(**changes)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"name = ", "it is no TOML"),
        (b"\xff", "it is no TOML"),
        (b'name = "x"', "base_url: Field required"),
        (b'name = "Bad Name"\nbase_url = "https://a.test"\n[entities.a]\npath = "a"', "name: String should match"),
    ],
)
def test_a_file_that_is_no_profile_is_refused_at_start(content: bytes, told: str, tmp_path: Path):
    file = tmp_path / "p.toml"
    file.write_bytes(content)
    with pytest.raises(Refusal, match=told) as refused:
        load_profiles([tmp_path])

    assert (refused.value.code, refused.value.subject) == ("SETTINGS_INVALID", str(file))


def test_a_missing_file_and_a_name_given_twice_are_refused(tmp_path: Path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.toml").write_text(EXAMPLE.read_text())
    for paths, told in (([tmp_path / "c.toml"], "No such file"), ([tmp_path], "two profiles have the name 'crm'")):
        with pytest.raises(Refusal, match=told) as refused:
            load_profiles(paths)
        assert refused.value.code == "SETTINGS_INVALID"


def test_a_setting_names_profiles_and_their_routes_are_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("COUNTERFOIL_HTTP_PROFILES", str(EXAMPLE))
    settings = load_settings(WorkerSettings)
    catalog = build_catalog(
        workspace_root=tmp_path, state_dir=tmp_path, http_profiles=settings.http_profiles, with_entry_points=False
    )

    assert settings.http_profiles == (EXAMPLE,)
    assert "http.json.v1:crm" in [route.id for route in catalog.routes()]


def test_a_worker_does_not_start_without_the_credentials_it_needs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.delenv("CRM_TOKEN", raising=False)
    settings = load_settings(WorkerSettings, http_profiles=(EXAMPLE,), state_dir=tmp_path)
    with pytest.raises(Refusal, match="takes its credential from CRM_TOKEN, which is not set") as refused:
        build_unit(settings, client=None, catalog=Catalog())  # type: ignore[arg-type]

    assert refused.value.code == "SETTINGS_INVALID"
    require_credentials([load_profile(EXAMPLE)], "elsewhere")
    monkeypatch.setenv("CRM_TOKEN", "tok-12345678")
    require_credentials([load_profile(EXAMPLE)], "local")


def test_another_target_is_another_version_and_another_time_out_is_not():
    usual = register(Catalog(), profile()).route
    slower = register(Catalog(), profile(max_concurrent_calls=2, credential={"bearer_env": "OTHER"})).route
    elsewhere = register(Catalog(), profile(base_url="https://api.acme.test/v2")).route

    assert usual.adapter_version == slower.adapter_version
    assert usual.adapter_version != elsewhere.adapter_version


def test_accounts_of_one_api_share_a_system_and_two_apis_do_not():
    catalog = Catalog()
    register(catalog, profile(name="one", system="acme"))
    register(catalog, profile(name="two", system="acme", account_id="acct-2"))
    with pytest.raises(ValueError, match="has a normaliser already"):
        register(catalog, profile(name="three", system="acme", base_url="https://other.test"))
