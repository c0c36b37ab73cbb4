"""Operations driven through the real store by anything that can happen, in any order, against a model of their rows.

The model is a dictionary of facts and a few lines a rule, written from the design and not from the code. Workflows are
not here: losing one is simply that the next rule starts from the row.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from counterfoil.activities.operations.journal import Attempt, AttemptKind, grant
from counterfoil.activities.operations.rows import load
from counterfoil.activities.operations.views import Timing, view_of
from counterfoil.activities.store.database import Database
from counterfoil.models.operations.outcomes import (
    CancelAccepted,
    Cancelled,
    CancelTooLate,
    Evidence,
    Failed,
    NotApplied,
    Partial,
    Prepared,
    Running,
    UnknownEffect,
    VerificationUnavailable,
    Verified,
)
from counterfoil.models.operations.route import ReplayGuarantee
from counterfoil.models.operations.view import next_step
from support.scripted import completed, request

MAX_ATTEMPTS, MAX_POLLS = 2, 3
CLOSED = {"completed", "failed", "not_applied", "stopped", "cancelled", "declined", "expired", "superseded"}
UNDISPATCHED = {"held", "preparing", "prepared", "awaiting_decision", "revision_requested", "queued"}
UNDER_WAY = {"dispatching", "running", "unknown"}
MOVES = {
    "held": {"preparing", "prepared", "awaiting_decision", "queued"},
    "preparing": {"prepared", "awaiting_decision", "queued", "unknown", "failed"},
    "prepared": {"awaiting_decision", "queued"},
    "awaiting_decision": {"queued", "declined", "revision_requested"},
    "revision_requested": set(),
    "queued": {"dispatching", "failed"},
    "dispatching": {"running", "unknown", "completed", "failed"},
    "running": {"unknown", "completed", "failed", "cancelled", "not_applied", "queued", "prepared",
                "awaiting_decision"},
    "unknown": {"running", "completed", "failed", "cancelled", "not_applied", "stopped", "queued", "prepared",
                "awaiting_decision"},
}  # fmt: skip
"""Where one thing that happens may take an operation. Before dispatch it may also be cancelled or expire."""


@dataclass
class Row:
    """What an operation is, as far as the model knows."""

    id: str
    asked: Any
    resource: str
    prep: str
    observes: bool
    verifies: bool
    replays: bool
    needs_decision: bool
    deadline: datetime | None
    intent: str
    state: str = "held"
    was: str = "held"
    """The state when it was last looked at."""
    generation: int = 0
    fence: int = 0
    open: bool = False
    attempts: list[dict[str, Any]] = field(default_factory=list)
    proposal: str | None = None
    approved: str | None = None
    decided: tuple[str, str] | None = None
    question_until: datetime | None = None
    cancellation: str = "none"
    cancel_sent: bool = False
    verification: str = "pending"
    reverify: bool = False
    exhausted: bool = False
    polls: int = 0
    polls_limit: int = MAX_POLLS
    external_id: str | None = None
    attested: bool = False
    holds: bool = False
    late_replies: int = 0
    revision: int = 0
    commands: list[tuple[str, dict[str, Any], str]] = field(default_factory=list)

    @property
    def effects(self) -> int:
        return sum(attempt["kind"] == "execute" for attempt in self.attempts)

    @property
    def preparing_now(self) -> bool:
        """The newest attempt is a preparation."""
        return bool(self.attempts) and self.attempts[-1]["kind"] == "prepare"

    @property
    def authorised(self) -> bool:
        approved = not self.needs_decision or (self.approved is not None and self.approved == self.proposal)
        return self.intent == "execute" and approved

    def close(self, state: str) -> None:
        self.state, self.holds = state, False

    def certain(self) -> None:
        if self.cancellation in ("requested", "unknown"):
            self.cancellation = "confirmed"


OUTCOMES = {
    "completed": lambda now: completed(),
    "failed": lambda now: Failed(code="REFUSED", detail="no"),
    "running": lambda now: Running(external_id="job-1"),
    "unknown": lambda now: UnknownEffect(code="LOST", detail="no reply"),
    "prepared": lambda now: Prepared(summary="sets 2", data={"at": now.isoformat()}),
    "not_applied": lambda now: NotApplied(detail="absent", evidence=Evidence(source="target", observed_at=now)),
    "cancelled": lambda now: Cancelled(detail="stopped", evidence=Evidence(source="target", observed_at=now)),
}
WHICH = st.integers(0, 2)
DRAW = st.integers(0, 999)
Event = Callable[[], None]
EXAMPLES = itertools.count()


class Operations(RuleBasedStateMachine):
    """Up to three operations on two resources."""

    def __init__(self, runner: asyncio.Runner, bench: Any) -> None:
        super().__init__()
        self.runner, self.bench = runner, bench
        self.prefix = f"m{next(EXAMPLES)}"
        self.rows: list[Row] = []
        self.keys = itertools.count()

    def do(self, work: Any) -> Any:
        return self.runner.run(work)

    @property
    def now(self) -> datetime:
        moment: datetime = self.bench.clock.now
        return moment

    def one(self, which: int) -> Row:
        return self.rows[which % len(self.rows)]

    # creating

    @rule(
        on_create=st.sampled_from(["execute", "execute", "prepare", "hold"]),
        decision=st.booleans(),
        prep=st.sampled_from(["none", "pure", "effectful"]),
        observes=st.sampled_from([True, True, False]),
        verifies=st.booleans(),
        replays=st.booleans(),
        resource=st.sampled_from("ab"),
        deadline=st.sampled_from([None, None, 5]),
    )
    @precondition(lambda self: len(self.rows) < 3)
    def create(
        self,
        on_create: str,
        decision: bool,
        prep: str,
        observes: bool,
        verifies: bool,
        replays: bool,
        resource: str,
        deadline: int | None,
    ) -> None:
        route_id = f"{prep}-{observes}-{verifies}-{replays}.v1"
        if self.bench.catalog.find(route_id) is None:
            guarantee = ReplayGuarantee(kind="conditional" if replays else "none")
            changes = {"preparation": prep, "observation": observes, "verification": verifies, "replay": guarantee}
            self.bench.route(route_id, cancellation=True, **changes)
        until = None if deadline is None else self.now + timedelta(minutes=deadline)
        question = {"reason": "r", "question": "q", "expires_after_seconds": 180}
        constraints: dict[str, Any] = {"max_attempts": MAX_ATTEMPTS, "max_polls": MAX_POLLS}
        asked = request(
            f"k{len(self.rows)}",
            route_id,
            owner={"workspace": self.prefix, "session": self.prefix},
            on_create=on_create,
            resources=[{"kind": "file", "system": "scripted", "identity": f"{self.prefix}-{resource}"}],
            decision=question if decision else None,
            constraints=constraints | ({} if until is None else {"deadline": until.isoformat()}),
        )
        created = self.do(self.bench.create(asked))
        row = Row(created.id, asked, resource, prep, observes, verifies, replays, decision, until, on_create)
        self.rows.append(row)
        if on_create != "hold":
            self._start(row)
        self.check(row)

    def create_again(self, row: Row) -> None:
        again = self.do(self.bench.create(row.asked))
        assert (again.id, again.revision) == (row.id, row.revision)
        self.check(row, moved=False)

    def _start(self, row: Row) -> None:
        if row.prep != "none":
            row.state = "preparing"
        elif row.intent != "execute":
            row.state = "prepared"
            self._propose(row)
        else:
            self._go_on(row)

    def _go_on(self, row: Row) -> None:
        """The proposal is complete: as far as the intent and the decision allow."""
        self._propose(row)
        if row.intent != "execute":
            row.state, row.holds = "prepared", False
        elif row.needs_decision:
            row.state, row.holds = "awaiting_decision", False
            row.question_until = self.now + timedelta(seconds=180)
        else:
            row.state = "queued"

    def _propose(self, row: Row) -> None:
        row.proposal = self.do(self.bench.row(row.id)).proposal_digest
        assert row.proposal is not None

    # what is drawn: whose turn it is, and which of the things that can happen to it now

    @initialize(kind=st.integers(0, 23), limit=st.sampled_from([None, None, 5]))
    def begin(self, kind: int, limit: int | None) -> None:
        """One operation under way."""
        kinds = itertools.product(("none", "pure", "effectful"), (True, False), (True, False), (True, False))
        prep, observes, replays, decision = list(kinds)[kind]
        self.create("execute", decision, prep, observes, True, replays, "a", limit)
        self.go_on(0, 4)

    @rule(which=WHICH, steps=st.integers(1, 4))
    @precondition(lambda self: self.rows)
    def go_on(self, which: int, steps: int) -> None:
        """What a workflow and a willing person do, so that runs come far enough for the rest to matter."""
        row = self.one(which)
        for _ in range(steps):
            match row.state:
                case "held" | "prepared":
                    self.push(row, "execute")
                case "preparing" if row.prep == "pure":
                    self.end_pure_preparation(row, True)
                case "awaiting_decision":
                    self.decide(row, "approve", True)
                case "preparing" | "queued" if not row.open:
                    self.dispatch(row, "x")

    @rule(which=WHICH, draw=DRAW)
    @precondition(lambda self: self.rows)
    def the_world(self, which: int, draw: int) -> None:
        row = self.one(which)
        can: list[Event] = [partial(self.dispatch, row, token) for token in "xy"]
        if row.state == "preparing" and row.prep == "pure":
            can += [partial(self.end_pure_preparation, row, ok) for ok in (True, False)]
        if row.attempts:
            told = ("completed", "completed", "running", "running", "unknown", "failed", "prepared")
            can += [partial(self.reply, row, 0, outcome) for outcome in told]
            can += [partial(self.reply, row, 1, "completed"), partial(self.fence, row, False)]
        if row.state in ("running", "unknown"):
            can += [partial(self.look, row, seen, False) for seen in (*OUTCOMES, "not_applied", "running", "unknown")]
            can += [partial(self.look, row, "completed", True)]
        if row.state == "running":
            can += [
                partial(self.cancel_at_the_target, row, said)
                for said in ("cancelled", "accepted", "too_late", "unknown")
            ]
        if row.state == "completed":
            can += [
                partial(self.verify, row, *how)
                for how in itertools.product(("verified", "partial", "unavailable"), (True, False))
            ]
        can[draw % len(can)]()

    @rule(which=WHICH, draw=DRAW)
    @precondition(lambda self: self.rows)
    def somebody(self, which: int, draw: int) -> None:
        row = self.one(which)
        can: list[Event] = [partial(self.cancel, row), partial(self.cancel, row)]
        can += [partial(self.reconcile, row), partial(self.reconcile, row)]
        can += [partial(self.push, row, name) for name in ("prepare", "execute")]
        can += [
            partial(self.decide, row, verdict, good)
            for verdict in ("approve", "decline", "revise")
            for good in (True, False)
        ]
        can += [partial(self.attest, row, status, False) for status in ("applied", "not_applied", "stopped")]
        can += [partial(self.attest, row, "applied", True)]
        can += [partial(self.mumble, row, problem) for problem in ("it came without an argument", None)]
        can += [partial(self.repeat_a_command, row, back) for back in range(min(3, len(row.commands)))]
        can[draw % len(can)]()

    @rule(which=WHICH, draw=DRAW)
    @precondition(lambda self: self.rows)
    def misfortune(self, which: int, draw: int) -> None:
        row = self.one(which)
        can: list[Event] = [
            partial(self.lose_the_workflow, row),
            partial(self.create_again, row),
            partial(self.ring, row),
        ]
        can += [partial(self.die_before_the_journal_commits, row), partial(self.fence, row, False)]
        can += [partial(self.fence, row, True)]
        can += [partial(self.repeat_a_grant, row, token, back) for token in "xy" for back in range(len(row.attempts))]
        can[draw % len(can)]()

    @property
    def key(self) -> str:
        """A key nobody used yet."""
        return f"key-{next(self.keys)}"

    # preparing and dispatching

    def end_pure_preparation(self, row: Row, ok: bool) -> None:
        self.do(self.bench.prepared(row.id, OUTCOMES["prepared" if ok else "failed"](self.now)))
        if ok:
            self._go_on(row)
        else:
            row.close("failed")
        self.check(row)

    def dispatch(self, row: Row, token: str) -> None:
        """Ask for the grant of the next attempt."""
        kind = "prepare" if row.state == "preparing" and row.prep == "effectful" else "execute"
        generation = max(row.generation, row.fence) + 1
        due = not row.open and ((row.state == "queued" and row.authorised) or kind == "prepare")
        granted = self.do(self.bench.grant(row.id, generation, token, kind))
        note(f"{row.state} {kind} granted: {granted}")
        if not due:
            assert not granted
            self.check(row, moved=False)
            return
        if row.deadline is not None and self.now >= row.deadline:
            assert not granted
            row.close("expired")
        elif granted:
            assert not self._others_hold(row), "two operations hold one resource"
            row.generation, row.open, row.holds, row.external_id = generation, True, True, None
            row.attempts.append({"generation": generation, "kind": kind, "token": token, "at": self.now, "said": None})
            row.state = "dispatching" if kind == "execute" else row.state
            assert row.effects <= MAX_ATTEMPTS
        else:
            assert self._others_want(row), "refused although nobody stands in the way"
        self.check(row)

    def _others_hold(self, row: Row) -> bool:
        return any(other.holds and other.resource == row.resource for other in self.rows if other is not row)

    def _others_want(self, row: Row) -> bool:
        return not row.holds and any(
            other.resource == row.resource and other.state not in CLOSED - {"completed"}
            for other in self.rows
            if other is not row
        )

    def repeat_a_grant(self, row: Row, token: str, back: int) -> None:
        """Its commit was doubtful, or another invocation has the same generation."""
        attempt = row.attempts[back % len(row.attempts)]
        found = self.do(self.bench.grant(row.id, attempt["generation"], token, attempt["kind"]))
        newest = attempt is row.attempts[-1] and row.open and row.fence < attempt["generation"]
        assert found == (newest and attempt["said"] is None and attempt["token"] == token)
        self.check(row, moved=False)

    def die_before_the_journal_commits(self, row: Row) -> None:
        generation = max(row.generation, row.fence) + 1
        attempt = Attempt(
            AttemptKind("prepare" if row.state == "preparing" and row.prep == "effectful" else "execute"),
            generation,
            "doomed",
        )

        async def doomed(work: Any) -> None:
            await grant(work, await load(work, row.id), attempt)
            raise KeyError("killed")

        with pytest.raises(KeyError):
            self.do(self.bench.run(doomed))
        self.check(row, moved=False)

    def fence(self, row: Row, ahead: bool) -> None:
        """A dispatch was reported lost: the journaled one, or one that may never have begun."""
        generation = max(row.generation, row.fence) + 1 if ahead and not row.open else row.generation
        self.do(self.bench.fence(row.id, generation))
        row.fence = max(row.fence, generation)
        if row.open and generation == row.generation:
            row.open, row.state = False, "unknown"
        self.check(row)

    # what adapters say

    def reply(self, row: Row, back: int, outcome: str) -> None:
        """In time, late, or once more."""
        attempt = row.attempts[-1 - back % len(row.attempts)]
        if attempt["kind"] == "prepare" and outcome in ("completed", "running"):
            outcome = "prepared"
        self.do(self.bench.reply(row.id, OUTCOMES[outcome](self.now), attempt["generation"]))
        if attempt["said"] is not None:
            self.check(row, moved=False)
            return
        attempt["said"] = outcome
        alive = row.state in UNDER_WAY or row.state == "preparing"
        if attempt is not row.attempts[-1] or row.attested or not alive:
            row.late_replies += 1
            self.check(row, moved=False)
            return
        row.open = False
        self._take(row, outcome)
        self._stop_exhausted(row)
        self.check(row)

    def look(self, row: Row, seen: str, stale: bool) -> None:
        generation = row.generation - 1 if stale else row.generation
        self.do(self.bench.look(row.id, OUTCOMES[seen](self.now), generation or -1))
        if stale:
            self.check(row, moved=False)
            return
        row.polls += 1
        self._take(row, seen)
        self._stop_exhausted(row)
        self.check(row)

    def _take(self, row: Row, seen: str) -> None:
        prepares = row.preparing_now
        if seen == "prepared" and prepares:
            if row.cancellation != "none":
                row.cancellation = "confirmed"
                row.close("cancelled")
            else:
                # Recovered by looking, it is a proposal like any other again, and claims anew.
                row.holds = row.holds and row.state == "preparing"
                self._go_on(row)
        elif seen == "completed" and not prepares:
            row.state = "completed"
            row.verification = "pending" if row.verifies else "unavailable"
            row.holds = row.verifies
            if row.cancellation in ("requested", "unknown"):
                row.cancellation = "too_late"
        elif seen == "running" and row.observes:
            row.state, row.external_id = "running", "job-1"
        elif seen == "failed":
            row.certain()
            row.close("failed")
        elif seen == "not_applied":
            row.exhausted = False
            again = not prepares and row.cancellation == "none" and row.effects < MAX_ATTEMPTS
            if again and row.replays and row.authorised:
                row.state = "queued"
            else:
                row.certain()
                row.close("not_applied")
        elif seen == "cancelled":
            row.cancellation = "confirmed"
            row.close("cancelled")
        else:
            row.external_id = "job-1" if seen == "running" else row.external_id
            row.state = "unknown"

    def _stop_exhausted(self, row: Row) -> None:
        late = row.deadline is not None and self.now >= row.deadline
        if row.state in ("running", "unknown") and (row.polls >= row.polls_limit or late or row.exhausted):
            row.state, row.exhausted = "unknown", True

    def cancel_at_the_target(self, row: Row, answer: str) -> None:
        sent = self.do(self.bench.send_cancel(row.id))
        assert sent == (row.cancellation == "requested" and not row.cancel_sent)
        row.cancel_sent = row.cancel_sent or sent
        if not sent:
            self.check(row, moved=False)
            return
        said = {"accepted": CancelAccepted(), "too_late": CancelTooLate()}.get(answer) or OUTCOMES[answer](self.now)
        self.do(self.bench.cancel_answer(row.id, said))
        if answer == "cancelled":
            row.cancellation = "confirmed"
            row.close("cancelled")
        elif answer != "accepted":
            row.cancellation = answer
        self.check(row)

    def verify(self, row: Row, seen: str, fresh: bool) -> None:
        dispatched = max((attempt["at"] for attempt in row.attempts if attempt["kind"] == "execute"), default=self.now)
        evidence = Evidence(source="target", observed_at=self.now if fresh else dispatched - timedelta(microseconds=1))
        said = {
            "verified": Verified(evidence=evidence),
            "partial": Partial(evidence=evidence, detail="half"),
            "unavailable": VerificationUnavailable(detail="nobody there"),
        }[seen]
        due = row.verification == "pending" or row.reverify
        self.do(self.bench.verify(row.id, said))
        if not due:
            self.check(row, moved=False)
            return
        status = seen if fresh or seen == "unavailable" else "expired"
        if row.verification == "pending" or status not in ("unavailable", "expired"):
            row.verification = status
        row.reverify, row.holds = False, False
        self.check(row)

    # what people say

    def tell(self, row: Row, name: str, payload: dict[str, Any], problem: str | None = None) -> Any:
        answer = self.do(self.bench.tell(row.id, name, payload, problem=problem))
        note(f"{name} {payload} while {row.state}: {answer.status} {answer.code} {answer.detail}")
        if answer.status == "applied":
            row.commands.append((name, payload, answer.detail))
        return answer

    def refused(self, row: Row, answer: Any, *codes: str) -> None:
        assert answer.status == "refused"
        assert answer.code in codes
        entry = self.do(self.bench.ledger(row.id))[-1]
        assert (entry.kind, entry.data["code"]) == ("command_refused", answer.code)
        self.check(row, moved=False)

    def decide(self, row: Row, verdict: str, good: bool) -> None:
        digest = row.proposal if good and row.proposal else "sha256:" + "0" * 64
        answer = self.tell(row, "decide", {"proposal_digest": digest, "verdict": verdict, "key": self.key})
        if digest != row.proposal:
            self.refused(row, answer, "PROPOSAL_MISMATCH")
        elif row.decided == (verdict, digest):
            assert answer.detail.startswith(f"decided before: {verdict}")
            self.check(row, moved=False)
        elif row.state != "awaiting_decision":
            self.refused(row, answer, "NOT_POSSIBLE")
        elif row.question_until is not None and self.now >= row.question_until:
            self.refused(row, answer, "DECISION_EXPIRED")
        else:
            assert answer.status == "applied"
            row.decided = (verdict, digest)
            if verdict == "approve":
                row.state, row.approved = "queued", digest
            elif verdict == "decline":
                row.close("declined")
            else:
                row.state = "revision_requested"
            self.check(row)

    def cancel(self, row: Row) -> None:
        answer = self.tell(row, "cancel", {"reason": "enough", "key": self.key})
        if row.cancellation != "none":
            assert answer.status == "applied"
            self.check(row, moved=False)
        elif row.state in UNDISPATCHED and not row.open:
            row.cancellation = "confirmed"
            row.close("cancelled")
            self.check(row)
        elif row.state in UNDER_WAY or row.open:
            row.cancellation = "requested"
            self.check(row, moved=False)
        elif row.state == "completed":
            row.cancellation = "too_late"
            self.check(row, moved=False)
        else:
            self.refused(row, answer, "NOT_POSSIBLE")

    def attest(self, row: Row, status: str, stale: bool) -> None:
        revision = row.revision + 1 if stale else row.revision
        payload = {"expected_revision": revision, "resolution_key": self.key, "status": status, "summary": "I looked"}
        answer = self.tell(row, "resolve_unknown", payload)
        if stale:
            self.refused(row, answer, "STALE_REVISION")
        elif row.state != "unknown" or (row.preparing_now and status == "applied"):
            self.refused(row, answer, "NOT_POSSIBLE", "OBSERVATION_PENDING")
        elif row.observes and not row.exhausted:
            self.refused(row, answer, "OBSERVATION_PENDING")
        else:
            assert answer.status == "applied"
            row.attested, row.verification = True, "unavailable"
            if row.cancellation in ("requested", "unknown"):
                row.cancellation = "too_late" if status == "applied" else "confirmed"
            row.close("completed" if status == "applied" else status)
            self.check(row)

    def push(self, row: Row, name: str) -> None:
        answer = self.tell(row, name, {"key": self.key})
        if row.state == "held":
            row.intent = name
            self._start(row)
            self.check(row)
        elif name == "execute" and row.intent != "execute" and row.state == "prepared":
            row.intent = "execute"
            self._go_on(row)
            self.check(row)
        elif name == "execute" and row.intent != "execute" and row.state == "preparing":
            row.intent = "execute"
            self.check(row, moved=False)
        else:
            self.refused(row, answer, "NOT_POSSIBLE")

    def reconcile(self, row: Row) -> None:
        answer = self.tell(row, "reconcile", {"key": self.key})
        late = row.deadline is not None and self.now >= row.deadline
        if row.state == "completed" and row.verifies and not row.attested:
            row.reverify = True
            self.check(row, moved=False)
        elif row.state in ("running", "unknown") and row.observes and not late:
            row.exhausted = False
            row.polls_limit = max(row.polls_limit, row.polls + 1)
            self.check(row, moved=False)
        else:
            self.refused(row, answer, "NOT_POSSIBLE", "DEADLINE_PASSED")

    def repeat_a_command(self, row: Row, back: int) -> None:
        name, payload, detail = row.commands[back % len(row.commands)]
        answer = self.tell(row, name, payload)
        assert (answer.status, answer.detail) == ("repeated", detail)
        self.check(row, moved=False)

    def mumble(self, row: Row, problem: str | None) -> None:
        self.refused(row, self.tell(row, "decide", {"what": "?"}, problem), "BAD_COMMAND")

    # time, and starting over

    @rule(seconds=st.sampled_from([1, 60, 200]))
    def tick(self, seconds: int) -> None:
        self.bench.clock.forward(seconds)

    def ring(self, row: Row) -> None:
        """The timer of a workflow rings when, by its row, something has run out."""
        waits_for_answer = row.state in ("awaiting_decision", "revision_requested")
        limits = [row.deadline, row.question_until if waits_for_answer else None]
        over = any(limit is not None and self.now >= limit for limit in limits)
        if row.state in UNDISPATCHED and over and not row.open:
            assert self._step(row) == "expire"
            self.do(self.bench.expire(row.id))
            row.close("expired")
            self.check(row)
        elif row.state in ("running", "unknown"):
            self.do(self.bench.stop_exhausted(row.id))
            self._stop_exhausted(row)
            self.check(row)

    def _step(self, row: Row) -> str:
        kind: str = next_step(view_of(self.do(self.bench.row(row.id)), Timing()), self.now).kind.value
        return kind

    def lose_the_workflow(self, row: Row) -> None:
        """Whoever runs next goes on from the row: its step fits what the model knows."""
        kind = self._step(row)
        if kind == "dispatch":
            assert row.state == "queued"
        if row.state == "dispatching" or (row.state == "preparing" and row.open):
            assert kind == "fence", "what may have been sent is never sent again"
        if row.state in CLOSED:
            pending = row.state == "completed" and (row.verification == "pending" or row.reverify)
            assert kind == ("verify" if pending else "done")
        else:
            assert kind != "done"

    # what always holds

    def check(self, row: Row, moved: bool = True) -> None:
        """The real row is the model's, and it came there by a move the lifecycle knows."""
        before = row.was
        kept = self.do(self.bench.row(row.id))
        facts = ("state", "generation", "fence", "proposal_digest", "cancellation", "cancel_sent", "attested")
        assert {name: getattr(kept, name) for name in facts} == {
            "state": row.state,
            "generation": row.generation,
            "fence": row.fence,
            "proposal_digest": row.proposal,
            "cancellation": row.cancellation,
            "cancel_sent": row.cancel_sent,
            "attested": row.attested,
        }
        assert (kept.attempt_open, kept.attempts, kept.polls) == (row.open, row.effects, row.polls)
        if row.state in ("running", "unknown"):
            assert (kept.observation_exhausted, kept.external_id) == (row.exhausted, row.external_id)
        if row.state == "completed":
            assert kept.verification == row.verification
            assert kept.reverify == row.reverify
        assert self.do(self.bench.held(row.id)) == (2 if row.holds else 0)
        assert kept.revision >= row.revision
        if not moved:
            assert kept.revision == row.revision
            assert row.state == before
        if row.state != before:
            event(f"{before} → {row.state}")
            assert kept.revision > row.revision
            assert before not in CLOSED, "a closed state was left"
            endings = {"cancelled", "expired"} if before in UNDISPATCHED else set()
            assert row.state in MOVES[before] | endings
        row.revision = kept.revision
        row.was = row.state

    def teardown(self) -> None:
        """The whole record of every operation, once at the end of a run that was right so far."""
        if sys.exc_info()[0] is not None:
            return
        timeline = 0
        for row in self.rows:
            operation = self.do(self.bench.read(row.id))
            entries = self.do(self.bench.ledger(row.id))
            timeline += len(entries)
            assert [entry.version for entry in entries] == list(range(1, len(entries) + 1))
            assert [(a.generation, a.kind) for a in operation.attempts] == [
                (a["generation"], a["kind"]) for a in row.attempts
            ]
            assert [a.generation for a in operation.attempts if a.outcome is None] == [
                a["generation"] for a in row.attempts if a["said"] is None
            ]
            assert len(operation.late_replies) == row.late_replies
            assert [entry.kind for entry in entries].count("grant") == row.effects <= MAX_ATTEMPTS
            if operation.verification == "verified" and operation.state == "completed":
                assert operation.evidence.observed_at >= max(a.journaled_at for a in operation.attempts)
            if row.effects and row.needs_decision:
                kinds = [entry.kind for entry in entries]
                assert kinds.index("approve") < kinds.index("grant"), "dispatched before it was approved"
            assert all(entry.actor.principal in ("counterfoil", "unauthenticated") for entry in entries)


@pytest.fixture
def sqlite_bench(tmp_path: Path, empty_sqlite: Path, bench_class: Any, clock_class: Any) -> Iterator[Any]:
    shutil.copy(empty_sqlite, tmp_path / "store.db")
    yield from _bench(f"sqlite:///{tmp_path / 'store.db'}", tmp_path, bench_class, clock_class)


@pytest.fixture
def postgres_bench(tmp_path: Path, postgres_url: str, bench_class: Any, clock_class: Any) -> Iterator[Any]:
    yield from _bench(postgres_url, tmp_path, bench_class, clock_class)


def _bench(url: str, folder: Path, bench_class: Any, clock_class: Any) -> Iterator[Any]:
    with asyncio.Runner() as runner:
        database = Database(url)
        yield runner, bench_class(database, folder, clock_class())
        runner.run(database.close())


QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


def test_operations_follow_the_model_on_sqlite(sqlite_bench: Any) -> None:
    run_state_machine_as_test(
        lambda: Operations(*sqlite_bench),
        settings=settings(max_examples=50, stateful_step_count=40, deadline=None, suppress_health_check=QUIET),
    )


def test_operations_follow_the_model_on_postgresql(postgres_bench: Any) -> None:
    run_state_machine_as_test(
        lambda: Operations(*postgres_bench),
        settings=settings(max_examples=8, stateful_step_count=25, deadline=None, suppress_health_check=QUIET),
    )
