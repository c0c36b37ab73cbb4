"""`python -m counterfoil.worker.faults`: the fault harness as a command. `make faults` runs it."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from counterfoil.models.errors import CounterfoilError
from counterfoil.worker.ending import end
from counterfoil.worker.exit_codes import of_error
from counterfoil.worker.faults.run import Wanted, run
from counterfoil.worker.output import Output

BUILT_IN = "counterfoil.worker.faults.builtin:targets"


def faults(
    seed: Annotated[int | None, typer.Option(help="Which random schedules; by default any.")] = None,
    operations: Annotated[int, typer.Option(min=0, help="How many random operations in all.")] = 2000,
    batch: Annotated[int, typer.Option(min=1, help="How many of them are under way at once.")] = 500,
    database: Annotated[str, typer.Option(help="sqlite, postgresql, or both.")] = "both",
    rows: Annotated[str, typer.Option(help="Rows of the matrix, as 1,3,…; 'all', or 'none'.")] = "all",
    target: Annotated[list[str] | None, typer.Option(help="package.module:factory; may be repeated.")] = None,
    keep: Annotated[Path | None, typer.Option(help="A folder for stores, logs and effects, which stays.")] = None,
) -> None:
    """Hurt a whole deployment by a seeded schedule, and judge what it claims by what its targets did."""
    folder = keep or Path(tempfile.mkdtemp(prefix="counterfoil-faults-"))
    folder.mkdir(parents=True, exist_ok=True)
    passed = False
    wanted = Wanted(
        folder=folder.absolute(),
        seed=seed,
        operations=operations,
        batch=batch,
        databases=("sqlite", "postgresql") if database == "both" else (database,),
        rows=_numbers(rows),
        targets=tuple(target or [BUILT_IN]),
    )
    output = Output()
    try:
        passed = asyncio.run(run(wanted, output))
    except CounterfoilError as error:
        output.error(error)
        end(of_error(error.code))
    finally:
        if keep is None and passed:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            output.say(f"Stores, logs and effects are in {folder}.")
    end(0 if passed else 1)


def _numbers(rows: str) -> tuple[int, ...] | None:
    if rows in ("all", "none"):
        return None if rows == "all" else ()
    try:
        return tuple(int(number) for number in rows.split(","))
    except ValueError:
        raise typer.BadParameter("rows are numbers, separated by commas") from None


if __name__ == "__main__":
    sys.path.insert(0, "")
    typer.run(faults)
