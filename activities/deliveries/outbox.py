"""The outbox: callbacks are put in it in the transaction of the change they tell of, and stay until they are taken.

So nothing is told that was not committed, and nothing that was committed is forgotten, whenever a process dies.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from sqlalchemy import bindparam, select

from counterfoil.activities.store.prepared import Prepared
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.common import canonical_json, digest_bytes
from counterfoil.models.deliveries.contract import Callback, CallbackType, Delivery, DeliveryState
from counterfoil.models.tables import DELIVERIES, DeliveryRow

OVERDUE = timedelta(minutes=1)
BATCH = 100

_DUE = Prepared(
    select(DELIVERIES)
    .where(DELIVERIES.c.due_at <= bindparam("now"))
    .order_by(DELIVERIES.c.due_at, DELIVERIES.c.id)
    .limit(BATCH)
)
_NEXT = Prepared(
    select(DELIVERIES.c.due_at).where(DELIVERIES.c.due_at.is_not(None)).order_by(DELIVERIES.c.due_at).limit(1)
)
_ABOUT = Prepared(
    select(DELIVERIES).where(DELIVERIES.c.operation_id == bindparam("operation")).order_by(DELIVERIES.c.version)
)


def put(work: UnitOfWork, callback: Callback) -> None:
    """Have a callback sent once this unit is committed."""
    body = canonical_json(callback)
    work.session.add(
        DeliveryRow(
            # A store restored from before counts versions anew: what is told then must not pass for what was told.
            id=f"{callback.operation_id}-{callback.version}-{digest_bytes(body)[-8:]}",
            operation_id=callback.operation_id,
            version=callback.version,
            type=callback.type,
            body=body.decode(),
            state=DeliveryState.PENDING,
            created_at=work.now,
            due_at=work.now,
        )
    )
    work.enqueued = True


async def due(work: UnitOfWork) -> list[DeliveryRow]:
    """Those that have waited longest of what is to be sent now."""
    return await work.session.all(DeliveryRow, _DUE, {"now": work.now})


async def next_due(work: UnitOfWork) -> datetime | None:
    """When the next one is to be sent; None where none waits."""
    found = (await work.session.execute(_NEXT)).first()
    return None if found is None else found.due_at


async def is_overdue(work: UnitOfWork) -> bool:
    """Whether something waits that should have been tried by now: whoever sends it may not know."""
    earliest = await next_due(work)
    return earliest is not None and work.now - earliest > OVERDUE


async def about(work: UnitOfWork, operation_id: str) -> tuple[Delivery, ...]:
    """All callbacks about an operation, oldest first."""
    rows = await work.session.all(DeliveryRow, _ABOUT, {"operation": operation_id})
    return tuple(
        Delivery(
            id=row.id,
            type=CallbackType(row.type),
            state=DeliveryState(row.state),
            tries=row.tries,
            created_at=row.created_at,
            due_at=row.due_at,
            settled_at=row.settled_at,
            status=row.status,
            problem=row.problem,
        )
        for row in rows
    )


async def given_up(work: UnitOfWork, operation_ids: Iterable[str]) -> frozenset[str]:
    """Those operations of which a callback was given up."""
    query = select(DELIVERIES.c.operation_id).where(
        DELIVERIES.c.operation_id.in_(list(operation_ids)), DELIVERIES.c.state == DeliveryState.GIVEN_UP
    )
    return frozenset((await work.session.execute(query)).scalars())
