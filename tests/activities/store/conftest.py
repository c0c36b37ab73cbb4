"""Rows for the store's own tests."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from counterfoil.models.tables import OperationRow

AT = datetime(2026, 7, 1, 12, tzinfo=UTC)


@pytest.fixture
def operation_row() -> Callable[..., OperationRow]:
    """Makes a minimal operation of a session."""

    def make(operation_id: str = "op-1", session: str = "s") -> OperationRow:
        return OperationRow(
            id=operation_id,
            schema_version=1,
            workspace="w",
            session=session,
            idempotency_key=operation_id,
            request_digest="sha256:" + "0" * 64,
            request="{}",
            resources="[]",
            capability="record.update",
            route_id="scripted.v1",
            route="{}",
            task_queue="q",
            intent="execute",
            state="queued",
            verification="pending",
            cancellation="none",
            created_at=AT,
            updated_at=AT,
        )

    return make
