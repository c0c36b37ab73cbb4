"""The main job on the embedded stack, told as five stories. `make demo` runs it; `make demo KEEP=1` leaves it up.

A real Temporal server, a real worker process (one that is killed with -9 on the way), a real workbook.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from python_calamine import CalamineWorkbook
from rich.console import Console
from rich.table import Table

from counterfoil import (
    ConnectionSettings,
    ControlPlane,
    DecisionRequest,
    Operation,
    OperationRequest,
    Owner,
    Refusal,
    Resource,
    connect,
)
from counterfoil.worker.embedded import TemporalServer, stop, temporal_server

EXAMPLES = Path(__file__).parent.absolute()
WORKBOOK = "quarterly-report.xlsx"
DATE = {"type": "date", "date": "2024-10-08"}
TEXT = {"type": "text", "text": "Finance"}
OWNER = Owner(workspace="demo", session="demo-session")
QUESTION = DecisionRequest(reason="The report goes to the board.", question="Apply these changes?")
console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)


@dataclass(frozen=True)
class Story:
    """What happened to one operation."""

    name: str
    operation: Operation
    told: str


class Stage:
    """The folder, the server and the worker the stories play on."""

    def __init__(self, folder: Path, server: TemporalServer) -> None:
        self.server = server
        self.workspace = folder / "workspace"
        self.workspace.mkdir(parents=True)
        self._folder = folder
        self._worker: asyncio.subprocess.Process | None = None
        self.environment = {
            "TEMPORAL_ADDRESS": server.address,
            "COUNTERFOIL_STATE_DIR": str(folder / "state"),
            "COUNTERFOIL_WORKSPACE_ROOT": str(self.workspace),
            "COUNTERFOIL_ADAPTER_QUEUES": "shared",
            "COUNTERFOIL_ALLOW_UNSEALED": "true",
            "COUNTERFOIL_HEARTBEAT_SECONDS": "2",
            "COUNTERFOIL_ADAPTERS": "letterbox:register",
            "PYTHONPATH": str(EXAMPLES),
        }
        os.environ.update(self.environment)
        sys.path.insert(0, str(EXAMPLES))

    async def start_worker(self, fault: str | None = None) -> None:
        """Start the worker process; with a fault, one that kills itself with SIGKILL at that point."""
        environment = os.environ | ({"COUNTERFOIL_FAULT": fault} if fault else {})
        log = (self._folder / "worker.log").open("ab")
        program = Path(sys.executable).with_name("counterfoil")
        self._worker = await asyncio.create_subprocess_exec(
            program, "worker", env=environment, stdout=log, stderr=log, cwd=self._folder, start_new_session=True
        )
        log.close()

    async def worker_died(self) -> int:
        """Wait for the worker's death; its exit status (negative: the signal)."""
        assert self._worker is not None
        return await asyncio.wait_for(self._worker.wait(), 60)

    async def stop_worker(self) -> None:
        if self._worker is not None:
            await stop(self._worker)


@asynccontextmanager
async def staged() -> AsyncIterator[Stage]:
    folder = Path(tempfile.mkdtemp(prefix="counterfoil-demo-"))
    try:
        async with temporal_server(folder / "state" / "temporal.db", port=7233, ui_port=8233) as server:
            stage = Stage(folder, server)
            try:
                yield stage
            finally:
                await stage.stop_worker()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def workbook_request(key: str, edits: list[dict[str, Any]], objective: str, *, ask: bool) -> OperationRequest:
    return OperationRequest(
        owner=OWNER,
        idempotency_key=key,
        capability="workbook.edit",
        route_id="local.workbook.edit.v1",
        objective=objective,
        input={"path": WORKBOOK, "edits": edits},
        resources=(Resource(kind="file", system="file", identity=WORKBOOK),),
        decision=DecisionRequest(reason="The report goes to the board.", question="Apply these changes?")
        if ask
        else None,
    )


def set_cell(sheet: str, cell: str, value: dict[str, Any]) -> dict[str, Any]:
    return {"op": "set_cell", "sheet": sheet, "cell": cell, "value": value}


async def approved(counterfoil: ControlPlane) -> tuple[Operation, str]:
    console.rule("[bold]1. Prepare, look, approve, dispatch, verify")
    edits = [
        set_cell("Revenue", "B2", {"type": "number", "number": 42100}),
        set_cell("Assumptions", "B3", {"type": "text", "text": "=audited (text, not a formula)"}),
        {"op": "append_row", "sheet": "Log", "values": [DATE, TEXT, {"type": "text", "text": "Corrected July"}]},
    ]
    created = await counterfoil.create(
        workbook_request("board-report", edits, "Correct the quarter's revenue", ask=True)
    )
    proposed = await counterfoil.wait(created.operation_id, timeout_seconds=60)
    assert proposed.prepared is not None
    show_proposal(proposed)
    console.print("Approving with a plain Temporal signal, as the UI or the temporal command would send it …")
    handle = counterfoil.temporal.get_workflow_handle(proposed.operation_id)
    await handle.signal("decide", {"proposal_digest": proposed.proposal_digest, "verdict": "approve"})
    await handle.result()
    done = await counterfoil.get(proposed.operation_id)
    show_evidence(done)
    return done, "approved, applied once, verified by an independent reader"


async def repeated(counterfoil: ControlPlane, first: Operation) -> str:
    console.rule("[bold]2. The same key again")
    again = await counterfoil.create(first.request)
    assert (again.operation_id, again.revision) == (first.operation_id, first.revision)
    console.print(f"Same request, same key → the same operation [cyan]{again.operation_id}[/], nothing done again.")
    return "the same operation, nothing done again"


async def refused(counterfoil: ControlPlane, first: Operation) -> str:
    console.rule("[bold]3. The same key for something else")
    try:
        await counterfoil.create(first.request.model_copy(update={"objective": "Something else entirely"}))
    except Refusal as refusal:
        console.print(f"Another request under that key → refused: [yellow]{refusal.code}[/], {refusal.detail}.")
        return f"refused with {refusal.code}; nothing started"
    raise AssertionError("another request under a used key was accepted")


async def killed(stage: Stage, counterfoil: ControlPlane) -> tuple[Operation, str]:
    console.rule("[bold]4. The worker is killed after the file was published, before the reply was recorded")
    await stage.stop_worker()
    await stage.start_worker(fault="publish.done")
    edits = [set_cell("Cost", "D4", {"type": "number", "number": 27950})]
    created = await counterfoil.create(workbook_request("after-crash", edits, "Correct the quarter's costs", ask=False))
    died = await stage.worker_died()
    assert died == -signal.SIGKILL
    dead = await counterfoil.get(created.operation_id)
    held = ", ".join(claim.name for claim in dead.claims if claim.held)
    console.print(f"Worker killed (signal {-died}). The row says [yellow]{dead.state}[/]; it holds {held}.")
    console.print("Starting a worker again: nobody sends the change twice; the loss is fenced, the file is looked at …")
    await stage.start_worker()
    async for entry in counterfoil.watch(created.operation_id):
        if entry.kind in ("grant", "lose", "report_completed", "verification"):
            console.print(f"  {entry.at:%H:%M:%S}  {entry.kind:<17} {entry.summary}")
    done = await counterfoil.get(created.operation_id)
    assert [attempt.generation for attempt in done.attempts] == [1]
    assert cell_value(stage, "Cost", row=4, column=4) == 27950
    show_evidence(done)
    return done, "unknown, lock held, observed as applied: one attempt, one effect in the file"


async def attested(counterfoil: ControlPlane) -> tuple[Operation, str]:
    console.rule("[bold]5. An effect that nobody can observe")
    request = OperationRequest(
        owner=OWNER,
        idempotency_key="letter",
        capability="letter.post",
        route_id="example.letterbox.v1",
        objective="Post the covering letter",
        input={"text": "Please find the report enclosed.", "lose_reply": True},
        resources=(Resource(kind="remote_entity", system="letterbox", identity="front door"),),
    )
    created = await counterfoil.create(request)
    unknown = await counterfoil.wait(created.operation_id, timeout_seconds=60)
    assert unknown.state == "unknown"
    assert unknown.problem is not None
    console.print(f"[yellow]unknown[/]: {unknown.problem.detail}. Held: {', '.join(c.name for c in unknown.claims)}.")
    answer = await counterfoil.resolve_unknown(
        unknown.operation_id,
        expected_revision=unknown.revision,
        resolution_key="looked-behind-the-door",
        status="applied",
        summary="The letter lies behind the door.",
    )
    console.print(f"An operator looked, and attests: {answer.detail}.")
    done = await counterfoil.get(created.operation_id)
    assert (done.attested, done.verification) == (True, "unavailable")
    return done, "unknown until a person attested; verification stays unavailable"


def show_proposal(operation: Operation) -> None:
    prepared = operation.prepared
    assert prepared is not None
    assert prepared.preview is not None
    table = Table(*prepared.preview.columns, title=f"Proposed: {prepared.summary}", title_justify="left")
    for row in prepared.preview.rows:
        table.add_row(*row)
    console.print(table)
    console.print(f"proposal [dim]{operation.proposal_digest}[/]")


def show_evidence(operation: Operation) -> None:
    assert (operation.state, operation.verification) == ("completed", "verified"), operation.state
    assert operation.evidence is not None
    facts = ", ".join(
        f"{name} {value}" for name, value in operation.evidence.facts.items() if not isinstance(value, dict | list)
    )
    console.print(
        f"[green]completed, verified[/] by {operation.evidence.source} at {operation.evidence.observed_at:%H:%M:%S}"
    )
    console.print(f"  {operation.evidence.digest}\n  {facts}")


def cell_value(stage: Stage, sheet: str, *, row: int, column: int) -> Any:
    """What a reader that is not ours finds in the published file."""
    book = CalamineWorkbook.from_path(stage.workspace / WORKBOOK)
    return book.get_sheet_by_name(sheet).to_python(skip_empty_area=False)[row - 1][column - 1]


async def summarise(stage: Stage, counterfoil: ControlPlane, stories: list[Story], seconds: float) -> None:
    console.rule("[bold]Summary")
    table = Table("Story", "State", "Verification", "What happened")
    for story in stories:
        table.add_row(story.name, story.operation.state, story.operation.verification, story.told)
    console.print(table)
    console.print("Histories in the Temporal UI:")
    for story in stories:
        run = await counterfoil.temporal.get_workflow_handle(story.operation.operation_id).describe()
        address = f"{stage.server.ui}/namespaces/default/workflows/{run.id}/{run.run_id}/history"
        console.print(f"  {story.name:<26} {address}", soft_wrap=True)
    console.print(f"[bold green]All stories ended as they should[/], in {seconds:.0f} s.")


async def play(keep: bool) -> None:
    began = time.monotonic()
    console.print("Starting a Temporal server with its UI, and a worker …")
    async with staged() as stage:
        shutil.copy(EXAMPLES / WORKBOOK, stage.workspace / WORKBOOK)
        await stage.start_worker()
        counterfoil = await connected()
        console.print(f"Temporal UI: {stage.server.ui}    workspace: {stage.workspace}")
        async with counterfoil:
            first, told = await approved(counterfoil)
            stories = [Story("1 approve and verify", first, told)]
            stories.append(Story("2 same key again", first, await repeated(counterfoil, first)))
            stories.append(Story("3 same key, other request", first, await refused(counterfoil, first)))
            stories.append(Story("4 killed with -9", *await killed(stage, counterfoil)))
            stories.append(Story("5 attested", *await attested(counterfoil)))
            await summarise(stage, counterfoil, stories, time.monotonic() - began)
        if keep:
            console.print("The stack stays up for you to look around; Ctrl-C ends it.")
            await asyncio.Event().wait()
        console.print("The server ends now. `make demo KEEP=1` leaves it up, so that you can open the histories.")


async def connected() -> ControlPlane:
    """A client, as soon as the worker has made the store."""
    settings = ConnectionSettings()
    for _ in range(300):
        if (settings.state_dir / "counterfoil.db").exists():
            return await connect(settings)
        await asyncio.sleep(0.1)
    raise SystemExit("the worker did not start; its log tells why")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave the stack running until Ctrl-C")
    arguments = parser.parse_args()
    code = 0
    try:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(play(arguments.keep))
    except BaseException:
        console.print_exception(show_locals=False)
        code = 1
    # Clients of Temporal can crash while the interpreter ends (sdk-python#300): flush, and end here.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
