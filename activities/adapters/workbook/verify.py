"""Runs the independent reader in a process of its own and says what its answer means."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from counterfoil.activities.adapters.workbook.contract import Edit

READER = "counterfoil.activities.adapters.workbook.reader"
MEMORY_BYTES = 4 * 1024 * 1024 * 1024
_KINDS = {
    "structure": "the workbook is made up otherwise",
    "strangers": "cells nobody asked for are different",
    "frames": "what surrounds the cells is different",
    "parts": "parts are different",
    "stale": "formulas show results from before the edit",
}


@dataclass(frozen=True)
class Report:
    """What the reader found in a file, compared with the snapshot and the edits."""

    asked: int
    held: int
    """Asked cells that hold what was asked."""
    cells_checked: int
    parts_unchanged: int
    missing: tuple[str, ...]
    """The first few asked cells that do not."""
    contradictions: tuple[str, ...] = ()
    """What is different although nobody asked for it, in words."""
    unreadable: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def is_faithful(self) -> bool:
        """Nothing is different that should not be."""
        return not self.contradictions and self.unreadable is None

    @property
    def is_complete(self) -> bool:
        """Faithful, and everything asked is there."""
        return self.is_faithful and self.held == self.asked


class ReaderFailed(Exception):
    """The reader gave no answer: it crashed, ran out of memory or took too long."""


def read_back(source: bytes, output: bytes, edits: Sequence[Edit], *, timeout_seconds: float) -> Report:
    """Compares `output` with what `source` and the edits make of it. Raises `ReaderFailed`."""
    with tempfile.TemporaryDirectory(prefix="counterfoil-reader-") as folder:
        before, after = Path(folder) / "source", Path(folder) / "output"
        before.write_bytes(source)
        after.write_bytes(output)
        question = {
            "source": str(before),
            "output": str(after),
            "edits": [edit.model_dump(mode="json") for edit in edits],
            "memory_bytes": MEMORY_BYTES,
            "cpu_seconds": max(2, int(timeout_seconds) + 1),
        }
        return _report(_ask(json.dumps(question), timeout_seconds))


def _ask(question: str, timeout_seconds: float) -> dict[str, Any]:
    environment = {"LD_LIBRARY_PATH": path} if (path := os.environ.get("LD_LIBRARY_PATH")) else {}
    try:
        done = subprocess.run(
            _command(),
            input=question,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=timeout_seconds,
            env=environment,
        )
    except subprocess.TimeoutExpired as error:
        raise ReaderFailed(f"the reader took longer than {timeout_seconds:g} s and was ended") from error
    except OSError as error:
        raise ReaderFailed(f"the reader could not be started: {error}") from error
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ReaderFailed(f"the reader ended with {done.returncode}: {last[:300]}")
    try:
        answer = json.loads(done.stdout)
    except ValueError as error:
        raise ReaderFailed("the reader's answer is not JSON") from error
    if not isinstance(answer, dict):
        raise ReaderFailed("the reader's answer is not an object")
    return answer


def _command() -> list[str]:
    # Isolated mode: neither the environment nor the current folder decides which modules the reader is made of.
    return [sys.executable, "-I", "-m", READER]


def _report(answer: dict[str, Any]) -> Report:
    if "unreadable" in answer:
        return Report(0, 0, 0, 0, (), unreadable=str(answer["unreadable"]))
    counts, shown = answer["counts"], answer["shown"]
    contradictions = tuple(
        f"{sentence} ({counts[kind]}: {', '.join(shown[kind])})" for kind, sentence in _KINDS.items() if kind in counts
    )
    missing = tuple(shown.get("missing", [])) + tuple(shown.get("disputed", []))
    facts = {"formula_results": "dropped" if answer["formulas"] else "none", "findings": counts}
    return Report(
        asked=answer["asked"],
        held=answer["held"],
        cells_checked=answer["cells_checked"],
        parts_unchanged=answer["parts_unchanged"],
        missing=missing,
        contradictions=contradictions,
        facts=facts,
    )
