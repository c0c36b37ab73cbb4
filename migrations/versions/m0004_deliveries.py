"""Callbacks are put into an outbox, in the transaction of the change that they tell of."""

import sqlalchemy as sa
from alembic import op

from counterfoil.models.tables import UtcDateTime

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "deliveries",
        sa.Column("id", sa.String(length=100), nullable=False),
        sa.Column("operation_id", sa.String(length=64), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("type", sa.String(length=64), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("problem", sa.String(length=300), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("due_at", UtcDateTime(), nullable=True),
        sa.Column("settled_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_deliveries_due", "deliveries", ["due_at"], unique=False)
    op.create_index("ix_deliveries_operation", "deliveries", ["operation_id", "version"], unique=False)


def downgrade() -> None:
    op.drop_table("deliveries")
