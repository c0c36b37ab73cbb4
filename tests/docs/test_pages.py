"""The pages say what the code says: codes, statuses, lifecycle, request, route, rooms, commands, dependencies."""

from __future__ import annotations

import json
import re
import tomllib
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from counterfoil.activities.adapters.builtin import build_catalog
from counterfoil.activities.adapters.tools import ToolContext
from counterfoil.control_plane.agent_tool import ApplicationOperationTool
from counterfoil.models.common import Scope
from counterfoil.models.documents.captures import CaptureRequest
from counterfoil.models.errors import ErrorCode
from counterfoil.models.operations.commands import CONTRACTS, REQUIRED_SCOPE, Answer, CommandName, Decide, seal
from counterfoil.models.operations.contract import Constraints, OperationRequest, Owner, Resource
from counterfoil.models.operations.lifecycle import TRANSITIONS, Cancellation, State, Verification
from counterfoil.models.operations.route import Route
from counterfoil.models.operations.tools import Permission, Tool
from counterfoil.worker import cli_operation, cli_session
from counterfoil.worker.cli import app
from counterfoil.worker.exit_codes import ExitCode, of_error
from counterfoil.workflows.search_attributes import REQUIRED

REPOSITORY = Path(__file__).parents[2]


def page(name: str) -> str:
    return (REPOSITORY / "docs" / name).read_text()


def rows(text: str, *heading: str) -> list[list[str]]:
    """The cells of every table with these column headings."""
    found: list[list[str]] = []
    inside = False
    for line in text.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells == list(heading):
            inside = True
        elif not cells:
            inside = False
        elif inside and not set("".join(cells)) <= {"-", ":"}:
            found.append(cells)
    assert found, f"no table with the columns {heading}"
    return found


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_every_error_code_is_explained_once_with_its_exit_status():
    table = rows(page("errors.md"), "code", "meaning", "what to do", "exit")

    told = {names(code)[0]: int(status) for code, _, _, status in table}

    assert told == {code.value: of_error(code).value for code in ErrorCode}
    assert len(table) == len(ErrorCode)


def test_every_exit_status_is_explained():
    told = {int(status): names(name)[0] for status, name, _ in rows(page("errors.md"), "exit", "name", "meaning")}

    assert told == {code.value: code.name for code in ExitCode}


def test_the_lifecycle_table_is_the_one_the_store_consults():
    told = {
        (names(event)[0], tuple(sorted(names(sources))), names(destination)[0])
        for event, sources, destination, _ in rows(page("operations.md"), "event", "from", "to", "when")
    }

    assert told == {
        (one.event.value, tuple(sorted(state.value for state in one.sources)), one.destination.value)
        for one in TRANSITIONS
    }


@pytest.mark.parametrize(
    ("heading", "fields"),
    [
        ("field of the request", set(OperationRequest.model_fields)),
        ("field of `constraints`", set(Constraints.model_fields)),
        ("field of `owner`", set(Owner.model_fields)),
        ("field of a resource", set(Resource.model_fields)),
        ("field of a route", set(Route.model_fields)),
    ],
)
def test_every_field_of_a_contract_is_explained(heading: str, fields: set[str]):
    assert {names(cells[0])[0] for cells in rows(page("operations.md"), heading, "meaning")} == fields


def test_every_status_is_explained():
    told = rows(page("operations.md"), "status", "values")

    assert [(names(name)[0], names(values)) for name, values in told] == [
        ("state", [state.value for state in State]),
        ("verification", [status.value for status in Verification]),
        ("cancellation", [status.value for status in Cancellation]),
    ]


def test_every_command_is_explained_with_its_fields_and_its_scope():
    told = {
        names(command)[0]: (names(fields), names(scope))
        for command, fields, scope, _ in rows(page("operations.md"), "command", "fields", "scope", "meaning")
    }

    assert told == {
        name.value: (
            [field if info.is_required() else f"{field}?" for field, info in contract.model_fields.items()],
            [REQUIRED_SCOPE[name].value],
        )
        for name, contract in CONTRACTS.items()
    }


def test_every_search_attribute_is_explained():
    told = [names(cells[0])[0] for cells in rows(page("operations.md"), "search attribute", "type", "meaning")]

    assert told == list(REQUIRED)


def test_the_examples_of_a_request_a_command_and_an_answer_are_what_is_taken_and_given(tmp_path: Path):
    request, bare, sealed, answer = (json.loads(block) for block in blocks("operations.md", "json"))
    catalog = build_catalog(workspace_root=tmp_path, state_dir=tmp_path, with_entry_points=False)
    asked = OperationRequest.model_validate(request)
    digest = "sha256:" + "0" * 64
    command = Decide.model_validate(bare | {"proposal_digest": digest})
    made = seal(
        b"0" * 16,
        operation_id=asked.operation_id,
        name=CommandName.DECIDE,
        command=command,
        principal="ada",
        scope=Scope.REVIEW,
        at=datetime(2030, 1, 1, 9, 30, tzinfo=UTC),
    )

    assert catalog.admit(asked)[0].route.id == "local.workbook.edit.v1"
    assert {name: sorted(part) for name, part in made.items()} == {name: sorted(part) for name, part in sealed.items()}
    assert sealed["seal"] | {"mac": ""} == made["seal"] | {"mac": ""}
    assert set(answer) == set(Answer.model_fields)


@pytest.mark.parametrize("name", ["adapters-files.md", "adapters-workbook.md"])
def test_the_examples_of_an_input_are_taken(name: str, tmp_path: Path):
    catalog = build_catalog(workspace_root=tmp_path, state_dir=tmp_path, with_entry_points=False)
    route_id = names(page(name).splitlines()[0])[0]
    example = json.loads(blocks(name, "json")[0].replace("sha256:…", "sha256:" + "0" * 64))
    capability = catalog.find(route_id).route.capabilities[0]

    adapter, typed, _ = catalog.admit(
        OperationRequest.model_validate(
            {
                "owner": {"workspace": "w", "session": "s"},
                "idempotency_key": "k",
                "capability": capability,
                "route_id": route_id,
                "objective": "o",
                "input": example,
                "resources": [{"kind": "file", "system": "file", "identity": example["path"]}],
            }
        )
    )

    assert adapter.route.id == route_id
    assert typed.path == example["path"]


def test_every_command_line_that_the_pages_show_exists():
    shown = set()
    for path in [REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md")]:
        shown |= set(
            re.findall(
                r"counterfoil ((?:operation|session) [a-z]+|dev|worker|register|migrate|repair)\b", path.read_text()
            )
        )
    groups = {"operation": cli_operation.app, "session": cli_session.app}
    known = {f"{group} {name}" for group, part in groups.items() for name in get_command(part).commands}
    known |= set(get_command(app).commands) - groups.keys()

    assert shown == known


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page(name), re.DOTALL | re.MULTILINE)


def test_the_diagram_shows_the_layers_that_the_import_linter_keeps():
    contracts = project()["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one["type"] == "layers")
    diagram = re.search(r"```mermaid\n(.*?)```", page("architecture.md"), re.DOTALL)
    assert diagram is not None

    arrows = re.findall(r"^ +(\w+) ==> (\w+)", diagram.group(1), re.MULTILINE)

    assert arrows == list(pairwise(layers))


def test_every_qualified_adapter_has_a_page(tmp_path: Path):
    routes = build_catalog(
        workspace_root=tmp_path,
        state_dir=tmp_path,
        http_profiles=[REPOSITORY / "examples" / "http-profile.toml"],
        mcp_servers=[REPOSITORY / "examples" / "mcp"],
        with_entry_points=False,
    ).routes()
    headings = [path.read_text().splitlines()[0] for path in (REPOSITORY / "docs").glob("adapters-*.md")]

    assert {name for heading in headings for name in names(heading)} == {route.id.partition(":")[0] for route in routes}


def test_every_dependency_is_accounted_for():
    asked = list(project()["project"]["dependencies"])
    for extra in project()["project"]["optional-dependencies"].values():
        asked += extra
    asked += project()["dependency-groups"]["dev"]

    table = rows(page("decisions/dependencies.md"), "package", "what for", "licence", "upkeep")

    assert [names(cells[0])[0] for cells in table] == [re.split(r"[\[<>=!~ ]", one)[0] for one in asked]


def project() -> Any:
    return tomllib.loads((REPOSITORY / "pyproject.toml").read_text())


@pytest.mark.parametrize(("name", "most"), [("operations.md", 60), ("documents.md", 45)])
def test_every_test_that_a_promise_names_exists(name: str, most: int):
    named = re.findall(r"\| `([a-z_/]+\.py)` `(test_\w+)` \|$", page(name), re.MULTILINE)
    missing = [
        f"{path} {name}"
        for path, name in named
        if not (REPOSITORY / "tests" / path).exists() or f"def {name}(" not in (REPOSITORY / "tests" / path).read_text()
    ]

    assert len(named) > most
    assert missing == []


def test_every_field_of_a_capture_is_explained():
    told = rows(page("documents.md"), "field of a capture", "meaning")

    assert [names(cells[0])[0] for cells in told] == list(CaptureRequest.model_fields)


def test_every_field_of_a_tool_and_every_permission_is_explained():
    told = page("tools.md")

    assert [names(cells[0])[0] for cells in rows(told, "field of a tool", "meaning")] == list(Tool.model_fields)
    assert [names(cells[0])[0] for cells in rows(told, "permission", "meaning")] == [one.value for one in Permission]


def test_every_action_of_the_agents_tool_is_explained_with_its_fields():
    told = {
        names(action)[0]: names(fields) for action, fields, _ in rows(page("tools.md"), "action", "fields", "answer")
    }
    known = ApplicationOperationTool.input_schema["properties"]

    assert list(told) == known["action"]["enum"]
    assert {field.rstrip("?") for fields in told.values() for field in fields} == set(known) - {"action"}


async def test_the_example_of_tools_registers_two_that_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    example: dict[str, Any] = {}
    exec(blocks("tools.md", "python")[0], example)
    catalog = build_catalog(workspace_root=tmp_path, state_dir=tmp_path, with_entry_points=False)
    example["register"](catalog)
    context = ToolContext(Owner(workspace="w", session="s"), None, None, 30)

    written = json.loads(blocks("tools.md", "json")[0])
    answer = catalog.tools.find(written["name"]).run(context, written["arguments"])

    assert answer == {"characters": 5}
    assert catalog.tools.find("read_notes").run(context, {}) == "hello\n"
    assert "cowork.tool" in [route.id for route in catalog.routes()]


def test_every_adapter_that_comes_with_it_says_how_its_input_is_written(tmp_path: Path):
    catalog = build_catalog(
        workspace_root=tmp_path,
        state_dir=tmp_path,
        http_profiles=[REPOSITORY / "examples" / "http-profile.toml"],
        mcp_servers=[REPOSITORY / "examples" / "mcp"],
        with_entry_points=False,
    )

    told = {
        capability: sorted(catalog.find(route.id).input_schema(capability)["properties"])
        for route in catalog.routes()
        for capability in route.capabilities
    }

    assert told["file.append"] == ["path", "text"]
    assert "edits" in told["workbook.edit"]
    assert "fields" in told["record.create"]
    assert "arguments" in told["tool.call"]
