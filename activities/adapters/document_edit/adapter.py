"""The adapter: prepare binds the passages, execute appends one edit under compare-and-set, verify reads it back.

The effect is a row in the document's log, written in the same transaction as the operation's own record of it: whoever
looks later finds both or neither. Typing elsewhere in the document neither voids the approval nor is lost; typing in
an approved passage makes it a placement problem, and nothing is changed.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from pydantic import BaseModel, ValidationError

from counterfoil.activities.adapters.base import AdapterContext, Order
from counterfoil.activities.adapters.document_edit.contract import (
    CAPABILITY,
    DOCUMENT_SYSTEM,
    ROUTE_ID,
    BoundProposal,
    EditDocument,
)
from counterfoil.activities.adapters.document_edit.desk import Applied, DocumentDesk
from counterfoil.models.common import digest_bytes, digest_of, utc_now
from counterfoil.models.documents.boundaries import AllowedRanges
from counterfoil.models.documents.snapshots import ActionSnapshot
from counterfoil.models.errors import CounterfoilError, ErrorCode, Refusal, Unavailable
from counterfoil.models.operations.contract import OperationRequest, Resource, ResourceKind
from counterfoil.models.operations.outcomes import (
    BoundVersion,
    Completed,
    Contradicted,
    Evidence,
    Failed,
    NotApplied,
    NotReady,
    Prepared,
    Ready,
    TypedResult,
    UnknownEffect,
    VerificationUnavailable,
    Verified,
)
from counterfoil.models.operations.route import PreparationSupport, ReplayGuarantee, Route

TRIES = 6
"""How often an edit is worked out anew because somebody typed meanwhile."""


class DocumentEdit:
    """The adapter. Without a desk, as in a client, it only knows what a request must look like."""

    def __init__(self, desk: DocumentDesk | None = None, *, environment: str = "local") -> None:
        self.desk = desk
        self.route = Route(
            id=ROUTE_ID,
            adapter="local.document.edit",
            adapter_version="1",
            capabilities=(CAPABILITY,),
            protocol="yjs",
            control="one log entry under compare-and-set",
            environment=environment,
            readiness=True,
            preparation=PreparationSupport.PURE,
            observation=True,
            verification=True,
            replay=ReplayGuarantee(kind="conditional"),
            call_timeout_seconds=60,
            max_concurrent_calls=4,
        )

    def input_schema(self, capability: str) -> dict[str, Any]:
        """The JSON Schema of the input."""
        return EditDocument.model_json_schema()

    def validate_input(self, request: OperationRequest) -> EditDocument:
        """The typed input. Raises `Refusal`: `INVALID_INPUT`, `RESOURCE_MISMATCH`, `ACCOUNT_MISMATCH`."""
        try:
            edit = EditDocument.model_validate(request.input)
        except ValidationError as error:
            problems = [
                f"{'.'.join(str(part) for part in problem['loc']) or 'input'}: {problem['msg']}"
                for problem in error.errors(include_input=False, include_url=False)
            ]
            raise _refuse(ErrorCode.INVALID_INPUT, "; ".join(problems)[:1000], "correct the input") from error
        _check_resources(request, edit)
        return edit

    def readiness(self, context: AdapterContext) -> Ready | NotReady:
        """Whether this process has the documents."""
        return Ready() if self.desk is not None else NotReady(detail="this process serves no documents")

    def prepare(self, context: AdapterContext, order: Order) -> Prepared | Failed:
        """The passages as they are now, and what becomes of them; bound to their text, not to the document's head."""
        from counterfoil.activities.adapters.document_edit import working

        desk, asked = self._desk(), _edit_of(order)
        try:
            frozen = desk.snapshot(context.operation_id, asked.snapshot_id, asked.receipt_id)
            _check_snapshot(frozen.snapshot, asked)
            proposal, preview = desk.look(asked.document_id, lambda live: working.rehearsed(live, frozen, asked))
        except Unavailable:
            raise
        except CounterfoilError as error:
            return Failed(code=error.code, detail=error.detail[:4000])
        material = context.blobs.put(proposal.model_dump_json().encode(), "application/json")
        return Prepared(
            summary=f"{len(asked.changes)} change{'s' if len(asked.changes) != 1 else ''} to {asked.document_id}",
            preview=preview,
            versions=(BoundVersion(resource=order.resources[0], version=_version(proposal)),),
            material=material,
            data={"snapshot_id": frozen.snapshot.snapshot_id, "document_generation": proposal.generation},
        )

    def execute(self, context: AdapterContext, order: Order) -> Completed | Failed | UnknownEffect:
        """Append the edit, once; worked out anew where somebody typed elsewhere meanwhile."""
        from counterfoil.activities.adapters.document_edit import working

        desk, asked = self._desk(), _edit_of(order)
        proposal = _proposal(context, order)
        for _ in range(TRIES):
            try:
                edit = desk.look(
                    asked.document_id,
                    partial(
                        working.edit_of,
                        proposal=proposal,
                        operation_id=context.operation_id,
                        attempt=order.generation,
                    ),
                )
            except CounterfoilError as error:
                # Nothing was appended yet, whatever it was that could not be read.
                return Failed(code=error.code, detail=error.detail[:4000])
            try:
                applied = desk.edit(edit)
            except Refusal as refusal:
                if refusal.code is ErrorCode.HEAD_MOVED:
                    continue
                return Failed(code=refusal.code, detail=refusal.detail)
            except Unavailable as away:
                return UnknownEffect(code=away.code, detail=away.detail)
            return Completed(result=_result(applied))
        return Failed(
            code=ErrorCode.HEAD_MOVED,
            detail=f"the document changed {TRIES} times while the edit was worked out; nothing was changed",
        )

    def observe(self, context: AdapterContext, order: Order) -> Completed | NotApplied | UnknownEffect:
        """What the document's own records say became of the attempt."""
        asked = _edit_of(order)
        try:
            applied = self._desk().settle(context.operation_id, asked.document_id, order.generation)
        except CounterfoilError as error:
            return UnknownEffect(code=ErrorCode.OBSERVATION_PENDING, detail=error.detail)
        if applied is not None:
            return Completed(result=_result(applied))
        evidence = Evidence(
            source=_source(asked.document_id), observed_at=utc_now(), facts={"ruled_out_up_to": order.generation}
        )
        return NotApplied(detail="the edit is not in the document, and can no longer be made", evidence=evidence)

    def verify(self, context: AdapterContext, order: Order) -> Verified | Contradicted | VerificationUnavailable:
        """Derive the document around the edit again, and prove that the change was made and nothing else."""
        from counterfoil.activities.adapters.document_edit import working

        desk, asked = self._desk(), _edit_of(order)
        try:
            proposal = _proposal(context, order)
            applied = desk.settle(context.operation_id, asked.document_id, 0)
            now = desk.look(asked.document_id, working.now_of)
        except CounterfoilError as error:
            return VerificationUnavailable(detail=error.detail)
        observed_at = utc_now()
        if applied is None:
            facts: dict[str, Any] = {"found": "absent"}
            evidence = Evidence(source=_source(asked.document_id), observed_at=observed_at, facts=facts)
            return Contradicted(evidence=evidence, detail="the document has no record of the edit")
        doubt = working.doubt_of(applied, proposal, now)
        evidence = Evidence(
            source=_source(asked.document_id),
            observed_at=observed_at,
            version=f"{now.head.generation}.{now.head.sequence}",
            digest=applied.after_digest,
            facts={"sequence": applied.sequence, "read_at_sequence": now.head.sequence},
        )
        if doubt is not None:
            return Contradicted(evidence=evidence, detail=doubt)
        return Verified(evidence=evidence, result=_result(applied, now.digest == applied.after_digest))

    def _desk(self) -> DocumentDesk:
        if self.desk is None:
            raise Unavailable(
                ErrorCode.ADAPTER_UNAVAILABLE,
                "this process serves no documents",
                subject=ROUTE_ID,
                remedy="use a worker",
            )
        return self.desk


def _proposal(context: AdapterContext, order: Order) -> BoundProposal:
    if order.prepared is None or order.prepared.material is None:
        raise Refusal(ErrorCode.INTERNAL, "nothing was prepared, so nothing was changed", subject=context.operation_id)
    return BoundProposal.model_validate_json(context.blobs.get(order.prepared.material))


def _version(proposal: BoundProposal) -> str:
    """The target text and the allowed ranges: what must not change, of a document that people go on typing in."""
    return digest_of(
        {
            "generation": proposal.generation,
            "passages": [change.passage_digest for change in proposal.changes],
            "within": None if proposal.within is None else proposal.within.text_digest,
        }
    )


def _check_snapshot(snapshot: ActionSnapshot, asked: EditDocument) -> None:
    if snapshot.document_id != asked.document_id:
        raise _refuse(
            ErrorCode.RESOURCE_MISMATCH, "the snapshot is of another document", "name the document it was taken of"
        )
    if snapshot.allowed == AllowedRanges.nothing():
        raise _refuse(
            ErrorCode.OUTSIDE_ALLOWED_RANGES,
            "the snapshot allows no change",
            "capture one that allows changes to its target",
        )


def _check_resources(request: OperationRequest, edit: EditDocument) -> None:
    named = [(one.kind, one.system, one.identity) for one in request.resources]
    if named != [(ResourceKind.APPLICATION_STATE, DOCUMENT_SYSTEM, edit.document_id)]:
        raise _refuse(
            ErrorCode.RESOURCE_MISMATCH,
            "the resources are not exactly the document that the input changes",
            f"name one resource: kind 'application_state', system '{DOCUMENT_SYSTEM}', the document's id",
        )
    resource: Resource = request.resources[0]
    if resource.account_id is not None or resource.tenant_id is not None:
        raise _refuse(ErrorCode.ACCOUNT_MISMATCH, "documents belong to no account or tenant", "leave them out")


def _result(applied: Applied, still_current: bool | None = None) -> TypedResult:
    return TypedResult(
        kind="document",
        summary=f"{applied.document_id} was changed by its entry {applied.sequence}",
        data={
            "document_id": applied.document_id,
            "generation": applied.document_generation,
            "sequence": applied.sequence,
            "before_digest": applied.before_digest,
            "after_digest": applied.after_digest,
            "update_digest": digest_bytes(applied.update),
        }
        | ({} if still_current is None else {"still_current": still_current}),
    )


def _edit_of(order: Order) -> EditDocument:
    edit: BaseModel = order.typed_input
    assert isinstance(edit, EditDocument)
    return edit


def _source(document_id: str) -> str:
    return f"document:{document_id}"[:200]


def _refuse(code: ErrorCode, detail: str, remedy: str) -> Refusal:
    return Refusal(code, detail, subject=ROUTE_ID, remedy=remedy)
