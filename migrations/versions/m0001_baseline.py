"""The first tables: sessions, operations, attempts, commands, resources, claims, ledger."""

import sqlalchemy as sa
from alembic import op

from counterfoil.models.tables import UtcDateTime

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "attempts",
        sa.Column("operation_id", sa.String(length=64), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("token", sa.String(length=64), nullable=False),
        sa.Column("adapter", sa.String(length=200), nullable=False),
        sa.Column("adapter_version", sa.String(length=200), nullable=False),
        sa.Column("environment", sa.String(length=200), nullable=False),
        sa.Column("task_queue", sa.String(length=700), nullable=False),
        sa.Column("journaled_at", UtcDateTime(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("settled_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("operation_id", "generation"),
    )
    op.create_table(
        "claims",
        sa.Column("operation_id", sa.String(length=64), nullable=False),
        sa.Column("resource", sa.String(length=71), nullable=False),
        sa.Column("exclusive", sa.Boolean(), nullable=False),
        sa.Column("held", sa.Boolean(), nullable=False),
        sa.Column("overtakable", sa.Boolean(), nullable=False),
        sa.Column("queued_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("operation_id", "resource"),
    )
    op.create_index("ix_claims_held", "claims", ["resource", "held", "exclusive"], unique=False)
    op.create_index(
        "ix_claims_waiting", "claims", ["resource", "held", "overtakable", "exclusive", "queued_at"], unique=False
    )
    op.create_table(
        "commands",
        sa.Column("operation_id", sa.String(length=64), nullable=False),
        sa.Column("key", sa.String(length=300), nullable=False),
        sa.Column("content_digest", sa.String(length=71), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("operation_id", "key"),
    )
    op.create_table(
        "ledger",
        sa.Column("subject_kind", sa.String(length=32), nullable=False),
        sa.Column("subject_id", sa.String(length=200), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("session", sa.String(length=200), nullable=False),
        sa.Column("timeline", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("material", sa.Boolean(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("scope", sa.String(length=16), nullable=True),
        sa.Column("evidence", sa.Text(), nullable=True),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("data", sa.Text(), nullable=True),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("subject_kind", "subject_id", "version"),
    )
    op.create_index("ux_ledger_timeline", "ledger", ["session", "timeline"], unique=True)
    op.create_table(
        "operations",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("schema_version", sa.Integer(), nullable=False),
        sa.Column("workspace", sa.String(length=200), nullable=False),
        sa.Column("session", sa.String(length=200), nullable=False),
        sa.Column("turn", sa.String(length=200), nullable=True),
        sa.Column("idempotency_key", sa.String(length=200), nullable=False),
        sa.Column("request_digest", sa.String(length=71), nullable=False),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("input_blob", sa.Text(), nullable=True),
        sa.Column("resources", sa.Text(), nullable=False),
        sa.Column("capability", sa.String(length=200), nullable=False),
        sa.Column("route_id", sa.String(length=200), nullable=False),
        sa.Column("route", sa.Text(), nullable=False),
        sa.Column("task_queue", sa.String(length=700), nullable=False),
        sa.Column("intent", sa.String(length=16), nullable=False),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("verification", sa.String(length=16), nullable=False),
        sa.Column("cancellation", sa.String(length=16), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("ledger_version", sa.Integer(), nullable=False),
        sa.Column("ledger_floor", sa.Integer(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("polls", sa.Integer(), nullable=False),
        sa.Column("polls_limit", sa.Integer(), nullable=False),
        sa.Column("adapter_calls", sa.Integer(), nullable=False),
        sa.Column("attempt_open", sa.Boolean(), nullable=False),
        sa.Column("cancel_sent", sa.Boolean(), nullable=False),
        sa.Column("observation_exhausted", sa.Boolean(), nullable=False),
        sa.Column("reverify", sa.Boolean(), nullable=False),
        sa.Column("attested", sa.Boolean(), nullable=False),
        sa.Column("prepared", sa.Text(), nullable=True),
        sa.Column("proposal_digest", sa.String(length=71), nullable=True),
        sa.Column("approved_digest", sa.String(length=71), nullable=True),
        sa.Column("decision", sa.Text(), nullable=True),
        sa.Column("external_id", sa.String(length=200), nullable=True),
        sa.Column("poll_after_seconds", sa.Float(), nullable=True),
        sa.Column("blocked", sa.Text(), nullable=True),
        sa.Column("result", sa.Text(), nullable=True),
        sa.Column("evidence", sa.Text(), nullable=True),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.Column("decision_expires_at", UtcDateTime(), nullable=True),
        sa.Column("deadline", UtcDateTime(), nullable=True),
        sa.Column("queued_at", UtcDateTime(), nullable=True),
        sa.Column("first_dispatched_at", UtcDateTime(), nullable=True),
        sa.Column("dispatched_at", UtcDateTime(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("closed_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("session", "idempotency_key", name="uq_operations_claim"),
    )
    op.create_index("ix_operations_session", "operations", ["session", "created_at"], unique=False)
    op.create_index("ix_operations_state", "operations", ["state", "updated_at"], unique=False)
    op.create_table(
        "resources",
        sa.Column("digest", sa.String(length=71), nullable=False),
        sa.Column("name", sa.String(length=500), nullable=False),
        sa.PrimaryKeyConstraint("digest"),
    )
    op.create_table(
        "sessions",
        sa.Column("id", sa.String(length=200), nullable=False),
        sa.Column("workspace", sa.String(length=200), nullable=False),
        sa.Column("timeline", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )


def downgrade() -> None:
    op.drop_table("sessions")
    op.drop_table("resources")
    op.drop_index("ix_operations_state", table_name="operations")
    op.drop_index("ix_operations_session", table_name="operations")
    op.drop_table("operations")
    op.drop_index("ux_ledger_timeline", table_name="ledger")
    op.drop_table("ledger")
    op.drop_table("commands")
    op.drop_index("ix_claims_waiting", table_name="claims")
    op.drop_index("ix_claims_held", table_name="claims")
    op.drop_table("claims")
    op.drop_table("attempts")
