"""The one table at the end, and whatever was found wrong, with how to see it again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table

from counterfoil.worker.faults.judge import Verdict
from counterfoil.worker.faults.matrix import RowPlayed
from counterfoil.worker.faults.play import Played


@dataclass(frozen=True)
class Line:
    """What came of one part of a run."""

    name: str
    database: str
    faults: int
    operations: int
    effects: int
    verdict: Verdict
    unexpected: tuple[str, ...] = ()
    """What was not as the matrix says."""

    @classmethod
    def of_rows(cls, database: str, rows: Sequence[RowPlayed]) -> Line:
        """The line of the matrix."""
        verdict = Verdict()
        for one in rows:
            verdict += one.verdict
        return cls(
            name=f"matrix, {sum(one.passed for one in rows)} of {len(rows)} rows as expected",
            database=database,
            faults=len(rows),
            operations=sum(one.operations for one in rows),
            effects=sum(one.effects for one in rows),
            verdict=verdict,
            unexpected=tuple(f"row {one.row.number}, {one.row.fault}: {one.problem}" for one in rows if one.problem),
        )

    @classmethod
    def of_play(cls, name: str, database: str, played: Played) -> Line:
        """The line of random schedules."""
        return cls(
            name=name,
            database=database,
            faults=played.faults.total(),
            operations=played.operations,
            effects=played.effects,
            verdict=played.verdict,
        )

    @property
    def findings(self) -> list[str]:
        return [*self.unexpected, *self.verdict.findings]


def matrix_table(rows: Sequence[RowPlayed], database: str) -> Table:
    """Every row with its expected outcome, and whether it came so."""
    table = Table(title=f"The fault matrix on {database}", title_justify="left")
    for column in ("#", "fault", "expected", "found"):
        table.add_column(column)
    table.add_column("s", justify="right")
    for one in rows:
        found = "as expected" if one.passed else one.problem or "; ".join(one.verdict.findings)
        table.add_row(str(one.row.number), one.row.fault, one.row.expected, found, f"{one.seconds:.0f}")
    return table


def summary(lines: Sequence[Line], seconds: float) -> Table:
    """One row for each part, and their sum."""
    table = Table(title=f"Faults, in {seconds:.0f} s", title_justify="left")
    table.add_column("what")
    table.add_column("database")
    for column in ("faults", "operations", "effects", "doubles", "lost", "stuck", "dishonest"):
        table.add_column(column, justify="right")
    for line in lines:
        table.add_row(line.name, line.database, *(f"{number:,}" for number in _numbers(line)))
    table.add_section()
    sums = [sum(column) for column in zip(*map(_numbers, lines), strict=True)]
    table.add_row("all", "", *(f"{number:,}" for number in sums), style="bold")
    return table


def _numbers(line: Line) -> list[int]:
    verdict = line.verdict
    counted = (verdict.doubles, verdict.lost, verdict.stuck, verdict.dishonest)
    return [line.faults, line.operations, line.effects, *map(len, counted)]
