"""Counterfoil: durable execution for supervised AI agents, on Temporal.

What this module exports is public and stable; everything else is inside. Names are loaded when they are first used,
so importing the package costs nothing.

    from counterfoil import OperationRequest, connect

    async with await connect() as counterfoil:
        operation = await counterfoil.create(OperationRequest(...))
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str

    from counterfoil.activities.adapters.base import AdapterContext, ApplicationAdapter, Order, Phase, Tools
    from counterfoil.activities.adapters.catalog import Catalog
    from counterfoil.activities.adapters.tools import ToolContext, ToolFailed
    from counterfoil.control_plane.agent_tool import ApplicationOperationTool
    from counterfoil.control_plane.client import ControlPlane
    from counterfoil.control_plane.connection import connect
    from counterfoil.control_plane.documents import DocumentsClient
    from counterfoil.control_plane.settings import ConnectionSettings
    from counterfoil.control_plane.snapshot_tool import ActionSnapshotTool
    from counterfoil.control_plane.temporal import data_converter
    from counterfoil.models.common import Actor, BlobRef, Money, Scope
    from counterfoil.models.deliveries.contract import Callback, CallbackType, Delivery, DeliveryState
    from counterfoil.models.deliveries.signing import verify_callback
    from counterfoil.models.documents.anchoring import Quote
    from counterfoil.models.documents.applicability import Applies, PlacementProblem
    from counterfoil.models.documents.captures import (
        AffirmedRecheck,
        CaptureRequest,
        Purpose,
        Reach,
        Recapture,
        Recheck,
        WholeDocument,
        WorkingOn,
    )
    from counterfoil.models.documents.consumption import (
        CommittedReply,
        ConsumptionReceipt,
        Fetched,
        FetchOutcome,
        FrozenView,
        Reply,
    )
    from counterfoil.models.documents.heads import Head
    from counterfoil.models.documents.positions import Nowhere, Place
    from counterfoil.models.documents.receipts import ProjectionReceipt
    from counterfoil.models.documents.snapshots import ActionSnapshot, SnapshotReference
    from counterfoil.models.documents.targets import ActionTarget, DocumentTarget, Selection
    from counterfoil.models.errors import CounterfoilError, ErrorCode, Refusal, Unavailable
    from counterfoil.models.operations.commands import Answer, AnswerStatus, ResolutionStatus, Verdict
    from counterfoil.models.operations.contract import (
        Assumption,
        Constraints,
        DecisionRequest,
        OnCreate,
        OperationRequest,
        Owner,
        Resource,
        ResourceKind,
        operation_id,
    )
    from counterfoil.models.operations.lifecycle import Cancellation, State, Verification
    from counterfoil.models.operations.outcomes import (
        BoundVersion,
        CancelAccepted,
        Cancelled,
        CancelTooLate,
        Completed,
        Contradicted,
        Evidence,
        Failed,
        NotApplied,
        NotReady,
        Partial,
        Prepared,
        Preview,
        Problem,
        Ready,
        Running,
        TypedResult,
        UnknownEffect,
        VerificationUnavailable,
        Verified,
    )
    from counterfoil.models.operations.record import (
        AttemptRecord,
        DecisionRecord,
        LedgerEntry,
        Operation,
        OperationSummary,
        SessionRecord,
    )
    from counterfoil.models.operations.route import PreparationSupport, ReplayGuarantee, Route
    from counterfoil.models.operations.sessions import SessionAnswer
    from counterfoil.models.operations.tools import CallableTool, Permission, PermissionRecord, Tool
    from counterfoil.models.operations.view import OperationResult
    from counterfoil.workflows.application_operation import ApplicationOperation

_HOMES = {
    "control_plane.documents": ("DocumentsClient",),
    "control_plane.snapshot_tool": ("ActionSnapshotTool",),
    "models.documents.anchoring": ("Quote",),
    "models.documents.applicability": (
        "Applies",
        "PlacementProblem",
    ),
    "models.documents.captures": (
        "AffirmedRecheck",
        "CaptureRequest",
        "Purpose",
        "Reach",
        "Recapture",
        "Recheck",
        "WholeDocument",
        "WorkingOn",
    ),
    "models.documents.consumption": (
        "CommittedReply",
        "ConsumptionReceipt",
        "Fetched",
        "FetchOutcome",
        "FrozenView",
        "Reply",
    ),
    "models.documents.heads": ("Head",),
    "models.documents.positions": (
        "Nowhere",
        "Place",
    ),
    "models.documents.receipts": ("ProjectionReceipt",),
    "models.documents.snapshots": (
        "ActionSnapshot",
        "SnapshotReference",
    ),
    "models.documents.targets": (
        "ActionTarget",
        "DocumentTarget",
        "Selection",
    ),
    "activities.adapters.base": ("AdapterContext", "ApplicationAdapter", "Order", "Phase", "Tools"),
    "activities.adapters.catalog": ("Catalog",),
    "activities.adapters.tools": ("ToolContext", "ToolFailed"),
    "control_plane.agent_tool": ("ApplicationOperationTool",),
    "control_plane.client": ("ControlPlane",),
    "control_plane.connection": ("connect",),
    "control_plane.settings": ("ConnectionSettings",),
    "control_plane.temporal": ("data_converter",),
    "models.common": ("Actor", "BlobRef", "Money", "Scope"),
    "models.deliveries.contract": ("Callback", "CallbackType", "Delivery", "DeliveryState"),
    "models.deliveries.signing": ("verify_callback",),
    "models.errors": ("CounterfoilError", "ErrorCode", "Refusal", "Unavailable"),
    "models.operations.commands": ("Answer", "AnswerStatus", "ResolutionStatus", "Verdict"),
    "models.operations.contract": (
        "Assumption",
        "Constraints",
        "DecisionRequest",
        "OnCreate",
        "OperationRequest",
        "Owner",
        "Resource",
        "ResourceKind",
        "operation_id",
    ),
    "models.operations.lifecycle": ("Cancellation", "State", "Verification"),
    "models.operations.outcomes": (
        "BoundVersion",
        "CancelAccepted",
        "CancelTooLate",
        "Cancelled",
        "Completed",
        "Contradicted",
        "Evidence",
        "Failed",
        "NotApplied",
        "NotReady",
        "Partial",
        "Prepared",
        "Preview",
        "Problem",
        "Ready",
        "Running",
        "TypedResult",
        "UnknownEffect",
        "VerificationUnavailable",
        "Verified",
    ),
    "models.operations.record": (
        "AttemptRecord",
        "DecisionRecord",
        "LedgerEntry",
        "Operation",
        "OperationSummary",
        "SessionRecord",
    ),
    "models.operations.route": ("PreparationSupport", "ReplayGuarantee", "Route"),
    "models.operations.sessions": ("SessionAnswer",),
    "models.operations.tools": ("CallableTool", "Permission", "PermissionRecord", "Tool"),
    "models.operations.view": ("OperationResult",),
    "workflows.application_operation": ("ApplicationOperation",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "ActionSnapshot",
    "ActionSnapshotTool",
    "ActionTarget",
    "Actor",
    "AdapterContext",
    "AffirmedRecheck",
    "Answer",
    "AnswerStatus",
    "ApplicationAdapter",
    "ApplicationOperation",
    "ApplicationOperationTool",
    "Applies",
    "Assumption",
    "AttemptRecord",
    "BlobRef",
    "BoundVersion",
    "CallableTool",
    "Callback",
    "CallbackType",
    "CancelAccepted",
    "CancelTooLate",
    "Cancellation",
    "Cancelled",
    "CaptureRequest",
    "Catalog",
    "CommittedReply",
    "Completed",
    "ConnectionSettings",
    "Constraints",
    "ConsumptionReceipt",
    "Contradicted",
    "ControlPlane",
    "CounterfoilError",
    "DecisionRecord",
    "DecisionRequest",
    "Delivery",
    "DeliveryState",
    "DocumentTarget",
    "DocumentsClient",
    "ErrorCode",
    "Evidence",
    "Failed",
    "FetchOutcome",
    "Fetched",
    "FrozenView",
    "Head",
    "LedgerEntry",
    "Money",
    "NotApplied",
    "NotReady",
    "Nowhere",
    "OnCreate",
    "Operation",
    "OperationRequest",
    "OperationResult",
    "OperationSummary",
    "Order",
    "Owner",
    "Partial",
    "Permission",
    "PermissionRecord",
    "Phase",
    "Place",
    "PlacementProblem",
    "PreparationSupport",
    "Prepared",
    "Preview",
    "Problem",
    "ProjectionReceipt",
    "Purpose",
    "Quote",
    "Reach",
    "Ready",
    "Recapture",
    "Recheck",
    "Refusal",
    "ReplayGuarantee",
    "Reply",
    "ResolutionStatus",
    "Resource",
    "ResourceKind",
    "Route",
    "Running",
    "Scope",
    "Selection",
    "SessionAnswer",
    "SessionRecord",
    "SnapshotReference",
    "State",
    "Tool",
    "ToolContext",
    "ToolFailed",
    "Tools",
    "TypedResult",
    "Unavailable",
    "UnknownEffect",
    "Verdict",
    "Verification",
    "VerificationUnavailable",
    "Verified",
    "WholeDocument",
    "WorkingOn",
    "connect",
    "data_converter",
    "operation_id",
    "verify_callback",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'counterfoil' has no attribute '{name}'")
    value = getattr(import_module(f"counterfoil.{home}"), name)
    globals()[name] = value
    return value


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("counterfoil")
    except PackageNotFoundError:  # run from a source tree that was never installed
        return "0"


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME_OF])
