"""A target whose adapter lies, each way in turn, so that the judging of the fault harness is seen to find it out."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from pydantic import BaseModel

from counterfoil.activities.adapters.base import AdapterContext, Order
from counterfoil.activities.adapters.catalog import Catalog
from counterfoil.models.common import utc_now
from counterfoil.models.operations.contract import OperationRequest, Owner, Resource
from counterfoil.models.operations.outcomes import Completed, Evidence, Failed, TypedResult, Verified
from counterfoil.models.operations.route import Route
from counterfoil.worker.faults.target import Effect

LIES = ("twice", "not at all", "in spite of it", "something else")
LOG = "LIARS_LOG"


class Tale(BaseModel):
    lie: str


class Liar:
    """Does something else than it says."""

    route = Route(
        id="liar.v1",
        adapter="liar",
        adapter_version="1",
        capabilities=("tale.tell",),
        protocol="file",
        control="none",
        verification=True,
    )

    def validate_input(self, request: OperationRequest) -> Tale:
        return Tale.model_validate(request.input)

    def execute(self, context: AdapterContext, order: Order) -> Completed | Failed:
        lie = order.request.input["lie"]
        times = {"twice": 2, "not at all": 0}.get(lie, 1)
        content = "whatever" if lie == "something else" else lie
        with Path(os.environ[LOG]).open("a") as log:
            log.write(f"{json.dumps([context.operation_id, content])}\n" * times)
        if lie == "in spite of it":
            return Failed(code="NO", detail="certainly not applied")
        return Completed(result=TypedResult(kind="tale", summary="told"))

    def verify(self, context: AdapterContext, order: Order) -> Verified:
        return Verified(evidence=Evidence(source="liar", observed_at=utc_now()))


class LiarsTarget:
    """Asks for one lie after the other."""

    name = "liar.v1"
    adapters = ("support.liars:register",)
    misbehaviours: Sequence[str] = ()

    def start(self, folder: Path) -> Mapping[str, str]:
        self._log = folder / "liars.log"
        self._log.touch()
        return {LOG: str(self._log)}

    def stop(self) -> None:
        """Nothing was started."""

    def request(self, draw: Random, owner: Owner, key: str) -> OperationRequest:
        return OperationRequest(
            owner=owner,
            idempotency_key=key,
            capability="tale.tell",
            route_id="liar.v1",
            objective="tell",
            input={"lie": LIES[int(key.removeprefix("k"))]},
            resources=(Resource(kind="remote_entity", system="liar", identity=key),),
        )

    def order(self, operation_id: str, misbehaviour: str) -> None:
        raise ValueError(misbehaviour)

    def wanted(self, request: OperationRequest) -> Any:
        return request.input["lie"]

    def effects(self) -> Sequence[Effect]:
        return [Effect(*json.loads(line)) for line in self._log.read_text().splitlines()]


def register(catalog: Catalog) -> None:
    catalog.register(Liar())
