"""What a server asks while a tool runs, and the only answers it is given: those a person approved beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from counterfoil.activities.adapters.mcp_tool import schemas
from counterfoil.models.common import Contract, canonical_json

if TYPE_CHECKING:
    from mcp.client.context import ClientRequestContext
    from mcp_types import ElicitRequestFormParams, ElicitRequestParams, ElicitResult

MOST_QUESTIONS_KEPT = 8
_MESSAGE_CHARACTERS = 200
_SCHEMA_BYTES = 600
_TOLD_BYTES = 1000
"""What was asked is told in a problem's detail, which is kept up to 1,500 characters."""

AnswerValue = str | int | float | bool | tuple[str, ...] | None


class ApprovedAnswer(Contract):
    """The answer to one question a server may ask. It is part of the proposal, and given at most once.

    With `message` it answers the question of exactly that text. Without, it answers a question that asks for all of
    its `fields`, and requires no other.
    """

    message: Annotated[str, Field(max_length=4000)] | None = None
    fields: Annotated[dict[str, AnswerValue], Field(max_length=64)] = Field(default_factory=dict)


@dataclass(frozen=True)
class Question:
    """What a server asked and was not answered."""

    message: str
    kind: str
    schema: dict[str, Any] | None
    why: str

    def as_json(self) -> dict[str, Any]:
        schema = self.schema
        if schema is not None and len(canonical_json(schema)) > _SCHEMA_BYTES:
            schema = {"properties": sorted(schema.get("properties") or {})[:32]}
        told = {"message": self.message[:_MESSAGE_CHARACTERS], "kind": self.kind, "declined_because": self.why}
        return told if schema is None else told | {"schema": schema}


class Questions:
    """Answers a server's questions on one connection, and remembers those it declined."""

    def __init__(self, answers: Sequence[ApprovedAnswer], *, approved: bool) -> None:
        self._left = list(answers) if approved else []
        self._withheld = 0 if approved else len(answers)
        self.declined: list[Question] = []
        self.declined_count = 0
        self.asked_count = 0

    async def answer(self, context: ClientRequestContext | None, params: ElicitRequestParams) -> ElicitResult:
        """The approved answer to a question, or that it is declined."""
        from mcp_types import ElicitRequestURLParams, ElicitResult

        asked = params
        self.asked_count += 1
        if isinstance(asked, ElicitRequestURLParams):
            self._decline(Question(asked.message, "url", None, "a person would have to visit an address"))
            return ElicitResult(action="decline")
        found, why = await self._fitting(asked)
        if found is None:
            self._decline(Question(asked.message, "form", schema_of(asked), why))
            return ElicitResult(action="decline")
        self._left.remove(found)
        content: dict[str, Any] = found.model_dump(mode="json")["fields"]
        return ElicitResult(action="accept", content=content)

    async def _fitting(self, asked: ElicitRequestFormParams) -> tuple[ApprovedAnswer | None, str]:
        schema = schema_of(asked)
        why = "nobody decided on this operation" if self._withheld else "no approved answer is for it"
        for answer in self._left:
            if not _is_for(answer, asked.message, schema):
                continue
            wrong = await schemas.problems(schema, answer.model_dump(mode="json")["fields"])
            if not wrong:
                return answer, ""
            why = f"the approved answer does not fit: {wrong[0]}"[:300]
        return None, why

    def _decline(self, question: Question) -> None:
        self.declined_count += 1
        if len(self.declined) < MOST_QUESTIONS_KEPT:
            self.declined.append(question)

    def told(self) -> str:
        """What was declined, as a line of JSON."""
        asked: list[dict[str, Any]] = []
        for question in self.declined:
            if len(canonical_json({"asked": [*asked, question.as_json()]})) > _TOLD_BYTES:
                break
            asked.append(question.as_json())
        return canonical_json({"asked": asked, "not_shown": self.declined_count - len(asked)}).decode()


def schema_of(asked: ElicitRequestFormParams) -> dict[str, Any]:
    """The schema of the answer a form asks for."""
    schema: dict[str, Any] = asked.model_dump(by_alias=True, mode="json", exclude_none=True)["requestedSchema"]
    return schema


def _is_for(answer: ApprovedAnswer, message: str, schema: dict[str, Any]) -> bool:
    if answer.message is not None:
        return answer.message == message
    asked = set(schema.get("properties") or {})
    required = set(schema.get("required") or ())
    return bool(answer.fields) and required <= set(answer.fields) <= asked
