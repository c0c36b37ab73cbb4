"""Loading and reading rows, and what happens when the store is older than its reader."""

from __future__ import annotations

from typing import Any

import pytest

from counterfoil.activities.operations import records
from counterfoil.activities.operations.rows import StoreBehind, load
from counterfoil.models.errors import ErrorCode


async def test_an_operation_can_be_loaded_where_nothing_may_be_written(bench: Any) -> None:
    created = await bench.create()

    loaded = await bench.database.read(lambda work: load(work, created.id))

    assert (loaded.id, loaded.state) == (created.id, "queued")


async def test_an_operation_nobody_created_is_not_found(bench: Any, refused: Any) -> None:
    with refused(ErrorCode.NOT_FOUND):
        await bench.row("op-nobody")
    with refused(ErrorCode.NOT_FOUND):
        await bench.read("op-nobody")


@pytest.mark.parametrize("exists", [True, False])
async def test_a_store_older_than_what_was_seen_is_noticed(bench: Any, exists: bool) -> None:
    created = await bench.create()
    operation_id = created.id if exists else "op-lost"

    with pytest.raises(StoreBehind) as caught:
        await bench.database.run(lambda work: load(work, operation_id, seen_revision=created.revision + 1))

    assert caught.value.code == ErrorCode.STORE_BEHIND
    assert caught.value.subject == operation_id


async def test_lists_show_the_newest_first_and_can_be_narrowed(bench: Any) -> None:
    for number, session in enumerate(["a", "a", "b"]):
        bench.clock.forward(1)
        await bench.create(key=f"k{number}", owner={"workspace": f"w-{session}", "session": session})
    await bench.tell(
        (await bench.create(key="k0", owner={"workspace": "w-a", "session": "a"})).id, "cancel", {"reason": "r"}
    )

    async def listed(**narrowed: Any) -> list[tuple[str, str]]:
        found = await bench.database.read(lambda work: records.summaries(work, **narrowed))
        return [(summary.session, summary.state.value) for summary in found]

    assert await listed() == [("b", "queued"), ("a", "queued"), ("a", "cancelled")]
    assert await listed(session="a") == [("a", "queued"), ("a", "cancelled")]
    assert await listed(workspace="w-b") == [("b", "queued")]
    assert await listed(states=["cancelled"]) == [("a", "cancelled")]
    assert await listed(limit=1) == [("b", "queued")]
