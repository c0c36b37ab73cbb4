"""The adapter: prepare binds the passages, execute appends one edit under compare-and-set, verify reads it back.

The effect is a row in the document's log, written in the same transaction as the operation's own record of it: whoever
looks later finds both or neither. Typing elsewhere in the document neither voids the approval nor is lost; typing in
an approved passage makes it a placement problem, and nothing is changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pycrdt import Doc
from pydantic import BaseModel, ValidationError

from counterfoil.activities.adapters.base import AdapterContext, Order
from counterfoil.activities.adapters.document_edit.contract import (
    CAPABILITY,
    DOCUMENT_SYSTEM,
    ROUTE_ID,
    BoundProposal,
    EditDocument,
)
from counterfoil.activities.adapters.document_edit.desk import Applied, DocumentDesk, Edit, LiveDocument
from counterfoil.activities.adapters.document_edit.placing import Passage, bind, located, spliced, work_out
from counterfoil.models.common import digest_bytes, digest_of, utc_now
from counterfoil.models.documents.boundaries import AllowedRanges
from counterfoil.models.documents.heads import Head
from counterfoil.models.documents.markdown.parsing import parse
from counterfoil.models.documents.markdown.projection import Projection, project
from counterfoil.models.documents.snapshots import ActionSnapshot
from counterfoil.models.documents.targets import DocumentTarget
from counterfoil.models.documents.text import DocumentText
from counterfoil.models.documents.yjs.index import DocumentIndex
from counterfoil.models.documents.yjs.update import covers, decode_state_vector
from counterfoil.models.errors import CounterfoilError, ErrorCode, Refusal, Unavailable
from counterfoil.models.operations.contract import OperationRequest, Resource, ResourceKind
from counterfoil.models.operations.outcomes import (
    PREVIEW_ROWS,
    BoundVersion,
    Completed,
    Contradicted,
    Evidence,
    Failed,
    NotApplied,
    NotReady,
    Prepared,
    Preview,
    Ready,
    TypedResult,
    UnknownEffect,
    VerificationUnavailable,
    Verified,
)
from counterfoil.models.operations.route import PreparationSupport, ReplayGuarantee, Route

TRIES = 6
"""How often an edit is worked out anew because somebody typed meanwhile."""
_SHOWN = 2000


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
        desk, asked = self._desk(), _edit_of(order)
        try:
            snapshot = desk.snapshot(asked.snapshot_id, asked.receipt_id)
            _check_snapshot(snapshot, asked)
            proposal, preview = desk.look(asked.document_id, lambda live: _rehearsed(live, snapshot, asked))
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
            data={"snapshot_id": snapshot.snapshot_id, "document_generation": proposal.generation},
        )

    def execute(self, context: AdapterContext, order: Order) -> Completed | Failed | UnknownEffect:
        """Append the edit, once; worked out anew where somebody typed elsewhere meanwhile."""
        desk, asked = self._desk(), _edit_of(order)
        proposal = _proposal(context, order)
        for _ in range(TRIES):
            try:
                edit = desk.look(asked.document_id, lambda live: _edit(context, order, live, proposal))
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
        desk, asked = self._desk(), _edit_of(order)
        try:
            proposal = _proposal(context, order)
            applied = desk.settle(context.operation_id, asked.document_id, 0)
            now = desk.look(asked.document_id, _now)
        except CounterfoilError as error:
            return VerificationUnavailable(detail=error.detail)
        observed_at = utc_now()
        if applied is None:
            facts: dict[str, Any] = {"found": "absent"}
            evidence = Evidence(source=_source(asked.document_id), observed_at=observed_at, facts=facts)
            return Contradicted(evidence=evidence, detail="the document has no record of the edit")
        doubt = _doubt(applied, proposal, now)
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


@dataclass(frozen=True)
class _Now:
    """What a verification needs of the live document."""

    head: Head
    state_vector: dict[int, int]
    digest: str


def _now(live: LiveDocument) -> _Now:
    return _Now(live.head, live.index.state_vector, live.projection.digest)


def _rehearsed(live: LiveDocument, snapshot: ActionSnapshot, asked: EditDocument) -> tuple[BoundProposal, Preview]:
    """The proposal bound to its passages, after it was seen that the edit can be made."""
    proposal = bind(live, snapshot.snapshot_id, _bounds(snapshot), asked.changes)
    passages = located(live, proposal)
    work_out(live, passages)
    return proposal, _preview(live.projection, passages)


def _edit(context: AdapterContext, order: Order, live: LiveDocument, proposal: BoundProposal) -> Edit:
    worked_out = work_out(live, located(live, proposal))
    return Edit(
        operation_id=context.operation_id,
        generation=order.generation,
        document_id=live.document_id,
        expected=live.head,
        update=worked_out.update,
        before=live.update,
        before_digest=live.projection.digest,
        after_digest=worked_out.projection.digest,
    )


def _doubt(applied: Applied, proposal: BoundProposal, now: _Now) -> str | None:
    """What speaks against the edit's having been made as approved, derived from the stored bytes alone."""
    index = DocumentIndex.build(applied.before)
    before = project(index.document())
    at_the_time = LiveDocument(
        document_id=applied.document_id,
        head=Head(generation=applied.document_generation, sequence=applied.sequence - 1),
        update=applied.before,
        index=index,
        text=DocumentText.of(index.document()),
        projection=before,
    )
    try:
        passages = located(at_the_time, proposal)
    except Refusal as refusal:
        return f"the document before the edit is not what was approved: {refusal.detail}"
    doc: Doc[Any] = Doc()
    doc.apply_update(applied.before)
    doc.apply_update(applied.update)
    after = project(DocumentIndex.build(doc.get_update()).document())
    if after.markdown != project(parse(spliced(before.markdown, passages))).markdown:
        return "the document after the edit does not read as the approved change says"
    edited = decode_state_vector(doc.get_state())
    if now.head.generation == applied.document_generation and not covers(now.state_vector, edited):
        return "the document has lost the edit"
    return None


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


def _bounds(snapshot: ActionSnapshot) -> DocumentTarget | None:
    return None if snapshot.target is None or snapshot.allowed.whole else snapshot.target.target


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


def _preview(projection: Projection, passages: list[Passage]) -> Preview:
    rows = [
        (_shortened(projection.markdown[one.start : one.end]), _shortened(one.replacement))
        for one in sorted(passages, key=lambda passage: passage.start)
    ]
    return Preview(
        columns=("passage", "becomes"),
        rows=tuple(rows[:PREVIEW_ROWS]),
        omitted_rows=max(len(rows) - PREVIEW_ROWS, 0),
    )


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN // 2]} … {text[-_SHOWN // 2 :]}"


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
