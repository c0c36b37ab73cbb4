"""The example host, as a host that is not ours: in a folder with packages named like our rooms."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cli import Dev, environment

HOST_START = Path(__file__).parents[2] / "examples" / "host_start.py"
ROOMS = ("models", "workflows", "activities", "control_plane", "worker")


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Dev]:
    """A host's own folder, with packages named like our rooms, and `counterfoil dev` started in it."""
    for room in ROOMS:
        (tmp_path / room).mkdir()
        (tmp_path / room / "__init__.py").write_text(f"raise ImportError('this is the host\\'s {room}')\n")
    (tmp_path / "host_start.py").write_text(HOST_START.read_text())
    dev = Dev(tmp_path, cwd=tmp_path)
    try:
        dev.wait_until_ready()
        yield dev
    finally:
        dev.end()


def run_host(host: Dev, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The example as the host's own program: the host's folder comes first on its path."""
    return subprocess.run(
        [sys.executable, "host_start.py", *arguments],
        cwd=host.folder,
        env=environment(host.state_dir),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_host_with_packages_of_our_names_starts_approves_and_prints_the_result(host: Dev) -> None:
    first, again, another = run_host(host), run_host(host), run_host(host, "goodbye")

    assert first.stdout == "completed, verified: file.create wrote notes/hello.txt\n", first.stderr
    assert (first.returncode, first.stderr) == (0, "")
    assert another.stdout == "completed, verified: file.create wrote notes/goodbye.txt\n", another.stderr
    assert (host.workspace / "notes" / "hello.txt").read_text() == "hello\n"
    assert (host.workspace / "notes" / "goodbye.txt").read_text() == "goodbye\n"
    assert again.stdout == first.stdout, again.stderr


def test_a_host_is_told_why_its_operation_was_not_made(host: Dev) -> None:
    (host.workspace / "notes").mkdir(parents=True)
    (host.workspace / "notes" / "taken.txt").write_text("mine\n")

    refused = run_host(host, "taken")

    assert refused.stdout == "failed, unavailable: a file of this name exists\n", refused.stderr
    assert (host.workspace / "notes" / "taken.txt").read_text() == "mine\n"


def test_the_example_imports_counterfoil_and_temporalio_only() -> None:
    imported = set()
    for node in ast.walk(ast.parse(HOST_START.read_text())):
        if isinstance(node, ast.Import):
            imported |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            imported.add(str(node.module).partition(".")[0])
    assert imported - sys.stdlib_module_names == {"counterfoil", "temporalio"}
