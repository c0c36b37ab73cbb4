"""Rows of the fault matrix, each on a deployment of its own, where nothing else plays them. `make faults` plays all."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from counterfoil.worker.faults.matrix import ROWS, Matrix, RowPlayed

PLAYED = (5, 6, 7, 8, 19, 22, 23, 24, 28, 29)
OUTAGE_SECONDS = 3


@pytest_asyncio.fixture(scope="module")
async def played(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[dict[int, RowPlayed]]:
    """What came of the rows, played a few at once."""
    folder = tmp_path_factory.mktemp("matrix")
    async with Matrix(folder, "sqlite", outage_seconds=OUTAGE_SECONDS) as matrix:
        rows = [row for row in ROWS if row.number in PLAYED]
        yield {one.row.number: one for one in await matrix.play(rows)}


@pytest.mark.slow
@pytest.mark.parametrize("number", PLAYED)
def test_a_row_of_the_fault_matrix_comes_as_expected(played: dict[int, RowPlayed], number: int) -> None:
    row = played[number]

    assert row.problem is None
    assert row.verdict.findings == []
    assert row.operations > 0


def test_the_matrix_has_thirty_rows_each_with_a_number_and_an_expected_outcome() -> None:
    assert [row.number for row in ROWS] == list(range(1, 31))
    assert all(row.expected for row in ROWS)
    assert len({row.play for row in ROWS}) == 30
