"""A host that is not ours: starts an operation, looks at its proposal, approves it, prints the result.

Run `counterfoil dev` in one terminal and this in another, in the same folder. Only `counterfoil` and `temporalio` are
imported.
"""

import asyncio
import os
import sys

from temporalio.client import Client, WithStartWorkflowOperation
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.envconfig import ClientConfig

from counterfoil import (
    ConnectionSettings,
    DecisionRequest,
    OperationRequest,
    Owner,
    Resource,
    connect,
    data_converter,
)


async def main(text: str) -> None:
    settings = ConnectionSettings()
    request = OperationRequest(
        owner=Owner(workspace="demo", session="host-start"),
        idempotency_key=f"note-{text}",
        capability="file.create",
        route_id="local.files.v1",
        objective="Leave a note for the operators",
        input={"path": f"notes/{text}.txt", "text": f"{text}\n"},
        resources=(Resource(kind="file", system="file", identity=f"notes/{text}.txt"),),
        decision=DecisionRequest(reason="A new file appears in the workspace.", question="Write this note?"),
    )

    # Starting needs nothing but temporalio: the workflow's id is the operation's id.
    options = {**ClientConfig.load_client_connect_config(), "data_converter": data_converter()}
    if (address := settings.temporal_address()) is not None:
        options["target_host"] = address
    temporal = await Client.connect(**options)
    start = WithStartWorkflowOperation(
        "ApplicationOperation",
        request.model_dump(mode="json"),
        id=request.operation_id,
        task_queue=settings.task_queue,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
    )
    # Answered once the claim is decided: the operation exists, or is refused with the reason.
    await temporal.execute_update_with_start_workflow("opened", start_workflow_operation=start)
    handle = await start.workflow_handle()

    # The client reads the proposal, and seals the approval of exactly that one.
    async with await connect(settings) as counterfoil:
        proposed = await counterfoil.wait(request.operation_id)
        if proposed.state == "awaiting_decision":
            await counterfoil.decide(proposed.operation_id, "approve", proposal_digest=proposed.proposal_digest)
        ended = await handle.result()
        told = ended["result"]["summary"] if ended["result"] else ended["problem"]["detail"]
        print(f"{ended['state']}, {ended['verification']}: {told}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "hello"))
    # Short-lived clients can crash while the interpreter ends (sdk-python#300): flush, and end here.
    sys.stdout.flush()
    os._exit(0)
