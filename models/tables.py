"""The tables, for SQLite and PostgreSQL alike. Not imported by workflows.

JSON columns hold one contract each, as canonical JSON text; instants are UTC. A row's `revision` counts lifecycle
transitions; its `ledger_version` counts everything that was recorded about it.

Each row is a plain model, and the table is made from it: a row costs no more than its values.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Column, DateTime, Dialect, Index, LargeBinary, Table, Text, TypeDecorator, UniqueConstraint
from sqlmodel import Field, SQLModel


class UtcDateTime(TypeDecorator[datetime]):
    """An aware UTC instant: `timestamptz` on PostgreSQL, naive UTC on SQLite, which has no zones."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        value = value.astimezone(UTC)
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def _json(nullable: bool = True) -> Any:
    return Field(default=None, sa_column=Column(Text, nullable=nullable))


def _at(nullable: bool = True) -> Any:
    return Field(default=None, sa_column=Column(UtcDateTime, nullable=nullable))


class SessionRow(SQLModel):
    """A session: the counter that makes its timeline gapless, and whether its work may go on."""

    __tablename__ = "sessions"

    id: str = Field(primary_key=True, max_length=200)
    workspace: str = Field(max_length=200)
    timeline: int = 0
    epoch: int = 0
    """Counts cancellations of its whole work. What was asked for in an earlier epoch is not begun any more."""
    paused: bool = False
    ledger_version: int = 0


class OperationRow(SQLModel):
    """The truth about one application operation."""

    __tablename__ = "operations"
    __table_args__ = (
        UniqueConstraint("session", "idempotency_key", name="uq_operations_claim"),
        Index("ix_operations_state", "state", "updated_at"),
        Index("ix_operations_session", "session", "created_at"),
    )

    id: str = Field(primary_key=True, max_length=64)
    schema_version: int
    workspace: str = Field(max_length=200)
    session: str = Field(max_length=200)
    turn: str | None = Field(default=None, max_length=200)
    epoch: int = 0
    """The owner's epoch it was asked for in."""
    idempotency_key: str = Field(max_length=200)
    request_digest: str = Field(max_length=71)
    request: str = _json(nullable=False)
    input_blob: str | None = _json()
    resources: str = _json(nullable=False)
    capability: str = Field(max_length=200)
    route_id: str = Field(max_length=200)
    route: str = _json(nullable=False)
    task_queue: str = Field(max_length=700)

    intent: str = Field(max_length=16)
    state: str = Field(max_length=32)
    verification: str = Field(max_length=16)
    cancellation: str = Field(max_length=16)
    revision: int = 0
    ledger_version: int = 0
    ledger_floor: int = 0

    generation: int = 0
    fence: int = 0
    attempts: int = 0
    polls: int = 0
    polls_limit: int = 0
    adapter_calls: int = 0
    attempt_open: bool = False
    cancel_sent: bool = False
    observation_exhausted: bool = False
    reverify: bool = False
    attested: bool = False
    superseded_by: str | None = Field(default=None, max_length=64)
    prepared: str | None = _json()
    proposal_digest: str | None = Field(default=None, max_length=71)
    approved_digest: str | None = Field(default=None, max_length=71)
    decision: str | None = _json()
    external_id: str | None = Field(default=None, max_length=200)
    poll_after_seconds: float | None = None
    blocked: str | None = _json()
    result: str | None = _json()
    evidence: str | None = _json()
    problem: str | None = _json()
    decision_expires_at: datetime | None = _at()
    deadline: datetime | None = _at()
    queued_at: datetime | None = _at()
    first_dispatched_at: datetime | None = _at()
    dispatched_at: datetime | None = _at()
    created_at: datetime = _at(nullable=False)
    updated_at: datetime = _at(nullable=False)
    closed_at: datetime | None = _at()


class AttemptRow(SQLModel):
    """One journaled attempt at an effect. Written before the adapter is called; the outcome is added once."""

    __tablename__ = "attempts"

    operation_id: str = Field(primary_key=True, max_length=64)
    generation: int = Field(primary_key=True)
    kind: str = Field(max_length=16)
    token: str = Field(max_length=64)
    adapter: str = Field(max_length=200)
    adapter_version: str = Field(max_length=200)
    environment: str = Field(max_length=200)
    task_queue: str = Field(max_length=700)
    journaled_at: datetime = _at(nullable=False)
    outcome: str | None = _json()
    settled_at: datetime | None = _at()


class DependencyRow(SQLModel):
    """What an operation waits for: the operation it named, or what stands for that since it was superseded."""

    __tablename__ = "dependencies"
    __table_args__ = (Index("ix_dependencies_awaits", "awaits"),)

    operation_id: str = Field(primary_key=True, max_length=64)
    named: str = Field(primary_key=True, max_length=64)
    awaits: str = Field(max_length=64)


class CommandRow(SQLModel):
    """A command that was applied, under its key, with the answer a repetition gets."""

    __tablename__ = "commands"

    operation_id: str = Field(primary_key=True, max_length=64)
    key: str = Field(primary_key=True, max_length=300)
    content_digest: str = Field(max_length=71)
    answer: str = _json(nullable=False)
    at: datetime = _at(nullable=False)


class ResourceRow(SQLModel):
    """A resource that was ever claimed: the row PostgreSQL serialises grants on, and its name for people."""

    __tablename__ = "resources"

    digest: str = Field(primary_key=True, max_length=71)
    name: str = Field(max_length=500)


class ClaimRow(SQLModel):
    """An operation's claim on a resource: held, or waiting since `queued_at`."""

    __tablename__ = "claims"
    __table_args__ = (
        Index("ix_claims_held", "resource", "held", "exclusive"),
        Index("ix_claims_waiting", "resource", "held", "queued_at", "operation_id"),
    )

    operation_id: str = Field(primary_key=True, max_length=64)
    resource: str = Field(primary_key=True, max_length=71)
    exclusive: bool
    held: bool
    overtakable: bool = False
    """Waits for an unknown effect: those that do not conflict with what is held may go first."""
    queued_at: datetime = _at(nullable=False)


class PermissionRow(SQLModel):
    """What was said last of a tool in a session; `account` is empty where it was said of any account."""

    __tablename__ = "permissions"
    __table_args__ = (Index("ux_permissions_tool", "session", "tool", "account", unique=True),)

    id: str = Field(primary_key=True, max_length=64)
    workspace: str = Field(max_length=200)
    session: str = Field(max_length=200)
    tool: str = Field(max_length=200)
    account: str = Field(max_length=200)
    permission: str = Field(max_length=16)
    actor: str = _json(nullable=False)
    at: datetime = _at(nullable=False)
    ledger_version: int = 0


class ToolCallRow(SQLModel):
    """A call that changes something and that no operation makes. It holds its workspace until it ends.

    Where nobody ends it by `lease_until`, because its process died, the sweep does.
    """

    __tablename__ = "tool_calls"
    __table_args__ = (Index("ix_tool_calls_lease", "ended_at", "lease_until"),)

    id: str = Field(primary_key=True, max_length=64)
    workspace: str = Field(max_length=200)
    session: str = Field(max_length=200)
    tool: str = Field(max_length=200)
    account: str | None = Field(default=None, max_length=200)
    arguments_digest: str = Field(max_length=71)
    begun_at: datetime = _at(nullable=False)
    lease_until: datetime = _at(nullable=False)
    ended_at: datetime | None = _at()
    ledger_version: int = 0


class LedgerRow(SQLModel):
    """One thing that happened. Gapless per subject; gapless per session timeline."""

    __tablename__ = "ledger"
    __table_args__ = (Index("ux_ledger_timeline", "session", "timeline", unique=True),)

    subject_kind: str = Field(primary_key=True, max_length=32)
    subject_id: str = Field(primary_key=True, max_length=200)
    version: int = Field(primary_key=True)
    session: str = Field(max_length=200)
    timeline: int
    kind: str = Field(max_length=64)
    material: bool
    actor: str = _json(nullable=False)
    scope: str | None = Field(default=None, max_length=16)
    evidence: str | None = _json()
    summary: str = Field(sa_column=Column(Text, nullable=False))
    data: str | None = _json()
    at: datetime = _at(nullable=False)


class DeliveryRow(SQLModel):
    """A callback in the outbox: put there with the change it tells of, and kept with what became of it."""

    __tablename__ = "deliveries"
    __table_args__ = (
        Index("ix_deliveries_due", "due_at"),
        Index("ix_deliveries_operation", "operation_id", "version"),
    )

    id: str = Field(primary_key=True, max_length=100)
    operation_id: str = Field(max_length=64)
    version: int
    type: str = Field(max_length=64)
    body: str = _json(nullable=False)
    state: str = Field(max_length=16)
    tries: int = 0
    status: int | None = None
    problem: str | None = Field(default=None, max_length=300)
    created_at: datetime = _at(nullable=False)
    due_at: datetime | None = _at()
    """When it is to be sent next; None once it was taken or given up."""
    settled_at: datetime | None = _at()


class DocumentRow(SQLModel):
    """The truth about one collaborative document: its head, and the snapshot that its log goes on from."""

    __tablename__ = "documents"
    __table_args__ = (Index("ix_documents_tail", "state", "updated_at"),)

    id: str = Field(primary_key=True, max_length=180)
    workspace: str = Field(max_length=200)
    generation: int = 1
    sequence: int = 0
    """Counts the updates ever appended."""
    snapshot: str | None = _json()
    snapshot_sequence: int = 0
    """The newest update that the snapshot holds. Those after it are in the log."""
    state: str = Field(default="live", max_length=16)
    problem: str | None = _json()
    receipt: str | None = _json()
    ledger_version: int = 0
    created_at: datetime = _at(nullable=False)
    updated_at: datetime = _at(nullable=False)

    @property
    def session(self) -> str:
        """The timeline of its own entries."""
        return f"document/{self.id}"


class DocumentUpdateRow(SQLModel):
    """One update, byte for byte as it came. Acknowledged once this row is committed."""

    __tablename__ = "document_updates"
    __table_args__ = (Index("ix_document_updates_digest", "document_id", "digest"),)

    document_id: str = Field(primary_key=True, max_length=180)
    sequence: int = Field(primary_key=True)
    digest: str = Field(max_length=71)
    payload: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    actor: str = _json(nullable=False)
    at: datetime = _at(nullable=False)


class DocumentEditRow(SQLModel):
    """What became of an operation's edit of a document. Attempts up to `fence` can no longer make it."""

    __tablename__ = "document_edits"

    operation_id: str = Field(primary_key=True, max_length=64)
    document_id: str = Field(max_length=180)
    fence: int = 0
    applied: str | None = _json()
    at: datetime = _at(nullable=False)


class ActionSnapshotRow(SQLModel):
    """A captured version of a document for one action. Never changed, and forgotten once nobody needs it."""

    __tablename__ = "action_snapshots"
    __table_args__ = (Index("ux_action_snapshots_capture", "capture_id", unique=True),)

    id: str = Field(primary_key=True, max_length=200)
    capture_id: str = Field(max_length=200)
    request_digest: str = Field(max_length=71)
    document_id: str = Field(max_length=180)
    workspace: str = Field(max_length=200)
    session: str = Field(max_length=200)
    message_id: str | None = Field(default=None, max_length=200)
    contract: str | None = _json()
    """None once it is forgotten: its id is never given again."""
    ledger_version: int = 0
    created_at: datetime = _at(nullable=False)


class ConsumptionReceiptRow(SQLModel):
    """One fetch of a snapshot, by one consumer generation; bound to a reply once."""

    __tablename__ = "consumption_receipts"
    __table_args__ = (
        Index("ux_consumption_receipts", "message_id", "snapshot_id", "consumer_generation", unique=True),
    )

    id: str = Field(primary_key=True, max_length=64)
    message_id: str = Field(max_length=200)
    snapshot_id: str = Field(max_length=200)
    consumer_generation: int
    workspace: str = Field(max_length=200)
    session: str = Field(max_length=200)
    contract: str = _json(nullable=False)
    reply_id: str | None = Field(default=None, max_length=200)
    acknowledged_at: datetime | None = _at()
    ledger_version: int = 0
    at: datetime = _at(nullable=False)


class ReplyRow(SQLModel):
    """The reply that stands for a message."""

    __tablename__ = "replies"
    __table_args__ = (Index("ux_replies_message", "message_id", unique=True),)

    reply_id: str = Field(primary_key=True, max_length=200)
    message_id: str = Field(max_length=200)
    contract: str = _json(nullable=False)
    at: datetime = _at(nullable=False)


class UseRow(SQLModel):
    """Something that is kept, by name, and who needs it."""

    __tablename__ = "uses"

    subject: str = Field(primary_key=True, max_length=200)
    """A blob's digest, or an action snapshot's id."""
    holder_kind: str = Field(primary_key=True, max_length=32)
    holder: str = Field(primary_key=True, max_length=200)


class BlobRow(SQLModel):
    """A document's blob: the row that those who begin to use it and those who remove it meet at.

    While it is condemned nobody may begin to use it.
    """

    __tablename__ = "document_blobs"

    digest: str = Field(primary_key=True, max_length=71)
    condemned_until: datetime | None = _at()
    """Its remover deletes no bytes after this."""


class Sessions(SessionRow, table=True):
    """The table of sessions."""


class Operations(OperationRow, table=True):
    """The table of operations."""


class Attempts(AttemptRow, table=True):
    """The table of attempts."""


class Dependencies(DependencyRow, table=True):
    """The table of dependencies."""


class Commands(CommandRow, table=True):
    """The table of commands."""


class Resources(ResourceRow, table=True):
    """The table of resources."""


class Claims(ClaimRow, table=True):
    """The table of claims."""


class Permissions(PermissionRow, table=True):
    """The table of permissions."""


class ToolCalls(ToolCallRow, table=True):
    """The table of direct tool calls."""


class Ledger(LedgerRow, table=True):
    """The table of ledger entries."""


class Deliveries(DeliveryRow, table=True):
    """The table of callbacks."""


class Documents(DocumentRow, table=True):
    """The table of documents."""


class DocumentUpdates(DocumentUpdateRow, table=True):
    """The table of documents' updates."""


class DocumentEdits(DocumentEditRow, table=True):
    """The table of operations' edits of documents."""


class ActionSnapshots(ActionSnapshotRow, table=True):
    """The table of action snapshots."""


class ConsumptionReceipts(ConsumptionReceiptRow, table=True):
    """The table of consumption receipts."""


class Replies(ReplyRow, table=True):
    """The table of replies."""


class Uses(UseRow, table=True):
    """The table of uses."""


class Blobs(BlobRow, table=True):
    """The table of documents' blobs."""


def table_of(row: type[SQLModel]) -> Table:
    """The table of a kind of row."""
    return SQLModel.metadata.tables[str(row.__tablename__)]


OPERATIONS = table_of(OperationRow)
SESSIONS = table_of(SessionRow)
ATTEMPTS = table_of(AttemptRow)
DEPENDENCIES = table_of(DependencyRow)
RESOURCES = table_of(ResourceRow)
CLAIMS = table_of(ClaimRow)
PERMISSIONS = table_of(PermissionRow)
TOOL_CALLS = table_of(ToolCallRow)
LEDGER = table_of(LedgerRow)
DELIVERIES = table_of(DeliveryRow)
DOCUMENTS = table_of(DocumentRow)
DOCUMENT_UPDATES = table_of(DocumentUpdateRow)
DOCUMENT_EDITS = table_of(DocumentEditRow)
ACTION_SNAPSHOTS = table_of(ActionSnapshotRow)
CONSUMPTION_RECEIPTS = table_of(ConsumptionReceiptRow)
REPLIES = table_of(ReplyRow)
USES = table_of(UseRow)
BLOBS = table_of(BlobRow)
