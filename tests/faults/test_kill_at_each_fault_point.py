"""kill -9 of a real worker at every registered fault point: never two effects, never an unfounded claim, never stuck.

What must come of each is in a table. The oracles are the kernel's record of renames in the workspace, the file itself
read by programs that are not ours, and the adapters' publication records; our database is asked only what it claims.
"""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openpyxl
import pytest
import pytest_asyncio
from python_calamine import CalamineWorkbook
from temporalio.client import Client

from counterfoil import verify_callback
from counterfoil.activities.fault_points import DOCUMENT_POINTS, FaultPoint
from counterfoil.models.operations.commands import Answer
from counterfoil.models.operations.contract import Constraints, DecisionRequest, OperationRequest, Owner, Resource
from counterfoil.worker.embedded import TemporalServer
from support.callback_receiver import KEY, receiving
from support.crashes import CrashStage, Ended

REPORT = Path(__file__).parents[2] / "examples" / "quarterly-report.xlsx"
WORKBOOK = "quarterly-report.xlsx"
TEXT_FILE = "journal.txt"


@dataclass(frozen=True)
class Case:
    """Where workers are killed, one after the other, and what is found in the end."""

    killed_at: tuple[FaultPoint, ...]
    attempts: tuple[int, ...] = (1,)
    """The generations that were journaled. An effect, where there is one, is the last one's."""
    unknown: bool = False
    """Whether the operation was unknown on the way, because nobody could tell what had become of the attempt."""
    applied: bool = True
    """Completed, verified and in the file; else proved absent, with the file as it was."""
    repeated: bool = False
    """Whether the approval was taken twice, the second time as a repetition."""


NEVER_JOURNALED = {"attempts": (2,)}
"""Fenced, and dispatched again under the next generation."""
PROVED_ABSENT: dict[str, Any] = {"unknown": True, "applied": False}
"""Journaled without an outcome, observed, and not made again: the request allows one attempt."""
MADE_AGAIN: dict[str, Any] = {"unknown": True, "attempts": (1, 2)}
"""The same where the request allows two."""
PROVED_APPLIED: dict[str, Any] = {"unknown": True}
"""Published without an outcome, observed, never made again."""


def at(*killed_at: FaultPoint, **found: Any) -> Case:
    return Case(killed_at, **found)


# A workbook edit that is approved, and allows one attempt.
EDITED: dict[FaultPoint, Case] = {
    FaultPoint.OPEN_BEFORE_COMMIT: at(FaultPoint.OPEN_BEFORE_COMMIT),
    FaultPoint.OPEN_COMMITTED: at(FaultPoint.OPEN_COMMITTED),
    FaultPoint.PREPARE_BEFORE_ADAPTER: at(FaultPoint.PREPARE_BEFORE_ADAPTER),
    FaultPoint.PREPARE_BEFORE_COMMIT: at(FaultPoint.PREPARE_BEFORE_COMMIT),
    FaultPoint.PREPARE_COMMITTED: at(FaultPoint.PREPARE_COMMITTED),
    FaultPoint.COMMAND_BEFORE_COMMIT: at(FaultPoint.COMMAND_BEFORE_COMMIT),
    FaultPoint.COMMAND_COMMITTED: at(FaultPoint.COMMAND_COMMITTED, repeated=True),
    FaultPoint.JOURNAL_BEFORE_COMMIT: at(FaultPoint.JOURNAL_BEFORE_COMMIT, **NEVER_JOURNALED),
    FaultPoint.JOURNAL_COMMITTED: at(FaultPoint.JOURNAL_COMMITTED, **PROVED_ABSENT),
    FaultPoint.PUBLISH_LOCKED: at(FaultPoint.PUBLISH_LOCKED, **PROVED_ABSENT),
    FaultPoint.PUBLISH_STAGED: at(FaultPoint.PUBLISH_STAGED, **PROVED_ABSENT),
    FaultPoint.PUBLISH_INTENDED: at(FaultPoint.PUBLISH_INTENDED, **PROVED_ABSENT),
    FaultPoint.PUBLISH_DONE: at(FaultPoint.PUBLISH_DONE, **PROVED_APPLIED),
    FaultPoint.ADAPTER_RETURNED: at(FaultPoint.ADAPTER_RETURNED, **PROVED_APPLIED),
    FaultPoint.OUTCOME_BEFORE_COMMIT: at(FaultPoint.OUTCOME_BEFORE_COMMIT, **PROVED_APPLIED),
    FaultPoint.OUTCOME_COMMITTED: at(FaultPoint.OUTCOME_COMMITTED),
    # Reached only where an attempt was lost.
    FaultPoint.FENCE_BEFORE_COMMIT: at(FaultPoint.PUBLISH_DONE, FaultPoint.FENCE_BEFORE_COMMIT, **PROVED_APPLIED),
    FaultPoint.FENCE_COMMITTED: at(FaultPoint.PUBLISH_DONE, FaultPoint.FENCE_COMMITTED, **PROVED_APPLIED),
    FaultPoint.OBSERVE_BEFORE_ADAPTER: at(FaultPoint.PUBLISH_DONE, FaultPoint.OBSERVE_BEFORE_ADAPTER, **PROVED_APPLIED),
    FaultPoint.OBSERVE_FENCED: at(FaultPoint.PUBLISH_DONE, FaultPoint.OBSERVE_FENCED, **PROVED_APPLIED),
    FaultPoint.OBSERVE_BEFORE_COMMIT: at(FaultPoint.PUBLISH_DONE, FaultPoint.OBSERVE_BEFORE_COMMIT, **PROVED_APPLIED),
    FaultPoint.OBSERVE_COMMITTED: at(FaultPoint.PUBLISH_DONE, FaultPoint.OBSERVE_COMMITTED, **PROVED_APPLIED),
    FaultPoint.VERIFY_BEFORE_ADAPTER: at(FaultPoint.VERIFY_BEFORE_ADAPTER),
    FaultPoint.VERIFY_BEFORE_COMMIT: at(FaultPoint.VERIFY_BEFORE_COMMIT),
    FaultPoint.VERIFY_COMMITTED: at(FaultPoint.VERIFY_COMMITTED),
}

# Where two attempts are allowed, what was proved absent is made again, once.
APPENDED = EDITED | {
    point: at(point, **MADE_AGAIN)
    for point in (
        FaultPoint.JOURNAL_COMMITTED,
        FaultPoint.PUBLISH_LOCKED,
        FaultPoint.PUBLISH_STAGED,
        FaultPoint.PUBLISH_INTENDED,
    )
}

# The same points on other ways: looking for an effect that did not happen, making it again, verifying late.
KILLED_TWICE: dict[str, Case] = {
    "looking for an absent effect": at(FaultPoint.PUBLISH_STAGED, FaultPoint.OBSERVE_FENCED, **MADE_AGAIN),
    "absence recorded, not yet made again": at(FaultPoint.PUBLISH_INTENDED, FaultPoint.OBSERVE_COMMITTED, **MADE_AGAIN),
    "made again, the reply lost": at(FaultPoint.PUBLISH_INTENDED, FaultPoint.PUBLISH_DONE, **MADE_AGAIN),
    "verifying what was observed": at(FaultPoint.ADAPTER_RETURNED, FaultPoint.VERIFY_BEFORE_ADAPTER, **PROVED_APPLIED),
    "verified in an activity of its own": at(FaultPoint.OUTCOME_COMMITTED, FaultPoint.VERIFY_COMMITTED),
}

# A question that nobody answers in time.
EXPIRED = (FaultPoint.EXPIRE_BEFORE_COMMIT, FaultPoint.EXPIRE_COMMITTED)

# A parcel on its way that is to be stopped: what its carrier was told, and what is claimed in the end.
STOPPED: dict[FaultPoint, tuple[list[str], tuple[str, str]]] = {
    FaultPoint.CANCEL_JOURNAL_BEFORE_COMMIT: (["send", "stop"], ("cancelled", "confirmed")),
    # Nobody knows whether the carrier was told, so nobody tells it again: the parcel arrives.
    FaultPoint.CANCEL_JOURNALED: (["send"], ("completed", "too_late")),
    FaultPoint.CANCEL_RETURNED: (["send", "stop"], ("cancelled", "confirmed")),
    FaultPoint.CANCEL_BEFORE_COMMIT: (["send", "stop"], ("cancelled", "confirmed")),
    FaultPoint.CANCEL_COMMITTED: (["send", "stop"], ("cancelled", "confirmed")),
}

# A settled operation that somebody is to be told of: how often they are told, under one id.
TOLD: dict[FaultPoint, int] = {
    FaultPoint.DELIVERY_ENQUEUED: 1,
    # Nobody knows that it was taken: it is sent once more.
    FaultPoint.DELIVERY_POSTED: 2,
    FaultPoint.DELIVERY_RECORDED: 1,
}
# An adapter that takes back what it accepted, and a route that cannot be used for a while.
REFUSED = (FaultPoint.REFUSE_BEFORE_COMMIT, FaultPoint.REFUSE_COMMITTED)
BLOCKED = (FaultPoint.BLOCK_BEFORE_COMMIT, FaultPoint.BLOCK_COMMITTED)

# A parcel with a deadline, on its way: whether to look any longer is decided before each look.
WATCHED = (FaultPoint.EXHAUST_BEFORE_COMMIT, FaultPoint.EXHAUST_COMMITTED)

# Two parcels for one place: the one that arrives wakes the one that waits.
WOKEN = (FaultPoint.WAKE_BEFORE_SIGNAL,)

# Text that depends on another, which is there already.
GATED = (FaultPoint.GATE_BEFORE_COMMIT, FaultPoint.GATE_COMMITTED)

# A parcel on its way whose session's work is cancelled as a whole.
CALLED_OFF = (FaultPoint.SESSION_BEFORE_COMMIT, FaultPoint.SESSION_COMMITTED)

# Where the second attempt makes a difference, and once where the effect is there already.
EFFECT_POINTS = [*(point for point in EDITED if APPENDED[point] != EDITED[point]), FaultPoint.PUBLISH_DONE]


@pytest_asyncio.fixture
async def stage(client: Client, server: TemporalServer, tmp_path: Path) -> AsyncIterator[CrashStage]:
    made = CrashStage(client, server.address, tmp_path, adapters="support.parcels:register")
    try:
        yield made
    finally:
        await made.close()


def test_every_registered_fault_point_is_killed_at() -> None:
    killed_at = [*EDITED, *EXPIRED, *STOPPED, *REFUSED, *BLOCKED, *WATCHED, *WOKEN, *TOLD, *GATED, *CALLED_OFF]
    assert sorted([*killed_at, *DOCUMENT_POINTS]) == sorted(FaultPoint)
    assert [case.killed_at[-1] for case in EDITED.values()] == list(EDITED)


@pytest.mark.parametrize("point", EDITED)
async def test_an_approved_workbook_edit_is_made_once_or_proved_absent_wherever_its_worker_is_killed(
    stage: CrashStage, point: FaultPoint
) -> None:
    await edit_workbook(stage, EDITED[point], max_attempts=1)


@pytest.mark.parametrize("name", KILLED_TWICE)
async def test_a_workbook_edit_is_made_once_where_its_recovery_is_killed_too(stage: CrashStage, name: str) -> None:
    await edit_workbook(stage, KILLED_TWICE[name], max_attempts=2)


@pytest.mark.parametrize("point", EFFECT_POINTS)
async def test_text_is_appended_once_wherever_the_worker_is_killed(stage: CrashStage, point: FaultPoint) -> None:
    file = stage.workspace / TEXT_FILE
    file.write_text("Monday: opened the books.\n")
    case = APPENDED[point]
    appended = {"path": TEXT_FILE, "text": "Tuesday: corrected July.\n"}
    request = request_of("local.files.v1", "file.append", TEXT_FILE, appended, max_attempts=2)

    ended = await stage.run(request, case.killed_at)

    assert_settled(stage, ended, case)
    assert file.read_text() == "Monday: opened the books.\nTuesday: corrected July.\n"


@pytest.mark.parametrize("point", EXPIRED)
async def test_a_question_nobody_answers_expires_and_nothing_is_written(stage: CrashStage, point: FaultPoint) -> None:
    question = DecisionRequest(reason="a new file", question="Write it?", expires_after_seconds=1)
    request = request_of(
        "local.files.v1", "file.create", TEXT_FILE, {"path": TEXT_FILE, "text": "hello"}, decision=question
    )

    ended = await stage.run(request, [point])

    assert stage.has_been_at(point)
    assert (ended.operation.state, ended.operation.verification) == ("expired", "unavailable")
    assert ended.generations == []
    assert list(stage.workspace.iterdir()) == []
    assert_kept_whole(stage)


@pytest.mark.parametrize("point", STOPPED)
async def test_a_target_is_told_to_cancel_at_most_once_and_observation_tells_what_came_of_it(
    stage: CrashStage, point: FaultPoint
) -> None:
    log, delivered = stage.workspace / "carrier.log", stage.workspace / "delivered"
    request = request_of("parcel.v1", "parcel.send", "parcel", {"log": str(log), "delivered": str(delivered)})

    async def impatient(operation_id: str) -> Answer:
        await stage.once(operation_id, "running")
        answer = await stage.control_plane.cancel(operation_id, "not wanted any more")
        await stage.until_been_at(point)
        delivered.touch()
        return answer

    ended = await stage.run(request, [point], person=impatient)

    told, claimed = STOPPED[point]
    assert stage.has_been_at(point)
    assert log.read_text().splitlines() == told
    assert (ended.operation.state, ended.operation.cancellation) == claimed
    assert ended.answer is not None
    assert ended.answer.status == "applied"
    assert_kept_whole(stage)


@pytest.mark.parametrize("point", GATED)
async def test_what_depends_on_something_verified_is_written_once(stage: CrashStage, point: FaultPoint) -> None:
    first = request_of("local.files.v1", "file.create", "first.txt", {"path": "first.txt", "text": "hello"})
    await stage.run(first, [])
    stage.end_workers()
    asked = request_of("local.files.v1", "file.create", TEXT_FILE, {"path": TEXT_FILE, "text": "hello"})

    ended = await stage.run(asked.model_copy(update={"depends_on": (first.operation_id,)}), [point])

    assert stage.has_been_at(point)
    assert (ended.operation.state, ended.operation.verification) == ("completed", "verified")
    assert ended.publications == 1


@pytest.mark.parametrize("point", CALLED_OFF)
async def test_a_sessions_cancellation_takes_effect_once_and_reaches_what_was_issued(
    stage: CrashStage, point: FaultPoint
) -> None:
    request, log, _ = parcel_of(stage)

    async def impatient(operation_id: str) -> Answer:
        await stage.once(operation_id, "running")
        answer = await stage.control_plane.cancel_session("faults", "not wanted any more", epoch=0)
        assert answer.epoch == 1
        return Answer(status=answer.status, operation_id=operation_id, state="running", revision=0)

    ended = await stage.run(request, [point], person=impatient)

    assert stage.has_been_at(point)
    assert log.read_text().splitlines() == ["send", "stop"]
    assert (ended.operation.state, ended.operation.cancellation) == ("cancelled", "confirmed")
    assert (await stage.control_plane.session("faults")).epoch == 1


@pytest.mark.parametrize("point", TOLD)
async def test_a_receiver_is_told_at_least_once_wherever_the_worker_is_killed(
    client: Client, server: TemporalServer, tmp_path: Path, point: FaultPoint
) -> None:
    key = tmp_path / "callback.key"
    key.write_text(KEY)
    with receiving() as receiver:
        settings = {"COUNTERFOIL_CALLBACK_URL": receiver.url, "COUNTERFOIL_CALLBACK_KEY": f"file:{key}"}
        stage = CrashStage(client, server.address, tmp_path, **settings)
        try:
            written = {"path": TEXT_FILE, "text": "hello"}
            ended = await stage.run(request_of("local.files.v1", "file.create", TEXT_FILE, written), [point])
            operation = await stage.once_told(ended.operation.operation_id)
        finally:
            await stage.close()

    assert stage.has_been_at(point)
    assert (operation.state, operation.verification) == ("completed", "verified")
    assert [(one.type, one.state) for one in operation.deliveries] == [("operation.settled", "delivered")]
    assert [sent.id for sent in receiver.received] == [operation.deliveries[0].id] * TOLD[point]
    for sent in receiver.received:
        assert verify_callback(bytes.fromhex(KEY), sent.headers, sent.body).state == "completed"


@pytest.mark.parametrize("point", REFUSED)
async def test_what_its_adapter_takes_back_before_dispatch_fails_and_nothing_is_sent(
    stage: CrashStage, point: FaultPoint
) -> None:
    request, log, delivered = parcel_of(stage, decision=DecisionRequest(reason="a parcel", question="Send it?"))

    async def person(operation_id: str) -> Answer:
        await stage.once(operation_id, "awaiting_decision")
        delivered.with_suffix(".refused").touch()
        return await stage.approver(operation_id)

    ended = await stage.run(request, [point], person=person)

    assert stage.has_been_at(point)
    assert (ended.operation.state, ended.operation.verification) == ("failed", "unavailable")
    assert ended.operation.problem is not None
    assert ended.operation.problem.code == "INVALID_INPUT"
    assert ended.generations == []
    assert not log.exists()
    assert_kept_whole(stage)


@pytest.mark.parametrize("point", BLOCKED)
async def test_a_route_that_cannot_be_used_is_waited_for_and_text_is_written_once(
    stage: CrashStage, point: FaultPoint
) -> None:
    question = DecisionRequest(reason="a new file", question="Write it?")
    request = request_of(
        "local.files.v1", "file.create", TEXT_FILE, {"path": TEXT_FILE, "text": "hello"}, decision=question
    )
    elsewhere = stage.workspace.with_name("elsewhere")

    async def person(operation_id: str) -> Answer:
        await stage.once(operation_id, "awaiting_decision")
        stage.workspace.rename(elsewhere)
        answer = await stage.approver(operation_id)
        await stage.until_been_at(point)
        elsewhere.rename(stage.workspace)
        return answer

    ended = await stage.run(request, [point], person=person)

    assert stage.has_been_at(point)
    assert (ended.operation.state, ended.operation.verification) == ("completed", "verified")
    assert ended.publications == 1
    assert (stage.workspace / TEXT_FILE).read_text() == "hello"
    assert_kept_whole(stage)


@pytest.mark.parametrize("point", WATCHED)
async def test_work_with_a_deadline_is_watched_to_its_end(stage: CrashStage, point: FaultPoint) -> None:
    request, log, delivered = parcel_of(stage, deadline=dt.datetime.now(dt.UTC) + dt.timedelta(hours=1))

    async def waiting(operation_id: str) -> Answer:
        operation = await stage.once(operation_id, "running")
        await stage.until_been_at(point)
        delivered.touch()
        return Answer(status="applied", operation_id=operation_id, state=operation.state, revision=operation.revision)

    ended = await stage.run(request, [point], person=waiting)

    assert stage.has_been_at(point)
    assert (ended.operation.state, ended.generations) == ("completed", [1])
    assert log.read_text().splitlines() == ["send"]
    assert_kept_whole(stage)


@pytest.mark.parametrize("point", WOKEN)
async def test_whoever_waits_for_a_resource_gets_it_though_the_wake_up_is_lost(
    stage: CrashStage, point: FaultPoint
) -> None:
    first, log, delivered = parcel_of(stage)
    second = first.model_copy(update={"idempotency_key": "second"})

    async def impatient(operation_id: str) -> Answer:
        running = await stage.once(operation_id, "running")
        await stage.begin(second)
        await stage.until_blocked(second.operation_id)
        delivered.touch()
        return Answer(status="applied", operation_id=operation_id, state=running.state, revision=running.revision)

    ended = await stage.run(first, [point], person=impatient)
    other = await stage.once(second.operation_id, "completed")

    assert stage.has_been_at(point)
    assert (ended.operation.state, ended.generations) == ("completed", [1])
    assert [attempt.outcome is not None for attempt in other.attempts] == [True]
    assert log.read_text().splitlines() == ["send", "send"]
    assert stage.claims() == 0


def parcel_of(
    stage: CrashStage, *, decision: DecisionRequest | None = None, deadline: dt.datetime | None = None
) -> tuple[OperationRequest, Path, Path]:
    """A parcel, the log of what its carrier was told, and the file that says that it has arrived."""
    log, delivered = stage.workspace / "carrier.log", stage.workspace / "delivered"
    content = {"log": str(log), "delivered": str(delivered)}
    request = request_of("parcel.v1", "parcel.send", "parcel", content, decision=decision)
    limits = request.constraints.model_copy(update={"deadline": deadline})
    return request.model_copy(update={"constraints": limits}), log, delivered


async def edit_workbook(stage: CrashStage, case: Case, *, max_attempts: int) -> None:
    file = stage.workspace / WORKBOOK
    shutil.copy(REPORT, file)
    row = [
        {"type": "date", "date": "2024-10-08"},
        {"type": "text", "text": "Finance"},
        {"type": "text", "text": "Corrected July"},
    ]
    edits = [
        {"op": "set_cell", "sheet": "Revenue", "cell": "B2", "value": {"type": "number", "number": 42100}},
        {"op": "append_row", "sheet": "Log", "values": row},
    ]
    request = request_of(
        "local.workbook.edit.v1",
        "workbook.edit",
        WORKBOOK,
        {"path": WORKBOOK, "edits": edits},
        max_attempts=max_attempts,
        decision=DecisionRequest(reason="The report goes to the board.", question="Apply these changes?"),
    )

    ended = await stage.run(request, case.killed_at, person=stage.approver)

    assert_settled(stage, ended, case)
    assert_approved_once(ended, case)
    if case.applied:
        assert_report_was_edited_once(file)
    else:
        assert file.read_bytes() == REPORT.read_bytes()


def request_of(
    route: str,
    capability: str,
    path: str,
    content: dict[str, Any],
    *,
    max_attempts: int = 1,
    decision: DecisionRequest | None = None,
) -> OperationRequest:
    return OperationRequest(
        owner=Owner(workspace="w", session="faults"),
        idempotency_key=path,
        capability=capability,
        route_id=route,
        objective="survive",
        input=content,
        resources=(Resource(kind="file", system="file", identity=path),),
        decision=decision,
        constraints=Constraints(max_attempts=max_attempts),
    )


def assert_settled(stage: CrashStage, ended: Ended, case: Case) -> None:
    """What is claimed is what happened, and nothing is in doubt, held or left behind."""
    operation = ended.operation
    assert all(stage.has_been_at(point) for point in case.killed_at)
    claimed = ("completed", "verified") if case.applied else ("not_applied", "unavailable")
    assert (operation.state, operation.verification) == claimed
    assert tuple(ended.generations) == case.attempts
    assert ended.was_unknown == case.unknown
    assert ended.publications == (1 if case.applied else 0)
    assert stage.published_generations() == ([case.attempts[-1]] if case.applied else [])
    assert stage.staged_leftovers() == []
    assert_kept_whole(stage)
    kinds = [entry.kind for entry in ended.ledger]
    applied = 1 if case.applied else 0
    assert (kinds.count("created"), kinds.count("report_completed"), kinds.count("verification")) == (
        1,
        applied,
        applied,
    )


def assert_kept_whole(stage: CrashStage) -> None:
    """Nothing is held any more, and the ledger has no gap."""
    assert stage.claims() == 0
    versions, timeline = stage.ledger_versions()
    assert versions == list(range(1, len(versions) + 1))
    assert timeline == list(range(1, len(versions) + 1))


def assert_approved_once(ended: Ended, case: Case) -> None:
    kinds = [entry.kind for entry in ended.ledger]
    assert kinds.count("approve") == 1
    assert kinds.count("command_repeated") == (1 if case.repeated else 0)
    assert ended.answer is not None
    assert ended.answer.status == ("repeated" if case.repeated else "applied")


def assert_report_was_edited_once(file: Path) -> None:
    """By two readers that are not ours."""
    book = openpyxl.load_workbook(file)
    assert book["Revenue"]["B2"].value == 42100
    assert [[cell.value for cell in row] for row in book["Log"].iter_rows()] == [
        ["Date", "Who", "What"],
        [dt.datetime(2024, 10, 4), "Finance", "Closed September"],
        [dt.datetime(2024, 10, 8), "Finance", "Corrected July"],
    ]
    rows = CalamineWorkbook.from_path(file).get_sheet_by_name("Log").to_python()
    assert [row[2] for row in rows] == ["What", "Closed September", "Corrected July"]
