"""The exit statuses of the command line: one small table. They are stable; docs/operating.md explains them.

`OK` to `MEND_DEPLOYMENT` say how a command went. The rest say how the operation stands that a command waited for.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from counterfoil.models.errors import ErrorCode
from counterfoil.models.operations.lifecycle import CLOSED, State, Verification

if TYPE_CHECKING:
    from counterfoil.models.operations.record import OperationSummary


class ExitCode(IntEnum):
    """What a finished command says to the program that ran it."""

    OK = 0
    """Done as asked; a command that waits: the operation is completed and verified."""
    INTERNAL = 1
    """A failure nobody foresaw."""
    USAGE = 2
    """The command line, the request or the settings are wrong."""
    REFUSED = 3
    """Understood, and not granted: nothing changed."""
    NOT_FOUND = 4
    CONFLICT = 5
    """What was named is not what stands now: look again."""
    FORBIDDEN = 6
    """Whoever asked may not."""
    UNAVAILABLE = 7
    """Something needed does not answer now: trying again may succeed."""
    TIMED_OUT = 8
    """No answer in the time allowed; the operation itself goes on."""
    MEND_DEPLOYMENT = 9
    """A store or the stack must be mended by whoever runs it."""
    NOT_DONE = 10
    """The operation ended without its effect: failed, not applied, stopped, cancelled, declined or expired."""
    AWAITS_PERSON = 11
    """The operation waits for a decision, a revision or a push."""
    UNKNOWN_EFFECT = 12
    """Nobody can know whether the effect happened: someone must attest."""
    NOT_VERIFIED = 13
    """The operation is completed, and no fresh evidence bears it out in full."""
    INTERRUPTED = 130
    """Ended by Ctrl-C."""


MEANINGS: dict[ExitCode, frozenset[ErrorCode]] = {
    ExitCode.INTERNAL: frozenset({ErrorCode.INTERNAL, ErrorCode.ADAPTER_RAISED, ErrorCode.ADAPTER_JUNK}),
    ExitCode.USAGE: frozenset(
        {
            ErrorCode.BAD_REQUEST,
            ErrorCode.BAD_COMMAND,
            ErrorCode.INVALID_INPUT,
            ErrorCode.INPUT_TOO_LARGE,
            ErrorCode.SETTINGS_INVALID,
            ErrorCode.RESOURCE_MISMATCH,
            ErrorCode.ACCOUNT_MISMATCH,
            ErrorCode.WORKBOOK_EDIT_INVALID,
            ErrorCode.MALFORMED_UPDATE,
            ErrorCode.MALFORMED_POSITION,
            ErrorCode.MARKDOWN_UNSUPPORTED,
        }
    ),
    ExitCode.REFUSED: frozenset(
        {
            ErrorCode.NOT_ENFORCED,
            ErrorCode.COST_UNKNOWN,
            ErrorCode.COST_UNBOUNDED,
            ErrorCode.CURRENCY_MISMATCH,
            ErrorCode.NOT_SUPERSEDABLE,
            ErrorCode.DEPENDENCY_CYCLE,
            ErrorCode.NOT_POSSIBLE,
            ErrorCode.DEADLINE_PASSED,
            ErrorCode.DECISION_EXPIRED,
            ErrorCode.OBSERVATION_PENDING,
            ErrorCode.LIMIT_REACHED,
            ErrorCode.TOOL_MUTATES,
            ErrorCode.RESULT_TOO_LARGE,
            ErrorCode.PATH_REFUSED,
            ErrorCode.FILE_TOO_LARGE,
            ErrorCode.NOT_TEXT,
            ErrorCode.TARGET_REFUSED,
            ErrorCode.WORKBOOK_ENCRYPTED,
            ErrorCode.WORKBOOK_STRICT,
            ErrorCode.WORKBOOK_LEGACY,
            ErrorCode.WORKBOOK_NOT_OOXML,
            ErrorCode.WORKBOOK_CORRUPT,
            ErrorCode.WORKBOOK_MISLABELLED,
            ErrorCode.WORKBOOK_UNSUPPORTED_CONTENT,
            ErrorCode.DOCUMENT_UNSUPPORTED,
            ErrorCode.OUTSIDE_ALLOWED_RANGES,
        }
    ),
    ExitCode.NOT_FOUND: frozenset(
        {
            ErrorCode.NOT_FOUND,
            ErrorCode.UNKNOWN_ROUTE,
            ErrorCode.UNKNOWN_CAPABILITY,
            ErrorCode.TOOL_UNKNOWN,
            ErrorCode.FILE_NOT_FOUND,
            ErrorCode.RECORD_NOT_FOUND,
            ErrorCode.BLOB_MISSING,
            ErrorCode.DEPENDENCY_NOT_FOUND,
            ErrorCode.SNAPSHOT_UNAVAILABLE,
        }
    ),
    ExitCode.CONFLICT: frozenset(
        {
            ErrorCode.IDEMPOTENCY_CONFLICT,
            ErrorCode.WORKFLOW_ID_MISMATCH,
            ErrorCode.STALE_REVISION,
            ErrorCode.STALE_ASSUMPTIONS,
            ErrorCode.OWNER_CANCELLED,
            ErrorCode.PROPOSAL_MISMATCH,
            ErrorCode.RESOLUTION_KEY_CONFLICT,
            ErrorCode.SOURCE_CHANGED,
            ErrorCode.TARGET_EXISTS,
            ErrorCode.FENCED,
            ErrorCode.TOOL_CHANGED,
            ErrorCode.HEAD_MOVED,
            ErrorCode.TARGET_UNRESOLVED,
            ErrorCode.PROJECTION_MISMATCH,
            ErrorCode.RECEIPT_STALE,
            ErrorCode.RECEIPT_MISMATCH,
            ErrorCode.REPLY_CONFLICT,
            ErrorCode.PLACEMENT_MISSING,
            ErrorCode.PLACEMENT_AMBIGUOUS,
        }
    ),
    ExitCode.FORBIDDEN: frozenset(
        {
            ErrorCode.UNAUTHENTICATED,
            ErrorCode.FORGED_SEAL,
            ErrorCode.FORGED_CALLBACK,
            ErrorCode.SCOPE_MISSING,
            ErrorCode.TOOL_DENIED,
            ErrorCode.EGRESS_REFUSED,
        }
    ),
    ExitCode.UNAVAILABLE: frozenset(
        {
            ErrorCode.TEMPORAL_UNAVAILABLE,
            ErrorCode.STORE_UNAVAILABLE,
            ErrorCode.ADAPTER_UNAVAILABLE,
            ErrorCode.LOCKED,
            ErrorCode.NOT_READY,
            ErrorCode.ROUTE_BUSY,
            ErrorCode.DEPENDENCY_PENDING,
            ErrorCode.OWNER_PAUSED,
            ErrorCode.WRITE_FAILED,
            ErrorCode.DOCUMENT_INCOMPLETE,
            ErrorCode.TARGET_BUSY,
            ErrorCode.TARGET_UNREACHABLE,
        }
    ),
    ExitCode.TIMED_OUT: frozenset({ErrorCode.TIMED_OUT, ErrorCode.ADAPTER_TIMED_OUT}),
    ExitCode.MEND_DEPLOYMENT: frozenset(
        {
            ErrorCode.DOCUMENT_QUARANTINED,
            ErrorCode.STORE_BEHIND,
            ErrorCode.STORE_SCHEMA,
            ErrorCode.BLOB_CORRUPT,
            ErrorCode.SEARCH_ATTRIBUTES_MISSING,
            ErrorCode.ADAPTER_VERSION_CHANGED,
        }
    ),
    ExitCode.NOT_DONE: frozenset({ErrorCode.TOOL_FAILED, ErrorCode.DEPENDENCY_FAILED}),
    ExitCode.AWAITS_PERSON: frozenset({ErrorCode.ANSWER_NEEDED, ErrorCode.TOOL_NEEDS_DECISION}),
    ExitCode.UNKNOWN_EFFECT: frozenset(
        {
            ErrorCode.DISPATCH_LOST,
            ErrorCode.NOT_OBSERVABLE,
            ErrorCode.REPLY_LOST,
            ErrorCode.REPLY_UNCLEAR,
            ErrorCode.JOB_FAILED,
            ErrorCode.DEPENDENCY_UNKNOWN,
            ErrorCode.UNKNOWN_EFFECT_OPEN,
        }
    ),
}
"""Which error codes end a command with which status. Every code is in it once."""

_BY_ERROR = {code: status for status, codes in MEANINGS.items() for code in codes}


def of_error(code: ErrorCode) -> ExitCode:
    """The exit status of a command that met this error."""
    return _BY_ERROR.get(code, ExitCode.INTERNAL)


def of_operation(operation: OperationSummary) -> ExitCode:
    """The exit status of a command that waited until nothing more happens to the operation by itself."""
    if operation.state is State.UNKNOWN:
        return ExitCode.UNKNOWN_EFFECT
    if operation.state is State.COMPLETED:
        return ExitCode.OK if operation.verification is Verification.VERIFIED else ExitCode.NOT_VERIFIED
    return ExitCode.NOT_DONE if operation.state in CLOSED else ExitCode.AWAITS_PERSON
