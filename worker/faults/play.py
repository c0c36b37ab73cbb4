"""Plays one schedule on a stage: asks, acts, disturbs; then heals everything, lets it settle, and judges.

While it settles, a person does their part: decides what waits, and attests what nobody can observe by what the target's
log says. Whatever is not settled in bounded time then is stuck.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from temporalio.client import WorkflowHandle
from temporalio.service import RPCError

from counterfoil.models.errors import CounterfoilError, ErrorCode, Refusal, Unavailable
from counterfoil.models.operations.contract import OperationRequest
from counterfoil.models.operations.lifecycle import State
from counterfoil.models.operations.record import Operation
from counterfoil.worker.faults.judge import Claim, Verdict, judge
from counterfoil.worker.faults.schedules import Act, Disturbance, Hurt, Planned, Schedule
from counterfoil.worker.faults.stage import Stage, WorkerProcess
from counterfoil.worker.faults.target import Effect

T = TypeVar("T")

WORKERS = 2
ASK_SECONDS = 60
SETTLE_SECONDS = 150
"""A minute of it may pass until the sweep finds what nobody moves."""
QUIET_SECONDS = 3
KEEP_SECONDS = 0.3
PERSON_SECONDS = 0.7
READS_AT_ONCE = 8


@dataclass
class Played:
    """What came of a schedule."""

    operations: int = 0
    acknowledged: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    effects: int = 0
    attested: int = 0
    unknown: int = 0
    states: Counter[str] = field(default_factory=Counter)
    verdict: Verdict = field(default_factory=Verdict)

    def __iadd__(self, other: Played) -> Played:
        self.operations += other.operations
        self.acknowledged += other.acknowledged
        self.faults += other.faults
        self.effects += other.effects
        self.attested += other.attested
        self.unknown += other.unknown
        self.states += other.states
        self.verdict += other.verdict
        return self


class Play:
    """One schedule on one stage."""

    def __init__(self, stage: Stage, schedule: Schedule) -> None:
        self._stage = stage
        self._schedule = schedule
        self._plans = {plan.operation_id: plan for plan in schedule.operations}
        self._workers: list[WorkerProcess] = []
        self._next: list[dict[str, str]] = [{} for _ in range(WORKERS)]
        """What the worker that is started next in each place is given."""
        self._odd = [False] * WORKERS
        """Whether the worker in each place has a wrong clock, or a fault to come."""
        self._restarting = asyncio.Lock()
        self._acknowledged: set[str] = set()
        self._other_requests: set[str] = set()
        """Operations whose key was acknowledged for another request than the planned one."""
        self._attested: set[str] = set()
        self._first_seen: dict[str, float] = {}
        """When the person first saw that an unknown effect waits for them."""
        self._was_unknown: set[str] = set()
        self._played = Played(operations=len(schedule.operations))

    async def run(self) -> Played:
        """From the first request to the judgement."""
        self._workers = [await self._stage.start_worker() for _ in range(WORKERS)]
        keeping = asyncio.create_task(self._keep_workers())
        deciding = asyncio.create_task(self._decide_what_waits())
        try:
            await asyncio.gather(
                *(self._ask(plan) for plan in self._schedule.operations),
                *(self._disturb(one) for one in self._schedule.disturbances),
            )
            await self._heal()
            claims = await self._settle()
        finally:
            for running in (keeping, deciding):
                running.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await running
            for worker in self._workers:
                worker.kill()
        return self._judged(claims)

    def _judged(self, claims: dict[str, Claim]) -> Played:
        effects = self._effects()
        played = self._played
        played.acknowledged, played.effects = len(self._acknowledged), len(effects)
        played.attested, played.unknown = len(self._attested), len(self._was_unknown)
        played.states = Counter(claim.state.value for claim in claims.values())
        played.verdict = judge(self._acknowledged, claims, effects)
        for operation_id in self._acknowledged & self._other_requests:
            played.verdict.dishonest.append(f"{operation_id}: its key was taken for two requests")
        return played

    def _effects(self) -> list[Effect]:
        targets = {plan.target.name: plan.target for plan in self._plans.values()}
        # Targets may share a log: each is asked for its own operations only.
        return [
            effect
            for name, target in targets.items()
            for effect in target.effects()
            if effect.operation_id in self._plans and self._plans[effect.operation_id].target.name == name
        ]

    # asking and acting

    async def _ask(self, plan: Planned) -> None:
        await asyncio.sleep(plan.at_seconds)
        if plan.misbehaviour is not None:
            await asyncio.to_thread(plan.target.order, plan.operation_id, plan.misbehaviour)
            self._played.faults[f"target: {plan.misbehaviour}"] += 1
        await asyncio.gather(self._create(plan.request), *(self._act(plan, after, act) for after, act in plan.acts))

    async def _create(self, request: OperationRequest) -> None:
        """Ask until it is acknowledged, as a host does that does not know whether its request arrived."""
        until = asyncio.get_running_loop().time() + ASK_SECONDS
        while asyncio.get_running_loop().time() < until:
            try:
                await self._stage.control_plane.create(request)
            except Refusal:
                return
            except CounterfoilError:
                await asyncio.sleep(0.5)
            else:
                self._acknowledged.add(request.operation_id)
                return

    async def _act(self, plan: Planned, after_seconds: float, act: Act) -> None:
        await asyncio.sleep(after_seconds)
        self._played.faults[act.value] += 1
        with contextlib.suppress(CounterfoilError, RPCError):
            await self._acted(plan, act)

    async def _acted(self, plan: Planned, act: Act) -> None:
        control_plane, operation_id = self._stage.control_plane, plan.operation_id
        workflow: WorkflowHandle[object, object] = self._stage.client.get_workflow_handle(operation_id)
        match act:
            case Act.CREATE_AGAIN:
                await asyncio.gather(*(self._create(plan.request) for _ in range(2)))
            case Act.CREATE_OTHER:
                await control_plane.create(plan.request.model_copy(update={"objective": "something else"}))
                self._other_requests.add(operation_id)
            case Act.CANCEL:
                await control_plane.cancel(operation_id, "by schedule")
            case Act.CANCEL_IN_TEMPORAL:
                await workflow.cancel()
            case Act.TERMINATE:
                await workflow.terminate("by schedule")
            case Act.EMPTY_SIGNAL:
                await workflow.signal("decide", args=[])
            case Act.UNSEALED_DECISION:
                await workflow.signal("decide", {"proposal_digest": f"sha256:{'0' * 64}", "verdict": "approve"})
            case Act.WRONG_DECISION:
                await control_plane.decide(operation_id, "approve", proposal_digest=f"sha256:{'0' * 64}")
            case Act.DECIDE_TWICE:
                operation = await control_plane.get(operation_id)
                await _both(self._decide(operation, plan.verdict) for _ in range(2))
            case Act.RECONCILE:
                await control_plane.reconcile(operation_id)
            case Act.ATTEST_EARLY:
                operation = await control_plane.get(operation_id)
                if operation.state is not State.UNKNOWN:
                    await self._attest(operation, "not_applied")

    # disturbing and healing

    async def _disturb(self, one: Disturbance) -> None:
        await asyncio.sleep(one.at_seconds)
        self._played.faults[one.hurt.value] += 1
        match one.hurt:
            case Hurt.KILL_WORKER:
                self._next[one.worker] = _odd_settings(one)
                self._workers[one.worker].kill()
            case Hurt.PAUSE_WORKER:
                worker = self._workers[one.worker]
                worker.pause()
                await asyncio.sleep(one.for_seconds)
                worker.resume()
            case Hurt.KILL_TEMPORAL:
                await self._one_at_a_time(self._restart_temporal)
            case Hurt.STORE_OUTAGE:
                await self._one_at_a_time(lambda: self._store_outage(one.for_seconds))

    async def _one_at_a_time(self, disturb: Callable[[], Awaitable[None]]) -> None:
        """There is one Temporal server and one store: what is down cannot be killed."""
        async with self._restarting:
            await disturb()

    async def _restart_temporal(self) -> None:
        await self._stage.temporal.kill()
        await self._stage.temporal.start()

    async def _store_outage(self, seconds: float) -> None:
        async with self._stage.store.outage():
            await asyncio.sleep(seconds)

    async def _keep_workers(self) -> None:
        """Start another worker wherever one has died, as whoever runs a deployment does."""
        while True:
            for place, worker in enumerate(self._workers):
                if not worker.lives:
                    self._start_worker(place)
            await asyncio.sleep(KEEP_SECONDS)

    def _start_worker(self, place: int) -> None:
        settings, self._next[place] = self._next[place], {}
        self._odd[place] = bool(settings)
        if "fault" in settings:
            self._played.faults[f"fault point: {settings['fault']}"] += 1
        if "clock_shift_seconds" in settings:
            self._played.faults["clock moved"] += 1
        for marker in self._stage.state_dir.glob("fault.*"):
            marker.unlink(missing_ok=True)
        self._workers[place] = self._stage.begin_worker(**settings)

    async def _heal(self) -> None:
        """Whatever is wrong with the deployment ends; targets have said by then whatever they say late."""
        for place in range(WORKERS):
            self._next[place] = {}
            self._workers[place].resume()
            if self._odd[place]:
                self._workers[place].kill()
        await asyncio.sleep(QUIET_SECONDS)

    # settling

    async def _settle(self) -> dict[str, Claim]:
        """The claims once nothing moves any more, the person having done their part; or when time is up."""
        until = asyncio.get_running_loop().time() + SETTLE_SECONDS
        settled: dict[str, Claim] = {}
        while True:
            unsettled: dict[str, Claim] = {}
            for operation in await self._operations([name for name in self._plans if name not in settled], until):
                claim = Claim.of(operation, self._wanted(operation.operation_id))
                (settled if claim.settled and not operation.claims else unsettled)[claim.operation_id] = claim
                if operation.state is State.UNKNOWN:
                    self._was_unknown.add(operation.operation_id)
                    if claim.awaits_person:
                        await self._attest_by_the_log(operation)
            if not unsettled or asyncio.get_running_loop().time() > until:
                return settled | unsettled
            await asyncio.sleep(PERSON_SECONDS)

    def _wanted(self, operation_id: str) -> object:
        plan = self._plans[operation_id]
        return plan.target.wanted(plan.request)

    async def _operations(self, operation_ids: list[str], until: float) -> list[Operation]:
        """Those of the operations that exist, read with patience while a database is still coming back."""
        places = asyncio.Semaphore(READS_AT_ONCE)

        async def read(operation_id: str) -> Operation | None:
            while True:
                try:
                    async with places:
                        return await self._stage.control_plane.get(operation_id)
                except Refusal as refusal:
                    if refusal.code is not ErrorCode.NOT_FOUND:
                        raise
                    return None
                except Unavailable:
                    if asyncio.get_running_loop().time() > until:
                        raise
                await asyncio.sleep(PERSON_SECONDS)

        found = await asyncio.gather(*map(read, operation_ids))
        return [operation for operation in found if operation is not None]

    async def _decide_what_waits(self) -> None:
        states = [State.AWAITING_DECISION, State.REVISION_REQUESTED]
        while True:
            with contextlib.suppress(CounterfoilError):
                waiting = await self._stage.control_plane.operations(
                    session=self._schedule.name, states=states, limit=len(self._plans)
                )
                for some in _by(READS_AT_ONCE, waiting):
                    await asyncio.gather(*(self._answer(one.operation_id) for one in some))
            await asyncio.sleep(PERSON_SECONDS)

    async def _answer(self, operation_id: str) -> None:
        """A person answers one question, or gives up on a revision that nobody will make."""
        with contextlib.suppress(CounterfoilError, RPCError):
            operation = await self._stage.control_plane.get(operation_id)
            if operation.state is State.REVISION_REQUESTED:
                await self._stage.control_plane.cancel(operation_id, "no revision will come")
            else:
                await self._decide(operation, self._plans[operation_id].verdict)

    async def _decide(self, operation: Operation, verdict: str) -> None:
        digest = operation.proposal_digest or f"sha256:{'0' * 64}"
        await self._stage.control_plane.decide(operation.operation_id, verdict, proposal_digest=digest)

    async def _attest_by_the_log(self, operation: Operation) -> None:
        """A person looks at the target once it must be quiet, and says what they see; in a hurry, twice at once."""
        now = asyncio.get_running_loop().time()
        if now < self._first_seen.setdefault(operation.operation_id, now) + QUIET_SECONDS:
            return
        applied = any(effect.operation_id == operation.operation_id for effect in self._effects())
        status = "applied" if applied else "not_applied"
        await _both(self._attest(operation, status) for _ in range(2))
        self._attested.add(operation.operation_id)

    async def _attest(self, operation: Operation, status: str) -> None:
        await self._stage.control_plane.resolve_unknown(
            operation.operation_id,
            expected_revision=operation.revision,
            resolution_key="seen",
            status=status,
            summary="by the target's log",
        )


def _by(count: int, many: Sequence[T]) -> Iterator[Sequence[T]]:
    for first in range(0, len(many), count):
        yield many[first : first + count]


async def _both(acts: Iterable[Awaitable[None]]) -> None:
    """Act twice at once; either may be refused."""
    for problem in await asyncio.gather(*acts, return_exceptions=True):
        if problem is not None and not isinstance(problem, CounterfoilError | RPCError):
            raise problem


def _odd_settings(one: Disturbance) -> dict[str, str]:
    settings: dict[str, str] = {}
    if one.fault is not None:
        settings["fault"] = one.fault
    if one.clock_shift_seconds:
        settings["clock_shift_seconds"] = str(one.clock_shift_seconds)
    return settings
