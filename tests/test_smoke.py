"""The main job, once through a real Temporal server."""

from counterfoil.control_plane.client import ControlPlane
from support.scripted import request, scripted
from support.stack import Stack, settled


async def test_an_operation_runs_from_request_to_verified_evidence(stack: Stack, control_plane: ControlPlane):
    adapter = scripted(stack.catalog)
    await stack.start()

    created = await control_plane.create(request())
    operation = await settled(control_plane, created.operation_id)

    assert (operation.state, operation.verification) == ("completed", "verified")
    assert adapter.effects == [(created.operation_id, 1)]


async def test_the_store_opens_on_both_databases(database):
    async with database.transaction() as work:
        assert work.now.tzinfo is not None
