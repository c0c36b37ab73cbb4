"""What sessions may do with tools, and the direct calls that hold their workspace."""

import sqlalchemy as sa
from alembic import op

from counterfoil.models.tables import UtcDateTime

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "permissions",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("workspace", sa.String(length=200), nullable=False),
        sa.Column("session", sa.String(length=200), nullable=False),
        sa.Column("tool", sa.String(length=200), nullable=False),
        sa.Column("account", sa.String(length=200), nullable=False),
        sa.Column("permission", sa.String(length=16), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column("ledger_version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ux_permissions_tool", "permissions", ["session", "tool", "account"], unique=True)
    op.create_table(
        "tool_calls",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("workspace", sa.String(length=200), nullable=False),
        sa.Column("session", sa.String(length=200), nullable=False),
        sa.Column("tool", sa.String(length=200), nullable=False),
        sa.Column("account", sa.String(length=200), nullable=True),
        sa.Column("arguments_digest", sa.String(length=71), nullable=False),
        sa.Column("begun_at", UtcDateTime(), nullable=False),
        sa.Column("lease_until", UtcDateTime(), nullable=False),
        sa.Column("ended_at", UtcDateTime(), nullable=True),
        sa.Column("ledger_version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_tool_calls_lease", "tool_calls", ["ended_at", "lease_until"], unique=False)


def downgrade() -> None:
    op.drop_index("ix_tool_calls_lease", table_name="tool_calls")
    op.drop_table("tool_calls")
    op.drop_index("ux_permissions_tool", table_name="permissions")
    op.drop_table("permissions")
