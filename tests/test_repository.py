"""What every commit of this repository must be: fast checks, run by `make check`."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import counterfoil

REPOSITORY = Path(__file__).parents[1]
THIS = Path(__file__).relative_to(REPOSITORY)
LOCKS = ("requirements/run.txt", "requirements/dev.txt")

PASSWORD = "a password in an address"
INDEXES = "|".join(("py" + "pi", "python" + "hosted", "npm" + "js"))
FORBIDDEN = {
    "a package index or registry": rf"https?://[\w.-]*({INDEXES})[\w./-]*|--(extra-)?index[-]url|--find[-]links",
    "a path of one machine": r"(?<![\w.-])/(work|root|home/\w+|Users/\w+|opt/wheels)/",
    "a private key": r"-----BEGIN [A-Z ]*PRIVATE KEY",
    "a token": r"\b(AKIA[0-9A-Z]{16}|gh[pousr]_\w{30,}|xox[bap]-\w{10,}|sk-[A-Za-z0-9]{20,})",
    PASSWORD: r"\b\w+://[^\s:/@\"'{}$<>]+:[^\s:/@\"'{}$<>]+@",
    "an unfinished mark": r"\b(TODO|FIXME|XXX|HACK)\b",
}


def tracked() -> list[Path]:
    """Every text file that is tracked, relative to the repository."""
    if not (REPOSITORY / ".git").exists():
        pytest.skip("needs the repository's history")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout
    return [Path(name) for name in listed.split("\0") if name and (REPOSITORY / name).is_file()]


def text_of(path: Path) -> str | None:
    try:
        return (REPOSITORY / path).read_bytes().decode()
    except UnicodeDecodeError:
        return None


def test_no_tracked_file_holds_addresses_machine_paths_credentials_or_unfinished_marks():
    found = [
        f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {what}: {match.group()[:60]}"
        for path in tracked()
        if path != THIS and (text := text_of(path)) is not None
        for what, pattern in FORBIDDEN.items()
        if not (what == PASSWORD and path.parts[0] == "tests")  # tests show that passwords are hidden
        for match in re.finditer(pattern, text)
    ]

    assert found == []


@pytest.mark.parametrize("lock", LOCKS)
def test_locks_have_hashes_and_no_addresses(lock: str):
    text = (REPOSITORY / lock).read_text()
    pins = locked(lock)

    assert "://" not in text
    assert [name for name, (_, hashes) in pins.items() if not hashes] == []
    assert len(pins) > 20


@pytest.mark.parametrize("lock", LOCKS)
def test_every_direct_dependency_is_pinned_within_its_range(lock: str):
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    asked = list(project["project"]["dependencies"])
    for extra in project["project"]["optional-dependencies"].values():
        asked += extra
    if lock.endswith("dev.txt"):
        asked += project["dependency-groups"]["dev"]
    pins = locked(lock)

    unmet = []
    for requirement in map(Requirement, asked):
        version, _ = pins.get(canonicalize_name(requirement.name), (None, 0))
        if version is None or version not in requirement.specifier:
            unmet.append(f"{requirement} is locked as {version}: run make lock")

    assert unmet == []


def test_both_locks_name_the_same_versions():
    run, dev = (locked(lock) for lock in LOCKS)

    assert {name: version for name, (version, _) in run.items()} == {
        name: version for name, (version, _) in dev.items() if name in run
    }


def locked(lock: str) -> dict[str, tuple[str, int]]:
    """Name → (version, number of hashes) of a lock."""
    pins: dict[str, tuple[str, int]] = {}
    for entry in re.split(r"\n(?=\S)", (REPOSITORY / lock).read_text()):
        found = re.match(r"([\w.-]+)==([\w.!+]+)", entry)
        if found:
            pins[canonicalize_name(found[1])] = (found[2], len(re.findall(r"--hash=sha256:[0-9a-f]{64}", entry)))
    return pins


def test_every_link_of_the_documentation_resolves():
    pages = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
    broken = []
    for page in pages:
        prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
        for link in re.findall(r"\]\(([^)\s]+)\)", prose):
            if re.match(r"[a-z]+:", link):
                continue
            name, _, anchor = link.partition("#")
            target = (page.parent / name) if name else page
            if not target.exists():
                broken.append(f"{page.relative_to(REPOSITORY)}: {link} does not exist")
            elif anchor and anchor not in anchors(target):
                broken.append(f"{page.relative_to(REPOSITORY)}: {link} names no heading")

    assert broken == []


def anchors(page: Path) -> set[str]:
    """The anchors that a page's headings get."""
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    headings = re.findall(r"^#+ +(.+)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_importing_the_door_costs_neither_temporal_nor_the_database():
    program = (
        "import sys, counterfoil; print([m for m in ('temporalio', 'sqlalchemy', 'pydantic') if m in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=REPOSITORY)

    assert told.stdout.strip() == "[]"


@pytest.mark.parametrize("name", sorted(counterfoil.__all__))
def test_every_public_name_can_be_imported(name: str):
    assert getattr(counterfoil, name) is not None


def test_type_checkers_see_exactly_the_public_names():
    tree = ast.parse((REPOSITORY / "counterfoil" / "__init__.py").read_text())
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.name for node in guarded.body if isinstance(node, ast.ImportFrom) for alias in node.names}

    assert seen == set(counterfoil.__all__)


def test_every_make_target_that_the_pages_name_exists():
    makefile = (REPOSITORY / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    pages: list[Any] = [REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md")]
    named = {target for page in pages for target in re.findall(r"\bmake ([a-z-]+)(?=[`\n ]*[`\n])", page.read_text())}

    assert named <= targets
