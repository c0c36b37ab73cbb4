"""Alembic's environment: runs on the connection it is given."""

from alembic import context
from sqlmodel import SQLModel

import counterfoil.models.tables  # noqa: F401  (fills the metadata)

connection = context.config.attributes.get("connection")
if connection is None:
    raise RuntimeError("migrations run through counterfoil.activities.store.migration.migrate")
context.configure(
    connection=connection, target_metadata=SQLModel.metadata, render_as_batch=True, transaction_per_migration=False
)
context.run_migrations()
