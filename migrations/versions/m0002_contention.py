"""Operations under contention: epochs, pauses, cost, supersession, dependencies, permissions, deliveries."""

import sqlalchemy as sa
from alembic import op

from counterfoil.models.tables import UtcDateTime

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("sessions", sa.Column("epoch", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("sessions", sa.Column("paused_at", UtcDateTime(), nullable=True))
    op.add_column("operations", sa.Column("owner_epoch", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("operations", sa.Column("spent", sa.Text(), nullable=True))
    op.add_column("operations", sa.Column("superseded_by", sa.String(length=64), nullable=True))
    op.create_table(
        "dependencies",
        sa.Column("operation_id", sa.String(length=64), nullable=False),
        sa.Column("depends_on", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("operation_id", "depends_on"),
    )
    op.create_index("ix_dependencies_on", "dependencies", ["depends_on"], unique=False)
    op.create_table(
        "tool_permissions",
        sa.Column("session", sa.String(length=200), nullable=False),
        sa.Column("tool", sa.String(length=200), nullable=False),
        sa.Column("permission", sa.String(length=8), nullable=False),
        sa.Column("account_id", sa.String(length=200), nullable=True),
        sa.Column("changed_by", sa.Text(), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("session", "tool"),
    )
    op.create_table(
        "deliveries",
        sa.Column("subject_id", sa.String(length=200), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("due_at", UtcDateTime(), nullable=True),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("subject_id", "version"),
    )
    op.create_index("ix_deliveries_due", "deliveries", ["due_at"], unique=False)
    op.drop_index("ix_claims_waiting", table_name="claims")
    op.create_index("ix_claims_waiting", "claims", ["resource", "held", "queued_at", "operation_id"], unique=False)


def downgrade() -> None:
    op.drop_index("ix_claims_waiting", table_name="claims")
    op.create_index(
        "ix_claims_waiting", "claims", ["resource", "held", "overtakable", "exclusive", "queued_at"], unique=False
    )
    op.drop_index("ix_deliveries_due", table_name="deliveries")
    op.drop_table("deliveries")
    op.drop_table("tool_permissions")
    op.drop_index("ix_dependencies_on", table_name="dependencies")
    op.drop_table("dependencies")
    for column in ("superseded_by", "spent", "owner_epoch"):
        op.drop_column("operations", column)
    for column in ("paused_at", "epoch"):
        op.drop_column("sessions", column)
