"""All of documents on one database and one blob store, put together."""

from __future__ import annotations

from counterfoil.activities.documents.capture import Capturer
from counterfoil.activities.documents.compaction import Compactor
from counterfoil.activities.documents.consumption import Consumption
from counterfoil.activities.documents.loading import Documents
from counterfoil.activities.documents.log import DocumentLog
from counterfoil.activities.documents.review import Review
from counterfoil.activities.documents.uses import Collector
from counterfoil.activities.fault_points import Checkpoint, no_fault
from counterfoil.activities.store.blobs import BlobStore
from counterfoil.activities.store.database import Database


class DocumentSystem:
    """The documents of one deployment."""

    def __init__(self, database: Database, blobs_url: str, checkpoint: Checkpoint = no_fault) -> None:
        """`blobs_url` is where the deployment's blobs are; documents keep theirs apart: only theirs are collected."""
        self.database = database
        self.blobs = BlobStore(f"{blobs_url.rstrip('/')}/documents")
        self.log = DocumentLog(database, checkpoint)
        self.documents = Documents(database, self.blobs, self.log)
        self.compactor = Compactor(database, self.blobs, self.documents, checkpoint)
        self.capturer = Capturer(database, self.blobs, self.documents, checkpoint)
        self.consumption = Consumption(database, self.blobs, checkpoint)
        self.review = Review(database, self.blobs)
        self.collector = Collector(database, self.blobs, checkpoint)
