"""What the workbook tests share: an adapter over a folder, a whole run through it, and checks by other libraries."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openpyxl
import pytest
import python_calamine

from counterfoil.activities.adapters.base import AdapterContext, Order, Phase
from counterfoil.activities.adapters.jail import WorkspaceRoot
from counterfoil.activities.adapters.publication import Publisher
from counterfoil.activities.adapters.workbook.adapter import LocalWorkbook
from counterfoil.models.operations.contract import OperationRequest
from counterfoil.models.operations.outcomes import Completed, Failed, Prepared, Verified

PROBE: list[dict[str, Any]] = [
    {"type": "text", "text": "=1+1"},
    {"type": "number", "number": 12.5},
    {"type": "formula", "formula": "=1+2"},
    {"type": "boolean", "boolean": True},
    {"type": "date", "date": "2024-02-29"},
]
"""A text that looks like a formula, a number, a formula, a boolean, a date."""


@dataclass
class Workplace:
    """A root folder, the adapter over it, and the steps of one operation."""

    root: Path
    adapter: LocalWorkbook
    make_context: Callable[..., AdapterContext]
    make_order: Callable[..., Order]

    def request(self, edits: list[dict[str, Any]], path: str = "book.xlsx", **more: Any) -> OperationRequest:
        resource = {"kind": "file", "system": "file", "identity": path} | more.pop("resource", {})
        return OperationRequest.model_validate(
            {
                "owner": {"workspace": "w", "session": "s"},
                "idempotency_key": "k",
                "capability": "workbook.edit",
                "route_id": "local.workbook.edit.v1",
                "objective": "edit a workbook",
                "input": {"path": path, "edits": edits} | more,
                "resources": [resource],
            }
        )

    def order(self, request: OperationRequest, prepared: Prepared | None = None, generation: int = 1) -> Order:
        return self.make_order(request, self.adapter.validate_input(request), prepared, generation)

    def prepare(self, content: bytes, edits: list[dict[str, Any]], path: str = "book.xlsx") -> tuple[Order, Any]:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        request = self.request(edits, path)
        prepared = self.adapter.prepare(self.make_context(phase=Phase.PREPARE), self.order(request))
        return self.order(request, prepared if isinstance(prepared, Prepared) else None), prepared

    def publish(self, content: bytes, edits: list[dict[str, Any]], path: str = "book.xlsx") -> Order:
        order, prepared = self.prepare(content, edits, path)
        assert isinstance(prepared, Prepared), prepared
        outcome = self.adapter.execute(self.make_context(phase=Phase.EXECUTE), order)
        assert isinstance(outcome, Completed), outcome
        return order

    def verify(self, order: Order) -> Any:
        return self.adapter.verify(self.make_context(phase=Phase.VERIFY), order)

    def edit(self, content: bytes, edits: list[dict[str, Any]], path: str = "book.xlsx") -> bytes:
        """The whole way; checks that it was verified, that nothing else changed, and that other libraries agree."""
        order = self.publish(content, edits, path)
        verdict = self.verify(order)
        assert isinstance(verdict, Verified), verdict
        assert order.prepared is not None
        output = (self.root / path).read_bytes()
        check_untouched(content, output, order.prepared)
        assert openpyxl.load_workbook(io.BytesIO(output)).sheetnames
        assert python_calamine.load_workbook(io.BytesIO(output)).sheet_names
        return output

    def refuse(self, content: bytes, edits: list[dict[str, Any]], path: str = "book.xlsx") -> Failed:
        """The refusal of a preparation, after which the file is as it was."""
        _, prepared = self.prepare(content, edits, path)
        assert isinstance(prepared, Failed), prepared
        assert (self.root / path).read_bytes() == content
        return prepared


def check_untouched(source: bytes, output: bytes, prepared: Prepared) -> None:
    """Every part that is not said to have changed is byte for byte what it was, in the same order."""
    before, after = parts_of(source), parts_of(output)
    said = {*prepared.data["changed_parts"], *prepared.data["added_parts"], *prepared.data["removed_parts"]}
    differing = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    assert differing == said
    assert [name for name in before if name in after] == [name for name in after if name in before]


def parts_of(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as container:
        return {name: container.read(name) for name in container.namelist()}


@pytest.fixture
def workplace(
    tmp_path: Path, make_context: Callable[..., AdapterContext], make_order: Callable[..., Order]
) -> Workplace:
    root = tmp_path / "root"
    root.mkdir()
    place = WorkspaceRoot(root)
    adapter = LocalWorkbook(Publisher(place, tmp_path / "state"), place)
    return Workplace(root, adapter, make_context, make_order)


@pytest.fixture
def parts() -> Callable[[bytes], dict[str, bytes]]:
    """The parts of a container by name."""
    return parts_of


@pytest.fixture
def repacked() -> Callable[..., bytes]:
    """`repacked(content, {part: new bytes or None}, …)`: the container with parts replaced, added or left out."""

    def repack(content: bytes, changes: dict[str, bytes | None]) -> bytes:
        merged = parts_of(content) | changes
        target = io.BytesIO()
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as container:
            for name, data in merged.items():
                if data is not None:
                    container.writestr(name, data)
        return target.getvalue()

    return repack


@pytest.fixture
def probe() -> Callable[..., list[dict[str, Any]]]:
    """`probe(sheet)`: edits that set one cell of each type far from everything, and append a row."""

    def edits(sheet: str, column: str = "AZ") -> list[dict[str, Any]]:
        cells = [
            {"op": "set_cell", "sheet": sheet, "cell": f"{column}{row}", "value": value}
            for row, value in enumerate(PROBE, start=2)
        ]
        return [*cells, {"op": "append_row", "sheet": sheet, "values": [PROBE[0], {"type": "empty"}, PROBE[1]]}]

    return edits
