"""Claims on resources against a simple model: no two holders that conflict, all or nothing, first come first served."""

from __future__ import annotations

import asyncio
import itertools
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from counterfoil.activities.operations import claims
from counterfoil.activities.store.database import Database
from counterfoil.models.operations.outcomes import Running, UnknownEffect
from support.scripted import completed, request

LOST = UnknownEffect(code="LOST", detail="no reply")


def on(*names: str, queries: str = "") -> list[dict[str, str]]:
    """Resources named by letters; those in `queries` are only read."""
    return [{"kind": "query" if name in queries else "file", "system": "scripted", "identity": name} for name in names]


@pytest.fixture
async def quick(bench: Any) -> Any:
    """A bench whose operations have settled once they are completed."""
    bench.route(verification=False)
    return bench


async def line(bench: Any, *wants: list[dict[str, str]]) -> list[str]:
    """Operations created a second apart, in this order."""
    ids = []
    for number, resources in enumerate(wants):
        bench.clock.forward(1)
        ids.append((await bench.create(key=f"k{number}", resources=resources)).id)
    return ids


async def granted(bench: Any, *ids: str) -> list[bool]:
    return [await bench.grant(operation_id) for operation_id in ids]


async def finish(bench: Any, operation_id: str) -> None:
    bench.woken.clear()
    await bench.reply(operation_id, completed())


async def test_a_resource_has_one_holder_and_the_other_is_told_who_it_is(quick: Any) -> None:
    first, second = await line(quick, on("a"), on("a"))

    assert await granted(quick, first, second) == [True, False]
    blocked = (await quick.read(second)).blocked
    assert (blocked.code, blocked.detail) == ("LOCKED", f"scripted:a is held by {first}")

    await finish(quick, first)
    assert quick.woken == [second]
    assert await quick.free(second)
    assert await granted(quick, second) == [True]


async def test_an_operation_holds_everything_it_needs_or_nothing(quick: Any) -> None:
    first, second, third = await line(quick, on("a"), on("a", "b"), on("b"))

    assert await granted(quick, first, second) == [True, False]
    assert await quick.held(second) == 0
    assert await granted(quick, third) == [False], "the second waits for b too, and came first"


async def test_queries_are_shared_and_everything_else_is_not(quick: Any) -> None:
    reader, other_reader, writer, late_reader = await line(
        quick, on("a", queries="a"), on("a", queries="a"), on("a"), on("a", queries="a")
    )

    assert await granted(quick, reader, other_reader, writer, late_reader) == [True, True, False, False]


async def test_declared_work_shares_the_workspace_and_undeclared_work_has_it_alone(quick: Any) -> None:
    first, second, undeclared, late = await line(quick, on("a"), on("b"), [], on("c"))

    assert await granted(quick, first, second, undeclared, late) == [True, True, False, False]
    await finish(quick, first)
    assert await granted(quick, undeclared, late) == [False, False]
    await finish(quick, second)
    assert undeclared in quick.woken
    assert await granted(quick, late, undeclared) == [False, True]


async def test_the_same_name_in_another_account_is_another_resource(quick: Any) -> None:
    mine = on("a")[0] | {"account_id": "mine"}
    yours = on("a")[0] | {"account_id": "yours"}

    first, second = await line(quick, [mine], [yours])

    assert await granted(quick, first, second) == [True, True]


async def test_waiters_are_served_in_the_order_in_which_they_were_queued(quick: Any) -> None:
    first, second, third = await line(quick, on("a"), on("a"), on("a"))
    assert await granted(quick, first, third, second) == [True, False, False]

    await finish(quick, first)

    assert quick.woken == [second]
    assert await granted(quick, third, second) == [False, True]


async def test_asking_again_does_not_put_a_preparation_at_the_end_of_the_line(bench: Any) -> None:
    """An effectful preparation claims before it is ever queued: its place counts from when it first asked."""
    bench.route(verification=False)
    bench.route("drafting.v1", preparation="effectful")
    holder = await bench.create(key="holder", resources=on("a"))
    assert await bench.grant(holder.id)
    bench.clock.forward(1)
    preparing = await bench.create(key="preparing", route_id="drafting.v1", resources=on("a"))
    assert not await bench.grant(preparing.id, kind="prepare")
    bench.clock.forward(1)
    queued = await bench.create(key="queued", resources=on("a"))
    assert not await bench.grant(queued.id)

    bench.clock.forward(1)
    await finish(bench, holder.id)

    assert bench.woken == [preparing.id]
    assert await bench.free(preparing.id)
    assert await bench.grant(preparing.id, kind="prepare")


async def test_one_that_waits_for_an_unknown_effect_is_overtaken_by_those_that_do_not(quick: Any) -> None:
    unknown, stuck, other = await line(quick, on("a"), on("a", "b"), on("b"))
    assert await granted(quick, unknown, stuck, other) == [True, False, False]
    quick.woken.clear()

    await quick.reply(unknown, LOST)

    assert quick.woken == [other], "it waited behind the stuck one, and may go now"
    assert await granted(quick, other, stuck) == [True, False]
    assert (await quick.read(stuck)).blocked.detail == f"scripted:a is held by {unknown}, whose effect is unknown"
    assert [claim.overtakable for claim in (await quick.read(stuck)).claims] == [True] * 3


async def test_all_that_wait_behind_a_stuck_one_are_named_past_it(quick: Any) -> None:
    unknown, stuck, alone = await line(quick, on("a"), [], on("c"))
    assert await granted(quick, unknown, stuck, alone) == [True, False, False]
    quick.woken.clear()

    await quick.reply(unknown, LOST)

    assert quick.woken == [alone]
    assert await granted(quick, alone) == [True]


async def test_an_unknown_effect_does_not_disturb_the_line_for_anything_else(quick: Any) -> None:
    """They share a workspace with the unknown one, and nothing more: first come is still first served."""
    unknown, holder, first, second = await line(quick, on("z"), on("a"), on("a"), on("a"))
    assert await granted(quick, unknown, holder, first, second) == [True, True, False, False]

    await quick.reply(unknown, LOST)
    await finish(quick, holder)

    assert quick.woken == [first]
    assert await granted(quick, second, first) == [False, True]


async def test_whoever_waits_for_an_unknown_and_for_another_is_overtakable_too(quick: Any) -> None:
    unknown, busy, stuck, other = await line(quick, on("b"), on("a"), on("a", "b", "c"), on("c"))
    assert await granted(quick, unknown, busy) == [True, True]
    await quick.reply(unknown, LOST)

    assert await granted(quick, stuck, other) == [False, True]


async def test_who_is_cancelled_while_waiting_leaves_the_line(quick: Any) -> None:
    first, second, third = await line(quick, on("a"), on("a", "b"), on("b"))
    assert await granted(quick, first, second, third) == [True, False, False]
    quick.woken.clear()

    await quick.tell(second, "cancel", {"reason": "enough"})

    assert quick.woken == [third]
    assert await granted(quick, third) == [True]


async def test_a_release_wakes_nobody_it_frees_nothing_for(quick: Any) -> None:
    first, holder, waiter = await line(quick, on("a"), on("b"), on("b"))
    assert await granted(quick, first, holder, waiter) == [True, True, False]

    await finish(quick, first)

    assert quick.woken == [], "the workspace was shared all the time"


async def test_the_first_in_line_is_woken_however_many_wait_in_the_workspace(
    quick: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "WAKE_LIMIT", 3)
    names = [f"r{number}" for number in range(6)]
    holders = await line(quick, *[on(name) for name in names])
    assert all(await granted(quick, *holders))
    waiters = []
    for name in names:
        quick.clock.forward(1)
        waiters.append((await quick.create(key=f"w-{name}", resources=on(name))).id)
    assert not any(await granted(quick, *waiters))

    for holder, waiter in zip(holders, waiters, strict=True):
        await finish(quick, holder)
        assert quick.woken == [waiter]


async def test_of_many_who_ask_at_once_one_holds_the_resource(quick: Any) -> None:
    ids = await line(quick, *[on("a")] * 12)

    answers = await asyncio.gather(*[quick.grant(operation_id) for operation_id in ids])

    assert answers.count(True) == 1
    assert len({claim.operation_id for claim in await quick.claims() if claim.held}) == 1


async def test_operations_that_name_their_resources_in_opposite_orders_do_not_deadlock(quick: Any) -> None:
    ids = await line(quick, *[on("a", "b", "c"), on("c", "b", "a")] * 5)

    answers = await asyncio.wait_for(asyncio.gather(*[quick.grant(name) for name in ids]), timeout=10)

    assert answers.count(True) == 1


async def test_everyone_gets_a_turn_under_real_concurrency_and_nobody_meets_a_conflicting_holder(quick: Any) -> None:
    wants = [on("a"), on("b"), on("a", "b"), on("b", "c"), on("c"), [], on("a", queries="a"), on("a", queries="a")] * 2
    ids = await line(quick, *wants)
    inside: dict[str, set[str]] = {}
    served: list[str] = []

    async def client(operation_id: str, resources: list[dict[str, str]]) -> None:
        for turn in itertools.count():
            if await quick.grant(operation_id):
                break
            await asyncio.sleep(0.005 * min(turn, 4))
        mine = {one["identity"] + one["kind"] for one in resources} or {"everything"}
        for other, theirs in inside.items():
            assert not _conflict(mine, theirs), f"{operation_id} met {other}"
        inside[operation_id] = mine
        await asyncio.sleep(0.002)
        del inside[operation_id]
        await quick.reply(operation_id, completed())
        served.append(operation_id)

    await asyncio.wait_for(asyncio.gather(*map(client, ids, wants)), timeout=60)

    assert sorted(served) == sorted(ids)
    assert await quick.claims() == []


async def test_many_operations_over_twenty_resources_all_get_their_turn_in_order_by_being_woken_alone(
    quick: Any,
) -> None:
    choose = random.Random(20)
    names = [f"r{number}" for number in range(20)]
    many = 1000 if quick.database.url.startswith("sqlite") else 100
    wants = [on(*choose.sample(names, choose.choice((1, 1, 2, 3))), queries=choose.choice(names)) for _ in range(many)]
    ids = await line(quick, *wants)
    needs = {
        name: {one["identity"]: one["kind"] != "query" for one in want} for name, want in zip(ids, wants, strict=True)
    }
    place = {name: number for number, name in enumerate(ids)}
    inside, refused, served = set[str](), set[str](), list[str]()
    turn, asking = asyncio.Queue[str](), dict[str, bool]()
    for name in choose.sample(ids, len(ids)):
        turn.put_nowait(name)

    def conflict(one: str, other: str) -> bool:
        return any(needs[one][name] or needs[other][name] for name in needs[one].keys() & needs[other].keys())

    async def client() -> None:
        while len(served) < many:
            try:
                name = await asyncio.wait_for(turn.get(), 10)
            except TimeoutError:
                return
            if name in asking:
                asking[name] = True  # told while its question is under way
            if name in asking or name in served or name in inside:
                continue
            asking[name] = False
            ahead = [other for other in refused if place[other] < place[name] and conflict(name, other)]
            granted = await quick.grant(name)
            told = asking.pop(name)
            if not granted:
                refused.add(name)
                if told:
                    turn.put_nowait(name)
                continue
            passed = [other for other in ahead if other in refused and other not in asking]
            assert not passed, f"{name} went past {passed[0]}"
            assert not [other for other in inside if conflict(name, other)]
            refused.discard(name)
            inside.add(name)
            await asyncio.sleep(0)
            inside.discard(name)
            served.append(name)
            await quick.reply(name, completed())
            while quick.woken:
                turn.put_nowait(quick.woken.pop())

    await asyncio.wait_for(asyncio.gather(*(client() for _ in range(8))), 120)

    assert sorted(served) == sorted(ids), "everybody, once, and nobody asked twice without being told to"
    assert await quick.claims() == []


def _conflict(mine: set[str], theirs: set[str]) -> bool:
    if "everything" in mine | theirs:
        return True
    return any(
        one[0] == other[0] and not (one.endswith("query") and other.endswith("query"))
        for one in mine
        for other in theirs
    )


@dataclass
class Modelled:
    """An operation as the model knows it: what it needs, and how far it is."""

    id: str
    needs: dict[str, bool]
    asked: bool = False
    holds: bool = False
    unknown: bool = False
    woken: bool = False
    gone: bool = False


@dataclass
class Model:
    """Who may hold what, in a few lines: the operations in the order in which they were queued."""

    line: list[Modelled] = field(default_factory=list)

    @staticmethod
    def conflict(one: Modelled, other: Modelled) -> bool:
        shared = one.needs.keys() & other.needs.keys()
        return one is not other and any(one.needs[name] or other.needs[name] for name in shared)

    def holders_against(self, one: Modelled) -> list[Modelled]:
        return [other for other in self.line if other.holds and self.conflict(one, other)]

    def waits_for_unknown(self, one: Modelled) -> bool:
        return any(holder.unknown for holder in self.holders_against(one))

    def earlier_against(self, one: Modelled) -> list[Modelled]:
        earlier = self.line[: self.line.index(one)]
        return [
            other
            for other in earlier
            if other.asked and not other.gone and not other.holds and self.conflict(one, other)
        ]

    def must_be_refused(self, one: Modelled, was_stuck: set[str]) -> bool:
        """Someone holds it, or someone is ahead in the line who never waited for an unknown effect."""
        ahead = [other for other in self.earlier_against(one) if other.id not in was_stuck]
        return bool(self.holders_against(one) or ahead)

    def must_be_granted(self, one: Modelled) -> bool:
        """Nobody holds it, and whoever is ahead waits for an unknown effect."""
        ahead = [other for other in self.earlier_against(one) if not self.waits_for_unknown(other)]
        return not self.holders_against(one) and not ahead


NEEDS = st.dictionaries(st.sampled_from("abc"), st.booleans(), max_size=3)
ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["new", "new", "ask", "ask", "ask", "unknown", "running", "finish", "finish", "cancel"]),
        st.integers(0, 7),
        NEEDS,
    ),
    min_size=4,
    max_size=30,
)
EXAMPLES = itertools.count()


@pytest.fixture(scope="module")
def modelled(
    tmp_path_factory: pytest.TempPathFactory, empty_sqlite: Path, bench_class: Any, clock_class: Any
) -> Iterator[Any]:
    """A bench of its own, used by every example in turn, each on resources of its own."""
    folder = tmp_path_factory.mktemp("modelled")
    shutil.copy(empty_sqlite, folder / "store.db")
    with asyncio.Runner() as runner:
        database = Database(f"sqlite:///{folder / 'store.db'}")
        bench = bench_class(database, folder, clock_class())
        bench.route(verification=False)
        yield runner, bench
        runner.run(database.close())


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions=ACTIONS)
def test_claims_follow_the_model(modelled: Any, actions: list[tuple[str, int, dict[str, bool]]]) -> None:
    runner, bench = modelled
    runner.run(_follow(bench, f"e{next(EXAMPLES)}", actions))


async def _follow(bench: Any, prefix: str, actions: list[tuple[str, int, dict[str, bool]]]) -> None:
    model = Model()
    was_stuck: set[str] = set()
    for action, number, needs in actions:
        bench.woken.clear()
        if action == "new":
            await _new(bench, model, prefix, needs)
        elif model.line:
            one = model.line[number % len(model.line)]
            await _act(bench, model, one, action, was_stuck)
        for one in model.line:
            one.woken = one.woken or one.id in bench.woken
            if one.asked and not one.holds and not one.gone:
                if model.waits_for_unknown(one):
                    was_stuck.add(one.id)
                assert not model.must_be_granted(one) or one.woken, "its turn has come, and nobody told it"
        await _check_holders(bench, model)


async def _new(bench: Any, model: Model, prefix: str, needs: dict[str, bool]) -> None:
    bench.clock.forward(1)
    resources = [
        {"kind": "file" if exclusive else "query", "system": "scripted", "identity": f"{prefix}-{name}"}
        for name, exclusive in needs.items()
    ]
    owner = {"workspace": prefix, "session": prefix}
    row = await bench.create(request(f"k{len(model.line)}", owner=owner, resources=resources))
    model.line.append(Modelled(row.id, needs | {"workspace": not needs}))


async def _act(bench: Any, model: Model, one: Modelled, action: str, was_stuck: set[str]) -> None:
    match action:
        case "ask" if not one.gone and not one.holds:
            refused, due = model.must_be_refused(one, was_stuck), model.must_be_granted(one)
            one.holds = await bench.grant(one.id)
            one.asked, one.woken = True, False
            if not model.waits_for_unknown(one):
                was_stuck.discard(one.id)
            assert not (one.holds and refused), "granted over a holder, or past one that was first in line"
            assert one.holds or not due, "refused although nothing stands in the way"
        case "unknown" if one.holds and not one.unknown:
            operation = await bench.read(one.id)
            if operation.state == "dispatching":
                await bench.reply(one.id, LOST)
            else:
                await bench.look(one.id, LOST)
            one.unknown = True
        case "running" if one.unknown:
            await bench.look(one.id, Running(external_id="job"))
            one.unknown = False
        case "finish" if one.holds:
            if (await bench.read(one.id)).state == "dispatching":
                await bench.reply(one.id, completed())
            else:
                await bench.look(one.id, completed())
            one.holds, one.unknown, one.gone = False, False, True
        case "cancel" if not one.holds and not one.gone:
            await bench.tell(one.id, "cancel", {"reason": "enough"})
            one.gone = True


async def _check_holders(bench: Any, model: Model) -> None:
    """What the table says is what the model says: all or nothing, and nobody in nobody's way."""
    kept: dict[str, list[bool]] = {}
    for claim in await bench.claims():
        kept.setdefault(claim.operation_id, []).append(claim.held)
    for one in model.line:
        expected = [one.holds] * len(one.needs) if (one.holds or (one.asked and not one.gone)) else []
        assert kept.get(one.id, []) == expected
    for one, other in itertools.combinations([one for one in model.line if one.holds], 2):
        assert not model.conflict(one, other)
