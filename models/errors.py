"""One small hierarchy of refusals. Each has a stable `code`, the `subject` it is about, the `detail`, and a `remedy`.

At a boundary the code survives: as `ApplicationError.type` in Temporal, as the `code` of the command line's JSON, and
as its exit status (docs/errors.md lists all of them).
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import ValidationError


class ErrorCode(StrEnum):
    """Every code a caller can meet. Codes are never renamed or reused."""

    # the request
    BAD_REQUEST = "BAD_REQUEST"
    INPUT_TOO_LARGE = "INPUT_TOO_LARGE"
    DEADLINE_PASSED = "DEADLINE_PASSED"
    NOT_ENFORCED = "NOT_ENFORCED"
    UNKNOWN_ROUTE = "UNKNOWN_ROUTE"
    UNKNOWN_CAPABILITY = "UNKNOWN_CAPABILITY"
    INVALID_INPUT = "INVALID_INPUT"
    RESOURCE_MISMATCH = "RESOURCE_MISMATCH"
    ACCOUNT_MISMATCH = "ACCOUNT_MISMATCH"
    IDEMPOTENCY_CONFLICT = "IDEMPOTENCY_CONFLICT"
    WORKFLOW_ID_MISMATCH = "WORKFLOW_ID_MISMATCH"
    COST_UNKNOWN = "COST_UNKNOWN"
    COST_UNBOUNDED = "COST_UNBOUNDED"
    CURRENCY_MISMATCH = "CURRENCY_MISMATCH"
    NOT_SUPERSEDABLE = "NOT_SUPERSEDABLE"
    DEPENDENCY_NOT_FOUND = "DEPENDENCY_NOT_FOUND"
    DEPENDENCY_CYCLE = "DEPENDENCY_CYCLE"
    OWNER_CANCELLED = "OWNER_CANCELLED"
    # commands
    BAD_COMMAND = "BAD_COMMAND"
    UNAUTHENTICATED = "UNAUTHENTICATED"
    FORGED_SEAL = "FORGED_SEAL"
    FORGED_CALLBACK = "FORGED_CALLBACK"
    SCOPE_MISSING = "SCOPE_MISSING"
    NOT_FOUND = "NOT_FOUND"
    NOT_POSSIBLE = "NOT_POSSIBLE"
    STALE_REVISION = "STALE_REVISION"
    PROPOSAL_MISMATCH = "PROPOSAL_MISMATCH"
    DECISION_EXPIRED = "DECISION_EXPIRED"
    RESOLUTION_KEY_CONFLICT = "RESOLUTION_KEY_CONFLICT"
    OBSERVATION_PENDING = "OBSERVATION_PENDING"
    # the grant
    LOCKED = "LOCKED"
    NOT_READY = "NOT_READY"
    ADAPTER_UNAVAILABLE = "ADAPTER_UNAVAILABLE"
    ADAPTER_VERSION_CHANGED = "ADAPTER_VERSION_CHANGED"
    ROUTE_BUSY = "ROUTE_BUSY"
    LIMIT_REACHED = "LIMIT_REACHED"
    STALE_ASSUMPTIONS = "STALE_ASSUMPTIONS"
    DEPENDENCY_PENDING = "DEPENDENCY_PENDING"
    DEPENDENCY_UNKNOWN = "DEPENDENCY_UNKNOWN"
    DEPENDENCY_FAILED = "DEPENDENCY_FAILED"
    OWNER_PAUSED = "OWNER_PAUSED"
    # calling a tool
    TOOL_UNKNOWN = "TOOL_UNKNOWN"
    TOOL_DENIED = "TOOL_DENIED"
    TOOL_NEEDS_DECISION = "TOOL_NEEDS_DECISION"
    TOOL_MUTATES = "TOOL_MUTATES"
    UNKNOWN_EFFECT_OPEN = "UNKNOWN_EFFECT_OPEN"
    # what an adapter reports
    ADAPTER_RAISED = "ADAPTER_RAISED"
    ADAPTER_JUNK = "ADAPTER_JUNK"
    ADAPTER_TIMED_OUT = "ADAPTER_TIMED_OUT"
    RESULT_TOO_LARGE = "RESULT_TOO_LARGE"
    DISPATCH_LOST = "DISPATCH_LOST"
    SOURCE_CHANGED = "SOURCE_CHANGED"
    TARGET_EXISTS = "TARGET_EXISTS"
    WRITE_FAILED = "WRITE_FAILED"
    FENCED = "FENCED"
    PATH_REFUSED = "PATH_REFUSED"
    FILE_NOT_FOUND = "FILE_NOT_FOUND"
    FILE_TOO_LARGE = "FILE_TOO_LARGE"
    NOT_TEXT = "NOT_TEXT"
    TARGET_REFUSED = "TARGET_REFUSED"
    TARGET_BUSY = "TARGET_BUSY"
    TARGET_UNREACHABLE = "TARGET_UNREACHABLE"
    RECORD_NOT_FOUND = "RECORD_NOT_FOUND"
    REPLY_LOST = "REPLY_LOST"
    REPLY_UNCLEAR = "REPLY_UNCLEAR"
    JOB_FAILED = "JOB_FAILED"
    WORKBOOK_ENCRYPTED = "WORKBOOK_ENCRYPTED"
    WORKBOOK_STRICT = "WORKBOOK_STRICT"
    WORKBOOK_LEGACY = "WORKBOOK_LEGACY"
    WORKBOOK_NOT_OOXML = "WORKBOOK_NOT_OOXML"
    WORKBOOK_CORRUPT = "WORKBOOK_CORRUPT"
    WORKBOOK_MISLABELLED = "WORKBOOK_MISLABELLED"
    WORKBOOK_UNSUPPORTED_CONTENT = "WORKBOOK_UNSUPPORTED_CONTENT"
    WORKBOOK_EDIT_INVALID = "WORKBOOK_EDIT_INVALID"
    TOOL_CHANGED = "TOOL_CHANGED"
    TOOL_FAILED = "TOOL_FAILED"
    ANSWER_NEEDED = "ANSWER_NEEDED"
    NOT_OBSERVABLE = "NOT_OBSERVABLE"
    # documents
    MALFORMED_UPDATE = "MALFORMED_UPDATE"
    MALFORMED_POSITION = "MALFORMED_POSITION"
    DOCUMENT_UNSUPPORTED = "DOCUMENT_UNSUPPORTED"
    DOCUMENT_QUARANTINED = "DOCUMENT_QUARANTINED"
    DOCUMENT_INCOMPLETE = "DOCUMENT_INCOMPLETE"
    HEAD_MOVED = "HEAD_MOVED"
    TARGET_UNRESOLVED = "TARGET_UNRESOLVED"
    PROJECTION_MISMATCH = "PROJECTION_MISMATCH"
    RECEIPT_STALE = "RECEIPT_STALE"
    RECEIPT_MISMATCH = "RECEIPT_MISMATCH"
    REPLY_CONFLICT = "REPLY_CONFLICT"
    SNAPSHOT_UNAVAILABLE = "SNAPSHOT_UNAVAILABLE"
    EGRESS_REFUSED = "EGRESS_REFUSED"
    PLACEMENT_MISSING = "PLACEMENT_MISSING"
    PLACEMENT_AMBIGUOUS = "PLACEMENT_AMBIGUOUS"
    OUTSIDE_ALLOWED_RANGES = "OUTSIDE_ALLOWED_RANGES"
    MARKDOWN_UNSUPPORTED = "MARKDOWN_UNSUPPORTED"
    # the stores and the stack
    STORE_BEHIND = "STORE_BEHIND"
    STORE_UNAVAILABLE = "STORE_UNAVAILABLE"
    STORE_SCHEMA = "STORE_SCHEMA"
    BLOB_CORRUPT = "BLOB_CORRUPT"
    BLOB_MISSING = "BLOB_MISSING"
    TEMPORAL_UNAVAILABLE = "TEMPORAL_UNAVAILABLE"
    SEARCH_ATTRIBUTES_MISSING = "SEARCH_ATTRIBUTES_MISSING"
    SETTINGS_INVALID = "SETTINGS_INVALID"
    TIMED_OUT = "TIMED_OUT"
    INTERNAL = "INTERNAL"


class CounterfoilError(Exception):
    """A refusal or a failure a caller can act on."""

    def __init__(self, code: ErrorCode, detail: str, *, subject: str = "", remedy: str = "") -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.subject = subject
        self.remedy = remedy

    def as_details(self) -> dict[str, str]:
        """The JSON form that crosses every boundary."""
        return {"code": self.code, "subject": self.subject, "detail": self.detail, "remedy": self.remedy}

    @classmethod
    def from_details(cls, details: object) -> CounterfoilError | None:
        """The error that `as_details` described, or None if this is not one (or of a code a newer version added)."""
        if not isinstance(details, dict):
            return None
        try:
            code = ErrorCode(str(details.get("code")))
        except ValueError:
            return None
        return cls(
            code,
            str(details.get("detail", "")),
            subject=str(details.get("subject", "")),
            remedy=str(details.get("remedy", "")),
        )


class Refusal(CounterfoilError):
    """Something was asked that is not granted; nothing changed."""


class Unavailable(CounterfoilError):
    """Something this process needs does not answer now; trying again may succeed."""


def what_is_wrong(error: ValidationError, whole: str) -> str:
    """The first few problems of something that was sent, without what was sent. `whole` names it."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, one['loc'])) or whole}: {one['msg']}" for one in problems[:5])
