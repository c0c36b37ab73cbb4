"""An adapter whose target takes its time and can be told to stop. Registered as `support.parcels:register`.

The target is a folder of files, one line appended for each thing it was told: the oracle of what was sent to it.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel

from counterfoil.activities.adapters.base import AdapterContext, Order
from counterfoil.activities.adapters.catalog import Catalog
from counterfoil.models.common import utc_now
from counterfoil.models.operations.contract import OperationRequest
from counterfoil.models.operations.outcomes import (
    Cancelled,
    CancelOutcome,
    Completed,
    Evidence,
    Observation,
    Outcome,
    Running,
    TypedResult,
)
from counterfoil.models.operations.route import Route


class Parcel(BaseModel):
    """`log` is what the carrier was told; `delivered` exists once the parcel has arrived.

    Once `delivered` with the suffix `.refused` exists, the carrier takes the request no more.
    """

    log: Path
    delivered: Path


class Carrier:
    """Sends a parcel, which arrives when it arrives; it can be stopped on its way."""

    route = Route(
        id="parcel.v1",
        adapter="parcel",
        adapter_version="1",
        capabilities=("parcel.send",),
        protocol="files",
        control="script",
        observation=True,
        cancellation=True,
        call_timeout_seconds=20,
    )

    def validate_input(self, request: OperationRequest) -> Parcel:
        parcel = Parcel.model_validate(request.input)
        if parcel.delivered.with_suffix(".refused").exists():
            raise ValueError("not any more")
        return parcel

    def execute(self, context: AdapterContext, order: Order) -> Outcome:
        told(order, "send")
        return Running(external_id="parcel-7", poll_after_seconds=0.2)

    def cancel(self, context: AdapterContext, order: Order) -> CancelOutcome:
        told(order, "stop")
        return self._stopped()

    def observe(self, context: AdapterContext, order: Order) -> Observation:
        parcel = parcel_of(order)
        if "stop" in parcel.log.read_text().splitlines():
            return self._stopped()
        if parcel.delivered.exists():
            return Completed(result=TypedResult(kind="parcel", summary="delivered"))
        return Running(external_id="parcel-7", poll_after_seconds=0.2)

    @staticmethod
    def _stopped() -> Cancelled:
        return Cancelled(detail="stopped on its way", evidence=Evidence(source="carrier", observed_at=utc_now()))


def parcel_of(order: Order) -> Parcel:
    return Parcel.model_validate(order.request.input)


def told(order: Order, what: str) -> None:
    with parcel_of(order).log.open("a") as log:
        log.write(f"{what}\n")


def register(catalog: Catalog) -> None:
    catalog.register(Carrier())
