"""Records the histories that the replay tests keep: `make record-histories`, after a deliberate workflow change.

Each story runs once through a real Temporal server; what it left in the history is written to `histories/`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from temporalio.client import Client

from counterfoil.control_plane.client import ControlPlane
from counterfoil.control_plane.temporal import data_converter
from counterfoil.models.operations.outcomes import CancelAccepted, Cancelled, Running, UnknownEffect
from counterfoil.models.operations.route import PreparationSupport
from counterfoil.worker.embedded import temporal_server
from support import scripted as scripts
from support.callback_receiver import KEY, receiving
from support.gate import Gate
from support.scripted import completed, evidence, request, scripted
from support.stack import Stack, settled

HISTORIES = Path(__file__).parent / "histories"
QUESTION = {"reason": "it is live data", "question": "Set the value to 2?"}
JOB = Running(external_id="job-1", poll_after_seconds=0.2)
LOST = UnknownEffect(code="LOST", detail="no reply")

Story = Callable[[Stack, ControlPlane], Awaitable[str]]


async def quick(stack: Stack, control_plane: ControlPlane) -> str:
    scripted(stack.catalog)
    await stack.start()
    return (await control_plane.create(request())).operation_id


async def approved(stack: Stack, control_plane: ControlPlane) -> str:
    """With a signal nobody can read, one that is early, and the approval as an update."""
    adapter = scripted(stack.catalog, preparation=PreparationSupport.PURE, readiness=True)
    await stack.start()
    created = await control_plane.create(request(decision=QUESTION, on_create="hold"))
    handle = stack.handle(created.operation_id)
    await handle.signal("decide", args=[1, 2])
    await control_plane.execute(created.operation_id)
    asked = await control_plane.wait(created.operation_id, "awaiting_decision", timeout_seconds=30)
    await handle.signal("no_such_command")
    await control_plane.decide(asked.operation_id, "approve", proposal_digest=asked.proposal_digest)
    assert adapter is not None
    return asked.operation_id


async def declined(stack: Stack, control_plane: ControlPlane) -> str:
    """By a bare signal."""
    scripted(stack.catalog)
    await stack.start()
    created = await control_plane.create(request(decision=QUESTION | {"expires_after_seconds": 3600}))
    asked = await control_plane.wait(created.operation_id, "awaiting_decision", timeout_seconds=30)
    answer = {"proposal_digest": asked.proposal_digest, "verdict": "decline"}
    await stack.handle(asked.operation_id).signal("decide", answer)
    return asked.operation_id


async def cancelled_at_the_target(stack: Stack, control_plane: ControlPlane) -> str:
    adapter = scripted(stack.catalog, cancellation=True)
    gate = Gate(JOB)
    adapter.script("execute", JOB)
    adapter.script("observe", gate, JOB)
    adapter.script("cancel", CancelAccepted())
    adapter.script("observe", lambda _c, _o: Cancelled(detail="stopped", evidence=evidence()))
    await stack.start()
    created = await control_plane.create(request())
    await gate.reached()
    await control_plane.cancel(created.operation_id, "changed my mind")
    gate.open()
    return created.operation_id


async def attested(stack: Stack, control_plane: ControlPlane) -> str:
    adapter = scripted(stack.catalog)
    adapter.script("execute", LOST)
    adapter.script("observe", LOST, LOST)
    await stack.start()
    created = await control_plane.create(request(constraints={"max_polls": 2}))
    unknown = await settled(control_plane, created.operation_id)
    await control_plane.resolve_unknown(
        created.operation_id,
        expected_revision=unknown.revision,
        resolution_key="r1",
        status="applied",
        summary="I looked",
    )
    return created.operation_id


async def expired_before_dispatch(stack: Stack, control_plane: ControlPlane) -> str:
    adapter = scripted(stack.catalog, readiness=True)
    gate = Gate(None)
    adapter.script("readiness", *[gate] * 9)
    await stack.start()
    deadline = datetime.now(UTC) + timedelta(seconds=3)
    created = await control_plane.create(request(constraints={"deadline": deadline.isoformat()}))
    await control_plane.wait(created.operation_id, "expired", timeout_seconds=30)
    gate.open()
    return created.operation_id


async def cancelled_in_temporal(stack: Stack, control_plane: ControlPlane) -> str:
    scripted(stack.catalog)
    await stack.start()
    created = await control_plane.create(request(on_create="prepare"))
    await stack.handle(created.operation_id).cancel()
    return created.operation_id


async def waited_for_a_lock(stack: Stack, control_plane: ControlPlane) -> str:
    adapter = scripted(stack.catalog, call_timeout_seconds=30)
    gate = Gate(completed())
    adapter.script("execute", gate)
    await stack.start()
    await control_plane.create(request("k0"))
    await gate.reached()
    created = await control_plane.create(request("k1"))
    while (await control_plane.get(created.operation_id)).blocked is None:  # noqa: ASYNC110  another process's news
        await asyncio.sleep(0.05)
    gate.open()
    return created.operation_id


async def delivered(stack: Stack, control_plane: ControlPlane) -> str:
    """Callbacks: one that must wait, and one that settles meanwhile and wakes who sleeps for the first."""
    scripted(stack.catalog)
    with receiving() as receiver:
        receiver.answers.append(429)
        receiver.answer_headers = {"Retry-After": "45"}
        key = stack.folder / "callback.key"
        key.write_text(KEY)
        told = {"callback_url": receiver.url, "callback_key": f"file:{key}"}
        stack.settings = stack.settings.model_copy(update=told)
        await stack.start()
        for key_of_request in ("k0", "k1"):
            await settled(control_plane, (await control_plane.create(request(key_of_request))).operation_id)
            await asyncio.sleep(5)
        deliveries = f"{stack.settings.task_queue}-deliveries"
        await stack.handle(deliveries).result()
    return deliveries


STORIES: tuple[Story, ...] = (
    quick,
    approved,
    declined,
    cancelled_at_the_target,
    attested,
    expired_before_dispatch,
    cancelled_in_temporal,
    waited_for_a_lock,
    delivered,
)


async def record(client: Client, story: Story, folder: Path) -> None:
    scripts.SESSION = story.__name__
    stack = Stack(client, folder)
    try:
        operation_id = await story(stack, stack.control_plane())
        await stack.handle(operation_id).result()
        history = await stack.handle(operation_id).fetch_history()
    finally:
        await stack.close()
    # Workers and queues are named after the machine it was recorded on, which is nobody's business.
    told = history.to_json().replace(client.identity, "recorder")
    kept = {"workflow_id": operation_id, "history": json.loads(told)}
    file = HISTORIES / f"{story.__name__}.json"
    file.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    print(f"{file.name}: {len(history.events)} events, {file.stat().st_size} bytes")


async def main() -> None:
    HISTORIES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        async with temporal_server(root / "temporal.db") as server:
            client = await Client.connect(server.address, data_converter=data_converter())
            for story in STORIES:
                await record(client, story, root / story.__name__)


if __name__ == "__main__":
    asyncio.run(main())
