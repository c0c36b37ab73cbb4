"""The table of exit statuses."""

from __future__ import annotations

from collections import Counter

import pytest

from counterfoil.models.errors import ErrorCode
from counterfoil.models.operations.lifecycle import State, Verification
from counterfoil.models.operations.record import OperationSummary
from counterfoil.worker.exit_codes import MEANINGS, of_error, of_operation


def test_every_error_code_has_exactly_one_exit_status():
    counted = Counter(code for codes in MEANINGS.values() for code in codes)

    assert counted == Counter(ErrorCode)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (ErrorCode.INTERNAL, 1),
        (ErrorCode.BAD_REQUEST, 2),
        (ErrorCode.NOT_POSSIBLE, 3),
        (ErrorCode.NOT_FOUND, 4),
        (ErrorCode.IDEMPOTENCY_CONFLICT, 5),
        (ErrorCode.SCOPE_MISSING, 6),
        (ErrorCode.TEMPORAL_UNAVAILABLE, 7),
        (ErrorCode.TIMED_OUT, 8),
        (ErrorCode.STORE_BEHIND, 9),
    ],
)
def test_statuses_never_change_their_number(code: ErrorCode, status: int):
    assert of_error(code) == status


@pytest.mark.parametrize(
    ("state", "verification", "status"),
    [
        (State.COMPLETED, Verification.VERIFIED, 0),
        (State.COMPLETED, Verification.PARTIAL, 13),
        (State.COMPLETED, Verification.CONTRADICTED, 13),
        (State.COMPLETED, Verification.UNAVAILABLE, 13),
        (State.COMPLETED, Verification.EXPIRED, 13),
        (State.UNKNOWN, Verification.PENDING, 12),
        (State.AWAITING_DECISION, Verification.PENDING, 11),
        (State.REVISION_REQUESTED, Verification.PENDING, 11),
        (State.HELD, Verification.PENDING, 11),
        (State.PREPARED, Verification.PENDING, 11),
        (State.FAILED, Verification.UNAVAILABLE, 10),
        (State.NOT_APPLIED, Verification.UNAVAILABLE, 10),
        (State.STOPPED, Verification.UNAVAILABLE, 10),
        (State.CANCELLED, Verification.UNAVAILABLE, 10),
        (State.DECLINED, Verification.UNAVAILABLE, 10),
        (State.EXPIRED, Verification.UNAVAILABLE, 10),
        (State.SUPERSEDED, Verification.UNAVAILABLE, 10),
    ],
)
def test_only_a_verified_completion_ends_with_zero(state: State, verification: Verification, status: int):
    operation = OperationSummary.model_construct(state=state, verification=verification)

    assert of_operation(operation) == status
