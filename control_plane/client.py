"""The typed client that hosts, the command line and tests share.

It reads the store, and acts only through Temporal: creating is an update-with-start, commands are sealed updates that
return their transaction's answer. A bad request is refused here, before anything starts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from enum import StrEnum
from functools import partial
from typing import Any
from uuid import uuid4

from pydantic import TypeAdapter
from temporalio.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowFailureError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import (
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from counterfoil.activities.adapters.catalog import Catalog, promised
from counterfoil.activities.documents.system import DocumentSystem
from counterfoil.activities.operations import permissions, records
from counterfoil.activities.operations.creation import conflict, parse_request, refuse_by_others
from counterfoil.activities.operations.inputs import start_argument
from counterfoil.activities.operations.views import plain
from counterfoil.activities.store.blobs import BlobStore
from counterfoil.activities.store.database import Database
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.control_plane.documents import DocumentsClient
from counterfoil.control_plane.reader import OperationReader
from counterfoil.models.common import Actor, Contract, Identifier, Scope, utc_now
from counterfoil.models.errors import CounterfoilError, ErrorCode, Refusal, Unavailable
from counterfoil.models.operations import rules
from counterfoil.models.operations.commands import (
    REQUIRED_SCOPE,
    Answer,
    AnswerStatus,
    CommandName,
    ResolutionStatus,
    Verdict,
    parsed,
)
from counterfoil.models.operations.contract import OperationRequest
from counterfoil.models.operations.lifecycle import CLOSED, State, Verification
from counterfoil.models.operations.record import Operation
from counterfoil.models.operations.sealing import seal
from counterfoil.models.operations.sessions import SESSION_COMMANDS, SessionAnswer, SessionCommandName
from counterfoil.models.operations.tools import CallableTool, Permission, PermissionRecord
from counterfoil.models.operations.view import OperationView
from counterfoil.models.tables import OperationRow
from counterfoil.workflows.application_operation import STORE_BEHIND
from counterfoil.workflows.search_attributes import OPERATION_SESSION, OPERATION_STATUS

RETRY_PAUSES_SECONDS = (0.1, 0.3, 1.0)
_NAME: TypeAdapter[str] = TypeAdapter(Identifier)


class ControlPlane(OperationReader):
    """Operations of one deployment, as one principal."""

    def __init__(
        self,
        temporal: Client,
        database: Database,
        catalog: Catalog | None,
        *,
        task_queue: str,
        principal: str,
        seal_key: bytes | None,
        scopes: Sequence[Scope] = tuple(Scope),
        timeout_seconds: float = 60,
        blobs: BlobStore | None = None,
        documents: DocumentSystem | None = None,
    ) -> None:
        """`catalog` lets this process check routes and inputs; without one, the worker does, as a typed failure.

        `blobs` is where large inputs are put; without it, they travel in the workflow's start.

        `timeout_seconds` bounds every command.
        """
        super().__init__(database)
        self._temporal = temporal
        self._catalog = catalog
        self._task_queue = task_queue
        self._principal = principal
        self._seal_key = seal_key
        self._blobs = blobs
        self._documents = documents
        self._scopes = frozenset(scopes)
        self._timeout = timedelta(seconds=timeout_seconds)

    @property
    def temporal(self) -> Client:
        """The Temporal client underneath."""
        return self._temporal

    @property
    def catalog(self) -> Catalog | None:
        """The adapters and tools this process knows, if it was given any."""
        return self._catalog

    @property
    def documents(self) -> DocumentsClient:
        """Collaborative documents of this deployment. Raises `Refusal` (`SETTINGS_INVALID`) without a blob store."""
        if self._documents is None:
            raise Refusal(
                ErrorCode.SETTINGS_INVALID,
                "this client was made without a blob store, where documents are",
                subject="documents",
                remedy="connect for `creating`, or pass `documents`",
            )
        return DocumentsClient(
            self._documents,
            self._temporal,
            task_queue=self._task_queue,
            principal=self._principal,
            timeout=self._timeout,
        )

    # creating

    async def create(self, request: OperationRequest | dict[str, Any]) -> Operation:
        """The operation of this request's claim: a new one, or the one the same request made before.

        Raises `Refusal` (a bad request, an unknown route, `IDEMPOTENCY_CONFLICT`, …) before anything starts.
        """
        asked = parse_request(request)
        existing = await self._existing(asked)
        if existing is not None and existing in CLOSED:
            return await self.get(asked.operation_id)
        if existing is None:
            await self._refuse_early(asked)
        await self._start(asked)
        if await self._existing(asked) is None:
            raise Unavailable(ErrorCode.STORE_BEHIND, "the workflow knows this operation, the store does not")
        return await self.get(asked.operation_id)

    async def _existing(self, request: OperationRequest) -> State | None:
        async def look(work: Any) -> State | None:
            row = await work.session.get(OperationRow, request.operation_id)
            if row is not None and row.request_digest != request.digest:
                raise conflict(request.operation_id)
            return None if row is None else State(row.state)

        return await self._database.read(look)

    async def _refuse_early(self, request: OperationRequest) -> None:
        rules.refuse_oversized(request)
        rules.refuse_past_deadline(request, self._database.clock())
        catalog = self._catalog
        if catalog is not None:
            adapter, typed, _ = catalog.admit(request)
            route = promised(adapter, typed)
            rules.refuse_foreground_route(request, route)
            rules.refuse_unaffordable(request, route)

        async def look(work: UnitOfWork) -> None:
            if catalog is not None:
                await permissions.require_creatable(work, catalog, request)
            await refuse_by_others(work, request)

        await self._database.read(look)

    async def _start(self, request: OperationRequest) -> None:
        operation_id = request.operation_id
        start = partial(
            WithStartWorkflowOperation,
            "ApplicationOperation",
            await asyncio.to_thread(start_argument, request, self._blobs),
            id=operation_id,
            task_queue=self._task_queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            static_summary=plain(f"{request.capability}: {request.objective}", 180),
            static_details=f"Session {plain(request.owner.session)}, key {plain(request.idempotency_key)}",
            search_attributes=TypedSearchAttributes(
                [
                    SearchAttributePair(OPERATION_SESSION, request.owner.session),
                    SearchAttributePair(OPERATION_STATUS, "opening"),
                ]
            ),
        )
        await self._called(operation_id, start, "opened", [], OperationView)

    # reading

    async def behind(self) -> list[str]:
        """Operations whose workflows remember more than the store: they wait for `repair`."""
        query = (
            f'WorkflowType="ApplicationOperation" AND ExecutionStatus="Running" AND OperationStatus="{STORE_BEHIND}"'
        )
        try:
            return [execution.id async for execution in self._temporal.list_workflows(query)]
        except RPCError as error:
            raise _temporal_away("", error) from error

    # permitting

    async def tools(self, session: str) -> list[CallableTool]:
        """The tools this process knows, and what a session may do with each."""
        known = [] if self._catalog is None else self._catalog.tools.tools()
        return await self._database.read(lambda work: permissions.callable_tools(work, session, known))

    async def permit(
        self,
        session: str,
        tool: str,
        permission: Permission | str,
        *,
        account_id: str | None = None,
        workspace: str | None = None,
    ) -> PermissionRecord:
        """Say what a session may do with a tool, for one of its accounts or for any. Counts from its next call on.

        Needs the scope `admin`: a review answers one question about one proposal, this lets later calls go unasked.
        `workspace` is needed for a session that has done nothing yet. Raises `Refusal` (`SCOPE_MISSING`, `NOT_FOUND`,
        `TOOL_UNKNOWN`, `BAD_COMMAND`).
        """
        said = _permission(session, tool, permission, account_id)
        scope = self._scope(Scope.ADMIN, "permit", session)
        if self._catalog is not None and self._catalog.tools.tools():
            self._catalog.tools.require_known(tool, account_id)
        actor = Actor(principal=self._principal, authenticated=self._seal_key is not None, scope=scope)
        return await self._database.run(
            lambda work: permissions.permit(
                work,
                session=session,
                workspace=workspace,
                tool=tool,
                account_id=account_id,
                permission=said,
                actor=actor,
            )
        )

    # commanding

    async def decide(
        self,
        operation_id: str,
        verdict: Verdict | str,
        *,
        proposal_digest: str,
        notes: str = "",
        key: str | None = None,
    ) -> Answer:
        """Answer the question of exactly the proposal that was looked at. Raises `Refusal` with its reason."""
        given = {"proposal_digest": proposal_digest, "verdict": verdict, "notes": notes, "key": key}
        return await self._command(operation_id, CommandName.DECIDE, given)

    async def cancel(self, operation_id: str, reason: str, *, key: str | None = None) -> Answer:
        """Ask that the operation end without further effect. Never an undo."""
        return await self._command(operation_id, CommandName.CANCEL, {"reason": reason, "key": key})

    async def prepare(self, operation_id: str, *, key: str | None = None) -> Answer:
        """Let a held operation prepare its proposal."""
        return await self._command(operation_id, CommandName.PREPARE, {"key": key})

    async def execute(self, operation_id: str, *, key: str | None = None) -> Answer:
        """Let a held or prepared operation go on to its effect."""
        return await self._command(operation_id, CommandName.EXECUTE, {"key": key})

    async def reconcile(self, operation_id: str, *, key: str | None = None) -> Answer:
        """Observe an unknown effect once more, or refresh a completed operation's verification."""
        unique = key or utc_now().isoformat()
        return await self._command(operation_id, CommandName.RECONCILE, {"key": unique})

    async def resolve_unknown(
        self,
        operation_id: str,
        *,
        expected_revision: int,
        resolution_key: str,
        status: ResolutionStatus | str,
        summary: str,
    ) -> Answer:
        """Attest what became of an unknown effect, where observation is unsupported or exhausted."""
        given = {
            "expected_revision": expected_revision,
            "resolution_key": resolution_key,
            "status": status,
            "summary": summary,
        }
        return await self._command(operation_id, CommandName.RESOLVE_UNKNOWN, given)

    async def repair(self, operation_id: str, reason: str) -> Answer:
        """Bring a store that was restored from before up to what the operation's workflow remembers."""
        given = {"reason": reason, "key": utc_now().isoformat()}
        return await self._command(operation_id, CommandName.REPAIR, given)

    # a session's work as a whole

    async def cancel_session(self, session: str, reason: str, *, epoch: int | None = None) -> SessionAnswer:
        """Stop all work that a session has asked for. Nothing of it is begun any more; what was issued is observed.

        A run that begins afterwards passes the answer's `epoch` as `owner.epoch`. `epoch` is the one to end, by default
        the present one: naming it makes repetitions harmless.
        """
        ended = (await self.session(session)).epoch if epoch is None else epoch
        return await self._tell_session(session, SessionCommandName.CANCEL, {"epoch": ended, "reason": reason})

    async def pause_session(self, session: str, reason: str) -> SessionAnswer:
        """Dispatch nothing new of a session. What was issued goes on, and is observed to its end."""
        return await self._tell_session(session, SessionCommandName.PAUSE, {"reason": reason})

    async def resume_session(self, session: str, reason: str = "") -> SessionAnswer:
        """Dispatch a session's operations again."""
        return await self._tell_session(session, SessionCommandName.RESUME, {"reason": reason})

    async def _tell_session(self, session: str, name: SessionCommandName, given: dict[str, Any]) -> SessionAnswer:
        command = SESSION_COMMANDS.parsed(given, name, session)
        payload = self._sealed(session, name, command, SESSION_COMMANDS.scopes[name])
        asked = self._temporal.execute_workflow(
            "SessionCommand",
            {"session": session, "name": name, "payload": payload},
            id=f"{self._task_queue}-session-{uuid4()}",
            task_queue=self._task_queue,
            static_summary=plain(f"{name}: {session}", 180),
            result_type=SessionAnswer,
            rpc_timeout=self._timeout,
        )
        try:
            answer: SessionAnswer = await asyncio.wait_for(asked, self._timeout.total_seconds())
        except TimeoutError as error:
            raise _no_worker(session, self._timeout) from error
        except WorkflowFailureError as error:
            raise _refusal(error.cause, session) from error
        except RPCError as error:
            raise _temporal_away(session, error) from error
        if answer.status is AnswerStatus.REFUSED:
            raise Refusal(_code(answer.code), answer.detail, subject=session, remedy=answer.remedy)
        return answer

    async def _command(self, operation_id: str, name: CommandName, given: dict[str, Any]) -> Answer:
        argument = self._sealed(operation_id, name, parsed(given, name, operation_id), REQUIRED_SCOPE[name])
        if name is not CommandName.REPAIR:
            await self._database.read(lambda work: records.find(work, operation_id))
        start = partial(
            WithStartWorkflowOperation,
            "ApplicationOperation",
            {"resume": operation_id},
            id=operation_id,
            task_queue=self._task_queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        )
        answer: Answer = await self._called(operation_id, start, name, [argument], Answer)
        if answer.status is AnswerStatus.REFUSED:
            raise Refusal(_code(answer.code), answer.detail, subject=operation_id, remedy=answer.remedy)
        return answer

    def _sealed(self, subject: str, name: StrEnum, command: Contract, needed: Scope) -> dict[str, Any]:
        if self._seal_key is None:
            return command.model_dump(mode="json")
        scope = self._scope(needed, name, subject)
        return seal(
            self._seal_key,
            subject=subject,
            name=name,
            command=command,
            principal=self._principal,
            scope=scope,
            at=utc_now(),
        )

    def _scope(self, needed: Scope, name: str, subject: str) -> Scope:
        scope = needed if needed in self._scopes else next(iter(self._scopes & {Scope.ADMIN}), None)
        if scope is None:
            raise Refusal(
                ErrorCode.SCOPE_MISSING,
                f"'{name}' needs the scope '{needed}'",
                subject=subject,
                remedy=f"ask someone with the scope '{needed}'",
            )
        return scope

    async def _called(
        self,
        operation_id: str,
        start: Callable[..., WithStartWorkflowOperation[Any, Any]],
        update: str,
        arguments: list[Any],
        result_type: type[Any],
    ) -> Any:
        for pause_seconds in (*RETRY_PAUSES_SECONDS, None):
            # A new run may follow a finished one only where the row is settled too: an open row is older than that.
            settled = await self._is_settled(operation_id)
            reuse = WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY
            called = self._temporal.execute_update_with_start_workflow(
                update,
                args=arguments,
                start_workflow_operation=start(
                    id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE if settled else reuse
                ),
                result_type=result_type,
                rpc_timeout=self._timeout,
            )
            try:
                # The time-out of one call is not enough: the client calls again for as long as no worker answers.
                return await asyncio.wait_for(called, self._timeout.total_seconds())
            except WorkflowUpdateFailedError as error:
                raise _refusal(error.cause, operation_id) from error
            except WorkflowAlreadyStartedError as error:
                if pause_seconds is None:
                    raise _behind(operation_id) from error
            except (TimeoutError, WorkflowUpdateRPCTimeoutOrCancelledError) as error:
                raise _no_worker(operation_id, self._timeout) from error
            except RPCError as error:
                if error.status in (RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED):
                    raise _no_worker(operation_id, self._timeout) from error
                # A workflow that is just ending does not take the update; commands are recognised when sent again.
                if not _is_just_ending(error) or pause_seconds is None:
                    raise _temporal_away(operation_id, error) from error
            await asyncio.sleep(pause_seconds)

    async def _is_settled(self, operation_id: str) -> bool:
        async def look(work: Any) -> bool:
            row = await work.session.get(OperationRow, operation_id)
            return row is not None and row.state in CLOSED and row.verification != Verification.PENDING

        return await self._database.read(look)


def _permission(session: str, tool: str, permission: Permission | str, account_id: str | None) -> Permission:
    try:
        for name in (session, tool, account_id or tool):
            _NAME.validate_python(name)
        return Permission(permission)
    except ValueError:
        raise Refusal(
            ErrorCode.BAD_COMMAND,
            f"'{permission}' for '{tool}' says nothing that could be permitted"[:300],
            subject=session[:200],
            remedy=f"name a session and a tool, and one of: {', '.join(Permission)}",
        ) from None


def _refusal(cause: BaseException | None, operation_id: str) -> CounterfoilError:
    if isinstance(cause, ApplicationError):
        for detail in cause.details:
            known = CounterfoilError.from_details(detail)
            if known is not None:
                return Refusal(known.code, known.detail, subject=known.subject or operation_id, remedy=known.remedy)
        if cause.type in ErrorCode.__members__:
            return Refusal(_code(cause.type), cause.message, subject=operation_id)
    return CounterfoilError(ErrorCode.INTERNAL, f"the workflow refused: {cause}", subject=operation_id)


def _code(text: str | None) -> ErrorCode:
    return ErrorCode.__members__.get(text or "", ErrorCode.INTERNAL)


def _is_just_ending(error: RPCError) -> bool:
    aborted = error.status is RPCStatusCode.NOT_FOUND and "closing workflow" in error.message
    return error.status is RPCStatusCode.FAILED_PRECONDITION or aborted


def _temporal_away(subject: str, error: RPCError) -> Unavailable:
    return Unavailable(
        ErrorCode.TEMPORAL_UNAVAILABLE,
        f"Temporal did not take the call: {error.message}",
        subject=subject,
        remedy="check that the Temporal server runs; `counterfoil dev` brings one",
    )


def _behind(operation_id: str) -> Unavailable:
    return Unavailable(
        ErrorCode.STORE_BEHIND,
        "this operation's workflow has finished, and the store says that it has not: it was restored from before",
        subject=operation_id,
        remedy="once the sweep has noticed it, `counterfoil repair` has it observed again, attested or abandoned",
    )


def _no_worker(operation_id: str, timeout: timedelta) -> Unavailable:
    return Unavailable(
        ErrorCode.TIMED_OUT,
        f"no worker answered within {timeout.total_seconds():g} s",
        subject=operation_id,
        remedy="check that a worker runs; whether the command was taken, the operation's history tells",
    )
