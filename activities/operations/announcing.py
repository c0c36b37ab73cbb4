"""What is told of an operation, where a deployment has somebody to tell: that it settled, asks, or became unknown.

It goes into the outbox in the unit that made the change, once for each, as the operation stands when the unit ends.
"""

from __future__ import annotations

from functools import partial

from counterfoil.activities.deliveries import outbox
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.deliveries.contract import Callback, CallbackType
from counterfoil.models.operations.lifecycle import Cancellation, State, Verification, is_settled
from counterfoil.models.operations.route import Route
from counterfoil.models.tables import OperationRow


def announce(work: UnitOfWork, row: OperationRow) -> None:
    """Tell how an operation stands, at the end of this unit, where that is something to tell."""
    if work.announces:
        work.closing[row.id] = partial(_tell, work, row)


def _tell(work: UnitOfWork, row: OperationRow) -> None:
    told = _what(row)
    if told is None:
        return
    asks = told is CallbackType.AWAITS_DECISION
    outbox.put(
        work,
        Callback(
            type=told,
            timestamp=work.now,
            operation_id=row.id,
            workspace=row.workspace,
            session=row.session,
            turn=row.turn,
            capability=row.capability,
            route_id=row.route_id,
            state=State(row.state),
            verification=Verification(row.verification),
            cancellation=Cancellation(row.cancellation),
            revision=row.revision,
            version=row.ledger_version,
            proposal_digest=row.proposal_digest if asks else None,
            awaits_attestation=told is CallbackType.UNKNOWN and not _is_observed(row),
        ),
    )


def _what(row: OperationRow) -> CallbackType | None:
    if row.state == State.AWAITING_DECISION:
        return CallbackType.AWAITS_DECISION
    if row.state == State.UNKNOWN:
        return CallbackType.UNKNOWN
    settled = is_settled(State(row.state), Verification(row.verification))
    return CallbackType.SETTLED if settled else None


def _is_observed(row: OperationRow) -> bool:
    return Route.model_validate_json(row.route).observation and not row.observation_exhausted
