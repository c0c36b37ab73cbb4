"""Random schedules: what is asked, what misbehaves, who acts, what is killed, all drawn from one seed before it begins.

The same seed gives the same schedule. What comes of it also depends on how the machine's processes happen to run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from random import Random

from counterfoil.activities.fault_points import EVERY_WRITE, TIME_OUT, FaultPoint
from counterfoil.models.common import utc_now
from counterfoil.models.operations.contract import DecisionRequest, OperationRequest, Owner
from counterfoil.worker.faults.target import Target

MISBEHAVING = 0.45
ASKING = 0.3
HURRIED = 0.06
START_SECONDS = 3
"""Deadlines count from the drawing; workers take so long to start."""
OPERATIONS_A_SECOND = 18
HURTS_AN_OPERATION = (0.012, 0.02)
FEWEST_HURTS = 3
CROWD_SECONDS = 2.0


class Act(StrEnum):
    """What a host, a person or a stranger does to one operation, on time or not."""

    CREATE_AGAIN = "created again"
    CREATE_OTHER = "key with another request"
    CANCEL = "cancelled"
    CANCEL_IN_TEMPORAL = "cancelled in Temporal"
    TERMINATE = "terminated in Temporal"
    EMPTY_SIGNAL = "signal without argument"
    UNSEALED_DECISION = "unsealed decision"
    WRONG_DECISION = "decision on another proposal"
    DECIDE_TWICE = "decided twice at once"
    RECONCILE = "reconciled"
    ATTEST_EARLY = "attested unasked"


class Hurt(StrEnum):
    """What happens to the deployment as a whole."""

    KILL_WORKER = "worker killed"
    PAUSE_WORKER = "worker stopped and continued"
    KILL_TEMPORAL = "Temporal server killed"
    STORE_OUTAGE = "database away"


@dataclass(frozen=True)
class Planned:
    """One operation of a schedule, and what befalls it."""

    target: Target
    request: OperationRequest
    at_seconds: float
    misbehaviour: str | None
    acts: tuple[tuple[float, Act], ...]
    """When, counted from its creation, and what."""
    verdict: str
    """What the person answers, where it asks."""

    @property
    def operation_id(self) -> str:
        return self.request.operation_id


@dataclass(frozen=True)
class Disturbance:
    """Something that happens to the deployment: when, what, for how long, to which worker."""

    at_seconds: float
    hurt: Hurt
    for_seconds: float
    worker: int
    fault: str | None
    """A fault point of the worker that is started next."""
    clock_shift_seconds: int


@dataclass(frozen=True)
class Schedule:
    """Everything that happens in one batch."""

    name: str
    operations: tuple[Planned, ...]
    disturbances: tuple[Disturbance, ...]

    @property
    def lasts_seconds(self) -> float:
        return max(operation.at_seconds for operation in self.operations)


def drawn(seed: int, batch: int, size: int, targets: Sequence[Target], *, hurts: Sequence[Hurt]) -> Schedule:
    """The schedule of a seed's batch. The seed alone does not matter: run `batch` with the `size` it had."""
    draw = Random(f"{seed}/{batch}")  # noqa: S311  it must be repeatable, not secret
    name = f"faults-{seed}-{batch}"
    lasts_seconds = max(3.0, size / OPERATIONS_A_SECOND)
    operations = tuple(_planned(draw, name, number, lasts_seconds, targets) for number in range(size))
    count = max(FEWEST_HURTS, round(size * draw.uniform(*HURTS_AN_OPERATION))) if hurts else 0
    disturbances = [_disturbance(draw, lasts_seconds, hurts) for _ in range(count)]
    return Schedule(name, operations, tuple(sorted(disturbances, key=lambda one: one.at_seconds)))


def crowd(seed: int, size: int, targets: Sequence[Target]) -> Schedule:
    """Operations that are all under way at once, on well-behaved targets, while each worker is killed and replaced."""
    draw = Random(f"{seed}/crowd")  # noqa: S311  it must be repeatable, not secret
    name = f"faults-{seed}-crowd"
    owner = Owner(workspace=name, session=name)
    operations = [
        Planned(
            target=target,
            request=target.request(draw, owner, f"k{number}"),
            at_seconds=draw.uniform(0, CROWD_SECONDS),
            misbehaviour=None,
            acts=(),
            verdict="approve",
        )
        for number in range(size)
        for target in [draw.choice(targets)]
    ]
    killed = [
        Disturbance(
            at_seconds=(2 + worker) * CROWD_SECONDS,
            hurt=Hurt.KILL_WORKER,
            for_seconds=0,
            worker=worker,
            fault=None,
            clock_shift_seconds=0,
        )
        for worker in range(2)
    ]
    return Schedule(name, tuple(operations), tuple(killed))


def _planned(draw: Random, name: str, number: int, lasts_seconds: float, targets: Sequence[Target]) -> Planned:
    at_seconds = draw.uniform(0, lasts_seconds)
    target = draw.choice(targets)
    owner = Owner(workspace=f"{name}-{draw.randrange(3)}", session=name)
    request = target.request(draw, owner, f"k{number}")
    if draw.random() < ASKING:
        expires = draw.choice((None, None, None, 2))
        question = DecisionRequest(reason="by schedule", question="Do it?", expires_after_seconds=expires)
        request = request.model_copy(update={"decision": question})
    if draw.random() < HURRIED:
        deadline = utc_now() + timedelta(seconds=START_SECONDS + at_seconds + draw.uniform(0, 4))
        limits = request.constraints.model_copy(update={"deadline": deadline})
        request = request.model_copy(update={"constraints": limits})
    misbehaves = bool(target.misbehaviours) and draw.random() < MISBEHAVING
    acts = [(draw.expovariate(0.7), act) for act in Act if draw.random() < 0.08]
    return Planned(
        target=target,
        request=request,
        at_seconds=at_seconds,
        misbehaviour=draw.choice(target.misbehaviours) if misbehaves else None,
        acts=tuple(sorted(acts)),
        verdict=draw.choices(("approve", "decline", "revise"), (8, 1, 1))[0],
    )


def _disturbance(draw: Random, lasts_seconds: float, hurts: Sequence[Hurt]) -> Disturbance:
    return Disturbance(
        at_seconds=draw.uniform(0.1 * lasts_seconds, lasts_seconds),
        hurt=draw.choice(hurts),
        for_seconds=draw.uniform(1.5, 4),
        worker=draw.randrange(2),
        fault=draw.choice((None, f"{TIME_OUT}{EVERY_WRITE}", draw.choice(list(FaultPoint)).value)),
        clock_shift_seconds=draw.choice((0, 0, 0, -3600, 3600)),
    )
