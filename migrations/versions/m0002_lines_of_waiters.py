"""Whoever waits for a resource is found in order, however many wait."""

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_index("ix_claims_waiting", table_name="claims")
    op.create_index("ix_claims_waiting", "claims", ["resource", "held", "queued_at", "operation_id"], unique=False)


def downgrade() -> None:
    op.drop_index("ix_claims_waiting", table_name="claims")
    op.create_index(
        "ix_claims_waiting", "claims", ["resource", "held", "overtakable", "exclusive", "queued_at"], unique=False
    )
