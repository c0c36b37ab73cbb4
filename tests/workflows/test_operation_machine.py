"""A seeded random walk through the real server, against a model of the row that shares no code with it.

`COUNTERFOIL_SEED` repeats a walk, `COUNTERFOIL_STEPS` makes it longer.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import uuid
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client

from counterfoil.control_plane.client import ControlPlane
from counterfoil.control_plane.temporal import data_converter
from counterfoil.models.errors import CounterfoilError
from counterfoil.models.operations.outcomes import (
    CancelAccepted,
    Cancelled,
    Evidence,
    Failed,
    NotApplied,
    Prepared,
    Running,
    UnknownEffect,
)
from counterfoil.models.operations.route import PreparationSupport, ReplayGuarantee
from counterfoil.worker.embedded import temporal_server
from support.scripted import completed, request, scripted
from support.stack import Stack

STEPS = int(os.environ.get("COUNTERFOIL_STEPS", "60"))
SEED = int(os.environ.get("COUNTERFOIL_SEED", "0")) or random.randrange(1, 10**6)
QUESTION = {"reason": "it is live data", "question": "Set the value to 2?"}

CLOSED = {"completed", "failed", "not_applied", "stopped", "cancelled", "declined", "expired", "superseded"}
FOLLOWS = {
    "held": {"preparing", "prepared", "awaiting_decision", "queued", "cancelled"},
    "preparing": {"prepared", "awaiting_decision", "queued", "failed", "cancelled", "unknown"},
    "prepared": {"awaiting_decision", "queued", "cancelled"},
    "awaiting_decision": {"queued", "declined", "revision_requested", "cancelled"},
    "revision_requested": {"cancelled", "expired"},
    "queued": {"dispatching", "failed", "cancelled"},
    "dispatching": {"running", "completed", "failed", "unknown"},
    "running": {"completed", "failed", "unknown", "not_applied", "queued", "cancelled"},
    "unknown": {"running", "completed", "failed", "not_applied", "queued", "cancelled", "stopped", "prepared"},
}
"""Which state may follow which, written down from DESIGN.md §3: nothing follows a closed one."""
FOR_A_PERSON = {"held", "prepared", "awaiting_decision", "revision_requested"}


def proof() -> Evidence:
    return Evidence(source="scripted target", observed_at=datetime.now(UTC))


def absent(_context, _order):
    return NotApplied(detail="never arrived", evidence=proof())


def stopped(_context, _order):
    return Cancelled(detail="stopped", evidence=proof())


JOB = Running(external_id="job-1", poll_after_seconds=0.05)
LOST = UnknownEffect(code="LOST", detail="no reply")
EXECUTIONS = [completed(), completed(), JOB, LOST, LOST, ValueError("boom"), SystemExit(1), None, {"junk": 1},
              Failed(code="NO", detail="no")]  # fmt: skip
OBSERVATIONS = [completed(), JOB, LOST, LOST, absent, absent, stopped, OSError("down"), "junk"]


class Walk:
    """One walk: what is done, and what must hold whatever was done."""

    def __init__(self, rng: random.Random, stack: Stack, folder: Path) -> None:
        self._rng = rng
        self._folder = folder
        self.stack = stack
        self.control_plane: ControlPlane = stack.control_plane()
        self.told: list[str] = []
        self.attempts: dict[str, int] = {}
        self.adapters = {}
        self._servers = contextlib.AsyncExitStack()
        shapes = {
            "plain.v1": {},
            "replay.v1": {"replay": ReplayGuarantee(kind="conditional"), "cancellation": True},
            "blind.v1": {"observation": False, "verification": False},
            "prepared.v1": {"preparation": PreparationSupport.PURE, "readiness": True},
            "draft.v1": {"preparation": PreparationSupport.EFFECTFUL, "cancellation": True},
        }
        for route_id, shape in shapes.items():
            self.adapters[route_id] = scripted(stack.catalog, route_id, call_timeout_seconds=1, **shape)

    def script(self) -> None:
        """Make up what every adapter says to the next calls."""
        for adapter in self.adapters.values():
            adapter.script("execute", self._rng.choice(EXECUTIONS))
            adapter.script("observe", self._rng.choice(OBSERVATIONS))
            adapter.script("cancel", self._rng.choice([CancelAccepted(), stopped, LOST, OSError("down")]))
            adapter.script("prepare", self._rng.choice([Prepared(summary="p"), Prepared(summary="p"), LOST]))

    async def some(self) -> str | None:
        return self._rng.choice(list(self.attempts)) if self.attempts else None

    # what is done

    async def create(self) -> None:
        attempts = self._rng.choice([1, 1, 3])
        resource = {"kind": "remote_entity", "system": "scripted", "identity": f"r{self._rng.randrange(4)}"}
        operation = await self.control_plane.create(
            request(
                f"k{len(self.attempts)}",
                self._rng.choice(list(self.adapters)),
                resources=[resource],
                on_create=self._rng.choice(["execute", "execute", "execute", "prepare", "hold"]),
                decision=self._rng.choice([None, None, QUESTION]),
                constraints={"max_attempts": attempts, "max_polls": 3},
            )
        )
        self.attempts[operation.operation_id] = attempts

    async def decide(self) -> None:
        for operation_id in self.attempts:
            operation = await self.control_plane.get(operation_id)
            if operation.state == "awaiting_decision":
                verdict = self._rng.choice(["approve", "approve", "decline", "revise"])
                await self.control_plane.decide(operation_id, verdict, proposal_digest=operation.proposal_digest)
                return

    async def push(self) -> None:
        for operation_id in self.attempts:
            if (await self.control_plane.get(operation_id)).state in ("held", "prepared"):
                await self.control_plane.execute(operation_id)
                return

    async def attest(self) -> None:
        for operation_id in self.attempts:
            operation = await self.control_plane.get(operation_id)
            if operation.state == "unknown":
                await self.control_plane.resolve_unknown(
                    operation_id,
                    expected_revision=operation.revision,
                    resolution_key=uuid.UUID(int=self._rng.getrandbits(128)).hex,
                    status=self._rng.choice(["applied", "not_applied", "stopped"]),
                    summary="I looked",
                )
                return

    async def cancel(self) -> None:
        if operation_id := await self.some():
            await self.control_plane.cancel(operation_id, "changed my mind")

    async def reconcile(self) -> None:
        if operation_id := await self.some():
            await self.control_plane.reconcile(operation_id)

    async def nonsense(self) -> None:
        if operation_id := await self.some():
            name = self._rng.choice(["decide", "cancel", "whatever"])
            with contextlib.suppress(Exception):
                await self.stack.handle(operation_id).signal(name, args=self._rng.choice([[], [1], ["x", "y"]]))

    async def repeat(self) -> None:
        if operation_id := await self.some():
            await self.control_plane.create((await self.control_plane.get(operation_id)).request)

    async def terminate(self) -> None:
        if operation_id := await self.some():
            with contextlib.suppress(Exception):
                await self.stack.handle(operation_id).terminate("a walk")
            await self.stack.sweep()

    async def cancel_in_temporal(self) -> None:
        if operation_id := await self.some():
            with contextlib.suppress(Exception):
                await self.stack.handle(operation_id).cancel()

    async def reset(self) -> None:
        if operation_id := await self.some():
            with contextlib.suppress(Exception):
                history = await self.stack.handle(operation_id).fetch_history()
                kind = "workflow_task_completed_event_attributes"
                places = [event.event_id for event in history.events if event.HasField(kind)]
                await self.stack.client.workflow_service.reset_workflow_execution(
                    ResetWorkflowExecutionRequest(
                        namespace=self.stack.client.namespace,
                        workflow_execution=WorkflowExecution(workflow_id=operation_id, run_id=history.run_id),
                        reason="a walk",
                        workflow_task_finish_event_id=self._rng.choice(places),
                        request_id=uuid.uuid4().hex,
                    )
                )

    async def restart_worker(self) -> None:
        await self.stack.stop()
        await self.stack.start()

    async def lose_temporal(self) -> None:
        await self.stack.stop()
        file = self._folder / uuid.uuid4().hex / "temporal.db"
        server = await self._servers.enter_async_context(temporal_server(file))
        self.stack.client = await Client.connect(server.address, data_converter=data_converter())
        await self.stack.start()
        await self.stack.sweep()
        self.control_plane = self.stack.control_plane()

    async def breathe(self) -> None:
        await asyncio.sleep(self._rng.random())

    async def step(self) -> None:
        actions = {
            self.create: 12, self.decide: 8, self.push: 4, self.attest: 4, self.cancel: 3, self.reconcile: 3,
            self.nonsense: 4, self.repeat: 2, self.terminate: 4, self.cancel_in_temporal: 1, self.reset: 4,
            self.restart_worker: 2, self.breathe: 6,
        }  # fmt: skip
        action = self._rng.choices(list(actions), list(actions.values()))[0]
        self.script()
        self.told.append(action.__name__)
        with contextlib.suppress(CounterfoilError):
            await action()

    # what must hold

    async def holds(self) -> None:
        """The invariants, which hold at any moment."""
        for operation_id, allowed in self.attempts.items():
            effects = [g for a in self.adapters.values() for who, g in a.effects if who == operation_id]
            assert len(effects) == len(set(effects)), f"{operation_id}: one attempt was made twice: {effects}"
            assert len(effects) <= allowed, f"{operation_id}: {len(effects)} effects, {allowed} allowed"
            states = await self.states(operation_id)
            for before, after in pairwise(states):
                assert after in FOLLOWS.get(before, set()), f"{operation_id}: '{after}' after '{before}' in {states}"

    async def states(self, operation_id: str) -> list[str]:
        """The states an operation went through, by its ledger."""
        entries = await self.control_plane.history(operation_id)
        moves = [entry.data["to"] for entry in entries if entry.data is not None and "to" in entry.data]
        return [state for place, state in enumerate(moves) if place == 0 or moves[place - 1] != state]

    async def settles(self) -> None:
        """Left alone, everything ends, or waits for a person."""
        for adapter in self.adapters.values():
            for answers in adapter._answers.values():
                answers.clear()
            adapter.script("cancel", *[CancelAccepted()] * 100)
        deadline = asyncio.get_running_loop().time() + 60
        while stuck := [told async for told in self.unsettled()]:
            assert asyncio.get_running_loop().time() < deadline, f"stuck: {stuck}"
            await self.stack.sweep()
            await asyncio.sleep(1)

    async def unsettled(self):
        operations = [await self.control_plane.get(operation_id) for operation_id in self.attempts]
        unknown = {one.operation_id for one in operations if one.state == "unknown" and one.observation_exhausted}
        unknown |= {one.operation_id for one in operations if one.state == "unknown" and not one.route.observation}
        for one in operations:
            waits_for_one = one.blocked is not None and one.blocked.code == "LOCKED" and bool(unknown)
            if one.operation_id in unknown or one.state in FOR_A_PERSON or waits_for_one:
                continue
            if one.state not in CLOSED or one.verification == "pending":
                yield one.operation_id, one.route_id, one.state, one.verification, one.blocked

    async def close(self) -> None:
        await self.stack.stop()
        await self._servers.aclose()


@pytest.mark.slow
@pytest.mark.timeout(200)
async def test_a_random_walk_never_doubles_an_effect_never_reopens_and_leaves_nothing_stuck(
    stack: Stack, tmp_path: Path
):
    print(f"COUNTERFOIL_SEED={SEED} COUNTERFOIL_STEPS={STEPS}")
    walk = Walk(random.Random(SEED), stack, tmp_path)
    await stack.start()
    try:
        lost_at = STEPS // 2
        for number in range(STEPS):
            if number == lost_at:
                await walk.lose_temporal()
            await walk.step()
            if number % 5 == 4:
                await walk.holds()
        await walk.settles()
        await walk.holds()
    except BaseException:
        print(" ".join(walk.told))
        raise
    finally:
        await walk.close()
