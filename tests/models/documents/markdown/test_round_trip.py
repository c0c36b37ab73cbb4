"""Generated documents, written as Markdown and read again: by the reference implementation, and by our own reader."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from counterfoil.models.documents.markdown.losses import LossKind
from counterfoil.models.documents.markdown.parsing import parse
from counterfoil.models.documents.markdown.projection import Projection, project
from counterfoil.models.documents.nodes import Element
from support.prose import Prose, joined, tidied, told

SEED, DOCUMENTS = 20261201, 3700
WITH_TABLES = 1300
Ask = Callable[..., Iterator[str]]


def generated(seed: int, count: int, *, tables: bool = False) -> list[Element]:
    prose = Prose(seed, tables=tables)
    return [prose.document() for _ in range(count)]


def as_declared(said: Any) -> Any:
    """What is declared not to be written: a line end in a line of code, white space alone in a block of it."""
    if not isinstance(said, list) or not said:
        return said
    if said[0] == "text" and "code" in said[2]:
        return ["text", said[1].replace("\r", " ").replace("\n", " "), said[2]]
    if said[0] == "code_block":
        return [*said[:2], "\n".join(line if line.strip(" \t") else "" for line in said[2].split("\n"))]
    return [as_declared(one) for one in said]


def unstyled(said: Any) -> Any:
    """Without emphasis, for documents that declare that they could not write some."""
    if isinstance(said, list) and said and said[0] == "text":
        return ["text", said[1], [mark for mark in said[2] if mark not in ("em", "strong", "strike")]]
    if isinstance(said, list) and said and said[0] in ("paragraph", "heading"):
        return [*said[:-1], joined([unstyled(one) for one in said[-1]])]
    return [unstyled(one) for one in said] if isinstance(said, list) else said


def is_same(projection: Projection, said: Any) -> bool:
    wanted, found = told(projection.document), tidied(said)
    lost = {loss.kind for loss in projection.losses}
    if LossKind.CHARACTER in lost:
        wanted, found = as_declared(wanted), as_declared(found)
    if LossKind.MARK in lost:
        wanted, found = unstyled(wanted), unstyled(found)
    return bool(wanted == found)


def test_the_reference_implementation_reads_the_same_structure_or_the_declared_loss(oracle: Ask):
    projections = [project(document) for document in generated(SEED, DOCUMENTS)]

    said = oracle("commonmark.mjs", told="\n".join(json.dumps(one.markdown) for one in projections))

    wrong = [
        (one.markdown, line) for one, line in zip(projections, said, strict=True) if not is_same(one, json.loads(line))
    ]
    assert wrong == [], f"seed {SEED}: {len(wrong)} of {DOCUMENTS} differ"
    assert sum(not one.losses for one in projections) > 0.8 * DOCUMENTS


def test_documents_with_tables_tasks_and_strike_through_read_the_same_and_are_written_the_same_again():
    wrong = []
    for document in generated(SEED + 1, WITH_TABLES, tables=True):
        projection = project(document)
        read = parse(projection.markdown)
        if not is_same(projection, told(read)) or project(read).markdown != projection.markdown:
            wrong.append(projection.markdown)

    assert wrong == [], f"seed {SEED + 1}: {len(wrong)} of {WITH_TABLES} differ"


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_another_process_gives_the_same_bytes(hash_seed: str):
    program = (
        "import hashlib; from support.prose import Prose\n"
        "from counterfoil.models.documents.markdown.projection import project\n"
        f"prose = Prose({SEED}, tables=True)\n"
        "print(hashlib.sha256(''.join(project(prose.document()).markdown for _ in range(300)).encode()).hexdigest())"
    )
    made = subprocess.run(
        [sys.executable, "-c", program],
        cwd="tests",
        env={"PYTHONHASHSEED": hash_seed, "PATH": "/usr/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    here = "".join(project(document).markdown for document in generated(SEED, 300, tables=True))

    assert made.stdout.strip() == hashlib.sha256(here.encode()).hexdigest()
