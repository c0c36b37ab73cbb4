"""What is installed is what is imported: the wheel, the editable install, a host with a `models` package of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import absent

REPOSITORY = Path(__file__).parents[1]
ROOMS = ("models", "workflows", "activities", "control_plane", "worker", "migrations")
BUILT_FROM = (*ROOMS, "counterfoil")
STEP_SECONDS = 180

HOST = """
import models  # the host's own
from counterfoil import Completed, ControlPlane, OperationRequest, Owner, Route, TypedResult, operation_id

assert models.OURS == "the host's"
import counterfoil
print(counterfoil.__file__, counterfoil.__version__)
request = OperationRequest(
    owner=Owner(workspace="w", session="s"),
    idempotency_key="k",
    capability="c",
    route_id="r",
    objective="o",
    input={},
)
assert request.operation_id == operation_id("s", "k")
"""

TYPED_HOST = """
from typing import assert_type

from counterfoil import Answer, ControlPlane, Operation, OperationRequest, connect


async def main(request: OperationRequest) -> None:
    async with await connect() as counterfoil:
        assert_type(counterfoil, ControlPlane)
        created = await counterfoil.create(request)
        assert_type(created, Operation)
        assert created.proposal_digest is not None
        answer = await counterfoil.decide(created.operation_id, "approve", proposal_digest=created.proposal_digest)
        assert_type(answer, Answer)


async def wrong(counterfoil: ControlPlane) -> None:
    await counterfoil.decide("op-1", "approve")
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the package is built from, so that nothing is built inside the repository."""
    copy = tmp_path_factory.mktemp("source")
    for name in BUILT_FROM:
        shutil.copytree(REPOSITORY / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, copy)
    return copy


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a fresh environment that has our dependencies, and not us."""
    return fresh(tmp_path_factory.mktemp("environment"))


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    built("wheel", "--wheel-dir", folder, source)
    return next(folder.glob("counterfoil-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, environment: Path) -> Path:
    """The environment with the wheel in it."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages_of(environment))
    return environment


def fresh(place: Path) -> Path:
    """A new environment that finds our dependencies where they are installed already; its Python."""
    run(sys.executable, "-m", "venv", "--without-pip", place)
    python = place / "bin" / "python"
    (packages_of(python) / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return python


def packages_of(python: Path) -> Path:
    return Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())


def built(command: str, *arguments: str | Path, python: Path | None = None) -> None:
    """A pip command that builds with setuptools, in an environment of its own."""
    target = () if python is None else ("--python", python)
    try:
        run(sys.executable, "-m", "pip", *target, command, "--quiet", "--no-deps", *arguments)
    except AssertionError as error:
        if "setuptools" in str(error):
            absent("a package index that has setuptools, to build with")
        raise


def run(*command: str | Path, cwd: Path | None = None, expected: Sequence[int] = (0,)) -> str:
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "MYPYPATH")}
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=STEP_SECONDS, check=False
    )
    assert done.returncode in expected, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_wheel_holds_every_file_of_the_rooms_and_nothing_else(wheel: Path, source: Path):
    wanted = {
        "/".join(("counterfoil", *path.relative_to(source).parts[name == "counterfoil" :]))
        for name in BUILT_FROM
        for path in (source / name).rglob("*")
        if path.is_file()
    }

    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}

    assert held == wanted
    assert {"counterfoil/py.typed", "counterfoil/migrations/script.py.mako"} <= held
    assert any(name.startswith("counterfoil/migrations/versions/m0001") for name in held)


def test_a_host_with_a_models_package_of_its_own_can_import_the_door(installed: Path, tmp_path: Path):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "__init__.py").write_text('OURS = "the host\'s"\n')
    (tmp_path / "host.py").write_text(HOST)

    told = run(installed, "host.py", cwd=tmp_path)

    assert str(installed.parents[1]) in told


def test_the_installed_command_works_without_the_repository(installed: Path, tmp_path: Path):
    program = (
        "import sys; sys.argv = ['counterfoil', 'migrate', '--json']; from counterfoil.worker.cli import main; main()"
    )

    told = run(installed, "-c", program, cwd=tmp_path)

    assert '"revision"' in told
    assert (tmp_path / ".counterfoil" / "counterfoil.db").exists()


def test_a_host_is_checked_against_our_types(installed: Path, tmp_path: Path):
    (tmp_path / "host.py").write_text(TYPED_HOST)
    mypy = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--python-executable",
        installed,
        "--cache-dir",
        tmp_path / "cache",
    ]

    told = run(*mypy, "host.py", cwd=tmp_path, expected=(1,))

    assert 'host.py:18: error: Missing named argument "proposal_digest"' in told
    assert "Found 1 error in 1 file" in told


def test_an_editable_install_sees_a_new_file_at_once(source: Path, tmp_path: Path):
    copy, place = tmp_path / "source", tmp_path / "environment"
    shutil.copytree(source, copy)
    python = fresh(place)
    built("install", "--editable", copy, python=python)
    (copy / "models" / "brand_new.py").write_text("WORD = 'new'\n")

    told = run(python, "-c", "from counterfoil.models.brand_new import WORD; print(WORD)", cwd=tmp_path)

    assert told.strip() == "new"
