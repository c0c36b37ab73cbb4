"""`action_snapshot_get`: the tool by which an agent opens the frozen view that a message is about.

The host fixes the conversation and the consumer generation; a model names the message and the snapshot, exactly. The
receipt in the answer is what reply, acknowledgement and any proposal must echo.
"""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from counterfoil.control_plane.agent_answers import refused
from counterfoil.control_plane.documents import DocumentsClient
from counterfoil.models.common import Contract, Identifier
from counterfoil.models.errors import CounterfoilError, ErrorCode, Refusal, what_is_wrong

NAME = "action_snapshot_get"
DESCRIPTION = """\
Open the exact version of a document that a message is about. Give the message's id and the snapshot's id as the message
names them. The answer holds the text you may read, where the target is in it (in characters), and a receipt. If
fetch_outcome is 'unavailable', say so in your reply, and propose nothing about the document."""
INPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"message_id": {"type": "string"}, "snapshot_id": {"type": "string"}},
    "required": ["message_id", "snapshot_id"],
    "additionalProperties": False,
}


class _Asked(Contract):
    message_id: Identifier
    snapshot_id: Identifier


class ActionSnapshotTool:
    """The tool as a host offers it to one attempt of one turn: `name`, `description`, `input_schema` and `call`."""

    name = NAME
    description = DESCRIPTION
    input_schema = INPUT_SCHEMA

    def __init__(self, documents: DocumentsClient, *, conversation: str, consumer_generation: int) -> None:
        """`consumer_generation` counts the attempts at this turn: each attempt has its own, higher than the last."""
        self._documents = documents
        self._conversation = conversation
        self._generation = consumer_generation

    async def call(self, arguments: Any) -> dict[str, Any]:
        """The answer to a model: the view with its receipt, or `{"error": {…}}` with a remedy."""
        try:
            asked = _Asked.model_validate(arguments)
            fetched = await self._documents.fetch(
                asked.message_id, asked.snapshot_id, self._generation, conversation=self._conversation
            )
        except ValidationError as error:
            how = "one JSON object with message_id and snapshot_id"
            problem = what_is_wrong(error, "arguments")
            return refused(Refusal(ErrorCode.BAD_REQUEST, problem, subject=NAME, remedy=how))
        except CounterfoilError as error:
            return refused(error)
        return {
            "fetch_outcome": fetched.receipt.fetch_outcome,
            "reason": fetched.receipt.reason,
            "receipt_id": fetched.receipt.receipt_id,
            "view": None if fetched.view is None else fetched.view.model_dump(mode="json"),
        }
