"""A receipt is current while all five things it binds are the live ones."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from counterfoil.models.common import BlobRef, digest_bytes
from counterfoil.models.documents.heads import Head
from counterfoil.models.documents.receipts import ProjectionReceipt, is_current

SNAPSHOT, PROJECTION, OTHER = (digest_bytes(one) for one in (b"snapshot", b"projection", b"other"))
HEAD = Head(generation=2, sequence=7, snapshot_digest=SNAPSHOT)
RECEIPT = ProjectionReceipt(
    document_id="notes",
    generation=2,
    snapshot_digest=SNAPSHOT,
    head=HEAD,
    projection_digest=PROJECTION,
    projection=BlobRef(digest=PROJECTION, size_bytes=1),
    at=datetime(2026, 7, 1, tzinfo=UTC),
)


def test_while_all_five_match_it_is_current():
    assert is_current(RECEIPT, "notes", HEAD, PROJECTION)


@pytest.mark.parametrize(
    ("document_id", "head", "projection"),
    [
        ("other", HEAD, PROJECTION),
        ("notes", HEAD.model_copy(update={"generation": 3}), PROJECTION),
        ("notes", HEAD.model_copy(update={"snapshot_digest": OTHER}), PROJECTION),
        ("notes", HEAD.model_copy(update={"snapshot_digest": None}), PROJECTION),
        ("notes", HEAD.model_copy(update={"sequence": 8}), PROJECTION),
        ("notes", HEAD, OTHER),
    ],
)
def test_where_one_of_them_differs_it_is_not(document_id: str, head: Head, projection: str):
    assert not is_current(RECEIPT, document_id, head, projection)


@pytest.mark.parametrize("field", ["generation", "snapshot_digest"])
def test_a_receipt_that_does_not_agree_with_itself_is_never_current(field: str):
    wrong = {"generation": 1, "snapshot_digest": OTHER}[field]

    assert not is_current(RECEIPT.model_copy(update={field: wrong}), "notes", HEAD, PROJECTION)
