"""What an answer, an error or a loss means for an operation, by what the profile declares of the tool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from counterfoil.activities.adapters.base import BlobAccess
from counterfoil.activities.adapters.mcp_tool import schemas
from counterfoil.activities.adapters.mcp_tool.profile import ToolDeclaration
from counterfoil.activities.adapters.mcp_tool.questions import Questions
from counterfoil.activities.adapters.mcp_tool.references import Secrets
from counterfoil.activities.adapters.mcp_tool.results import error_text, typed_result
from counterfoil.models.errors import ErrorCode
from counterfoil.models.operations.outcomes import (
    CancelAccepted,
    Cancelled,
    CancelTooLate,
    Completed,
    Evidence,
    Failed,
    UnknownEffect,
)

Settled = Completed | Failed | UnknownEffect


@dataclass(frozen=True)
class Judge:
    """Judges what became of one call of one tool."""

    server: str
    tool: str
    declared: ToolDeclaration

    async def of_result(
        self,
        result: dict[str, Any],
        described: schemas.ToolDescription | None,
        questions: Questions,
        secrets: Secrets,
        blobs: BlobAccess,
    ) -> Settled:
        """Of a tool's result: done, unless it is marked as an error or the tool went on without an answer."""
        if questions.declined_count:
            return self._unanswered(questions)
        if not isinstance(result.get("content"), list):
            return self.of_loss(ErrorCode.REPLY_UNCLEAR, "what the server answered is no tool result", questions)
        if result.get("isError"):
            return self.of_error(error_text(result, secrets), questions)
        misfits: list[str] = []
        if described is not None and described.output_schema is not None:
            misfits = await schemas.problems(described.output_schema, result.get("structuredContent"))
        return Completed(
            result=typed_result(
                server=self.server, tool=self.tool, result=result, misfits=misfits, secrets=secrets, blobs=blobs
            )
        )

    def of_error(self, told: str, questions: Questions) -> Failed | UnknownEffect:
        """Of a tool that says that it failed: it may have acted before, unless the profile knows better."""
        if questions.declined_count:
            return self._unanswered(questions)
        certain = self.declared.errors_mean == "not_applied"
        return self._not_done(ErrorCode.TOOL_FAILED, f"the tool reports an error: {told}", certain=certain)

    def of_loss(self, code: str, detail: str, questions: Questions) -> Failed | UnknownEffect:
        """Of a call that was sent and not answered."""
        if questions.declined_count:
            return self._unanswered(questions)
        return self._not_done(code, detail, certain=False)

    def of_cancelled_task(self, evidence: Evidence) -> Cancelled | UnknownEffect:
        """Of a task that the server says was cancelled: it may have acted before."""
        detail = "the server says that the task was cancelled"
        if self._cancels_cleanly:
            return Cancelled(detail=detail, evidence=evidence)
        return UnknownEffect(code=ErrorCode.TOOL_FAILED, detail=f"{detail}; what it did before that is not known")

    def of_cancelling(self, status: str, evidence: Evidence) -> Cancelled | CancelAccepted | CancelTooLate:
        """Of how a task stands after it was asked to be cancelled."""
        if status == "cancelled" and self._cancels_cleanly:
            return Cancelled(detail="the server cancelled the task", evidence=evidence)
        if status in ("completed", "failed"):
            return CancelTooLate(detail="the task had ended already")
        return CancelAccepted(detail="the server was asked to cancel the task")

    @property
    def _cancels_cleanly(self) -> bool:
        return self.declared.read_only or self.declared.errors_mean == "not_applied"

    def _unanswered(self, questions: Questions) -> Failed | UnknownEffect:
        """The server asked what nobody had approved an answer to, and was declined."""
        remedy = "ask again under a new key, with answers in `elicitation` and a decision"
        return self._not_done(
            ErrorCode.ANSWER_NEEDED,
            f"the server asked during the call and was declined; {remedy}: {questions.told()}",
            certain=self.declared.declined_means == "not_applied",
        )

    def _not_done(self, code: str, detail: str, *, certain: bool) -> Failed | UnknownEffect:
        if certain or self.declared.read_only:
            return Failed(code=code, detail=detail[:1500])
        return UnknownEffect(code=code, detail=detail[:1500])
