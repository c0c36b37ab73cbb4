"""A stranger's test session: tests that do not disturb each other, in one process or in several."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.projects import Project

CONFTEST = 'pytest_plugins = ["counterfoil.testing"]\n'
LEFT_BEHIND = """
import pytest
from counterfoil.testing import late, unknown

SAME = {"owner": {"workspace": "shop", "session": "order-42"}, "idempotency_key": "refund"}


def test_a_leaves_an_unknown_effect_that_holds_the_order(counterfoil_stack):
    counterfoil_stack.adapter.will(unknown())
    created = counterfoil_stack.create(counterfoil_stack.request(**SAME))
    assert counterfoil_stack.wait(created.operation_id, "unknown").claims != ()


def test_b_leaves_a_call_that_hangs(counterfoil_stack):
    counterfoil_stack.adapter.will(late(seconds=1))
    created = counterfoil_stack.create(counterfoil_stack.request(**SAME))
    counterfoil_stack.wait(created.operation_id, "dispatching")


def test_c_leaves_a_course_that_nobody_took(counterfoil_stack):
    counterfoil_stack.adapter.will(unknown(), key="k1")


@pytest.mark.parametrize("again", [1, 2])
def test_d_changes_the_same_order_under_the_same_key(counterfoil_stack, again):
    operation = counterfoil_stack.settled(counterfoil_stack.request(**SAME))
    assert (operation.state, operation.verification) == ("completed", "verified")
    assert [call.key for call in counterfoil_stack.adapter.calls] == ["refund", "refund"]
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.write("conftest.py", CONFTEST)
    return made


@pytest.mark.parametrize("processes", [(), ("-n", "2")], ids=["one process", "two processes"])
def test_what_one_test_leaves_behind_is_in_no_others_way(project: Project, processes: tuple[str, ...]):
    project.write("test_orders.py", LEFT_BEHIND)

    ended = project.run("-q", *processes)

    assert ended.returncode == 0, ended.stdout
    assert "5 passed" in ended.stdout


def test_a_red_session_ends_as_one(project: Project):
    project.write(
        "test_red.py",
        "def test_red(counterfoil_stack):\n    assert counterfoil_stack.settled().state == 'failed'\n",
    )

    ended = project.run("-q")

    assert ended.returncode == 1, ended.stdout
    assert "1 failed" in ended.stdout


def test_where_there_is_no_server_the_tests_fail_and_say_what_to_install(project: Project):
    hidden = "import os, sys\nsys.executable = '/nowhere/python'\nos.environ['PATH'] = ''\n"
    project.write("conftest.py", CONFTEST + hidden)
    project.write("test_any.py", "def test_any(counterfoil_stack):\n    pass\n")

    ended = project.run("-q")

    assert ended.returncode == 1, ended.stdout
    assert "no stack can be had: there is no Temporal server on this machine" in ended.stdout
    assert "pip install 'counterfoil[embedded]'" in ended.stdout


def test_a_test_never_reaches_what_its_environment_names(project: Project):
    project.write(
        "test_mine.py",
        "import asyncio, os\n"
        "from counterfoil import connect\n\n\n"
        "def test_mine(counterfoil_stack):\n"
        "    async def act():\n"
        "        async with await connect() as counterfoil:\n"
        "            created = await counterfoil.create(counterfoil_stack.request())\n"
        "            return await counterfoil.wait(created.operation_id)\n\n"
        "    operation = asyncio.run(act())\n"
        "    assert (operation.state, operation.deliveries) == ('completed', ())\n"
        "    assert 'COUNTERFOIL_DATABASE_URL' not in os.environ\n\n\n"
        "def test_what_was_hidden_is_there_again():\n"
        "    assert os.environ['COUNTERFOIL_DATABASE_URL'] == 'postgresql://127.0.0.1:1/production'\n",
    )
    production = {
        "COUNTERFOIL_DATABASE_URL": "postgresql://127.0.0.1:1/production",
        "COUNTERFOIL_BLOB_URL": "s3://production",
        "COUNTERFOIL_CALLBACK_URL": "https://127.0.0.1:1/production",
        "COUNTERFOIL_CALLBACK_KEY": "env:NOT_SET_ANYWHERE",
        "COUNTERFOIL_ADAPTERS": "production.adapters:register",
        "COUNTERFOIL_TASK_QUEUE": "production",
        "COUNTERFOIL_FAULT": "journal.committed",
        "TEMPORAL_ADDRESS": "127.0.0.1:1",
        "TEMPORAL_NAMESPACE": "production",
        "TEMPORAL_API_KEY": "production",
    }

    ended = project.run("-q", **production)

    assert ended.returncode == 0, ended.stdout
    assert "2 passed" in ended.stdout


def test_a_session_that_asks_for_no_stack_starts_nothing_and_loads_no_worker(project: Project):
    project.write(
        "test_plain.py",
        "import sys\n\n\ndef test_plain():\n    assert 'counterfoil.worker.build' not in sys.modules\n",
    )

    ended = project.run("-q")

    assert ended.returncode == 0, ended.stdout


def test_importing_counterfoil_imports_no_pytest():
    told = subprocess.run(
        [sys.executable, "-c", "import sys, counterfoil; print('pytest' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert told.stdout.strip() == "False"
