"""Profiles of servers: what they may say, and what is said of a bad one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from counterfoil.activities.adapters.builtin import build_catalog
from counterfoil.activities.adapters.mcp_tool.profile import HttpTransport, StdioTransport, load_profiles
from counterfoil.activities.adapters.mcp_tool.references import require_variables
from counterfoil.control_plane.settings import ConnectionSettings
from counterfoil.models.errors import Refusal

GOOD = """
name = "payments"
account_id = "acme"
[transport]
kind = "stdio"
command = "payments-mcp"
environment = ["PAYMENTS_TOKEN"]
[tools.pay]
key_argument = "key"
observe = { tool = "find", arguments = { key = "$operation_id" }, expected = { status = "paid" } }
[tools.find]
read_only = true
"""
EXAMPLES = Path(__file__).parents[4] / "examples" / "mcp"


def test_a_file_and_a_folder_of_files_are_read(tmp_path: Path):
    (tmp_path / "a.toml").write_text(GOOD)
    (tmp_path / "b.toml").write_text(GOOD.replace("payments", "other", 1))
    (tmp_path / "c.txt").write_text("not a profile")

    assert [profile.name for profile in load_profiles([tmp_path])] == ["payments", "other"]
    assert load_profiles([tmp_path / "a.toml"])[0].declaration("pay").observe.expected == {"status": "paid"}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (('kind = "stdio"', 'kind = "smoke"'), "transport: Input tag 'smoke'"),
        (('name = "payments"', 'name = "Pay ments"'), "name: String should match"),
        (('"PAYMENTS_TOKEN"', '"token=s3cret"'), "transport.stdio.environment.0: String should match"),
        (("read_only = true", ""), "'pay' is read back by 'find', which is not declared read_only"),
        (("read_only = true", "readonly = true"), "tools.find.readonly: Extra inputs are not permitted"),
        (("[transport]", "[transport"), "it is not TOML: at line 4"),
        (('key_argument = "key"', "key_retention_seconds = 5"), "key_retention_seconds needs a key_argument"),
        (('account_id = "acme"', "call_timeout_seconds = 9"), "call_timeout_seconds: Input should be greater"),
    ],
)
def test_a_malformed_profile_is_refused_with_its_file_and_field(tmp_path: Path, change, why):
    (tmp_path / "bad.toml").write_text(GOOD.replace(*change))

    with pytest.raises(Refusal) as refused:
        load_profiles([tmp_path])

    assert refused.value.code == "SETTINGS_INVALID"
    assert refused.value.detail.startswith("the MCP server profile bad.toml: ")
    assert why in refused.value.detail
    assert "s3cret" not in str(refused.value)


def test_a_profile_that_is_not_there_or_there_twice_is_refused(tmp_path: Path):
    (tmp_path / "a.toml").write_text(GOOD)

    with pytest.raises(Refusal, match=r"gone.toml: it cannot be read: No such file"):
        load_profiles([tmp_path / "gone.toml"])
    with pytest.raises(Refusal, match="a server named 'payments' is described already"):
        load_profiles([tmp_path, tmp_path / "a.toml"])


@pytest.mark.parametrize(
    "changes",
    [
        {"url": "ftp://example.org/mcp"},
        {"url": "https://user:pass@example.org/mcp"},
        {"url": "https://example.org/mcp", "headers": {"Authorization": "Bearer s3cret"}},
        {"url": "https://example.org/mcp", "headers": {"Bad Name": "${A}"}},
    ],
)
def test_an_address_carries_no_secret(changes):
    with pytest.raises(ValueError):
        HttpTransport.model_validate({"kind": "http"} | changes)


def test_the_examples_are_profiles():
    profiles = load_profiles([EXAMPLES])

    assert {type(profile.transport) for profile in profiles} == {StdioTransport, HttpTransport}


def test_the_setting_names_files_and_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COUNTERFOIL_MCP_SERVERS", f"{tmp_path}, other.toml")

    assert ConnectionSettings().mcp_servers == (tmp_path, Path("other.toml"))


def test_a_worker_does_not_start_without_the_variables_of_its_profiles(tmp_path: Path, monkeypatch):
    (tmp_path / "a.toml").write_text(GOOD)
    profiles = load_profiles([tmp_path])

    with pytest.raises(Refusal, match="'payments' refers to PAYMENTS_TOKEN, which is not set"):
        require_variables(profiles)
    monkeypatch.setenv("PAYMENTS_TOKEN", "s3cret")
    require_variables(profiles)


def test_there_is_a_route_only_where_there_are_servers(tmp_path: Path):
    (tmp_path / "a.toml").write_text(GOOD)

    def routes(*servers: Path) -> set[str]:
        built = build_catalog(workspace_root=tmp_path, state_dir=tmp_path, mcp_servers=servers, with_entry_points=False)
        return {route.id for route in built.routes()}

    assert routes(tmp_path) - routes() == {"mcp.tool.v1"}


def test_the_library_is_not_imported_before_a_server_is_reached(tmp_path: Path):
    (tmp_path / "a.toml").write_text(GOOD)
    program = f"""
import sys
from pathlib import Path
from counterfoil.activities.adapters.builtin import build_catalog
where = Path({str(tmp_path)!r})
build_catalog(workspace_root=where, state_dir=where, mcp_servers=[where], with_entry_points=False)
print([name for name in ("mcp", "mcp_types", "httpx2", "jsonschema", "anyio") if name in sys.modules])
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert told.stdout.strip() == "[]"
