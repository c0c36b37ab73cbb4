"""A stranger's adapter, as one might write it: parcels that the desk's courier takes, delivers later, or stops.

At most once by a condition the courier checks: it knows an operation by its id, and refuses an attempt that an observer
has ruled out. Registered as `counterfoil.worker.faults.courier:register`; `FAULTS_DESK` says where the desk is.
"""

from __future__ import annotations

import http.client
import json
import os
from typing import Any

from pydantic import BaseModel

from counterfoil import (
    AdapterContext,
    Cancelled,
    CancelTooLate,
    Catalog,
    Completed,
    Contradicted,
    Evidence,
    Failed,
    NotApplied,
    OperationRequest,
    Order,
    ReplayGuarantee,
    Route,
    Running,
    TypedResult,
    Verified,
)

ROUTE_ID = "courier.v1"
DESK = "FAULTS_DESK"
CALL_SECONDS = 2.0
ROUTE = Route(
    id=ROUTE_ID,
    adapter="courier",
    adapter_version="1",
    capabilities=("parcel.post",),
    protocol="http",
    control="condition and fence",
    observation=True,
    cancellation=True,
    verification=True,
    replay=ReplayGuarantee(kind="conditional"),
    call_timeout_seconds=CALL_SECONDS,
    max_concurrent_calls=32,
)


class Parcel(BaseModel):
    """`seconds`: how long it is on its way; below zero, for ever."""

    value: str
    seconds: float = 0


class Courier:
    """Posts parcels."""

    def __init__(self, version: str = "1") -> None:
        self.route = ROUTE.model_copy(update={"adapter_version": version})

    def validate_input(self, request: OperationRequest) -> Parcel:
        return Parcel.model_validate(request.input)

    def execute(self, context: AdapterContext, order: Order) -> Completed | Running | Failed:
        parcel = parcel_of(order)
        locker = order.resources[0].identity
        sent = {"generation": order.generation, "locker": locker, **parcel.model_dump()}
        status, answer = self._call(context, "PUT", f"/courier/{context.operation_id}", sent)
        if status in (409, 422):
            return Failed(code="REFUSED", detail=f"the courier refused it: {answer}")
        return self._standing(context, status, answer)

    def observe(self, context: AdapterContext, order: Order) -> Completed | Running | NotApplied | Cancelled:
        path = f"/courier/{context.operation_id}/fence"
        status, answer = self._call(context, "POST", path, {"generation": order.generation})
        match answer.get("status"):
            case "absent":
                return NotApplied(detail="the courier has no such parcel, and takes none", evidence=evidence(context))
            case "stopped":
                return Cancelled(detail="stopped on its way", evidence=evidence(context))
        return self._standing(context, status, answer)

    def cancel(self, context: AdapterContext, order: Order) -> Cancelled | CancelTooLate:
        _, answer = self._call(context, "DELETE", f"/courier/{context.operation_id}")
        if answer.get("status") == "stopped":
            return Cancelled(detail="stopped on its way", evidence=evidence(context))
        if answer.get("status") == "delivered":
            return CancelTooLate(detail="it was delivered already")
        raise ValueError(f"the courier said {answer}")

    def verify(self, context: AdapterContext, order: Order) -> Verified | Contradicted:
        _, answer = self._call(context, "GET", f"/courier/{context.operation_id}")
        if answer == {"status": "delivered", "value": parcel_of(order).value}:
            return Verified(evidence=evidence(context))
        return Contradicted(evidence=evidence(context), detail=f"the courier has {answer}")

    def _standing(self, context: AdapterContext, status: int, answer: dict[str, Any]) -> Completed | Running:
        match answer.get("status"):
            case "delivered" if status == 200:
                return Completed(result=TypedResult(kind="parcel", summary="delivered"))
            case "running" if status == 200:
                return Running(external_id=context.operation_id, poll_after_seconds=0.3)
        raise ValueError(f"the courier said {status} {answer}")

    @staticmethod
    def _call(context: AdapterContext, method: str, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
        connection = http.client.HTTPConnection(os.environ[DESK], timeout=context.timeout_seconds)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            reply = connection.getresponse()
            return reply.status, json.loads(reply.read())
        finally:
            connection.close()


def parcel_of(order: Order) -> Parcel:
    parcel = order.typed_input
    assert isinstance(parcel, Parcel)
    return parcel


def evidence(context: AdapterContext) -> Evidence:
    return Evidence(source="courier", observed_at=context.now)


def register(catalog: Catalog) -> None:
    catalog.register(Courier())


def register_next(catalog: Catalog) -> None:
    """The same adapter, one version later."""
    catalog.register(Courier("2"))
