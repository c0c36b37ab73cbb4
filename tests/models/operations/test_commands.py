"""Seals: what they prove and what breaks them; commands without one; and what makes two commands the same."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from counterfoil.models.common import Scope
from counterfoil.models.errors import ErrorCode, Refusal
from counterfoil.models.operations.commands import (
    Cancel,
    CommandName,
    Decide,
    Execute,
    Reconcile,
    ResolveUnknown,
    command_key,
    seal,
    unseal,
)
from counterfoil.models.operations.sealing import Received

KEY = b"a key"
AT = datetime(2026, 7, 1, 12, tzinfo=UTC)
PROPOSAL = "sha256:" + "ab" * 32


def sealed(
    name: str = "cancel",
    command: Any = None,
    *,
    operation_id: str = "op-1",
    scope: Scope = Scope.OPERATE,
    key: bytes = KEY,
) -> dict[str, Any]:
    return seal(
        key,
        operation_id=operation_id,
        name=CommandName(name),
        command=command or Cancel(reason="no"),
        principal="ann",
        scope=scope,
        at=AT,
    )


def opened(payload: Any, name: str = "cancel", *, operation_id: str = "op-1", **options: Any) -> Any:
    values = {"key": KEY, "allow_unsealed": False} | options
    return unseal(Received(name=name, payload=payload), operation_id=operation_id, **values)


def code_of(payload: Any, name: str = "cancel", **options: Any) -> str:
    with pytest.raises(Refusal) as caught:
        opened(payload, name, **options)
    assert caught.value.subject == options.get("operation_id", "op-1")
    assert caught.value.remedy
    return caught.value.code


def test_a_seal_is_the_hmac_of_everything_that_was_said() -> None:
    """Computed with openssl over the canonical JSON."""
    assert sealed() == {
        "command": {"key": None, "reason": "no"},
        "seal": {
            "principal": "ann",
            "scope": "operate",
            "at": "2026-07-01T12:00:00+00:00",
            "mac": "e128fcc9d70b7737c618c5aebc5f0218dd4b6f29030632e420de89a18d12aba3",
        },
    }


def test_a_sealed_command_says_who_gave_it_under_which_scope() -> None:
    command, actor = opened(sealed())

    assert command == Cancel(reason="no")
    assert (actor.principal, actor.authenticated, actor.scope) == ("ann", True, "operate")


JSON = st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.lists(st.integers(), max_size=3)


@settings(max_examples=300, deadline=None)
@given(
    field=st.sampled_from(["proposal_digest", "verdict", "notes", "key", "extra", "principal", "scope", "at", "mac"]),
    value=JSON | st.sampled_from(["decline", "ann ", "admin", "attest", "2026-07-01T12:00:00Z", "0" * 64]),
)
def test_any_change_of_any_field_breaks_the_seal(field: str, value: Any) -> None:
    command = Decide(proposal_digest=PROPOSAL, verdict="approve", notes="fine", key="k")
    payload = sealed("decide", command, scope=Scope.REVIEW)
    part = payload["seal"] if field in payload["seal"] else payload["command"]
    assume(part.get(field, ...) != value)
    part[field] = value

    assert code_of(payload, "decide") == ErrorCode.FORGED_SEAL


@pytest.mark.parametrize("field", ["principal", "scope", "at", "mac"])
def test_a_seal_with_a_part_missing_is_forged(field: str) -> None:
    payload = sealed()
    del payload["seal"][field]

    assert code_of(payload) == ErrorCode.FORGED_SEAL


@settings(max_examples=100, deadline=None)
@given(st.text(min_size=1, max_size=30))
def test_a_seal_cannot_be_moved_to_another_operation(other: str) -> None:
    assume(other != "op-1")

    assert code_of(sealed(), operation_id=other) == ErrorCode.FORGED_SEAL


@pytest.mark.parametrize("name", [name for name in CommandName if name != "cancel"])
def test_a_seal_cannot_be_moved_to_another_command(name: CommandName) -> None:
    assert code_of(sealed(scope=Scope.ADMIN), name) == ErrorCode.FORGED_SEAL


def test_a_seal_of_another_key_is_forged_and_without_a_key_none_can_be_checked() -> None:
    assert code_of(sealed(key=b"another")) == ErrorCode.FORGED_SEAL
    assert code_of(sealed(), key=None, allow_unsealed=True) == ErrorCode.FORGED_SEAL


@pytest.mark.parametrize("payload", [
    {"seal": None},
    {"seal": {}, "command": {"reason": "no"}},
    {"seal": "yes", "command": {"reason": "no"}},
    {"seal": {"principal": "ann", "scope": "operate", "at": "2026-07-01T12:00:00Z", "mac": "0" * 64}},
    {"seal": {"principal": "ann", "scope": "operate", "at": "2026-07-01T12:00:00Z", "mac": "0" * 64},
     "command": {"reason": "\ud800"}},
    {"seal": {"principal": "ann", "scope": "operate", "at": "2026-07-01T12:00:00Z", "mac": "0" * 64},
     "command": {"reason": float("nan")}},
    {"seal": {"principal": "\ud800", "scope": "operate", "at": "2026-07-01T12:00:00Z", "mac": "0" * 64},
     "command": {"reason": "no"}},
])  # fmt: skip
def test_a_forged_seal_is_never_taken_for_no_seal(payload: Any) -> None:
    """Where bare commands are honoured, a bad seal still is not one."""
    assert code_of(payload, allow_unsealed=True) == ErrorCode.FORGED_SEAL


def test_a_seal_over_something_nested_without_end_is_forged() -> None:
    nested: Any = []
    for _ in range(100_000):
        nested = [nested]
    payload = sealed() | {"command": nested}

    assert code_of(payload) == ErrorCode.FORGED_SEAL
    assert code_of(nested, allow_unsealed=True) == ErrorCode.BAD_COMMAND


@pytest.mark.parametrize(
    ("name", "command", "needed"),
    [
        ("decide", Decide(proposal_digest=PROPOSAL, verdict="approve"), "review"),
        ("cancel", Cancel(reason="no"), "operate"),
        (
            "resolve_unknown",
            ResolveUnknown(expected_revision=1, resolution_key="k", status="applied", summary="seen"),
            "attest",
        ),
        ("execute", Execute(), "operate"),
        ("reconcile", Reconcile(), "operate"),
    ],
)
def test_every_command_needs_its_own_scope_or_admin(name: str, command: Any, needed: str) -> None:
    for scope in Scope:
        payload = sealed(name, command, scope=scope)
        if scope in (needed, "admin"):
            assert opened(payload, name)[0] == command
        else:
            assert code_of(payload, name) == ErrorCode.SCOPE_MISSING


def test_a_command_without_a_seal_is_refused_unless_the_settings_allow_it() -> None:
    assert code_of({"reason": "no"}) == ErrorCode.UNAUTHENTICATED

    command, actor = opened({"reason": "no"}, allow_unsealed=True)
    assert command == Cancel(reason="no")
    assert (actor.principal, actor.authenticated) == ("unauthenticated", False)


def test_temporals_own_cancel_is_honoured_without_a_seal() -> None:
    received = Received(name="cancel", payload={"reason": "cancelled in Temporal"}, channel="temporal_cancel")

    command, actor = unseal(received, operation_id="op-1", key=KEY, allow_unsealed=False)

    assert command == Cancel(reason="cancelled in Temporal")
    assert actor.authenticated is False


@pytest.mark.parametrize(
    ("name", "payload", "named"),
    [
        ("cancel", None, "the argument"),
        ("cancel", "no", "the argument"),
        ("cancel", [], "the argument"),
        ("cancel", {}, "reason"),
        ("cancel", {"reason": 5}, "reason"),
        ("cancel", {"reason": "x" * 4001}, "reason"),
        ("cancel", {"reason": "no", "force": True}, "force"),
        ("cancel", {"reason": "\ud800"}, "the argument"),
        ("cancel", {"reason": "a\x00b"}, "reason"),
        ("decide", {"verdict": "approve"}, "proposal_digest"),
        ("decide", {"verdict": "yes", "proposal_digest": PROPOSAL}, "verdict"),
        ("decide", {"verdict": "approve", "proposal_digest": "latest"}, "proposal_digest"),
        (
            "resolve_unknown",
            {"expected_revision": -1, "resolution_key": "k", "status": "applied", "summary": "s"},
            "expected_revision",
        ),
        (
            "resolve_unknown",
            {"expected_revision": 1, "resolution_key": "k", "status": "applied", "summary": ""},
            "summary",
        ),
        (
            "resolve_unknown",
            {"expected_revision": 1, "resolution_key": "k", "status": "perhaps", "summary": "s"},
            "status",
        ),
    ],
)
def test_an_unreadable_command_is_refused_naming_what_is_wrong(name: str, payload: Any, named: str) -> None:
    with pytest.raises(Refusal) as caught:
        opened(payload, name, allow_unsealed=True)

    assert caught.value.code == ErrorCode.BAD_COMMAND
    assert caught.value.detail.startswith(named)
    assert f"'{name}' takes one JSON object with:" in caught.value.remedy


def test_an_unknown_command_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(Refusal) as caught:
        opened({}, "approve", allow_unsealed=True)

    assert caught.value.code == ErrorCode.BAD_COMMAND
    for name in ("decide", "cancel", "resolve_unknown", "prepare", "execute", "reconcile", "repair"):
        assert name in caught.value.remedy


def test_what_was_wrong_on_arrival_is_the_reason_given() -> None:
    received = Received(name="decide", problem="it came with 2 arguments")

    with pytest.raises(Refusal, match="it came with 2 arguments") as caught:
        unseal(received, operation_id="op-1", key=KEY, allow_unsealed=True)
    assert caught.value.code == ErrorCode.BAD_COMMAND


def attest(key: str, summary: str = "seen") -> ResolveUnknown:
    return ResolveUnknown(expected_revision=1, resolution_key=key, status="applied", summary=summary)


def test_a_key_names_one_command_of_one_kind() -> None:
    assert command_key(CommandName.CANCEL, Cancel(reason="a", key="k")) == "cancel:k"
    assert command_key(CommandName.EXECUTE, Execute(key="k")) == "execute:k"
    assert command_key(CommandName.RESOLVE_UNKNOWN, attest("k", "other")) == "resolve_unknown:k"


def test_without_a_key_the_content_is_the_key() -> None:
    first = command_key(CommandName.CANCEL, Cancel(reason="a"))

    assert first == command_key(CommandName.CANCEL, Cancel(reason="a"))
    assert first != command_key(CommandName.CANCEL, Cancel(reason="b"))
    assert first.startswith("cancel:sha256:")


def test_a_seal_made_in_another_time_zone_is_good_too() -> None:
    payload = seal(
        KEY,
        operation_id="op-1",
        name=CommandName.CANCEL,
        command=Cancel(reason="no"),
        principal="ann",
        scope=Scope.OPERATE,
        at=AT.astimezone(timezone(timedelta(hours=5, minutes=30))),
    )

    assert opened(payload)[1].principal == "ann"
