"""Documents: their log, action snapshots, consumption receipts, and what of their bytes is in use."""

import sqlalchemy as sa
from alembic import op

from counterfoil.models.tables import UtcDateTime

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "documents",
        sa.Column("id", sa.String(length=180), nullable=False),
        sa.Column("workspace", sa.String(length=200), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.Column("snapshot", sa.Text(), nullable=True),
        sa.Column("snapshot_sequence", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.Column("receipt", sa.Text(), nullable=True),
        sa.Column("ledger_version", sa.Integer(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_documents_tail", "documents", ["state", "updated_at"], unique=False)
    op.create_table(
        "document_updates",
        sa.Column("document_id", sa.String(length=180), nullable=False),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(length=71), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("document_id", "sequence"),
    )
    op.create_index("ix_document_updates_digest", "document_updates", ["document_id", "digest"], unique=False)
    op.create_table(
        "document_edits",
        sa.Column("operation_id", sa.String(length=64), nullable=False),
        sa.Column("document_id", sa.String(length=180), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("applied", sa.Text(), nullable=True),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("operation_id"),
    )
    op.create_table(
        "action_snapshots",
        sa.Column("id", sa.String(length=200), nullable=False),
        sa.Column("capture_id", sa.String(length=200), nullable=False),
        sa.Column("request_digest", sa.String(length=71), nullable=False),
        sa.Column("document_id", sa.String(length=180), nullable=False),
        sa.Column("workspace", sa.String(length=200), nullable=False),
        sa.Column("session", sa.String(length=200), nullable=False),
        sa.Column("message_id", sa.String(length=200), nullable=True),
        sa.Column("contract", sa.Text(), nullable=True),
        sa.Column("ledger_version", sa.Integer(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ux_action_snapshots_capture", "action_snapshots", ["capture_id"], unique=True)
    op.create_table(
        "consumption_receipts",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("message_id", sa.String(length=200), nullable=False),
        sa.Column("snapshot_id", sa.String(length=200), nullable=False),
        sa.Column("consumer_generation", sa.Integer(), nullable=False),
        sa.Column("workspace", sa.String(length=200), nullable=False),
        sa.Column("session", sa.String(length=200), nullable=False),
        sa.Column("contract", sa.Text(), nullable=False),
        sa.Column("reply_id", sa.String(length=200), nullable=True),
        sa.Column("acknowledged_at", UtcDateTime(), nullable=True),
        sa.Column("ledger_version", sa.Integer(), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "ux_consumption_receipts",
        "consumption_receipts",
        ["message_id", "snapshot_id", "consumer_generation"],
        unique=True,
    )
    op.create_table(
        "replies",
        sa.Column("reply_id", sa.String(length=200), nullable=False),
        sa.Column("message_id", sa.String(length=200), nullable=False),
        sa.Column("contract", sa.Text(), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("reply_id"),
    )
    op.create_index("ux_replies_message", "replies", ["message_id"], unique=True)
    op.create_table(
        "uses",
        sa.Column("subject", sa.String(length=200), nullable=False),
        sa.Column("holder_kind", sa.String(length=32), nullable=False),
        sa.Column("holder", sa.String(length=200), nullable=False),
        sa.PrimaryKeyConstraint("subject", "holder_kind", "holder"),
    )
    op.create_table(
        "document_blobs",
        sa.Column("digest", sa.String(length=71), nullable=False),
        sa.Column("condemned_until", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("digest"),
    )


def downgrade() -> None:
    op.drop_table("document_blobs")
    op.drop_table("uses")
    op.drop_index("ux_replies_message", table_name="replies")
    op.drop_table("replies")
    op.drop_index("ux_consumption_receipts", table_name="consumption_receipts")
    op.drop_table("consumption_receipts")
    op.drop_index("ux_action_snapshots_capture", table_name="action_snapshots")
    op.drop_table("action_snapshots")
    op.drop_table("document_edits")
    op.drop_index("ix_document_updates_digest", table_name="document_updates")
    op.drop_table("document_updates")
    op.drop_index("ix_documents_tail", table_name="documents")
    op.drop_table("documents")
