"""What a person sees in the Temporal UI, in a real browser: the question, the change as a table, and how to answer.

The UI renders Markdown of its own dialect, and lets HTML through; a workbook or a model must not speak in it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import openpyxl
import pytest
import pytest_asyncio
from conftest import absent
from playwright.async_api import Browser, FrameLocator, Page, async_playwright, expect

from counterfoil.models.operations.contract import DecisionRequest, OperationRequest, Owner, Resource
from counterfoil.models.operations.record import Operation
from counterfoil.worker.embedded import TemporalServer
from support.stack import Stack

pytestmark = pytest.mark.browser

CHROMIUM = "/usr/bin/chromium"
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
QUIET += ["--disable-background-networking", "--disable-component-update"]
PATIENCE_MS = 60_000
REPORT = Path(__file__).parents[2] / "examples" / "quarterly-report.xlsx"
WORKBOOK = "quarterly-report.xlsx"
HOSTILE = "<img src=x onerror=alert(1)> **bold** a|b [link](https://evil.example) `code`"
HOSTILE_TOO = "</td></table><b>approved</b> | x | &lt;i&gt; $x$ https://evil.example"
"""Straight quotes are left out: the UI sets them as typographic ones, and nothing can escape them there."""


@pytest_asyncio.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    if not Path(CHROMIUM).exists():
        absent(f"a Chromium at {CHROMIUM}")
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET, timeout=PATIENCE_MS)
        try:
            yield launched
        finally:
            await launched.close()


@pytest_asyncio.fixture
async def page(browser: Browser, server: TemporalServer) -> AsyncIterator[Page]:
    """A page that reaches the Temporal UI and nothing else."""
    context = await browser.new_context(viewport={"width": 1920, "height": 1400})
    context.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    await context.route(lambda url: not url.startswith(server.ui), lambda route: route.abort())
    try:
        yield await context.new_page()
    finally:
        await context.close()


@pytest_asyncio.fixture
async def stack(stack: Stack) -> Stack:
    await stack.start()
    return stack


async def test_a_pending_question_shows_its_change_as_a_table_and_how_to_answer(
    page: Page, server: TemporalServer, stack: Stack, tmp_path: Path
) -> None:
    shutil.copy(REPORT, stack.workspace / WORKBOOK)
    asked = await ask(stack, set_cell("Revenue", "B2", {"type": "number", "number": 42100}))

    details = await current_details(page, server, stack, asked)

    await expect(details.get_by_role("heading")).to_have_text("Apply these changes?")
    await expect(details.locator("body")).to_contain_text("The report goes to the board.")
    assert await table(details) == [
        ["Sheet", "Cell", "Before", "After"],
        ["Revenue", "B2", "number 41200", "number 42100"],
    ]
    await expect(details.locator("body")).to_contain_text("Answer with the signal decide")
    await expect(details.locator("pre")).to_contain_text(f'"proposal_digest": "{asked.proposal_digest}"')
    await expect(details.locator("pre")).to_contain_text('"verdict": "approve"')
    await keep(page, tmp_path, "question.png")


async def test_what_the_page_says_to_send_approves_and_then_the_page_shows_completed(
    page: Page, server: TemporalServer, stack: Stack, tmp_path: Path
) -> None:
    shutil.copy(REPORT, stack.workspace / WORKBOOK)
    asked = await ask(stack, set_cell("Revenue", "B2", {"type": "number", "number": 42100}))
    details = await current_details(page, server, stack, asked)
    told = await details.locator("pre").inner_text()

    await send_signal(page, "decide", told)

    await stack.handle(asked.operation_id).result()
    details = await current_details(page, server, stack, asked)
    await expect(page.get_by_text("Completed").first).to_be_visible()
    await expect(details.locator("body")).to_contain_text("completed, verification verified")
    await keep(page, tmp_path, "completed.png")
    assert openpyxl.load_workbook(stack.workspace / WORKBOOK)["Revenue"]["B2"].value == 42100


async def test_what_a_workbook_or_a_model_wrote_is_shown_as_it_is_and_becomes_no_markup(
    page: Page, server: TemporalServer, stack: Stack, tmp_path: Path
) -> None:
    book = openpyxl.load_workbook(REPORT)
    book["Assumptions"]["B3"].value = HOSTILE
    book.save(stack.workspace / WORKBOOK)
    asked = await ask(
        stack,
        set_cell("Assumptions", "B3", {"type": "text", "text": HOSTILE_TOO}),
        objective=HOSTILE,
        question=HOSTILE,
        reason=HOSTILE_TOO,
    )

    details = await current_details(page, server, stack, asked)

    await expect(details.get_by_role("heading")).to_have_text(HOSTILE)
    await expect(details.locator("body")).to_contain_text(HOSTILE_TOO)
    _, (*place, before, after) = await table(details)
    assert place == ["Assumptions", "B3"]
    assert [text.removeprefix("text ").strip("“”") for text in (before, after)] == [HOSTILE, HOSTILE_TOO]
    summary = page.frame_locator("#user-metadata-summary")
    await expect(summary.locator("body")).to_contain_text(f"workbook.edit: {HOSTILE}")
    for frame in (details, summary):
        assert await frame.locator("main").locator("img, a, i, em, s, b, script, .math").count() == 0
    assert await details.locator("strong").all_inner_texts() == ["awaiting decision"]
    await keep(page, tmp_path, "hostile.png")


async def test_the_list_of_workflows_is_filtered_by_our_search_attributes(
    page: Page, server: TemporalServer, stack: Stack, tmp_path: Path
) -> None:
    shutil.copy(REPORT, stack.workspace / WORKBOOK)
    asked = await ask(stack, set_cell("Revenue", "B2", {"type": "number", "number": 42100}), session="listed")
    for query, expected in (
        ('OperationSession="listed" AND OperationStatus="awaiting_decision"', 1),
        ('OperationSession="listed" AND AwaitingDecision=true', 1),
        ('OperationSession="listed" AND UnknownEffect=false', 1),
        ('OperationSession="listed" AND OperationStatus="completed"', 0),
    ):
        await until_listed(stack, query, expected)
        await page.goto(f"{server.ui}/namespaces/default/workflows?query={quote(query)}")
        await expect(page.get_by_test_id("workflow-count")).to_have_text(str(expected))
        await expect(page.get_by_role("link", name=asked.operation_id)).to_have_count(expected)
    await keep(page, tmp_path, "list.png")


def set_cell(sheet: str, cell: str, value: dict[str, Any]) -> dict[str, Any]:
    return {"op": "set_cell", "sheet": sheet, "cell": cell, "value": value}


async def ask(
    stack: Stack,
    edit: dict[str, Any],
    *,
    objective: str = "Correct the revenue",
    question: str = "Apply these changes?",
    reason: str = "The report goes to the board.",
    session: str = "browser",
) -> Operation:
    """An operation that awaits its decision."""
    request = OperationRequest(
        owner=Owner(workspace="w", session=session),
        idempotency_key=stack.settings.task_queue,
        capability="workbook.edit",
        route_id="local.workbook.edit.v1",
        objective=objective,
        input={"path": WORKBOOK, "edits": [edit]},
        resources=(Resource(kind="file", system="file", identity=WORKBOOK),),
        decision=DecisionRequest(reason=reason, question=question),
    )
    control_plane = stack.control_plane()
    created = await control_plane.create(request)
    asked = await control_plane.wait(created.operation_id, timeout_seconds=60)
    assert asked.state == "awaiting_decision"
    return asked


async def current_details(page: Page, server: TemporalServer, stack: Stack, operation: Operation) -> FrameLocator:
    """The frame in which the UI shows a workflow's current details."""
    run = await stack.handle(operation.operation_id).describe()
    await page.goto(f"{server.ui}/namespaces/default/workflows/{operation.operation_id}/{run.run_id}/user-metadata")
    details = page.frame_locator("#user-metadata-current-details")
    await expect(details.locator("main")).to_contain_text(operation.operation_id)
    return details


async def table(details: FrameLocator) -> list[list[str]]:
    rows = details.locator("table").get_by_role("row")
    return [
        [" ".join(text.split()) for text in await rows.nth(index).locator("th, td").all_inner_texts()]
        for index in range(await rows.count())
    ]


async def until_listed(stack: Stack, query: str, expected: int) -> None:
    """Wait for Temporal's own index; the page does not."""
    async with asyncio.timeout(PATIENCE_MS / 1000):
        while True:
            if (await stack.client.count_workflows(query)).count == expected:
                return
            await asyncio.sleep(0.1)


async def send_signal(page: Page, name: str, content: str) -> None:
    """As a person does it: by the menu, the list of signals and the field for the input."""
    await page.get_by_role("button", name="More Actions").click()
    await page.get_by_role("menuitem", name="Send a Signal").filter(visible=True).click()
    form = page.get_by_role("dialog")
    await form.get_by_test_id("signal-select-button").click()
    await form.get_by_role("option", name=name, exact=True).click()
    await form.get_by_role("textbox").filter(visible=True).last.fill(content)
    await form.get_by_role("button", name="Submit").click()


async def keep(page: Page, folder: Path, name: str) -> None:
    """Leave a picture for people, and a second one where COUNTERFOIL_SCREENSHOTS says."""
    picture = folder / name
    await page.screenshot(path=picture, full_page=True)
    assert picture.stat().st_size > 10_000
    if (kept := os.environ.get("COUNTERFOIL_SCREENSHOTS")) is not None:
        shutil.copy(picture, kept)
