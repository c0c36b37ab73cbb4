"""`local.workbook.edit.v1`: edits of a workbook file, prepared as exact bytes, published once, read back independently.

Preparing binds the file's digest, keeps a private copy of it, makes the new file and has the independent reader check
it before anybody is asked. Executing publishes those bytes, only while the file is still what was prepared.
"""

from __future__ import annotations

import time
from pathlib import PurePosixPath
from typing import Any

from pydantic import BaseModel

from counterfoil.activities.adapters.base import AdapterContext, Order
from counterfoil.activities.adapters.jail import WorkspaceRoot, normalise_path
from counterfoil.activities.adapters.publication import Publisher
from counterfoil.activities.adapters.publishing import Bound, FilePublishing
from counterfoil.activities.adapters.workbook.contract import WorkbookEdit, parse_input
from counterfoil.activities.adapters.workbook.edit import Change, EditResult, edit_workbook
from counterfoil.activities.adapters.workbook.inspect import inspect
from counterfoil.activities.adapters.workbook.verify import ReaderFailed, Report, read_back
from counterfoil.models.common import BlobRef, digest_bytes, utc_now
from counterfoil.models.errors import CounterfoilError, ErrorCode, Refusal
from counterfoil.models.operations.contract import OperationRequest, Resource, ResourceKind
from counterfoil.models.operations.outcomes import (
    PREVIEW_ROWS,
    BoundVersion,
    Contradicted,
    Evidence,
    Failed,
    Partial,
    Prepared,
    Preview,
    TypedResult,
    VerificationUnavailable,
    Verified,
)
from counterfoil.models.operations.route import PreparationSupport, ReplayGuarantee, Route

ROUTE_ID = "local.workbook.edit.v1"
CAPABILITY = "workbook.edit"
SYSTEM = "file"
LIMIT_BYTES = 64 * 1024 * 1024
_MEDIA_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
_PARTS_LISTED = 20
_MARGIN_SECONDS = 2.0
"""Left of a call's time for what comes after the reader."""


class LocalWorkbook(FilePublishing):
    """The adapter. `publisher` must publish below the same `root`."""

    def __init__(self, publisher: Publisher, root: WorkspaceRoot, *, environment: str = "local") -> None:
        route = Route(
            id=ROUTE_ID,
            adapter="local.workbook.edit",
            adapter_version="1",
            capabilities=(CAPABILITY,),
            protocol="file",
            control="library",
            environment=environment,
            readiness=True,
            preparation=PreparationSupport.PURE,
            observation=True,
            verification=True,
            replay=ReplayGuarantee(kind="conditional"),
            call_timeout_seconds=60,
            max_concurrent_calls=4,
        )
        super().__init__(publisher, root, route)

    def input_schema(self, capability: str) -> dict[str, Any]:
        """The JSON Schema of the input."""
        return WorkbookEdit.model_json_schema()

    def validate_input(self, request: OperationRequest) -> WorkbookEdit:
        """The typed input, its path in the one spelling. Besides the usual codes: `WORKBOOK_EDIT_INVALID`."""
        edit = parse_input(request.input)
        edit = edit.model_copy(update={"path": normalise_path(edit.path)})
        _check_resources(request, edit.path)
        return edit

    def prepare(self, context: AdapterContext, order: Order) -> Prepared | Failed:
        """The exact new file and its before and after, bound to the file as it is now; nothing is written."""
        edit, deadline = _edit_of(order), _deadline(context)
        try:
            source = self._root.read_file(edit.path, LIMIT_BYTES)
            version = digest_bytes(source)
            _check_version(edit, order.resources[0], version)
            result = edit_workbook(inspect(source, PurePosixPath(edit.path).suffix), edit.edits)
            _check_size(result.content)
            report = read_back(source, result.content, edit.edits, timeout_seconds=_left(deadline))
            _check_rehearsal(report)
        except CounterfoilError as error:
            return Failed(code=error.code, detail=error.detail[:4000])
        except ReaderFailed as failure:
            return Failed(
                code=ErrorCode.WORKBOOK_UNSUPPORTED_CONTENT,
                detail=f"the edited workbook could not be read back before it was offered: {failure}",
            )
        snapshot = context.blobs.put(source, _MEDIA_TYPE)
        material = context.blobs.put(result.content, _MEDIA_TYPE)
        return Prepared(
            summary=_summary(edit, result),
            preview=_preview(result.changes),
            versions=(BoundVersion(resource=order.resources[0], version=version),),
            material=material,
            data={
                "source_digest": version,
                "source_blob": snapshot.model_dump(mode="json"),
                "output_digest": material.digest,
                "asked_cells": result.asked_cells,
                "formula_results": "dropped" if result.has_formulas else "none",
                "dropped_results": result.dropped_results,
                "changed_parts": _some(result.changed_parts),
                "added_parts": _some(result.added_parts),
                "removed_parts": _some(result.removed_parts),
                "notes": list(result.notes),
            },
        )

    def verify(
        self, context: AdapterContext, order: Order
    ) -> Verified | Partial | Contradicted | VerificationUnavailable:
        """Read the published file, freshly, and have the independent reader compare it with the snapshot."""
        prepared, edit, deadline = order.prepared, _edit_of(order), _deadline(context)
        if prepared is None:
            return VerificationUnavailable(detail="nothing was prepared to compare the workbook with")
        observed_at = utc_now()
        try:
            output = self._root.read_file(edit.path, LIMIT_BYTES)
        except Refusal as refusal:
            gone = Evidence(source=_source(edit), observed_at=observed_at, facts={"found": refusal.code})
            return Contradicted(evidence=gone, detail=f"the workbook cannot be read: {refusal.detail}")
        except OSError as error:
            return VerificationUnavailable(detail=f"the workbook cannot be read: {error.strerror}")
        try:
            source = context.blobs.get(BlobRef.model_validate(prepared.data["source_blob"]))
            report = read_back(source, output, edit.edits, timeout_seconds=_left(deadline))
        except CounterfoilError as error:
            return VerificationUnavailable(detail=f"the private snapshot cannot be had: {error.detail}")
        except ReaderFailed as failure:
            return VerificationUnavailable(detail=str(failure))
        digest = digest_bytes(output)
        evidence = Evidence(
            source=_source(edit),
            observed_at=observed_at,
            version=digest,
            digest=digest,
            facts=_facts(report, prepared, digest),
        )
        return _verdict(report, evidence, self._published(order, prepared, evidence, still_current=True))

    def _path(self, order: Order) -> str:
        return _edit_of(order).path

    def _bound(self, prepared: Prepared) -> Bound:
        return Bound(prepared.data["output_digest"], prepared.data["source_digest"])

    def _published(self, order: Order, prepared: Prepared, evidence: Evidence, *, still_current: bool) -> TypedResult:
        path = _edit_of(order).path
        written = f"wrote {prepared.data['asked_cells']} cells of {path}"
        return TypedResult(
            kind=CAPABILITY,
            summary=written if still_current else f"{written}; it was changed since by somebody else",
            data={
                "path": path,
                "digest": prepared.data["output_digest"],
                "replaced_digest": prepared.data["source_digest"],
                "asked_cells": prepared.data["asked_cells"],
                "formula_results": prepared.data["formula_results"],
                "still_current": still_current,
                "observed_at": evidence.observed_at.isoformat(),
            },
        )


def _verdict(report: Report, evidence: Evidence, result: TypedResult) -> Verified | Partial | Contradicted:
    if report.unreadable is not None:
        return Contradicted(evidence=evidence, detail=f"the file is no sound workbook: {report.unreadable}")
    if report.contradictions:
        return Contradicted(evidence=evidence, detail="; ".join(report.contradictions)[:4000])
    if report.held == report.asked:
        return Verified(evidence=evidence, result=result)
    detail = f"{report.held} of {report.asked} asked cells hold what was asked; not: {', '.join(report.missing)}"[:4000]
    if report.held == 0:
        return Contradicted(evidence=evidence, detail=detail)
    return Partial(evidence=evidence, detail=detail)


def _facts(report: Report, prepared: Prepared, digest: str) -> dict[str, object]:
    return {
        "reader": "python-calamine and own XML reading, in a separate process",
        "is_the_prepared_file": digest == prepared.data["output_digest"],
        "asked_cells": report.asked,
        "asked_cells_held": report.held,
        "cells_checked": report.cells_checked,
        "parts_unchanged": report.parts_unchanged,
        "dropped_results": prepared.data["dropped_results"],
        "notes": prepared.data["notes"],
    } | report.facts


def _check_resources(request: OperationRequest, path: str) -> None:
    if len(request.resources) != 1:
        raise _refuse(
            ErrorCode.RESOURCE_MISMATCH,
            f"the request names {len(request.resources)} resources; it changes one workbook",
            "name exactly the workbook of the input",
        )
    resource = request.resources[0]
    if resource.kind not in (ResourceKind.FILE, ResourceKind.NATIVE_PROJECT) or resource.system != SYSTEM:
        raise _refuse(
            ErrorCode.RESOURCE_MISMATCH,
            f"the resource is a {resource.kind} of '{resource.system}', not a file",
            f"name the resource with kind 'file' or 'native_project' and system '{SYSTEM}'",
        )
    if normalise_path(resource.identity) != path:
        raise _refuse(
            ErrorCode.RESOURCE_MISMATCH,
            f"the resource is '{resource.identity}', the input changes '{path}'",
            "name the same workbook in both",
        )
    if resource.account_id is not None or resource.tenant_id is not None:
        raise _refuse(ErrorCode.ACCOUNT_MISMATCH, "local files belong to no account or tenant", "leave them out")


def _check_version(edit: WorkbookEdit, resource: Resource, version: str) -> None:
    stale = {resource.version, edit.expected_digest} - {None, version}
    if stale:
        raise _refuse(
            ErrorCode.SOURCE_CHANGED,
            f"the workbook is {version}, the request was written against {', '.join(sorted(map(str, stale)))}",
            "look at the workbook and ask again",
        )


def _check_size(content: bytes) -> None:
    if len(content) > LIMIT_BYTES:
        raise _refuse(
            ErrorCode.FILE_TOO_LARGE,
            f"the edited workbook would have {len(content)} bytes; at most {LIMIT_BYTES} are written",
            "make the edit smaller",
        )


def _check_rehearsal(report: Report) -> None:
    if not report.is_complete:
        found = report.unreadable or "; ".join(report.contradictions) or f"not as asked: {', '.join(report.missing)}"
        raise _refuse(
            ErrorCode.WORKBOOK_UNSUPPORTED_CONTENT,
            f"the edit would not leave the rest of this workbook as it is: {found}",
            "make this change in the application",
        )


def _edit_of(order: Order) -> WorkbookEdit:
    edit: BaseModel = order.typed_input
    assert isinstance(edit, WorkbookEdit)
    return edit


def _source(edit: WorkbookEdit) -> str:
    return f"file:{edit.path}"[:200]


def _deadline(context: AdapterContext) -> float:
    return time.monotonic() + context.timeout_seconds - _MARGIN_SECONDS


def _left(deadline: float) -> float:
    return max(0.5, deadline - time.monotonic())


def _summary(edit: WorkbookEdit, result: EditResult) -> str:
    sheets = sum(1 for change in result.changes if not change.cell)
    pieces = [f"{result.asked_cells} cell{'s' if result.asked_cells != 1 else ''}"] if result.asked_cells else []
    pieces += [f"{sheets} sheet{'s' if sheets != 1 else ''}"] if sheets else []
    text = f"edit {edit.path}: {' and '.join(pieces) or 'nothing'}"
    if result.dropped_results:
        text += f"; formula results left for the application to compute: {result.dropped_results}"
    return text


def _preview(changes: tuple[Change, ...]) -> Preview:
    rows = tuple((change.sheet, change.cell, change.before, change.after) for change in changes[:PREVIEW_ROWS])
    return Preview(
        columns=("Sheet", "Cell", "Before", "After"), rows=rows, omitted_rows=max(0, len(changes) - PREVIEW_ROWS)
    )


def _some(parts: tuple[str, ...]) -> list[str]:
    listed = [part[:80] for part in parts[:_PARTS_LISTED]]
    return listed if len(parts) <= _PARTS_LISTED else [*listed, f"and {len(parts) - _PARTS_LISTED} more"]


def _refuse(code: ErrorCode, detail: str, remedy: str) -> Refusal:
    return Refusal(code, detail, subject=ROUTE_ID, remedy=remedy)
