"""The rule that says whether a tool may be called, in full: every origin, permission, kind of tool and circumstance."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from counterfoil.models.operations.tools import Origin, Permission, Tool, refused_call, standing_permission

READS = Tool(name="read", input_schema={"type": "object"}, read_only=True)
WRITES = Tool(name="write", input_schema={"type": "object"}, read_only=False)

CASES = [
    # origin, changes something, permission, approved, an effect is unknown -> what is refused
    *[
        (o, w, "deny", a, u, "TOOL_DENIED")
        for o, w, a, u in product(Origin, (False, True), (False, True), (False, True))
    ],
    *[("look", True, p, a, u, "TOOL_MUTATES") for p, a, u in product(("allow", "ask"), (False, True), (False, True))],
    *[("look", False, "allow", a, u, None) for a, u in product((False, True), (False, True))],
    *[("look", False, "ask", False, u, "TOOL_NEEDS_DECISION") for u in (False, True)],
    *[("look", False, "ask", True, u, None) for u in (False, True)],
    *[("act", w, "allow", a, u, None) for w, a, u in product((False, True), (False, True), (False, True))],
    *[("act", w, "ask", False, u, "TOOL_NEEDS_DECISION") for w, u in product((False, True), (False, True))],
    *[("act", w, "ask", True, u, None) for w, u in product((False, True), (False, True))],
    *[("direct", False, "allow", a, u, None) for a, u in product((False, True), (False, True))],
    *[("direct", True, "allow", a, False, None) for a in (False, True)],
    *[("direct", True, "allow", a, True, "UNKNOWN_EFFECT_OPEN") for a in (False, True)],
    *[
        ("direct", w, "ask", a, u, "TOOL_NEEDS_DECISION")
        for w, a, u in product((False, True), (False, True), (False, True))
    ],
]


@pytest.mark.parametrize(("origin", "changes", "permission", "approved", "unknown", "code"), CASES)
def test_a_call_is_refused_for_exactly_this_reason(
    origin: str, changes: bool, permission: str, approved: bool, unknown: bool, code: str | None
):
    refusal = refused_call(
        WRITES if changes else READS,
        origin=Origin(origin),
        permission=Permission(permission),
        approved=approved,
        unknown_effects=["op-1"] if unknown else [],
    )

    assert (None if refusal is None else refusal.code.value) == code


def test_the_table_above_has_every_case_once():
    asked = [case[:5] for case in CASES]

    assert len(asked) == len(set(asked)) == 3 * 2 * 3 * 2 * 2


@given(
    st.sampled_from(Origin),
    st.sampled_from([READS, WRITES]),
    st.sampled_from(Permission),
    st.booleans(),
    st.lists(st.sampled_from(["op-1", "op-2"])),
)
def test_asking_for_more_never_gets_more(origin, tool, permission, approved, unknown):
    stricter = {"allow": "ask", "ask": "deny", "deny": "deny"}[permission.value]
    may = refused_call(tool, origin=origin, permission=permission, approved=approved, unknown_effects=unknown) is None
    under = {"origin": origin, "approved": approved, "unknown_effects": unknown}

    if not may:
        assert refused_call(tool, permission=Permission(stricter), **under) is not None
        assert refused_call(WRITES, permission=permission, **under) is not None
        assert refused_call(tool, permission=permission, **(under | {"approved": False})) is not None


@pytest.mark.parametrize(
    ("default", "said", "stands"),
    [
        ("allow", [], "allow"),
        ("deny", [], "deny"),
        ("ask", ["allow"], "allow"),
        ("deny", ["allow"], "allow"),
        ("allow", ["ask"], "ask"),
        ("allow", ["allow", "deny"], "deny"),
        ("allow", ["ask", "deny"], "deny"),
        ("deny", ["ask", "allow"], "ask"),
    ],
)
def test_the_strictest_of_what_was_said_stands_and_else_the_default(default: str, said: list[str], stands: str):
    tool = READS.model_copy(update={"permission": Permission(default)})

    assert standing_permission(tool, map(Permission, said)) == stands


def test_a_tool_that_nothing_is_said_of_needs_a_decision():
    assert (READS.permission, WRITES.permission) == ("ask", "ask")


@pytest.mark.parametrize(
    "wrong", [{"name": "a\nb"}, {"name": ""}, {"call_timeout_seconds": 0.5}, {"call_timeout_seconds": 121}, {"x": 1}]
)
def test_a_tool_that_cannot_be_one_is_refused(wrong: dict):
    with pytest.raises(ValidationError):
        Tool.model_validate({"name": "t", "input_schema": {}, "read_only": True} | wrong)


def test_everything_one_may_have_relied_on_is_in_a_tools_digest():
    changes = [
        {"description": "other"},
        {"read_only": False},
        {"account_id": "a"},
        {"input_schema": {"type": "object", "required": ["x"]}},
    ]

    assert len({READS.digest, *(READS.model_copy(update=change).digest for change in changes)}) == 5
