"""kill -9 at each fault point of documents: nothing that was acknowledged is lost, and nothing happens twice."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from counterfoil.activities.documents import log as logs
from counterfoil.activities.documents import snapshots
from counterfoil.activities.documents.capture import current_receipt
from counterfoil.activities.documents.taking import snapshot_id
from counterfoil.activities.fault_points import DOCUMENT_POINTS, FaultPoint
from counterfoil.activities.store.database import Database
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.common import digest_bytes
from counterfoil.models.tables import CONSUMPTION_RECEIPTS, DOCUMENT_EDITS, DOCUMENT_UPDATES, REPLIES
from support.document_process import UPDATES
from support.documents import system

WHAT: dict[FaultPoint, str] = {
    FaultPoint.APPEND_BEFORE_COMMIT: "append",
    FaultPoint.APPEND_COMMITTED: "append",
    FaultPoint.COMPACT_BLOB_PUT: "compact",
    FaultPoint.COMPACT_BEFORE_COMMIT: "compact",
    FaultPoint.COMPACT_COMMITTED: "compact",
    FaultPoint.CAPTURE_BLOBS_PUT: "capture",
    FaultPoint.CAPTURE_BEFORE_COMMIT: "capture",
    FaultPoint.CAPTURE_COMMITTED: "capture",
    FaultPoint.EDIT_BEFORE_COMMIT: "edit",
    FaultPoint.EDIT_COMMITTED: "edit",
    FaultPoint.FETCH_BEFORE_COMMIT: "consume",
    FaultPoint.FETCH_COMMITTED: "consume",
    FaultPoint.REPLY_BEFORE_COMMIT: "consume",
    FaultPoint.REPLY_COMMITTED: "consume",
    FaultPoint.ACKNOWLEDGE_BEFORE_COMMIT: "consume",
    FaultPoint.ACKNOWLEDGE_COMMITTED: "consume",
    FaultPoint.CONDEMN_BEFORE_COMMIT: "collect",
    FaultPoint.CONDEMNED: "collect",
    FaultPoint.REMOVED: "collect",
    FaultPoint.FORGET_BEFORE_COMMIT: "collect",
    FaultPoint.LET_GO_BEFORE_COMMIT: "collect",
}


def test_every_point_of_documents_is_killed_at():
    assert set(WHAT) == set(DOCUMENT_POINTS)


def run(url: str, folder: Path, fault: str, what: str) -> int:
    made = subprocess.run(
        [sys.executable, "-m", "support.document_process", url, str(folder), fault, what],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert made.returncode in (0, -signal.SIGKILL), made.stderr[-2000:]
    return made.returncode


EVERYWHERE = [("sqlite", point) for point in WHAT] + [
    ("postgresql", point)
    for point in (
        FaultPoint.APPEND_COMMITTED,
        FaultPoint.COMPACT_BEFORE_COMMIT,
        FaultPoint.CAPTURE_BEFORE_COMMIT,
        FaultPoint.EDIT_COMMITTED,
        FaultPoint.CONDEMNED,
    )
]


@pytest.mark.parametrize(("database_url", "point"), EVERYWHERE, indirect=["database_url"])
async def test_after_a_kill_the_next_process_finds_all_or_nothing_and_ends_the_work(
    database_url: str, tmp_path: Path, point: FaultPoint
):
    what = WHAT[point]

    killed = run(database_url, tmp_path, point, what)
    again = run(database_url, tmp_path, "none", what)

    assert (killed, again) == (-signal.SIGKILL, 0)
    database = Database(database_url)
    documents = system(database, tmp_path)

    async def rows(work: UnitOfWork) -> dict[str, Any]:
        row = await logs.found(work, "notes")
        return {
            "head": logs.head_of(row),
            "receipt": current_receipt(row),
            "log": (await work.session.execute(select(DOCUMENT_UPDATES.c.sequence))).scalars(),
            "edits": (await work.session.execute(select(DOCUMENT_EDITS.c.operation_id))).scalars(),
            "receipts": len((await work.session.execute(select(CONSUMPTION_RECEIPTS.c.id))).scalars()),
            "replies": (await work.session.execute(select(REPLIES.c.reply_id))).scalars(),
        }

    found = await database.read(rows)
    markdown = await documents.documents.read("notes", lambda loaded: loaded.projection.markdown)
    for number in range(len(UPDATES)):
        assert markdown.count(f"line {number}\n") == 1
    match what:
        case "compact":
            assert (found["head"].sequence, found["log"]) == (5, [])
        case "edit":
            assert markdown.count("edited by the operation") == 1
            assert (found["head"].sequence, found["edits"]) == (6, ["operation-1"])
        case "capture" | "collect":
            snapshot = await database.read(lambda work: snapshots.find(work, snapshot_id("c1")))
            assert found["receipt"].projection_digest == snapshot.receipt.projection_digest
            assert digest_bytes(documents.blobs.get(snapshot.projection)) == snapshot.receipt.projection_digest
            assert digest_bytes(documents.blobs.get(snapshot.snapshot)) == snapshot.receipt.snapshot_digest
        case "consume":
            assert (found["receipts"], found["replies"]) == (1, ["r1"])
    await database.close()
