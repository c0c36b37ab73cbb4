"""The one table at the end, and whatever was found wrong, with how to see it again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table

from counterfoil.worker.faults.play import Played


@dataclass(frozen=True)
class Line:
    """What came of one part of a run."""

    name: str
    database: str
    played: Played


COLUMNS = ("faults", "operations", "effects", "attested", "doubles", "lost", "stuck", "dishonest")


def summary(lines: Sequence[Line], seconds: float) -> Table:
    """One row for each part, and their sum."""
    table = Table(title=f"Faults, in {seconds:.0f} s", title_justify="left")
    table.add_column("what")
    table.add_column("database")
    for column in COLUMNS:
        table.add_column(column, justify="right")
    total = Played()
    for line in lines:
        total += line.played
        table.add_row(line.name, line.database, *numbers(line.played))
    table.add_section()
    table.add_row("all", "", *numbers(total), style="bold")
    return table


def numbers(played: Played) -> list[str]:
    verdict = played.verdict
    counted = (verdict.doubles, verdict.lost, verdict.stuck, verdict.dishonest)
    told = (played.faults.total(), played.operations, played.effects, played.attested, *map(len, counted))
    return [f"{number:,}" for number in told]
