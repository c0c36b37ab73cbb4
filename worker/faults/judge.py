"""The judging of what the store claims by what targets really did: pure, so that it can be shown to condemn.

- *double*: an operation with more than one effect in its target's log.
- *lost*: acknowledged and not in the store any more, or `completed` although the log has no effect of it.
- *stuck*: neither settled nor waiting for a person, or settled and still holding resources.
- *dishonest*: the claim contradicts the log.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from counterfoil.control_plane.reader import awaits_person, is_settled
from counterfoil.models.operations.lifecycle import State, Verification
from counterfoil.models.operations.record import Operation
from counterfoil.worker.faults.target import Effect

WITHOUT_EFFECT = frozenset(
    {State.FAILED, State.NOT_APPLIED, State.CANCELLED, State.DECLINED, State.EXPIRED, State.SUPERSEDED}
)


@dataclass(frozen=True)
class Claim:
    """What the store says of one operation, as far as it is judged; `wanted` is what its effect must leave."""

    operation_id: str
    state: State
    verification: Verification
    settled: bool
    awaits_person: bool
    holds_resources: bool
    wanted: Any

    @classmethod
    def of(cls, operation: Operation, wanted: Any) -> Claim:
        """The claim of an operation."""
        return cls(
            operation_id=operation.operation_id,
            state=operation.state,
            verification=operation.verification,
            settled=is_settled(operation),
            awaits_person=awaits_person(operation),
            holds_resources=bool(operation.claims) and all(claim.held for claim in operation.claims),
            wanted=wanted,
        )


@dataclass
class Verdict:
    """What was found wrong, one sentence each."""

    doubles: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    dishonest: list[str] = field(default_factory=list)

    @property
    def findings(self) -> list[str]:
        return [*self.doubles, *self.lost, *self.stuck, *self.dishonest]

    def __iadd__(self, other: Verdict) -> Verdict:
        self.doubles += other.doubles
        self.lost += other.lost
        self.stuck += other.stuck
        self.dishonest += other.dishonest
        return self


def judge(acknowledged: Iterable[str], claims: Mapping[str, Claim], effects: Iterable[Effect]) -> Verdict:
    """Hold every claim against the effects that its target logged."""
    verdict = Verdict()
    made: defaultdict[str, list[Any]] = defaultdict(list)
    for effect in effects:
        made[effect.operation_id].append(effect.content)
    for operation_id in acknowledged:
        if operation_id not in claims:
            verdict.lost.append(f"{operation_id} was acknowledged, and the store does not know it")
    for operation_id, contents in made.items():
        if len(contents) > 1:
            verdict.doubles.append(f"{operation_id} has {len(contents)} effects")
        if operation_id not in claims:
            verdict.lost.append(f"{operation_id} has an effect, and the store does not know it")
    for claim in claims.values():
        _judge_one(claim, made[claim.operation_id], verdict)
    return verdict


def _judge_one(claim: Claim, contents: list[Any], verdict: Verdict) -> None:
    told = f"{claim.operation_id} is '{claim.state}', '{claim.verification}'"
    if claim.state is State.COMPLETED and not contents:
        verdict.lost.append(f"{told}, and the log has no effect of it")
    if claim.state in WITHOUT_EFFECT and contents:
        verdict.dishonest.append(f"{told}, and the log has its effect")
    if claim.verification is Verification.VERIFIED and contents and contents[-1] != claim.wanted:
        verdict.dishonest.append(f"{told}, and the target was left with {contents[-1]!r}")
    if claim.state is State.UNKNOWN and not claim.holds_resources:
        verdict.dishonest.append(f"{told}, and does not hold its resources")
    if not claim.settled and not claim.awaits_person:
        verdict.stuck.append(f"{told}, and nothing moves it")
    if claim.settled and claim.holds_resources:
        verdict.stuck.append(f"{told}, and still holds its resources")
