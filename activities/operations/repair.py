"""Repair: the way out when the store is older than what a workflow remembers.

The row is made at least as new as the memory. If anything may have been dispatched, what the row says is not believed:
it becomes `unknown`, to be observed again on its route, attested, or abandoned by attesting that it was stopped.
"""

from __future__ import annotations

import asyncio

from counterfoil.activities.operations import claims
from counterfoil.activities.operations.commands import SealPolicy, refused
from counterfoil.activities.operations.creation import Creator
from counterfoil.activities.operations.journal import AttemptKind
from counterfoil.activities.operations.rows import move, problem_json, record, resources_of, route_of
from counterfoil.activities.store.ledger import Entry
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.common import Actor
from counterfoil.models.errors import ErrorCode, Refusal
from counterfoil.models.operations.commands import Answer, AnswerStatus, unseal
from counterfoil.models.operations.lifecycle import OPEN, Event
from counterfoil.models.operations.sealing import Received
from counterfoil.models.operations.view import ApplyInput
from counterfoil.models.tables import AttemptRow, OperationRow


async def repair(
    work: UnitOfWork, given: ApplyInput, received: Received, policy: SealPolicy, creator: Creator
) -> tuple[OperationRow, Answer]:
    """Bring the row up to what the workflow remembers. Raises `Refusal` (`NOT_FOUND`) where nobody has the request."""
    row = await work.session.get(OperationRow, given.operation_id, lock=True)
    try:
        command, actor = unseal(
            received, operation_id=given.operation_id, key=policy.key, allow_unsealed=policy.allow_unsealed
        )
        if row is not None and row.revision >= given.seen_revision:
            raise Refusal(
                ErrorCode.NOT_POSSIBLE,
                "the store is not behind this operation's workflow, so there is nothing to repair",
                subject=row.id,
                remedy="use reconcile, cancel or resolve",
            )
    except Refusal as refusal:
        if row is None:
            raise
        return row, await refused(work, row, received, refusal)
    if row is None:
        row = await _recreate(work, given, creator)
    row.revision = max(row.revision, given.seen_revision)
    reason = getattr(command, "reason", "")
    dispatched = max(given.seen_generation, row.generation)
    if dispatched and row.state in OPEN:
        await _doubt(work, row, dispatched, reason, actor)
    else:
        row.revision += 1
        record(work, row, Entry(kind="repaired", summary=f"nothing was dispatched: {reason}", actor=actor))
    return row, Answer(
        status=AnswerStatus.APPLIED,
        operation_id=row.id,
        state=row.state,
        revision=row.revision,
        detail=f"the operation is '{row.state}' now",
    )


async def _recreate(work: UnitOfWork, given: ApplyInput, creator: Creator) -> OperationRow:
    if given.request is None:
        raise Refusal(
            ErrorCode.NOT_FOUND,
            "the store has no row, and this workflow run does not have the request any more",
            subject=given.operation_id,
            remedy="terminate the workflow, look at the target, and ask again under a new key",
        )
    request, kept = await asyncio.to_thread(creator.read, given.request)
    return await creator.claim(work, request, kept)


async def _doubt(work: UnitOfWork, row: OperationRow, generation: int, reason: str, actor: Actor) -> None:
    route = route_of(row)
    # What may be under way must be in nobody else's way; whoever holds a resource meanwhile cannot be helped.
    await claims.take(work, row, claims.wanted(row.workspace, resources_of(row)))
    if await work.session.get(AttemptRow, (row.id, generation)) is None:
        work.session.add(
            AttemptRow(
                operation_id=row.id,
                generation=generation,
                kind=AttemptKind.EXECUTE,
                token="remembered by the workflow",  # noqa: S106  an invocation, not a secret
                adapter=route.adapter,
                adapter_version=route.adapter_version,
                environment=route.environment,
                task_queue=row.task_queue,
                journaled_at=work.now,
            )
        )
    row.generation, row.fence = generation, max(row.fence, generation)
    row.attempts = max(row.attempts, 1)
    row.attempt_open = False
    row.observation_exhausted = False
    row.polls = 0
    row.first_dispatched_at = row.first_dispatched_at or row.created_at
    row.dispatched_at = row.dispatched_at or row.created_at
    row.problem = problem_json(ErrorCode.STORE_BEHIND, f"the store was restored from before a dispatch: {reason}")
    summary = f"not believed after a restore: {reason}"
    await move(work, row, Event.DOUBT, summary, actor=actor, data={"generation": generation})
