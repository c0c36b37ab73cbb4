"""The tutorial's commands are run as they are printed, in two terminals, against a real `counterfoil dev`."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from python_calamine import CalamineWorkbook

REPOSITORY = Path(__file__).parents[2]
TUTORIAL = (REPOSITORY / "docs" / "tutorial.md").read_text()
BLOCK = re.compile(r"(?:<!-- exits (\d+) -->\n)?^( *)```sh\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
NOT_RUN = ("make demo",)
START_SECONDS = 60
STEP_SECONDS = 120


class Shell:
    """The first terminal: one bash that keeps its folder and its variables."""

    def __init__(self, folder: Path) -> None:
        self._bash = subprocess.Popen(
            ["bash", "--norc"],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, block: str) -> tuple[int, str]:
        """The exit status of a block's last command, and what it wrote."""
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        self._bash.stdin.write(f"{block}\nprintf '\\n@@%s\\n' $?\n")
        self._bash.stdin.flush()
        said = []
        for line in self._bash.stdout:
            if line.startswith("@@"):
                return int(line[2:]), "".join(said)
            said.append(line)
        raise AssertionError(f"the shell ended: {''.join(said)}")

    def close(self) -> None:
        self._bash.kill()
        self._bash.wait()


class Stack:
    """The second terminal: `counterfoil dev`, until Ctrl-C."""

    def __init__(self, desk: Path) -> None:
        self._desk = desk
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, command: str) -> None:
        self.stop()
        program, *arguments = command.split()
        self._process = subprocess.Popen([Path(sys.executable).with_name(program), *arguments], cwd=self._desk)
        until = time.monotonic() + START_SECONDS
        while not (self._desk / ".counterfoil" / "stack.json").exists():
            assert self._process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.1)

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            assert self._process.wait(STEP_SECONDS) == 0
            self._process = None


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What a newcomer stands in: a folder with the examples and the environment."""
    folder = tmp_path / "counterfoil"
    folder.mkdir()
    (folder / "examples").symlink_to(REPOSITORY / "examples")
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


@pytest.fixture
def terminals(clone: Path) -> Iterator[tuple[Shell, Stack]]:
    shell, stack = Shell(clone), Stack(clone.parent / "desk")
    try:
        yield shell, stack
    finally:
        shell.close()
        stack.stop()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_command_of_the_tutorial_works_as_printed(
    clone: Path, terminals: tuple[Shell, Stack], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("TEMPORAL_ADDRESS", raising=False)
    shell, stack = terminals
    outputs = []
    for expected, indentation, block in BLOCK.findall(TUTORIAL):
        commands = re.sub(rf"^{indentation}", "", block, flags=re.MULTILINE).strip()
        if commands in NOT_RUN:
            continue
        if commands.startswith("counterfoil dev"):
            stack.start(commands)
            continue
        status, said = shell.run(commands)
        assert status == int(expected or 0), f"{commands}\n→ {status}\n{said}"
        outputs.append(said)
    said = "\n".join(outputs)
    desk = clone.parent / "desk"

    for code in ("IDEMPOTENCY_CONFLICT", "SOURCE_CHANGED", "ADAPTER_RAISED", "unauthenticated"):
        assert code in said
    assert cell(desk / "quarterly-report.xlsx") == cell(REPOSITORY / "examples" / "quarterly-report.xlsx")
    assert len((desk / "letters.txt").read_text().splitlines()) == 1
    assert (desk / "notes" / "hello.txt").read_text() == "hello\n"


def cell(file: Path) -> object:
    return CalamineWorkbook.from_path(file).get_sheet_by_name("Revenue").to_python(skip_empty_area=False)[1][1]
