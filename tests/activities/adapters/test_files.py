"""`local.files.v1`: what it accepts, what it shows before it acts, what it does, and what it can prove afterwards."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.activities.adapters.base import AdapterContext, Order, Phase
from counterfoil.activities.adapters.catalog import Catalog
from counterfoil.activities.adapters.files import LocalFiles
from counterfoil.activities.adapters.jail import WorkspaceRoot, normalise_file_resource
from counterfoil.activities.adapters.publication import Publisher
from counterfoil.activities.adapters.text_preview import preview_of, visible
from counterfoil.activities.fault_points import FaultPoint
from counterfoil.models.errors import ErrorCode, Refusal
from counterfoil.models.operations.contract import OperationRequest, Owner, Resource, ResourceKind
from counterfoil.models.operations.outcomes import (
    Completed,
    Contradicted,
    Failed,
    NotApplied,
    NotReady,
    Prepared,
    Ready,
    UnknownEffect,
    Verified,
)


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def request(capability: str, input: dict[str, Any], **resource: Any) -> OperationRequest:
    named = {"kind": ResourceKind.FILE, "system": "file", "identity": input.get("path", "x")} | resource
    return OperationRequest(
        owner=Owner(workspace="w", session="s"),
        idempotency_key="k",
        capability=capability,
        route_id="local.files.v1",
        objective="change a file",
        input=input,
        resources=(Resource(**named),),
    )


class Desk:
    """The adapter on a root, and an operation's steps in their order."""

    def __init__(self, folder: Path, make_context: Callable[..., AdapterContext], make_order: Callable[..., Order]):
        self.root = folder / "root"
        self.root.mkdir()
        self.adapter = LocalFiles(Publisher(WorkspaceRoot(self.root), folder / "state"), WorkspaceRoot(self.root))
        self.make_context = make_context
        self.make_order = make_order

    def write(self, path: str, content: str | bytes) -> None:
        self.root.joinpath(path).write_bytes(content.encode() if isinstance(content, str) else content)

    def read(self, path: str) -> str:
        return self.root.joinpath(path).read_bytes().decode()

    def order(self, capability: str, input: dict[str, Any], **resource: Any) -> Order:
        asked = request(capability, input, **resource)
        return self.make_order(asked, self.adapter.validate_input(asked))

    def prepare(self, capability: str, input: dict[str, Any], **resource: Any) -> tuple[Order, Prepared | Failed]:
        order = self.order(capability, input, **resource)
        return order, self.adapter.prepare(self.make_context(Phase.PREPARE), order)

    def prepared(self, capability: str, generation: int = 1, **input: Any) -> Order:
        order, prepared = self.prepare(capability, input)
        assert isinstance(prepared, Prepared), prepared
        return self.make_order(order.request, order.typed_input, prepared, generation)

    def execute(self, order: Order, **context: Any) -> Completed | Failed | UnknownEffect:
        return self.adapter.execute(self.make_context(Phase.EXECUTE, **context), order)

    def observe(self, order: Order) -> Completed | Failed | NotApplied | UnknownEffect:
        return self.adapter.observe(self.make_context(Phase.OBSERVE), order)

    def verify(self, order: Order) -> Any:
        return self.adapter.verify(self.make_context(Phase.VERIFY), order)


@pytest.fixture
def desk(tmp_path: Path, make_context: Callable[..., AdapterContext], make_order: Callable[..., Order]) -> Desk:
    return Desk(tmp_path, make_context, make_order)


def refused(desk: Desk, asked: OperationRequest) -> Refusal:
    with pytest.raises(Refusal) as caught:
        desk.adapter.validate_input(asked)
    return caught.value


# --- from request to verified evidence


def test_a_file_is_created_and_verified(desk: Desk) -> None:
    order = desk.prepared("file.create", path="notes/a.txt", text="one\ntwo\n")
    assert not (desk.root / "notes").exists(), "preparing writes nothing"
    outcome = desk.execute(order)
    assert isinstance(outcome, Completed)
    assert (outcome.result.kind, outcome.result.summary) == ("file", "file.create wrote notes/a.txt")
    assert desk.read("notes/a.txt") == "one\ntwo\n"
    verdict = desk.verify(order)
    assert isinstance(verdict, Verified)
    assert verdict.evidence.digest == digest(b"one\ntwo\n")
    assert order.dispatched_at is not None
    assert order.dispatched_at <= verdict.evidence.observed_at <= datetime.now(UTC)


def test_a_file_is_replaced_and_verified(desk: Desk) -> None:
    desk.write("a.txt", "old\n")
    order = desk.prepared("file.replace", path="a.txt", text="new\n", expected_digest=digest(b"old\n"))
    assert isinstance(desk.execute(order), Completed)
    assert desk.read("a.txt") == "new\n"
    assert isinstance(desk.verify(order), Verified)


def test_text_is_appended_exactly_as_it_is(desk: Desk) -> None:
    desk.write("a.txt", "one\r\ntwo")
    order = desk.prepared("file.append", path="a.txt", text=" and a half\r\n\tthree 🎈")
    assert isinstance(desk.execute(order), Completed)
    assert desk.read("a.txt") == "one\r\ntwo and a half\r\n\tthree 🎈"
    assert isinstance(desk.verify(order), Verified)


def test_the_same_append_again_appends_once(desk: Desk) -> None:
    desk.write("a.txt", "one\n")
    order = desk.prepared("file.append", path="a.txt", text="two\n")
    first = desk.execute(order)
    assert desk.execute(order) == first
    assert desk.read("a.txt") == "one\ntwo\n"


def test_the_route_passes_the_catalog_with_its_system(desk: Desk) -> None:
    catalog = Catalog()
    catalog.register(desk.adapter)
    catalog.register_system("file", normalise_file_resource)
    asked = request("file.create", {"path": "a//b.txt", "text": ""}, identity="./a/b.txt")
    adapter, typed, resources = catalog.admit(asked)
    assert adapter is desk.adapter
    assert typed.model_dump() == {"path": "a/b.txt", "text": ""}
    assert [resource.identity for resource in resources] == ["a/b.txt"]


# --- what is refused before anything starts


@pytest.mark.parametrize(
    ("capability", "input"),
    [
        ("file.create", {"path": "a.txt"}),
        ("file.create", {"text": "x"}),
        ("file.create", {"path": "a.txt", "text": "x", "expected_digest": digest(b"")}),
        ("file.create", {"path": "a.txt", "text": 7}),
        ("file.create", {"path": 7, "text": "x"}),
        ("file.create", {"path": "a.txt", "text": None}),
        ("file.create", {"path": "a.txt", "text": "x\x00y"}),
        ("file.replace", {"path": "a.txt", "text": "x", "expected_digest": "md5:1"}),
        ("file.append", {"path": "a.txt", "text": "x", "newline": True}),
    ],
    ids=lambda value: ascii(value)[:60],
)
def test_an_ill_formed_input_is_refused(desk: Desk, capability: str, input: dict[str, Any]) -> None:
    assert refused(desk, request(capability, input, identity="a.txt")).code is ErrorCode.INVALID_INPUT


def test_the_refusal_of_an_input_says_where_and_does_not_repeat_the_content(desk: Desk) -> None:
    refusal = refused(desk, request("file.create", {"path": "a.txt", "text": ["secret"], "more\x1b": "secret"}))
    assert "text: " in refusal.detail
    assert "more\\x1b: " in refusal.detail
    assert "secret" not in refusal.detail


@pytest.mark.parametrize("path", ["/etc/passwd", "../a", "a/../../b", "a\x00b", "re\u0301sume", "a\u202eb", "a/", ""])
def test_a_path_that_is_not_plainly_inside_is_refused(desk: Desk, path: str) -> None:
    asked = request("file.create", {"path": path, "text": "x"}, identity="x")
    assert refused(desk, asked).code is ErrorCode.PATH_REFUSED


def test_text_above_the_limit_is_refused_and_at_the_limit_taken(desk: Desk) -> None:
    at_limit = request("file.create", {"path": "a.txt", "text": "é" * (256 * 1024)})
    above = request("file.create", {"path": "a.txt", "text": "é" * (256 * 1024) + "x"})
    desk.adapter.validate_input(at_limit)
    assert refused(desk, above).code is ErrorCode.INPUT_TOO_LARGE


@pytest.mark.parametrize(
    ("resource", "code"),
    [
        ({"identity": "b.txt"}, ErrorCode.RESOURCE_MISMATCH),
        ({"identity": "A.txt"}, ErrorCode.RESOURCE_MISMATCH),
        ({"kind": ResourceKind.QUERY}, ErrorCode.RESOURCE_MISMATCH),
        ({"system": "drive"}, ErrorCode.RESOURCE_MISMATCH),
        ({"account_id": "me"}, ErrorCode.ACCOUNT_MISMATCH),
        ({"tenant_id": "us"}, ErrorCode.ACCOUNT_MISMATCH),
        ({"identity": "../a.txt"}, ErrorCode.PATH_REFUSED),
    ],
)
def test_resources_must_name_the_file_of_the_input(desk: Desk, resource: dict[str, Any], code: ErrorCode) -> None:
    assert refused(desk, request("file.create", {"path": "a.txt", "text": "x"}, **resource)).code is code


@pytest.mark.parametrize("count", [0, 2])
def test_exactly_one_resource_is_named(desk: Desk, count: int) -> None:
    asked = request("file.create", {"path": "a.txt", "text": "x"})
    other = asked.resources[0].model_copy(update={"identity": "b.txt"})
    asked = asked.model_copy(update={"resources": (asked.resources[0], other)[:count]})
    assert refused(desk, asked).code is ErrorCode.RESOURCE_MISMATCH


# --- preparation


def test_preparation_binds_the_version_and_shows_the_changed_lines(desk: Desk) -> None:
    desk.write("a.txt", "one\ntwo\nthree\nfour")
    _, prepared = desk.prepare("file.replace", {"path": "a.txt", "text": "one\nTWO\nfour\nfive\n"})
    assert isinstance(prepared, Prepared)
    assert prepared.summary == "replace a.txt: 18 → 18 bytes"
    assert [bound.version for bound in prepared.versions] == [digest(b"one\ntwo\nthree\nfour")]
    assert prepared.data == {
        "content_digest": digest(b"one\nTWO\nfour\nfive\n"),
        "expected_digest": digest(b"one\ntwo\nthree\nfour"),
    }
    assert prepared.preview is not None
    assert prepared.preview.columns == ("Line", "Change", "Before", "After")
    assert prepared.preview.rows == (
        ("2", "changed", "two", "TWO"),
        ("3", "changed", "three", "four"),
        ("4", "changed", "four ⟨no line end⟩", "five"),
    )


def test_a_new_file_is_bound_to_its_absence(desk: Desk) -> None:
    _, prepared = desk.prepare("file.create", {"path": "a.txt", "text": "x\n"})
    assert isinstance(prepared, Prepared)
    assert [bound.version for bound in prepared.versions] == ["absent"]
    assert prepared.data["expected_digest"] is None
    assert prepared.preview is not None
    assert prepared.preview.rows == (("1", "added", "", "x"),)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"\xff\xfeh\x00i\x00", ErrorCode.NOT_TEXT),
        (b"caf\xe9", ErrorCode.NOT_TEXT),
        (b"a\x00b", ErrorCode.NOT_TEXT),
        (b"x" * (16 * 1024 * 1024 + 1), ErrorCode.FILE_TOO_LARGE),
        (None, ErrorCode.FILE_NOT_FOUND),
    ],
    ids=["utf-16", "latin-1", "nul", "too large", "missing"],
)
@pytest.mark.parametrize("capability", ["file.replace", "file.append"])
def test_only_a_text_file_of_bounded_size_is_changed(
    desk: Desk, capability: str, content: bytes | None, code: ErrorCode
) -> None:
    if content is not None:
        desk.write("a.txt", content)
    _, prepared = desk.prepare(capability, {"path": "a.txt", "text": "x"})
    assert isinstance(prepared, Failed)
    assert prepared.code == code


def test_an_existing_file_is_not_created_again(desk: Desk) -> None:
    desk.write("a.txt", "x")
    _, prepared = desk.prepare("file.create", {"path": "a.txt", "text": "y"})
    assert isinstance(prepared, Failed)
    assert prepared.code == ErrorCode.TARGET_EXISTS


def test_a_file_is_not_created_next_to_its_unicode_twin(desk: Desk) -> None:
    desk.write("re\u0301sume\u0301.txt", "x")
    _, prepared = desk.prepare("file.create", {"path": "r\u00e9sum\u00e9.txt", "text": "y"})
    assert isinstance(prepared, Failed)
    assert prepared.code in (ErrorCode.PATH_REFUSED, ErrorCode.TARGET_EXISTS)


def test_a_request_written_against_another_version_is_refused(desk: Desk) -> None:
    desk.write("a.txt", "now")
    asked = {"path": "a.txt", "text": "y"}
    _, by_input = desk.prepare("file.replace", asked | {"expected_digest": digest(b"then")})
    _, by_resource = desk.prepare("file.append", asked, version=digest(b"then"))
    for prepared in (by_input, by_resource):
        assert isinstance(prepared, Failed)
        assert prepared.code == ErrorCode.SOURCE_CHANGED
    _, prepared = desk.prepare("file.append", asked, version=digest(b"now"))
    assert isinstance(prepared, Prepared)


def test_a_file_behind_a_link_is_refused(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (desk.root / "a.txt").symlink_to(tmp_path / "secret")
    for capability in ("file.create", "file.replace", "file.append"):
        _, prepared = desk.prepare(capability, {"path": "a.txt", "text": "y"})
        assert isinstance(prepared, Failed)
        assert prepared.code == ErrorCode.PATH_REFUSED
    assert (tmp_path / "secret").read_text() == "secret"


# --- execution, observation, verification


def test_a_file_edited_after_preparation_is_left_alone(desk: Desk) -> None:
    desk.write("a.txt", "old\n")
    order = desk.prepared("file.append", path="a.txt", text="more\n")
    desk.write("a.txt", "edited\n")
    outcome = desk.execute(order)
    assert isinstance(outcome, Failed)
    assert outcome.code == ErrorCode.SOURCE_CHANGED
    assert desk.read("a.txt") == "edited\n"
    assert isinstance(desk.observe(order), NotApplied)


def test_an_order_that_was_not_prepared_fails(desk: Desk) -> None:
    assert isinstance(desk.execute(desk.order("file.create", {"path": "a.txt", "text": "x"})), Failed)
    assert list(desk.root.iterdir()) == []


def test_prepared_bytes_that_are_lost_or_spoiled_are_not_written(desk: Desk, tmp_path: Path) -> None:
    order = desk.prepared("file.create", path="a.txt", text="x")
    (blob,) = (tmp_path / "blobs").iterdir()
    blob.write_bytes(b"y")
    spoiled = desk.execute(order)
    blob.unlink()
    lost = desk.execute(order)
    assert [outcome.code for outcome in (spoiled, lost) if isinstance(outcome, Failed)] == [
        ErrorCode.BLOB_CORRUPT,
        ErrorCode.BLOB_MISSING,
    ]
    assert list(desk.root.iterdir()) == []


@pytest.mark.parametrize(
    ("point", "found"), [(FaultPoint.PUBLISH_INTENDED, NotApplied), (FaultPoint.PUBLISH_DONE, Completed)]
)
def test_an_interrupted_execution_is_observed_as_what_it_was(desk: Desk, point: FaultPoint, found: type) -> None:
    def interrupt(reached: FaultPoint) -> None:
        if reached is point:
            raise KeyboardInterrupt

    order = desk.prepared("file.create", path="a.txt", text="x")
    with pytest.raises(KeyboardInterrupt):
        desk.execute(order, checkpoint=interrupt)
    assert isinstance(desk.observe(order), found)
    assert (desk.root / "a.txt").exists() is (found is Completed)


def test_what_was_observed_absent_is_done_once_by_the_next_attempt(desk: Desk) -> None:
    order = desk.prepared("file.create", path="a.txt", text="x")
    assert isinstance(desk.observe(order), NotApplied)
    late = desk.execute(order)
    assert isinstance(late, Failed)
    assert late.code == ErrorCode.FENCED
    again = desk.prepared("file.create", generation=2, path="a.txt", text="x")
    assert isinstance(desk.execute(again), Completed)
    assert desk.read("a.txt") == "x"


def test_an_observation_says_when_the_file_was_changed_since(desk: Desk) -> None:
    order = desk.prepared("file.create", path="a.txt", text="x")
    desk.execute(order)
    desk.write("a.txt", "y")
    finding = desk.observe(order)
    assert isinstance(finding, Completed)
    assert finding.result.summary == "file.create wrote a.txt; it was changed since by somebody else"
    assert finding.result.data["still_current"] is False


@pytest.mark.parametrize("became", ["other", "missing", "link", "folder"])
def test_verification_contradicts_what_the_file_does_not_bear_out(desk: Desk, tmp_path: Path, became: str) -> None:
    order = desk.prepared("file.create", path="a.txt", text="x")
    desk.execute(order)
    file = desk.root / "a.txt"
    file.unlink()
    if became == "other":
        file.write_text("y")
    elif became == "link":
        (tmp_path / "same").write_text("x")
        file.symlink_to(tmp_path / "same")
    elif became == "folder":
        file.mkdir()
    verdict = desk.verify(order)
    assert isinstance(verdict, Contradicted)
    assert verdict.evidence.digest == (digest(b"y") if became == "other" else None)


def test_readiness_looks_at_the_root(desk: Desk, make_context: Callable[..., AdapterContext]) -> None:
    assert isinstance(desk.adapter.readiness(make_context(Phase.READINESS)), Ready)
    desk.root.rmdir()
    assert isinstance(desk.adapter.readiness(make_context(Phase.READINESS)), NotReady)


# --- the preview


def test_a_preview_is_bounded_and_counts_what_it_leaves_out() -> None:
    preview = preview_of("", "".join(f"{number}\n" for number in range(100)))
    assert len(preview.rows) == 40
    assert preview.rows[39] == ("40", "added", "", "39")
    assert preview.omitted_rows == 60


def test_a_preview_of_a_large_file_shows_only_what_changes() -> None:
    lines = [f"line {number}\n" for number in range(200_000)]
    preview = preview_of("".join(lines), "".join(lines) + "the end\n")
    assert preview.rows == (("200001", "added", "", "the end"),)


def test_a_preview_shows_removed_lines_and_a_lost_line_end() -> None:
    assert preview_of("a\nb\nc\n", "a\nc\n").rows == (("2", "removed", "b", ""),)
    assert preview_of("a\n", "a").rows == (("1", "changed", "a", "a ⟨no line end⟩"),)
    assert preview_of("a\r\n", "a\n").rows == (("1", "changed", "a\\r", "a"),)


def test_a_preview_hides_nothing_from_who_decides() -> None:
    assert visible("pay\u202e001$ \x1b[2K\u200b") == "pay\\u202e001$ \\x1b[2K\\u200b"
    assert visible("é日本🎈") == "é日本🎈"
    assert visible("x" * 200) == "x" * 160 + "… (40 more characters)"


@given(st.text(alphabet="ab\n\r"), st.text(alphabet="ab\n\r"))
def test_a_preview_has_rows_exactly_when_the_text_changes(before: str, after: str) -> None:
    preview = preview_of(before, after)
    assert (preview.rows == ()) == (before == after)
