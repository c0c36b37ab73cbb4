"""What waits for what, what took whose place, and whether a session's work may go on."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

SESSION_COLUMNS = (
    ("epoch", sa.Integer(), "0"),
    ("paused", sa.Boolean(), sa.false()),
    ("ledger_version", sa.Integer(), "0"),
)


def upgrade() -> None:
    for name, kind, default in SESSION_COLUMNS:
        _add("sessions", name, kind, default)
    _add("operations", "epoch", sa.Integer(), "0")
    op.add_column("operations", sa.Column("superseded_by", sa.String(length=64), nullable=True))
    op.create_table(
        "dependencies",
        sa.Column("operation_id", sa.String(length=64), nullable=False),
        sa.Column("named", sa.String(length=64), nullable=False),
        sa.Column("awaits", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("operation_id", "named"),
    )
    op.create_index("ix_dependencies_awaits", "dependencies", ["awaits"], unique=False)


def _add(table: str, name: str, kind: sa.types.TypeEngine[Any], default: Any) -> None:
    """A column that old rows have a value for, and new rows are given one."""
    with op.batch_alter_table(table) as changed:
        changed.add_column(sa.Column(name, kind, nullable=False, server_default=default))
    with op.batch_alter_table(table) as changed:
        changed.alter_column(name, server_default=None)


def downgrade() -> None:
    op.drop_index("ix_dependencies_awaits", table_name="dependencies")
    op.drop_table("dependencies")
    for table, names in (("operations", ("superseded_by", "epoch")), ("sessions", [n for n, _, _ in SESSION_COLUMNS])):
        with op.batch_alter_table(table) as changed:
            for name in names:
                changed.drop_column(name)
