"""The HTTP adapter of a profile, its steps called the way a worker calls them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from counterfoil.activities.adapters.base import AdapterContext, Order, Phase
from counterfoil.activities.adapters.catalog import Catalog
from counterfoil.activities.adapters.http_json.adapter import HttpJson
from counterfoil.activities.adapters.http_json.memory import Memory
from counterfoil.activities.adapters.http_json.profile import HttpProfile
from counterfoil.activities.adapters.http_json.spelling import RecordSpelling
from counterfoil.activities.adapters.runner import AdapterRunner, checked
from counterfoil.models.operations.contract import OperationRequest
from counterfoil.models.operations.outcomes import (
    CancelOutcome,
    Observation,
    Outcome,
    PreparationOutcome,
    Prepared,
    Readiness,
    VerificationOutcome,
)

TOKEN = "tok-5f1c9a7e-very-secret"

ANSWERS: dict[Phase, Any] = {
    Phase.READINESS: Readiness,
    Phase.PREPARE: PreparationOutcome,
    Phase.EXECUTE: Outcome,
    Phase.OBSERVE: Observation,
    Phase.CANCEL: CancelOutcome,
    Phase.VERIFY: VerificationOutcome,
}

CONTACTS: dict[str, Any] = {
    "path": "contacts",
    "etags": True,
    "reads": "strong",
    "client_key": {"field": "external_ref", "query": "external_ref", "items": "items", "lookup": "strong"},
}


def profile_values(base_url: str, **changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "name": "acme",
        "base_url": base_url,
        "account_id": "acct-1",
        "credential": {"bearer_env": "ACME_TOKEN"},
        "idempotency": {"retention_seconds": 3600},
        "entities": {"contact": CONTACTS},
        "settles_after_seconds": 4,
        "call_timeout_seconds": 2,
        "problem_field": "error.message",
    }
    return values | changes


class Clock:
    """A clock that only tests move."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


class Desk:
    """The adapter of one profile, and an operation's steps through the runner, in their order."""

    def __init__(
        self, profile: HttpProfile, make_context: Callable[..., AdapterContext], make_order: Callable[..., Order]
    ) -> None:
        self.profile = profile
        self.clock = Clock()
        self.environ = {"ACME_TOKEN": TOKEN}
        self.adapter = HttpJson(profile, environ=self.environ, memory=Memory(self.clock))
        self.catalog = Catalog()
        self.catalog.register(self.adapter)
        self.catalog.register_system("acme", RecordSpelling("acme", profile.base_url))
        self.runner = AdapterRunner()
        self._make_context = make_context
        self._make_order = make_order

    def request(self, capability: str, *, identity: str | None = None, **input: Any) -> OperationRequest:
        entity = self.profile.entities.get(input.setdefault("entity", "contact"))
        usual = "contacts" if entity is None else entity.path
        if input.get("id") is not None:
            usual += f"/{input['id']}"
        resource = {"kind": "remote_entity", "system": "acme", "identity": identity or usual}
        return OperationRequest.model_validate(
            {
                "owner": {"workspace": "w", "session": "s"},
                "idempotency_key": "k",
                "capability": f"record.{capability}",
                "route_id": "http.json.v1:acme",
                "objective": "change a record",
                "input": input,
                "resources": [resource | {"account_id": self.profile.account_id}],
            }
        )

    def order(self, capability: str, **input: Any) -> Order:
        asked = self.request(capability, **input)
        _, typed, _ = self.catalog.admit(asked)
        return self._make_order(asked, typed)

    async def readiness(self) -> Any:
        return await self.call(Phase.READINESS)

    async def call(self, phase: Phase, order: Order | None = None, operation_id: str = "op-test") -> Any:
        context = self._make_context(
            phase, operation_id=operation_id, timeout_seconds=self.profile.call_timeout_seconds
        )
        arguments = (context,) if order is None else (context, order)
        async with self.runner.slot(self.adapter.route) as slot:
            return await slot.call(
                getattr(self.adapter, phase.value),
                *arguments,
                timeout_seconds=self.profile.call_timeout_seconds,
                check=lambda value: checked(value, ANSWERS[phase], context.blobs.put),
            )

    async def prepare(self, order: Order) -> Any:
        return await self.call(Phase.PREPARE, order)

    async def prepared(self, capability: str, *, generation: int = 1, **input: Any) -> Order:
        order = self.order(capability, **input)
        proposal = await self.prepare(order)
        assert isinstance(proposal, Prepared), proposal
        return self._make_order(order.request, order.typed_input, proposal, generation)

    def again(self, order: Order) -> Order:
        """The next attempt of the same operation."""
        return replace(order, generation=order.generation + 1)

    async def execute(self, order: Order) -> Any:
        return await self.call(Phase.EXECUTE, order)

    async def observe(self, order: Order) -> Any:
        return await self.call(Phase.OBSERVE, order)

    async def verify(self, order: Order) -> Any:
        return await self.call(Phase.VERIFY, order)

    async def cancel(self, order: Order) -> Any:
        return await self.call(Phase.CANCEL, order)
