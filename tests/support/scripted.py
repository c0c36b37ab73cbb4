"""An adapter whose every answer a test writes, and which keeps its own log of effects: the oracle of fault tests."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, ConfigDict

from counterfoil.activities.adapters.base import AdapterContext, Order
from counterfoil.activities.adapters.catalog import Catalog
from counterfoil.models.operations.contract import OperationRequest
from counterfoil.models.operations.outcomes import (
    Completed,
    Evidence,
    Prepared,
    Preview,
    Ready,
    TypedResult,
    UnknownEffect,
    Verified,
)
from counterfoil.models.operations.route import PreparationSupport, ReplayGuarantee, Route

SESSION = "s"
"""The session of `request`. On a shared Temporal server every test needs one of its own."""

Answer = Any
"""A value to return, an exception to raise, or a function of (context, order) to call."""


class ScriptedInput(BaseModel):
    """Anything at all."""

    model_config = ConfigDict(extra="allow")


class ScriptedAdapter:
    """Answers in the order that was scripted for each phase; then with `default` for that phase."""

    def __init__(self, route: Route) -> None:
        self._route = route
        self._answers: dict[str, deque[Answer]] = defaultdict(deque)
        self._lock = threading.Lock()
        self.effects: list[tuple[str, int]] = []
        """(operation id, generation) of every `execute` that was called: what really happened."""
        self.calls: list[tuple[str, str]] = []
        """(phase, operation id) of every call."""

    @property
    def route(self) -> Route:
        return self._route

    def script(self, phase: str, *answers: Answer) -> None:
        """Answers for the next calls of a phase."""
        self._answers[phase].extend(answers)

    def forget(self, phase: str) -> None:
        """Script nothing more for a phase."""
        self._answers[phase].clear()

    def validate_input(self, request: OperationRequest) -> ScriptedInput:
        return ScriptedInput.model_validate(request.input)

    def readiness(self, context: AdapterContext) -> Any:
        return self._answer(context, None, Ready())

    def prepare(self, context: AdapterContext, order: Order) -> Any:
        preview = Preview(columns=("Field", "Before", "After"), rows=(("value", "1", "2"),))
        return self._answer(context, order, Prepared(summary="sets value to 2", preview=preview))

    def execute(self, context: AdapterContext, order: Order) -> Any:
        with self._lock:
            self.effects.append((context.operation_id, order.generation))
        return self._answer(context, order, completed())

    def observe(self, context: AdapterContext, order: Order) -> Any:
        return self._answer(context, order, completed())

    def cancel(self, context: AdapterContext, order: Order) -> Any:
        return self._answer(context, order, UnknownEffect(code="NO_SCRIPT", detail="no answer was scripted"))

    def verify(self, context: AdapterContext, order: Order) -> Any:
        return self._answer(context, order, Verified(evidence=evidence()))

    def _answer(self, context: AdapterContext, order: Order | None, default: Answer) -> Any:
        with self._lock:
            self.calls.append((context.phase.value, context.operation_id))
            scripted = self._answers[context.phase.value]
            answer = scripted.popleft() if scripted else default
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, Callable):  # type: ignore[arg-type]
            return answer(context, order)
        return answer


def completed(summary: str = "done") -> Completed:
    return Completed(result=TypedResult(kind="scripted", summary=summary, data={"value": 2}))


def evidence() -> Evidence:
    return Evidence(source="scripted target", observed_at=datetime.now(UTC), version="2")


def scripted_route(route_id: str = "scripted.v1", **changes: Any) -> Route:
    """A route that supports everything but preparation and cancellation, unless `changes` say otherwise."""
    values: dict[str, Any] = {
        "id": route_id,
        "adapter": route_id.rpartition(".")[0] or route_id,
        "adapter_version": "1",
        "capabilities": ("record.update",),
        "protocol": "memory",
        "control": "script",
        "observation": True,
        "verification": True,
        "call_timeout_seconds": 2,
        "replay": ReplayGuarantee(kind="none"),
    }
    return Route(**(values | changes))


FULL = {"readiness": True, "preparation": PreparationSupport.PURE, "cancellation": True}


def scripted(catalog: Catalog, route_id: str = "scripted.v1", **changes: Any) -> ScriptedAdapter:
    """Register a scripted adapter and return it."""
    adapter = ScriptedAdapter(scripted_route(route_id, **changes))
    catalog.register(adapter)
    return adapter


def request(key: str = "k1", route_id: str = "scripted.v1", **changes: Any) -> OperationRequest:
    """A request for a scripted route, on one resource."""
    values: dict[str, Any] = {
        "owner": {"workspace": "w", "session": SESSION},
        "idempotency_key": key,
        "capability": "record.update",
        "route_id": route_id,
        "objective": "set the value to 2",
        "input": {"value": 2},
        "resources": [{"kind": "remote_entity", "system": "scripted", "identity": "record-1"}],
    }
    return OperationRequest.model_validate(values | changes)
