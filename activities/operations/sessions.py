"""A session's work as a whole: cancelled, paused, resumed, in one transaction; then its operations are told.

Cancelling ends the session's epoch, and from that moment nothing of it is begun: every grant looks. That its operations
hear of it too, each as a cancellation of its own, is what makes those stop that wait or run.
"""

from __future__ import annotations

from sqlalchemy import bindparam, or_, select
from temporalio import activity

from counterfoil.activities.fault_points import FaultPoint
from counterfoil.activities.operations.steps import Steps, typed
from counterfoil.activities.store import ledger
from counterfoil.activities.store.ledger import Entry
from counterfoil.activities.store.prepared import Prepared
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.common import SYSTEM, UNAUTHENTICATED, Actor, Scope
from counterfoil.models.errors import ErrorCode, Refusal
from counterfoil.models.operations.commands import AnswerStatus, Cancel, CommandName, seal
from counterfoil.models.operations.lifecycle import OPEN, Cancellation, State
from counterfoil.models.operations.sealing import unseal
from counterfoil.models.operations.sessions import (
    SESSION_COMMANDS,
    CancelSession,
    PauseSession,
    ResumeSession,
    SessionAnswer,
    SessionCommand,
    SessionOrder,
    Told,
)
from counterfoil.models.tables import OPERATIONS, SessionRow

PAGE = 100

_OPERATIONS = select(OPERATIONS.c.id).where(
    OPERATIONS.c.session == bindparam("session"), OPERATIONS.c.id > bindparam("after")
)
_CALLED_OFF = Prepared(
    _OPERATIONS.where(
        OPERATIONS.c.epoch < bindparam("epoch"),
        OPERATIONS.c.cancellation == Cancellation.NONE,
        or_(*(OPERATIONS.c.state == state for state in sorted(OPEN))),
    )
    .order_by(OPERATIONS.c.id)
    .limit(PAGE)
)
_HELD_BACK = Prepared(
    _OPERATIONS.where(
        or_(OPERATIONS.c.state == State.QUEUED, OPERATIONS.c.state == State.PREPARING),
        OPERATIONS.c.blocked.is_not(None),
    )
    .order_by(OPERATIONS.c.id)
    .limit(PAGE)
)


class SessionSteps(Steps):
    """The steps of a session's command."""

    @activity.defn
    async def apply_session_command(self, order: SessionOrder) -> SessionAnswer:
        """Take a session's command; the answer says what became of it."""
        with typed():
            answer = await self._database.run(lambda work: self._apply_to_session(work, order))
            self._checkpoint(FaultPoint.SESSION_COMMITTED)
            return answer

    async def _apply_to_session(self, work: UnitOfWork, order: SessionOrder) -> SessionAnswer:
        row = await work.session.get(SessionRow, order.session, lock=True)
        if row is None:
            return SessionAnswer(
                status=AnswerStatus.REFUSED,
                session=order.session,
                code=ErrorCode.NOT_FOUND,
                detail="there is no such session",
                remedy="a session is there once it has asked for an operation",
            )
        actor = UNAUTHENTICATED
        try:
            command, actor = self._unsealed(order)
            status, detail = _taken(work, row, command, actor)
            self._checkpoint(FaultPoint.SESSION_BEFORE_COMMIT)
        except Refusal as refusal:
            data = {"command": order.received.name[:80], "code": refusal.code}
            ledger.append(
                work, row, Entry(kind="command_refused", summary=str(refusal), actor=actor, material=False, data=data)
            )
            return _answer(row, AnswerStatus.REFUSED, refusal.detail).model_copy(
                update={"code": refusal.code, "remedy": refusal.remedy}
            )
        return _answer(row, status, detail)

    def _unsealed(self, order: SessionOrder) -> tuple[SessionCommand, Actor]:
        policy = self._parts.policy
        return unseal(
            order.received,
            SESSION_COMMANDS,
            subject=order.session,
            key=policy.key,
            allow_unsealed=policy.allow_unsealed,
        )

    @activity.defn
    async def tell_operations(self, order: SessionOrder) -> Told:
        """Pass a session's command on to a page of the operations it concerns."""
        with typed():
            command, actor = self._unsealed(order)
            asked: dict[str, object] = {"session": order.session, "after": order.after}
            match command:
                case CancelSession():
                    concerned = await self._found(_CALLED_OFF, asked | {"epoch": order.epoch})
                    for operation_id in concerned:
                        activity.heartbeat()
                        await self.call_off(operation_id, command.reason, actor, order.epoch)
                case ResumeSession():
                    concerned = await self._found(_HELD_BACK, asked)
                    for operation_id in concerned:
                        activity.heartbeat()
                        await self._parts.engine.wake(operation_id)
                case _:
                    concerned = []
            return Told(operations=len(concerned), after=concerned[-1] if len(concerned) == PAGE else None)

    async def _found(self, which: Prepared, asked: dict[str, object]) -> list[str]:
        async def find(work: UnitOfWork) -> list[str]:
            return (await work.session.execute(which, asked)).scalars()

        return await self._database.read(find)

    async def call_off(self, operation_id: str, reason: str, actor: Actor, epoch: int) -> None:
        """Ask an operation, as its own workflow takes it, to end without further effect."""
        command = Cancel(reason=reason, key=f"epoch-{epoch}")
        key = self._parts.policy.key
        if key is None or not actor.authenticated:
            payload = command.model_dump(mode="json")
        else:
            payload = seal(
                key,
                operation_id=operation_id,
                name=CommandName.CANCEL,
                command=command,
                principal=actor.principal,
                scope=Scope.OPERATE,
                at=self._database.clock(),
            )
        await self._parts.engine.cancel(operation_id, payload)

    async def call_off_forgotten(self, operation_id: str, epoch: int) -> None:
        """The same for one that did not hear of its session's cancellation."""
        await self.call_off(operation_id, "its session's work was cancelled", SYSTEM, epoch)


def _taken(work: UnitOfWork, row: SessionRow, command: SessionCommand, actor: Actor) -> tuple[AnswerStatus, str]:
    match command:
        case CancelSession() if command.epoch > row.epoch:
            raise Refusal(
                ErrorCode.BAD_COMMAND,
                f"the session is in epoch {row.epoch}, and has not reached {command.epoch}",
                subject=row.id,
                remedy=f"cancel epoch {row.epoch}",
            )
        case CancelSession() if command.epoch < row.epoch:
            return AnswerStatus.REPEATED, f"epoch {command.epoch} was cancelled before; the session is in {row.epoch}"
        case CancelSession():
            row.epoch += 1
            kind, detail = "session_cancelled", f"the work of epoch {command.epoch} is cancelled"
        case PauseSession() if row.paused:
            return AnswerStatus.REPEATED, "the session is paused already"
        case PauseSession():
            row.paused = True
            kind, detail = "session_paused", "nothing new is dispatched; what was issued is observed to its end"
        case ResumeSession() if not row.paused:
            return AnswerStatus.REPEATED, "the session is not paused"
        case ResumeSession():
            row.paused = False
            kind, detail = "session_resumed", "the session's operations are dispatched again"
    summary = f"{detail}, by {actor.principal}" + (f": {command.reason}" if command.reason else "")
    ledger.append(work, row, Entry(kind=kind, summary=summary, actor=actor, data={"epoch": row.epoch}))
    return AnswerStatus.APPLIED, detail


def _answer(row: SessionRow, status: AnswerStatus, detail: str) -> SessionAnswer:
    return SessionAnswer(status=status, session=row.id, epoch=row.epoch, paused=row.paused, detail=detail)
