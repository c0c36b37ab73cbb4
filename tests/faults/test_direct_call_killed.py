"""A worker is killed inside a tool that it called directly: the workspace is given back, the effect left in doubt."""

from __future__ import annotations

import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import select

from counterfoil.activities.adapters.catalog import Catalog
from counterfoil.activities.operations.gateway import Gateway
from counterfoil.activities.store.database import Database
from counterfoil.activities.store.migration import migrate
from counterfoil.models.common import utc_now
from counterfoil.models.tables import CLAIMS, LEDGER, ClaimRow, LedgerRow

DIES_INSIDE = """
import asyncio, os, signal, sys
from counterfoil import Catalog, Owner, Permission, Tool
from counterfoil.activities.operations.gateway import Gateway
from counterfoil.activities.store.database import Database

url, log = sys.argv[1:]

def effect(context, arguments):
    with open(log, "a") as effects:
        effects.write("once\\n")
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    catalog = Catalog()
    tool = Tool(name="write", input_schema={"type": "object"}, read_only=False, permission=Permission.ALLOW)
    catalog.register_tool(tool, effect)
    await Gateway(Database(url), catalog.tools, None).direct(Owner(workspace="w", session="s"), "write", {})

asyncio.run(main())
"""


async def test_what_a_killed_worker_held_is_given_back_a_minute_after_its_time_was_up(tmp_path: Path) -> None:
    url, log = f"sqlite:///{tmp_path / 'store.db'}", tmp_path / "effects"
    migrate(url)

    ended = subprocess.run([sys.executable, "-c", DIES_INSIDE, url, str(log)], check=False, timeout=60)
    assert ended.returncode == -signal.SIGKILL

    database = Database(url)
    gateway = Gateway(database, Catalog().tools, None)  # nobody waits, so nobody is to be woken
    assert await gateway.end_lost_calls() == 0
    assert len(await claims(database)) == 1
    database.clock = lambda: utc_now() + timedelta(seconds=91)
    assert await gateway.end_lost_calls() == 1
    assert await claims(database) == []
    query = select(LEDGER).order_by(LEDGER.c.timeline)
    entries = await database.read(lambda work: work.session.all(LedgerRow, query))
    await database.close()

    assert [(entry.kind, entry.summary) for entry in entries] == [
        ("tool_call", "calls 'write' directly"),
        ("tool_call_ended", "'write': lost"),
    ]
    assert log.read_text() == "once\n"


async def claims(database: Database) -> list[Any]:
    return await database.read(lambda work: work.session.all(ClaimRow, select(CLAIMS)))
