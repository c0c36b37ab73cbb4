"""Tools through the real server: `cowork.tool` end to end, permissions that change meanwhile, the unknown gate."""

from __future__ import annotations

import pytest
import pytest_asyncio

from counterfoil.control_plane.client import ControlPlane
from support.stack import Stack, settled
from support.toolbox import Toolbox, tool_request


@pytest_asyncio.fixture
async def toolbox(stack: Stack) -> Toolbox:
    return Toolbox(stack.catalog)


@pytest.mark.parametrize("read_only", [True, False])
async def test_a_tools_answer_is_kept_as_the_result_and_stays_unverified(
    stack: Stack, control_plane: ControlPlane, toolbox: Toolbox, session: str, read_only: bool
):
    toolbox.add("note", {"kept": 1}, read_only=read_only)
    await stack.start()

    created = await control_plane.create(tool_request("k", session, "note", {"text": "hello"}))
    done = await settled(control_plane, created.operation_id)

    assert (done.state, done.verification) == ("completed", "unavailable")
    assert (done.result.kind, done.result.data) == ("tool", {"answer": {"kept": 1}})
    assert toolbox.calls == [("note", {"text": "hello"})]
    assert toolbox.contexts[0].operation_id == created.operation_id
    assert done.prepared.preview.rows == (
        ("tool", "note", "reads" if read_only else "changes"),
        ("argument", "text", "hello"),
    )
