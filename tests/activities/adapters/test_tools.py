"""The registry: what can be registered, which tool a name and an account mean, and the route that comes with it."""

from __future__ import annotations

from typing import Any

import pytest

from counterfoil.activities.adapters.base import AdapterContext, NoTools, Order, Phase
from counterfoil.activities.adapters.catalog import Catalog
from counterfoil.activities.adapters.tools import ToolContext, ToolFailed
from counterfoil.models.common import utc_now
from counterfoil.models.errors import ErrorCode, Refusal, Unavailable
from counterfoil.models.operations.contract import OperationRequest, Owner, Resource
from counterfoil.models.operations.outcomes import BoundVersion, Failed, Prepared
from counterfoil.models.operations.tools import Tool
from support.scripted import scripted
from support.toolbox import Toolbox, tool_request

CONTEXT = ToolContext(Owner(workspace="w", session="s"), None, None, 30)


@pytest.fixture
def catalog() -> Catalog:
    return Catalog()


@pytest.fixture
def toolbox(catalog: Catalog) -> Toolbox:
    return Toolbox(catalog)


def test_the_bridge_comes_with_the_first_tool_and_not_before(catalog: Catalog, toolbox: Toolbox):
    assert catalog.routes() == []

    toolbox.add("b")
    toolbox.add("a", read_only=True)

    assert [route.id for route in catalog.routes()] == ["cowork.tool"]
    assert [tool.name for tool in catalog.tools.tools()] == ["a", "b"]


@pytest.mark.parametrize(
    "schema", [{"type": "nonsense"}, {"type": "string"}, {}, {"type": "object", "properties": 7}], ids=str
)
def test_a_schema_that_is_none_of_an_object_is_refused(toolbox: Toolbox, schema: dict[str, Any]):
    with pytest.raises(ValueError, match="input schema of 't'"):
        toolbox.add("t", schema=schema)


def test_a_second_tool_of_the_same_name_and_account_is_refused(toolbox: Toolbox):
    toolbox.add("send", account_id="a")
    toolbox.add("send", account_id="b")

    with pytest.raises(ValueError, match="registered already for account a"):
        toolbox.add("send", account_id="a")


@pytest.mark.parametrize(
    ("registered", "asked", "found"),
    [
        ([None], [], None),
        ([None], ["a"], None),
        (["a"], [], "a"),
        (["a"], ["a"], "a"),
        (["a"], ["b"], "ACCOUNT_MISMATCH"),
        (["a", "b"], ["b"], "b"),
        (["a", "b"], [], "ACCOUNT_MISMATCH"),
        (["a", "b"], ["a", "b"], "ACCOUNT_MISMATCH"),
        (["a", "b"], ["b", "c"], "b"),
        ([None, "a"], [], None),
        ([None, "a"], ["a"], "a"),
        ([None, "a"], ["b"], None),
        ([], [], "TOOL_UNKNOWN"),
    ],
)
def test_which_tool_is_meant(
    catalog: Catalog, toolbox: Toolbox, registered: list[str | None], asked: list[str], found: str | None
):
    for account in registered:
        toolbox.add("send", account_id=account)

    try:
        meant = catalog.tools.find("send", asked).tool.account_id
    except Refusal as refusal:
        meant = refusal.code.value

    assert meant == found


def test_a_tool_cannot_change_what_was_asked(catalog: Catalog, toolbox: Toolbox):
    given = {"text": "x"}
    toolbox.add("take", lambda arguments: arguments.clear())
    registered = catalog.tools.find("take")

    registered.run(CONTEXT, registered.require_fitting(given))

    assert given == {"text": "x"}


def test_a_property_that_is_named_like_a_keyword_is_still_checked(catalog: Catalog, toolbox: Toolbox):
    schema = {"type": "object", "properties": {"pattern": {"type": "string"}}, "required": ["pattern"]}
    toolbox.add("find", schema=schema)
    registered = catalog.tools.find("find")

    assert registered.require_fitting({"pattern": "a*"}) == {"pattern": "a*"}
    for wrong in ({"pattern": 7}, {}):
        with pytest.raises(Refusal):
            registered.require_fitting(wrong)


async def test_patterns_and_uniqueness_are_checked_before_anything_is_called(catalog: Catalog, toolbox: Toolbox):
    schema = {
        "type": "object",
        "properties": {
            "code": {"type": "string", "pattern": "^[A-Z]{3}$"},
            "of": {"type": "array", "uniqueItems": True},
        },
        "additionalProperties": False,
    }
    toolbox.add("book", schema=schema)
    registered = catalog.tools.find("book")

    assert await registered.require_fitting_fully({"code": "EUR", "of": [1, 2]}) == {"code": "EUR", "of": [1, 2]}
    for wrong in ({"code": "eur"}, {"of": [1, 1]}, {"more": 1}):
        with pytest.raises(Refusal) as caught:
            await registered.require_fitting_fully(wrong)
        assert caught.value.code == "INVALID_INPUT"


def test_what_a_failed_tool_may_have_done_is_said(catalog: Catalog, toolbox: Toolbox):
    toolbox.add("write", RuntimeError("broke"))
    toolbox.add("read", RuntimeError("broke"), read_only=True)
    remedies = {}
    for name in ("write", "read"):
        with pytest.raises(ToolFailed) as caught:
            catalog.tools.find(name).run(CONTEXT, {"text": "x"})
        remedies[name] = caught.value.remedy
        assert caught.value.detail == f"'{name}' failed: RuntimeError: broke"

    assert remedies == {
        "write": "it may have changed something all the same: look before calling it again",
        "read": "correct what it names, and call it again",
    }


@pytest.mark.parametrize(
    ("resources", "code"),
    [
        ([{"kind": "query", "system": "x", "identity": "q"}], "RESOURCE_MISMATCH"),
        ([{"kind": "file", "system": "x", "identity": "q", "account_id": "b"}], "ACCOUNT_MISMATCH"),
    ],
)
def test_the_bridge_takes_no_resources_that_do_not_fit_the_tool(
    catalog: Catalog, toolbox: Toolbox, resources: list[dict[str, str]], code: str
):
    toolbox.add("write", account_id="a")
    asked = OperationRequest.model_validate(tool_request("k", "s", "write", {"text": "x"}, resources=resources))

    with pytest.raises(Refusal) as caught:
        catalog.admit(asked)

    assert caught.value.code == code


def test_the_bridge_fails_where_the_store_was_away_and_nothing_was_called(catalog: Catalog, toolbox: Toolbox):
    class Away(NoTools):
        def call(self, name: str, arguments: dict[str, Any], *, account_id: str | None = None) -> Any:
            raise Unavailable(ErrorCode.STORE_UNAVAILABLE, "not now")

    tool = toolbox.add("write")
    request = OperationRequest.model_validate(tool_request("k", "s", "write", {"text": "x"}))
    bridge, typed, _ = catalog.admit(request)
    described = Resource(kind="application_state", system="cowork.tool", identity="write")
    prepared = Prepared(summary="p", versions=(BoundVersion(resource=described, version=tool.digest),))
    context = AdapterContext(
        phase=Phase.EXECUTE, operation_id="op-1", blobs=None, now=utc_now(), timeout_seconds=30, tools=Away()
    )
    order = Order(request=request, resources=(), typed_input=typed, prepared=prepared, generation=1)

    assert bridge.execute(context, order) == Failed(code="STORE_UNAVAILABLE", detail="not now")


def test_a_route_that_changes_nothing_has_nothing_to_cancel(catalog: Catalog):
    with pytest.raises(ValueError, match="changes nothing"):
        scripted(catalog, read_only=True, cancellation=True)


def test_a_tools_time_and_kind_are_pinned_on_the_route(catalog: Catalog):
    tool = Tool(name="slow", input_schema={"type": "object"}, read_only=True, call_timeout_seconds=90)
    catalog.register_tool(tool, lambda context, arguments: None)
    asked = OperationRequest.model_validate(tool_request("k", "s", "slow", {}))

    adapter, typed, _ = catalog.admit(asked)

    route = adapter.route_for(typed)
    assert (route.read_only, route.call_timeout_seconds) == (True, 90)
