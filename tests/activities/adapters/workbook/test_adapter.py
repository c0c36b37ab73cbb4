"""The adapter's promises: what it accepts, what it binds, that it publishes once, and what it can tell afterwards."""

from __future__ import annotations

import hashlib
import io
import json
from typing import Any

import pytest
import xlsxwriter

from counterfoil.activities.adapters.base import Phase
from counterfoil.activities.adapters.catalog import Catalog
from counterfoil.activities.adapters.workbook import adapter as adapters
from counterfoil.activities.adapters.workbook.verify import Report
from counterfoil.models.errors import Refusal
from counterfoil.models.operations.outcomes import Completed, Failed, NotApplied, Prepared, Ready, Verified

EDIT = [
    {"op": "set_cell", "sheet": "Data", "cell": "A1", "value": {"type": "number", "number": 5}},
    {"op": "set_cell", "sheet": "Data", "cell": "B1", "value": {"type": "text", "text": "=A1"}},
]


@pytest.fixture(scope="module")
def book() -> bytes:
    target = io.BytesIO()
    made = xlsxwriter.Workbook(target, {"in_memory": True})
    sheet = made.add_worksheet("Data")
    sheet.write_row(0, 0, [1, "old", True])
    sheet.write_formula("D1", "=A1*2", None, 2)
    made.close()
    return target.getvalue()


def digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def test_the_route_declares_what_the_adapter_can_do(workplace: Any) -> None:
    catalog = Catalog()
    catalog.register(workplace.adapter)
    route = workplace.adapter.route
    assert (route.id, route.adapter, route.adapter_version) == ("local.workbook.edit.v1", "local.workbook.edit", "1")
    assert (route.capabilities, route.replay.kind, route.cancellation) == (("workbook.edit",), "conditional", False)
    assert route.call_timeout_seconds == 60


def test_it_is_ready_where_its_folder_can_be_written(workplace: Any) -> None:
    assert workplace.adapter.readiness(workplace.make_context(phase=Phase.READINESS)) == Ready()
    workplace.root.rmdir()
    assert workplace.adapter.readiness(workplace.make_context(phase=Phase.READINESS)).status == "not_ready"


@pytest.mark.parametrize(
    ("resource", "code"),
    [
        ({"kind": "remote_entity"}, "RESOURCE_MISMATCH"),
        ({"system": "s3"}, "RESOURCE_MISMATCH"),
        ({"identity": "other.xlsx"}, "RESOURCE_MISMATCH"),
        ({"account_id": "acme"}, "ACCOUNT_MISMATCH"),
        ({"tenant_id": "acme"}, "ACCOUNT_MISMATCH"),
        ({"identity": "../book.xlsx"}, "PATH_REFUSED"),
    ],
)
def test_a_resource_that_is_not_the_inputs_workbook_is_refused(
    workplace: Any, resource: dict[str, Any], code: str
) -> None:
    with pytest.raises(Refusal) as caught:
        workplace.adapter.validate_input(workplace.request(EDIT, resource=resource))
    assert caught.value.code == code


def test_another_spelling_of_the_path_is_the_same_workbook(workplace: Any) -> None:
    request = workplace.request(EDIT, "./a/book.xlsx", resource={"identity": "a/book.xlsx", "kind": "native_project"})
    assert workplace.adapter.validate_input(request).path == "a/book.xlsx"


def test_a_path_outside_the_folder_is_refused(workplace: Any) -> None:
    with pytest.raises(Refusal) as caught:
        workplace.adapter.validate_input(workplace.request(EDIT, "../book.xlsx"))
    assert caught.value.code == "PATH_REFUSED"


def test_preparing_writes_nothing_and_binds_what_it_saw(workplace: Any, book: bytes, blobs: Any) -> None:
    _, prepared = workplace.prepare(book, EDIT)
    assert isinstance(prepared, Prepared)
    assert (workplace.root / "book.xlsx").read_bytes() == book
    assert [bound.version for bound in prepared.versions] == [digest(book)]
    assert prepared.preview is not None
    assert prepared.preview.columns == ("Sheet", "Cell", "Before", "After")
    assert prepared.preview.rows == (
        ("Data", "A1", "number 1", "number 5"),
        ("Data", "B1", 'text "old"', 'text "=A1"'),
    )
    assert prepared.summary == "edit book.xlsx: 2 cells; formula results left for the application to compute: 1"
    assert prepared.data["changed_parts"] == ["xl/worksheets/sheet1.xml"]
    assert prepared.material is not None
    assert prepared.material.digest == prepared.data["output_digest"] == digest(blobs.get(prepared.material))
    assert len(json.dumps(prepared.data)) < 8192


def test_preparing_twice_gives_the_same_proposal(workplace: Any, book: bytes) -> None:
    assert workplace.prepare(book, EDIT)[1] == workplace.prepare(book, EDIT)[1]


def test_a_long_preview_is_cut_and_counted(workplace: Any, book: bytes) -> None:
    edits = [EDIT[0] | {"cell": f"F{row}"} for row in range(1, 101)]
    prepared = workplace.prepare(book, edits)[1]
    assert (len(prepared.preview.rows), prepared.preview.omitted_rows) == (40, 60)


def test_a_workbook_other_than_expected_is_not_prepared(workplace: Any, book: bytes) -> None:
    (workplace.root / "book.xlsx").write_bytes(book)
    context = workplace.make_context(phase=Phase.PREPARE)
    for request in (
        workplace.request(EDIT, expected_digest=digest(b"other")),
        workplace.request(EDIT, resource={"version": "v7"}),
    ):
        failed = workplace.adapter.prepare(context, workplace.order(request))
        assert isinstance(failed, Failed)
        assert failed.code == "SOURCE_CHANGED"
    request = workplace.request(EDIT, expected_digest=digest(book), resource={"version": digest(book)})
    assert isinstance(workplace.adapter.prepare(context, workplace.order(request)), Prepared)


def test_a_workbook_that_is_not_there_is_not_prepared(workplace: Any) -> None:
    context = workplace.make_context(phase=Phase.PREPARE)
    failed = workplace.adapter.prepare(context, workplace.order(workplace.request(EDIT)))
    assert failed.code == "FILE_NOT_FOUND"


def test_a_workbook_that_is_too_large_is_not_prepared(
    workplace: Any, book: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapters, "LIMIT_BYTES", 1000)
    assert workplace.refuse(book, EDIT).code == "FILE_TOO_LARGE"


def test_an_edit_the_reader_finds_unfaithful_is_never_offered(
    workplace: Any, book: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = Report(2, 2, 4, 9, (), contradictions=("parts are different (1: xl/media/a.png is missing)",))
    monkeypatch.setattr(adapters, "read_back", lambda *_, **__: report)
    failed = workplace.refuse(book, EDIT)
    assert failed.code == "WORKBOOK_UNSUPPORTED_CONTENT"
    assert "xl/media/a.png is missing" in failed.detail


def test_the_published_bytes_are_exactly_the_prepared_ones(workplace: Any, book: bytes) -> None:
    order = workplace.publish(book, EDIT)
    assert digest((workplace.root / "book.xlsx").read_bytes()) == order.prepared.data["output_digest"]
    assert isinstance(workplace.verify(order), Verified)


def test_a_workbook_changed_since_it_was_prepared_is_left_alone(workplace: Any, book: bytes) -> None:
    order, _ = workplace.prepare(book, EDIT)
    (workplace.root / "book.xlsx").write_bytes(book + b"more")
    failed = workplace.adapter.execute(workplace.make_context(), order)
    assert isinstance(failed, Failed)
    assert failed.code == "SOURCE_CHANGED"
    assert (workplace.root / "book.xlsx").read_bytes() == book + b"more"


def test_an_attempt_that_never_wrote_is_observed_as_not_applied_and_can_no_longer_be(
    workplace: Any, book: bytes
) -> None:
    order, _ = workplace.prepare(book, EDIT)
    seen = workplace.adapter.observe(workplace.make_context(phase=Phase.OBSERVE), order)
    assert isinstance(seen, NotApplied)
    assert isinstance(workplace.adapter.execute(workplace.make_context(), order), Failed)
    assert (workplace.root / "book.xlsx").read_bytes() == book


def test_a_published_attempt_is_observed_as_completed_even_after_somebody_changed_the_file(
    workplace: Any, book: bytes
) -> None:
    order = workplace.publish(book, EDIT)
    context = workplace.make_context(phase=Phase.OBSERVE)
    first = workplace.adapter.observe(context, order)
    assert isinstance(first, Completed)
    assert first.result.data["still_current"] is True
    (workplace.root / "book.xlsx").write_bytes(book)
    second = workplace.adapter.observe(context, order)
    assert isinstance(second, Completed)
    assert second.result.data["still_current"] is False


def test_nothing_is_written_without_a_preparation(workplace: Any, book: bytes) -> None:
    order = workplace.order(workplace.request(EDIT))
    assert workplace.adapter.execute(workplace.make_context(), order).status == "failed"
    assert workplace.adapter.verify(workplace.make_context(), order).status == "unavailable"
