"""What a stranger may send without wedging a workflow: too few or too many arguments, and bytes nobody can decode.

Signals, updates and starts reach their handlers with exactly one argument. Where another number came, that one
argument is an `Unreadable` that says so; the handler records it as refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import PydanticJSONPlainPayloadConverter
from temporalio.converter import CompositePayloadConverter, DefaultPayloadConverter, JSONPlainPayloadConverter
from temporalio.worker import (
    ExecuteWorkflowInput,
    HandleSignalInput,
    HandleUpdateInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

TAKEN_FROM_STRANGERS = frozenset({"ApplicationOperation", "SessionCommand"})
"""Workflows that anyone may start."""
SIGNALS = frozenset({"decide", "cancel", "resolve_unknown"})
"""The signals that have a handler of their own."""
TAKE_ONE_ARGUMENT = frozenset({"decide", "cancel", "resolve_unknown", "prepare", "execute", "reconcile", "repair"})


@dataclass(frozen=True)
class Unreadable:
    """Stands for arguments that could not be read, and says why."""

    reason: str


class LenientPayloadConverter(CompositePayloadConverter):
    """JSON through pydantic. What is decoded without a type hint never raises: it becomes `Unreadable`."""

    def __init__(self) -> None:
        json_converter = PydanticJSONPlainPayloadConverter()
        super().__init__(
            *(
                json_converter if isinstance(converter, JSONPlainPayloadConverter) else converter
                for converter in DefaultPayloadConverter.default_encoding_payload_converters
            )
        )

    def from_payloads(self, payloads: Sequence[Payload], type_hints: list[type] | None = None) -> list[Any]:
        if type_hints:
            return super().from_payloads(payloads, type_hints)
        return [self._leniently(payload) for payload in payloads]

    def _leniently(self, payload: Payload) -> Any:
        try:
            return super().from_payloads([payload])[0]
        except Exception as error:  # any encoding, any bytes: a stranger chose them
            return Unreadable(f"the argument cannot be decoded: {type(error).__name__}")


class OneArgument(Interceptor):
    """A worker interceptor that gives every handler exactly one argument."""

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor] | None:
        return _OneArgumentInbound


class _OneArgumentInbound(WorkflowInboundInterceptor):
    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
        if workflow.info().workflow_type in TAKEN_FROM_STRANGERS:
            input.args = _one(input.args)
        return await super().execute_workflow(input)

    async def handle_signal(self, input: HandleSignalInput) -> None:
        # Signals of other names reach the dynamic handler, which takes any number.
        if input.signal in SIGNALS:
            input.args = _one(input.args)
        elif input.signal == "wake":
            input.args = []
        await super().handle_signal(input)

    async def handle_update_handler(self, input: HandleUpdateInput) -> Any:
        input.args = _one(input.args) if input.update in TAKE_ONE_ARGUMENT else []
        return await super().handle_update_handler(input)


def _one(arguments: Sequence[Any]) -> list[Any]:
    if len(arguments) == 1:
        return list(arguments)
    return [Unreadable(f"one argument is needed, {len(arguments)} came")]
