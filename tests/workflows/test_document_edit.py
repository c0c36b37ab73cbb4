"""A reviewed proposal, applied to a collaborative document as an operation."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio.client import Client

from counterfoil.control_plane.client import ControlPlane
from counterfoil.models.documents.captures import Reach
from counterfoil.models.documents.snapshots import ActionSnapshot
from counterfoil.models.operations.contract import OperationRequest
from counterfoil.models.operations.lifecycle import State, Verification
from counterfoil.models.operations.record import Operation
from support.documents import Editor, capture_of, passage
from support.stack import Stack, settled

TEXT = ("The quick brown fox.", "It jumps over the lazy dog.", "And that is all.")


@pytest_asyncio.fixture
async def editor(stack: Stack, control_plane: ControlPlane) -> AsyncIterator[Editor]:
    """An editor of the document `notes`, which is on a running stack."""
    await stack.start()
    made = Editor(*TEXT)
    await control_plane.documents.create("notes", workspace="acme", update=made.typed())
    yield made


async def captured(stack: Stack, control_plane: ControlPlane, about: str, **given: Any) -> ActionSnapshot:
    assert stack.unit is not None
    target = await stack.unit.documents.documents.read("notes", lambda loaded: passage(loaded, about))
    return await control_plane.documents.capture(capture_of(f"capture of {about}", target, **given))


def proposal(snapshot: ActionSnapshot, *changes: tuple[str, str], **given: Any) -> OperationRequest:
    values: dict[str, Any] = {
        "owner": {"workspace": "acme", "session": f"review-{uuid.uuid4()}"},
        "idempotency_key": given.pop("key", "change"),
        "capability": "document.edit",
        "route_id": "local.document.edit.v1",
        "objective": "Improve the notes",
        "input": {
            "document_id": "notes",
            "snapshot_id": snapshot.snapshot_id,
            "changes": [{"quote": {"exact": quote}, "replacement": becomes} for quote, becomes in changes],
        }
        | given.pop("more", {}),
        "resources": [{"kind": "application_state", "system": "counterfoil.documents", "identity": "notes"}],
        "decision": {"reason": "a person writes here", "question": "Apply it?"},
    }
    return OperationRequest.model_validate(values | given)


async def asked(control_plane: ControlPlane, request: OperationRequest) -> Operation:
    made = await control_plane.create(request)
    return await control_plane.wait(made.operation_id, "awaiting_decision", "failed", timeout_seconds=30)


async def approved(control_plane: ControlPlane, operation: Operation) -> Operation:
    assert operation.proposal_digest is not None
    await control_plane.decide(operation.operation_id, "approve", proposal_digest=operation.proposal_digest)
    return await settled(control_plane, operation.operation_id)


async def test_an_approved_change_is_made_verified_and_reaches_the_editor(
    stack: Stack, control_plane: ControlPlane, editor: Editor
):
    snapshot = await captured(stack, control_plane, "jumps over the lazy dog")
    operation = await asked(control_plane, proposal(snapshot, ("the lazy", "a **sleeping**")))

    done = await approved(control_plane, operation)

    assert (done.state, done.verification) == (State.COMPLETED, Verification.VERIFIED)
    assert done.result is not None
    assert done.result.data["sequence"] == 2
    assert await control_plane.documents.markdown("notes") == (
        "The quick brown fox.\n\nIt jumps over a **sleeping** dog.\n\nAnd that is all.\n"
    )
    editor.take(await control_plane.documents.lacking("notes", editor.state_vector()))
    assert str(editor.text(1)) == "It jumps over a <strong>sleeping</strong> dog."


async def test_typing_elsewhere_is_neither_lost_nor_does_it_void_the_approval(
    stack: Stack, control_plane: ControlPlane, editor: Editor
):
    snapshot = await captured(stack, control_plane, "jumps over the lazy dog")
    operation = await asked(control_plane, proposal(snapshot, ("lazy", "sleepy")))
    editor.type(0, 4, "very ")
    editor.type(1, 0, "Then: ")
    await control_plane.documents.append("notes", editor.typed())

    done = await approved(control_plane, operation)

    assert (done.state, done.verification) == (State.COMPLETED, Verification.VERIFIED)
    assert await control_plane.documents.markdown("notes") == (
        "The very quick brown fox.\n\nThen: It jumps over the sleepy dog.\n\nAnd that is all.\n"
    )


async def test_typing_inside_the_target_makes_it_a_placement_problem_and_changes_nothing(
    stack: Stack, control_plane: ControlPlane, editor: Editor
):
    snapshot = await captured(stack, control_plane, "jumps over the lazy dog")
    operation = await asked(control_plane, proposal(snapshot, ("lazy", "sleepy")))
    editor.type(1, 21, "z")
    await control_plane.documents.append("notes", editor.typed())

    done = await approved(control_plane, operation)

    assert done.state is State.FAILED
    assert done.problem is not None
    assert done.problem.code == "PLACEMENT_MISSING"
    assert "lazzy" in await control_plane.documents.markdown("notes")


@pytest.mark.parametrize(
    ("quote", "becomes", "code"),
    [
        ("quick", "slow", "OUTSIDE_ALLOWED_RANGES"),
        ("nowhere", "here", "PLACEMENT_MISSING"),
        ("e", "E", "PLACEMENT_AMBIGUOUS"),
        ("lazy", "<b>lazy</b>", "MARKDOWN_UNSUPPORTED"),
    ],
)
async def test_a_change_that_cannot_be_placed_or_made_is_refused_before_anybody_is_asked(
    stack: Stack, control_plane: ControlPlane, editor: Editor, quote: str, becomes: str, code: str
):
    snapshot = await captured(stack, control_plane, "jumps over the lazy dog")

    operation = await asked(control_plane, proposal(snapshot, (quote, becomes)))

    assert operation.state is State.FAILED
    assert operation.problem is not None
    assert operation.problem.code == code


async def test_a_quote_that_meant_two_passages_when_it_was_read_is_not_taken_for_the_one_that_is_left(
    stack: Stack, control_plane: ControlPlane, editor: Editor
):
    editor.add("Approved.")
    editor.add("Approved.")
    await control_plane.documents.append("notes", editor.typed())
    snapshot = await control_plane.documents.capture(capture_of(f"all {uuid.uuid4()}"))
    del editor.root.children[3]
    await control_plane.documents.append("notes", editor.typed())

    operation = await asked(control_plane, proposal(snapshot, ("Approved.", "Rejected.")))

    assert operation.problem is not None
    assert operation.problem.code == "PLACEMENT_AMBIGUOUS"


async def test_a_snapshot_that_allows_no_change_supports_none(
    stack: Stack, control_plane: ControlPlane, editor: Editor
):
    snapshot = await captured(stack, control_plane, "lazy dog", changes=Reach.NOTHING)

    operation = await asked(control_plane, proposal(snapshot, ("lazy", "sleepy")))

    assert operation.problem is not None
    assert operation.problem.code == "OUTSIDE_ALLOWED_RANGES"


async def test_a_proposal_from_a_message_needs_the_receipt_of_whoever_opened_its_snapshot(
    stack: Stack, control_plane: ControlPlane, editor: Editor
):
    snapshot = await captured(stack, control_plane, "lazy dog", message_id="m1", conversation="chat")
    fetched = await control_plane.documents.fetch("m1", snapshot.snapshot_id, 1)

    without = await asked(control_plane, proposal(snapshot, ("lazy", "sleepy"), key="without"))
    more = {"receipt_id": fetched.receipt.receipt_id}
    with_it = await asked(control_plane, proposal(snapshot, ("lazy", "sleepy"), key="with", more=more))

    assert without.problem is not None
    assert without.problem.code == "RECEIPT_MISMATCH"
    assert with_it.state is State.AWAITING_DECISION


async def test_several_changes_are_made_together(stack: Stack, control_plane: ControlPlane, editor: Editor):
    snapshot = await control_plane.documents.capture(capture_of("all"))
    changes = (("quick", "slow"), ("It jumps over the lazy dog.", "- one\n- two"), ("all", "_all_"))

    done = await approved(control_plane, await asked(control_plane, proposal(snapshot, *changes)))

    assert (done.state, done.verification) == (State.COMPLETED, Verification.VERIFIED)
    assert await control_plane.documents.markdown("notes") == (
        "The slow brown fox.\n\n- one\n- two\n\nAnd that is _all_.\n"
    )


async def test_an_edit_whose_commit_was_in_doubt_is_observed_and_made_once(client: Client, tmp_path: Path):
    doubtful = Stack(client, tmp_path, fault="timeout:document.edit.before_commit")
    await doubtful.start()
    control_plane = doubtful.control_plane()
    try:
        await control_plane.documents.create("notes", workspace="acme", update=Editor(*TEXT).typed())
        snapshot = await captured(doubtful, control_plane, "lazy dog")

        done = await approved(control_plane, await asked(control_plane, proposal(snapshot, ("lazy", "sleepy"))))

        assert (done.state, done.verification) == (State.COMPLETED, Verification.VERIFIED)
        kinds = [entry.kind for entry in await control_plane.history(done.operation_id)]
        assert kinds[-3:] == ["lose", "report_completed", "verification"]
        assert (await control_plane.documents.markdown("notes")).count("sleepy") == 1
        assert (await control_plane.documents.head("notes")).sequence == 2
    finally:
        await doubtful.close()


async def test_two_proposals_for_one_passage_are_not_both_made(
    stack: Stack, control_plane: ControlPlane, editor: Editor
):
    snapshot = await captured(stack, control_plane, "jumps over the lazy dog")
    first = await asked(control_plane, proposal(snapshot, ("lazy", "sleepy")))
    second = await asked(control_plane, proposal(snapshot, ("lazy", "tired")))

    done = [await approved(control_plane, one) for one in (first, second)]

    assert [one.state for one in done] == [State.COMPLETED, State.FAILED]
    assert done[1].problem is not None
    assert done[1].problem.code in ("PLACEMENT_MISSING", "TARGET_UNRESOLVED")
    assert "sleepy" in await control_plane.documents.markdown("notes")
