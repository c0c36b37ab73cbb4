"""One row's scene: a deployment of its own, what is asked of it, and what must be found in the end.

A row says what must hold by `expect`; besides, every operation it asked for is judged by the targets' logs, like those
of random schedules.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from counterfoil.activities.fault_points import FaultPoint
from counterfoil.activities.store.ledger import HistoryGap
from counterfoil.control_plane.client import ControlPlane
from counterfoil.control_plane.reader import awaits_person, is_settled
from counterfoil.models.errors import CounterfoilError, Refusal
from counterfoil.models.operations.commands import Answer
from counterfoil.models.operations.contract import DecisionRequest, OperationRequest, Owner
from counterfoil.models.operations.record import LedgerEntry, Operation
from counterfoil.worker.faults.builtin import (
    DeskProcess,
    Files,
    Parcels,
    Records,
    append_request,
    parcel_request,
    record_request,
)
from counterfoil.worker.faults.judge import Claim, Verdict, judge
from counterfoil.worker.faults.stage import Stage, WorkerProcess
from counterfoil.worker.faults.target import Target

PATIENCE_SECONDS = 60
WORKFLOW_TASK_TIMEOUT = timedelta(seconds=2)
"""A workflow task lost with its worker costs this."""
FIELDS = {"name": "Ada", "city": "London", "mood": "calm"}
QUESTION = DecisionRequest(reason="by the matrix", question="Do it?")


class NotAsExpected(Exception):
    """A row found something else than its expected outcome."""


def expect(what: str, found: object, wanted: object) -> None:
    """Raise `NotAsExpected` where the two differ."""
    if found != wanted:
        raise NotAsExpected(f"{what}: found {found!r}, expected {wanted!r}")


class Scene:
    """A deployment with targets, for one row."""

    def __init__(self, name: str, stage: Stage, desk: DeskProcess, files: Files, *, outage_seconds: float) -> None:
        self.stage = stage
        self.desk = desk
        self.files = files
        self.outage_seconds = outage_seconds
        self._owner = Owner(workspace=name, session=name)
        self._asked: dict[str, tuple[Target, OperationRequest]] = {}
        self._acknowledged: set[str] = set()
        self._count = 0

    @property
    def control_plane(self) -> ControlPlane:
        return self.stage.control_plane

    # what is asked

    def parcel(self, seconds: float = 0, max_attempts: int = 1, **changes: Any) -> OperationRequest:
        key = self._key
        given = {"locker": f"{self._owner.session}-{key}"} | changes
        return self._known(Parcels(self.desk), parcel_request(self._owner, key, seconds, max_attempts, **given))

    def record(self, entity: str = "contact", max_attempts: int = 1, **changes: Any) -> OperationRequest:
        fields, shelf = changes.pop("fields", FIELDS), f"{self._owner.session}-{self._count}"
        given = {"shelf": shelf} | changes
        request = record_request(self._owner, self._key, entity, fields, max_attempts, **given)
        return self._known(Records(self.desk), request)

    def line(self, max_attempts: int = 1, **changes: Any) -> OperationRequest:
        return self._known(self.files, append_request(self._owner, self._key, "journal-0.txt", max_attempts, **changes))

    @property
    def _key(self) -> str:
        self._count += 1
        return f"k{self._count}"

    def _known(self, target: Target, request: OperationRequest) -> OperationRequest:
        self._asked[request.operation_id] = (target, request)
        return request

    async def ask(self, request: OperationRequest) -> Operation:
        """Create it, as a host does."""
        created = await self.control_plane.create(request)
        self._acknowledged.add(request.operation_id)
        return created

    async def begin(self, request: OperationRequest) -> None:
        """Start its workflow and wait for nobody, as a host does that has nothing of ours."""
        await self.stage.client.start_workflow(
            "ApplicationOperation",
            request.model_dump(mode="json"),
            id=request.operation_id,
            task_queue=self.stage.queue,
            task_timeout=WORKFLOW_TASK_TIMEOUT,
        )

    # who acts

    async def worker(self, **settings: str) -> WorkerProcess:
        return await self.stage.start_worker(**settings)

    async def worker_killed_at(self, point: FaultPoint, **settings: str) -> None:
        """A worker comes, and kills itself at this point."""
        worker = self.stage.begin_worker(fault=point.value, **settings)
        expect("the worker's end", await worker.until_ended(PATIENCE_SECONDS), -signal.SIGKILL)

    async def approve(self, request: OperationRequest) -> Answer:
        """A person approves what is proposed, once it is."""
        asked = await self.until(request, "awaiting_decision")
        return await self.decide(asked, "approve")

    async def decide(self, operation: Operation, verdict: str) -> Answer:
        digest = str(operation.proposal_digest)
        return await self.control_plane.decide(operation.operation_id, verdict, proposal_digest=digest)

    async def attest(self, operation: Operation, status: str, key: str = "seen", summary: str = "looked") -> Answer:
        """A person says what became of it."""
        return await self.control_plane.resolve_unknown(
            operation.operation_id,
            expected_revision=operation.revision,
            resolution_key=key,
            status=status,
            summary=summary,
        )

    async def signal(self, request: OperationRequest, name: str, *arguments: Any) -> None:
        """A bare signal, as the Temporal UI sends it."""
        await self.stage.client.get_workflow_handle(request.operation_id).signal(name, args=list(arguments))

    # what is found

    async def get(self, request: OperationRequest) -> Operation:
        return await self.control_plane.get(request.operation_id)

    async def until(self, request: OperationRequest, *states: str) -> Operation:
        """The operation as soon as it is in one of these states."""
        return await self._once(request, lambda one: one.state in states, " or ".join(states))

    async def settled(self, request: OperationRequest) -> Operation:
        """The operation once it is settled, or waits for a person."""
        return await self._once(request, lambda one: is_settled(one) or awaits_person(one), "settled")

    async def _once(self, request: OperationRequest, is_so: Callable[[Operation], bool], what: str) -> Operation:
        deadline, operation = time.monotonic() + PATIENCE_SECONDS, None
        while time.monotonic() < deadline:
            with contextlib.suppress(CounterfoilError):
                operation = await self.get(request)
                if is_so(operation):
                    return operation
            await asyncio.sleep(0.1)
        found = "nothing" if operation is None else f"{operation.state}, {operation.problem}, {operation.blocked}"
        raise NotAsExpected(f"it was never {what}; it is {found}")

    async def until_true(self, what: str, is_so: Callable[[], Awaitable[bool]]) -> None:
        """Return once something holds."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not await is_so():
            if time.monotonic() > deadline:
                raise NotAsExpected(f"never: {what}")
            await asyncio.sleep(0.1)

    def effects(self, request: OperationRequest) -> list[Any]:
        target, _ = self._asked[request.operation_id]
        return [effect.content for effect in target.effects() if effect.operation_id == request.operation_id]

    async def until_effect(self, request: OperationRequest) -> None:
        async def there() -> bool:
            return len(self.effects(request)) > 0

        await self.until_true("the effect is there", there)

    async def ledger(self, request: OperationRequest) -> list[LedgerEntry]:
        entries = await self.control_plane.history(request.operation_id)
        assert not isinstance(entries, HistoryGap)
        return entries

    async def kinds(self, request: OperationRequest) -> list[str]:
        return [entry.kind for entry in await self.ledger(request)]

    async def refusals(self, request: OperationRequest) -> list[str]:
        """The codes of the commands that were refused, as they are recorded."""
        entries = await self.ledger(request)
        return [str((entry.data or {}).get("code")) for entry in entries if entry.kind == "command_refused"]

    async def was_unknown(self, request: OperationRequest) -> bool:
        return any((entry.data or {}).get("to") == "unknown" for entry in await self.ledger(request))

    async def expect_end(
        self,
        request: OperationRequest,
        state: str,
        verification: str,
        *,
        effects: int,
        attempts: tuple[int, ...] | None = None,
        unknown: bool | None = None,
    ) -> Operation:
        """It settles so (or waits for a person so), with so many effects, by these journaled attempts."""
        wanted = (state, verification)

        def ended(one: Operation) -> bool:
            return is_settled(one) or (awaits_person(one) and (one.state.value, one.verification.value) == wanted)

        operation = await self._once(request, ended, " and ".join(wanted))
        expect("what is claimed", (operation.state.value, operation.verification.value), wanted)
        expect("effects", len(self.effects(request)), effects)
        if attempts is not None:
            expect("attempts", tuple(one.generation for one in operation.attempts), attempts)
        if unknown is not None:
            expect("whether it was unknown", await self.was_unknown(request), unknown)
        if operation.state == "unknown":
            expect("whether it holds its resources", [claim.held for claim in operation.claims], [True, True])
        return operation

    async def judged(self) -> Verdict:
        """What is wrong with what the row leaves behind."""
        claims, effects = {}, []
        for operation_id, (target, request) in self._asked.items():
            effects += [effect for effect in target.effects() if effect.operation_id == operation_id]
            with contextlib.suppress(Refusal):  # one that was refused has no row
                claims[operation_id] = Claim.of(await self.get(request), target.wanted(request))
        return judge(self._acknowledged, claims, effects)

    @property
    def asked(self) -> int:
        return len(self._asked)

    @property
    def all_effects(self) -> int:
        return sum(len(self.effects(request)) for _, request in self._asked.values())


async def refused(acting: Awaitable[Any]) -> str:
    """The code of the refusal that something meets."""
    try:
        answer = await acting
    except CounterfoilError as refusal:
        return refusal.code.value
    raise NotAsExpected(f"it was not refused: {answer!r}")
