"""Documents on a real database, SQLite and PostgreSQL in turn, without workflows."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterfoil.activities.documents.system import DocumentSystem
from counterfoil.activities.store.database import Database
from support.documents import system


@pytest.fixture
def documents(database: Database, tmp_path: Path) -> DocumentSystem:
    """All of documents, on this test's database."""
    return system(database, tmp_path)
