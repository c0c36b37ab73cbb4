"""Creating an operation: the claim on (session, idempotency key), decided once, in one transaction."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from counterfoil.activities.adapters.catalog import Catalog, promised
from counterfoil.activities.fault_points import Checkpoint, FaultPoint
from counterfoil.activities.operations import dependencies, guards, permissions
from counterfoil.activities.operations.inputs import offloaded, whole_argument
from counterfoil.activities.operations.rows import RESOURCES, go_on, move, record
from counterfoil.activities.operations.supersession import replaceable, supersede
from counterfoil.activities.store.blobs import BlobStore
from counterfoil.activities.store.ledger import Entry
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.common import SYSTEM, Actor, BlobRef
from counterfoil.models.errors import ErrorCode, Refusal, what_is_wrong
from counterfoil.models.operations import rules
from counterfoil.models.operations.contract import (
    INPUT_LIMIT_BYTES,
    OnCreate,
    OperationRequest,
    Resource,
)
from counterfoil.models.operations.lifecycle import Cancellation, Event, State, Verification
from counterfoil.models.operations.route import PreparationSupport, Route
from counterfoil.models.tables import OperationRow

QueueOf = Callable[[Route], str]
"""Names the task queue where a route's adapter activities run."""

Kept = tuple[OperationRequest, BlobRef | None]
"""A request as its row keeps it, and the blob its input stands in where it is large."""

RAW_LIMIT_BYTES = 2 * INPUT_LIMIT_BYTES


def parse_request(raw: Any) -> OperationRequest:
    """A request as anyone may have sent it, or `Refusal` (`BAD_REQUEST`, `INPUT_TOO_LARGE`) saying what is wrong."""
    if isinstance(raw, OperationRequest):
        return raw
    try:
        text = json.dumps(raw)
        if len(text) > RAW_LIMIT_BYTES:
            raise Refusal(
                ErrorCode.INPUT_TOO_LARGE,
                f"the request has {len(text)} bytes, the limit is {INPUT_LIMIT_BYTES}",
                remedy="put the content into a file or a blob, and name it in the input",
            )
        return OperationRequest.model_validate_json(text)
    except ValidationError as error:
        raise Refusal(
            ErrorCode.BAD_REQUEST,
            what_is_wrong(error, "request"),
            remedy="send one OperationRequest; docs/operations.md lists its fields",
        ) from None
    except (TypeError, ValueError, RecursionError) as error:
        raise Refusal(
            ErrorCode.BAD_REQUEST, f"the request is not JSON: {error}"[:300], remedy="send one OperationRequest"
        ) from None


def conflict(operation_id: str) -> Refusal:
    """The same key with another request."""
    return Refusal(
        ErrorCode.IDEMPOTENCY_CONFLICT,
        "this session used the idempotency key already, for another request or route",
        subject=operation_id,
        remedy="use a new key for a new change; repeat exactly the first request to get its operation",
    )


class Creator:
    """Turns an admitted request into a row."""

    def __init__(self, catalog: Catalog, blobs: BlobStore, queue_of: QueueOf, checkpoint: Checkpoint) -> None:
        self._catalog = catalog
        self._blobs = blobs
        self._queue_of = queue_of
        self._checkpoint = checkpoint

    def offload(self, request: OperationRequest) -> Kept:
        """The request as a row keeps it: a large input moves to a blob. Blocking; done before the transaction."""
        return offloaded(request, self._blobs)

    def read(self, argument: Any) -> tuple[OperationRequest, Kept]:
        """The request a workflow was started with, in whichever form, whole and as a row keeps it. Blocking."""
        request = parse_request(whole_argument(argument, self._blobs))
        return request, self.offload(request)

    async def claim(self, work: UnitOfWork, request: OperationRequest, kept: Kept) -> OperationRow:
        """The one operation of this request's claim: the existing one, or a new one.

        Raises `Refusal`: `IDEMPOTENCY_CONFLICT`, or whatever is wrong with the request. Nothing is written then.
        """
        existing = await work.session.get(OperationRow, request.operation_id, lock=True)
        if existing is not None:
            if existing.request_digest != request.digest:
                raise conflict(request.operation_id)
            return existing
        route, resources = self.admit(request, work)
        await permissions.require_creatable(work, self._catalog, request)
        replaced, awaits = await refuse_by_others(work, request)
        row = self._new_row(work, request, kept, route, resources)
        work.session.add(row)
        record(
            work,
            row,
            Entry(kind="created", summary=f"{request.capability} by {route.id}", data={"to": row.state}),
        )
        dependencies.enter(work, row.id, awaits)
        if replaced is not None:
            await supersede(work, replaced, row)
        if request.on_create is not OnCreate.HOLD:
            await start(work, row, route)
        self._checkpoint(FaultPoint.OPEN_BEFORE_COMMIT)
        return row

    def admit(self, request: OperationRequest, work: UnitOfWork) -> tuple[Route, tuple[Resource, ...]]:
        """The route and the normalised resources of a request that may be created now."""
        rules.refuse_oversized(request)
        rules.refuse_past_deadline(request, work.now)
        adapter, typed, resources = self._catalog.admit(request)
        route = promised(adapter, typed)
        rules.refuse_repeated_resources(request, resources)
        rules.refuse_foreground_route(request, route)
        rules.refuse_unaffordable(request, route)
        return route, resources

    def _new_row(
        self,
        work: UnitOfWork,
        request: OperationRequest,
        kept: Kept,
        route: Route,
        resources: tuple[Resource, ...],
    ) -> OperationRow:
        inline, blob = kept
        return OperationRow(
            id=request.operation_id,
            schema_version=request.schema_version,
            workspace=request.owner.workspace,
            session=request.owner.session,
            turn=request.owner.turn,
            epoch=request.owner.epoch,
            idempotency_key=request.idempotency_key,
            request_digest=request.digest,
            request=inline.model_dump_json(),
            input_blob=None if blob is None else blob.model_dump_json(),
            resources=RESOURCES.dump_json(resources).decode(),
            capability=request.capability,
            route_id=route.id,
            route=route.model_dump_json(),
            task_queue=self._queue_of(route),
            intent=request.on_create,
            state=State.HELD,
            verification=Verification.PENDING if route.verification else Verification.UNAVAILABLE,
            cancellation=Cancellation.NONE,
            polls_limit=request.constraints.max_polls,
            deadline=request.constraints.deadline,
            created_at=work.now,
            updated_at=work.now,
        )


async def refuse_by_others(work: UnitOfWork, request: OperationRequest) -> tuple[OperationRow | None, dict[str, str]]:
    """What a new request replaces, and what it waits for, of that which is there already.

    Raises `Refusal` where its owner was cancelled, or it cannot replace, depend on or assume what it names.
    """
    await guards.refuse_owner(work, request.owner)
    await guards.refuse_assumptions(work, request)
    return await replaceable(work, request), await dependencies.found(work, request)


async def start(work: UnitOfWork, row: OperationRow, route: Route, *, actor: Actor = SYSTEM) -> None:
    """Take a held row on: into preparation where its route prepares, else as far as its intent and decision allow."""
    if row.state == State.HELD and route.preparation is not PreparationSupport.NONE:
        await move(work, row, Event.PREPARE, "preparation begins", actor=actor)
    elif row.state == State.HELD and row.intent != OnCreate.EXECUTE:
        await move(work, row, Event.PREPARE, "nothing to prepare on this route", actor=actor)
        await go_on(work, row, "the request itself is the proposal", actor=actor)
    else:
        await go_on(work, row, "ready to go on", actor=actor)
