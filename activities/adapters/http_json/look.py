"""One look at a dispatched change: what was asked, what was sent, and the time there is."""

from __future__ import annotations

from dataclasses import dataclass

from counterfoil.activities.adapters.http_json.entity import Entity
from counterfoil.activities.adapters.http_json.inputs import RecordChange, target_path
from counterfoil.activities.adapters.http_json.planning import Plan
from counterfoil.activities.adapters.http_json.reading import Budget, Target
from counterfoil.activities.adapters.http_json.results import result_of
from counterfoil.activities.adapters.http_json.sending import Reply
from counterfoil.activities.adapters.http_json.spelling import collection_path
from counterfoil.models.errors import ErrorCode
from counterfoil.models.operations.outcomes import Completed, UnknownEffect


@dataclass(frozen=True)
class Look:
    """What looking needs to know."""

    operation_id: str
    generation: int
    external_id: str | None
    """The address of a job, from the root of the origin."""
    recorded_id: str | None
    """The id of the record in question, where the operation's result tells it."""
    entity: Entity
    change: RecordChange
    plan: Plan
    budget: Budget

    @property
    def collection(self) -> str:
        """The path of the collection."""
        return collection_path(self.entity, self.change.parameters)

    @property
    def path(self) -> str:
        """The path of what is changed: the record, or the collection a new one goes into."""
        return target_path(self.entity, self.change)

    def completed(
        self,
        target: Target,
        record_id: str | None,
        reply: Reply,
        record: dict[str, object] | None = None,
        version: str | None = None,
    ) -> Completed:
        """The change was made; the id of a new record is remembered for its verification."""
        if record_id is not None:
            target.memory.remember_record(self.operation_id, record_id)
        return Completed(
            result=result_of(target.profile, self.change, record_id, reply=reply, record=record, version=version)
        )

    def pending(self, why: str) -> UnknownEffect:
        """Nothing is proved yet; another look may tell more."""
        return UnknownEffect(code=ErrorCode.OBSERVATION_PENDING, detail=why, external_id=self.external_id)

    def unclear(self, why: str) -> UnknownEffect:
        """What is there proves nothing, and a person should know why."""
        return UnknownEffect(code=ErrorCode.REPLY_UNCLEAR, detail=why, external_id=self.external_id)
