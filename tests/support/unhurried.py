"""Adapters for tests of the command line, registered with `--adapters support.unhurried:register`."""

from __future__ import annotations

import time
from pathlib import Path

from pydantic import BaseModel

from counterfoil.activities.adapters.base import AdapterContext, Order
from counterfoil.activities.adapters.catalog import Catalog
from counterfoil.models.operations.contract import OperationRequest
from counterfoil.models.operations.outcomes import Completed, Outcome, TypedResult, UnknownEffect
from counterfoil.models.operations.route import Route


class Place(BaseModel):
    """The file an adapter leaves a line in when it acts: the oracle of what really happened."""

    log: str
    seconds: float = 0


class Unhurried:
    """Takes its time, acts, and says so."""

    route = Route(
        id="slow.v1",
        adapter="slow",
        adapter_version="1",
        capabilities=("line.add",),
        protocol="memory",
        control="script",
        call_timeout_seconds=20,
    )

    def validate_input(self, request: OperationRequest) -> Place:
        return Place.model_validate(request.input)

    def execute(self, context: AdapterContext, order: Order) -> Outcome:
        place = Place.model_validate(order.request.input)
        with Path(place.log).open("a") as log:
            log.write("began\n")
        time.sleep(place.seconds)
        with Path(place.log).open("a") as log:
            log.write("acted\n")
        return Completed(result=TypedResult(kind="line", summary="a line was added"))


class Speechless(Unhurried):
    """Acts, and cannot say what became of it."""

    route = Unhurried.route.model_copy(update={"id": "speechless.v1", "adapter": "speechless"})

    def execute(self, context: AdapterContext, order: Order) -> Outcome:
        super().execute(context, order)
        return UnknownEffect(code="NO_REPLY", detail="the line went dead", external_id="line-7")


def register(catalog: Catalog) -> None:
    catalog.register(Unhurried())
    catalog.register(Speechless())
