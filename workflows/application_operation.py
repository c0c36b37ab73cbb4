"""The workflow of one application operation: load the row, take the one step its state asks for, until it is settled.

The row is the truth. This loop may be terminated, reset, lost or started twice at any point; whoever runs next goes on
from the row. Signals and updates only enqueue; one loop takes commands in order, each in one transaction.
"""

# Annotations are evaluated here, once a definition: the sandbox loads this file anew for every workflow, and reading
# them from text would cost it more than all the rest.
import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue, RetryPolicy, SearchAttributeUpdate
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from counterfoil.activities.operations.activities import OperationActivities
    from counterfoil.models.errors import ErrorCode
    from counterfoil.models.operations.commands import (
        COMMAND_LIMIT_BYTES,
        Answer,
        AnswerStatus,
        CommandName,
    )
    from counterfoil.models.operations.lifecycle import CLOSED, State
    from counterfoil.models.operations.sealing import Received
    from counterfoil.models.operations.view import (
        Applied,
        ApplyInput,
        OpenInput,
        OperationResult,
        OperationView,
        Step,
        StepInput,
        StepKind,
        conclusion,
        is_being_verified,
        next_step,
        seconds_between,
    )
    from counterfoil.workflows.inbox import Inbox, decoded, printable
    from counterfoil.workflows.search_attributes import (
        AWAITING_DECISION,
        OPERATION_RESOURCES,
        OPERATION_SESSION,
        OPERATION_STATUS,
        UNKNOWN_EFFECT,
    )

StepActivity = Callable[[OperationActivities, StepInput], Awaitable[OperationView]]

STORE_BEHIND = "store_behind"
PASSING = frozenset({State.PREPARING, State.QUEUED})
FOR_EVER = RetryPolicy(
    initial_interval=timedelta(milliseconds=200), backoff_coefficient=2, maximum_interval=timedelta(seconds=20)
)
ONCE = RetryPolicy(maximum_attempts=1)
LOCALLY = RetryPolicy(initial_interval=timedelta(milliseconds=100), maximum_attempts=2)
MARGIN = timedelta(seconds=90)
PATIENCE = timedelta(seconds=60)
"""For a transition that has failed before: the database is away, or slow."""
UNHEARD = timedelta(seconds=10)
"""After so long without an answer, a transition's worker is taken for lost."""
LONGEST_PAUSE_SECONDS = 60
MAY_TAKE_LONG = frozenset({StepKind.AWAIT_READINESS, StepKind.OBSERVE})


class StoreIsBehind(Exception):
    """The store says less of the operation than this workflow has seen."""


@workflow.defn(name="ApplicationOperation")
class ApplicationOperation:
    """A durable state machine for one change an agent wants made. Its id is the operation's id."""

    def __init__(self) -> None:
        self._inbox = Inbox()
        self._woken = False
        self._view: OperationView | None = None
        self._refusal: ApplicationError | None = None
        self._shown: tuple[str, bool, bool] | None = None
        self._request: Any = None
        self._remembered_revision = 0
        self._remembered_generation = 0
        self._is_behind = False
        self._losses = 0

    @workflow.run
    async def run(self, request: RawValue) -> OperationResult:
        """`request` is one OperationRequest as JSON, or `{"resume": operation_id}`."""
        # Cancelling must not tear a step apart: the story runs in a task of its own, and a cancellation from Temporal
        # is told to it as a command like any other.
        story = asyncio.create_task(self._story(request))
        try:
            finished = await asyncio.shield(story)
        except asyncio.CancelledError:
            self._inbox.put(
                Received(
                    name=CommandName.CANCEL, payload={"reason": "cancelled in Temporal"}, channel="temporal_cancel"
                )
            )
            finished = await story
        if not finished:
            workflow.continue_as_new({"resume": workflow.info().workflow_id, "seen_revision": self._seen.revision})
        return conclusion(self._seen)

    async def _story(self, request: RawValue) -> bool:
        """From opening to the end; False where the history has grown long and another run should go on."""
        await self._open(request)
        while True:
            self._show()
            try:
                if self._has_due():
                    await self._apply_next()
                    continue
                step = next_step(self._seen, workflow.now())
                if step.kind is StepKind.DONE:
                    if await self._all_answered():
                        return True
                elif workflow.info().is_continue_as_new_suggested() and await self._all_answered():
                    return False
                else:
                    await self._take(step)
            except StoreIsBehind:
                await self._await_repair()

    # opening

    async def _open(self, raw: RawValue) -> None:
        argument, problem = decoded([raw])
        seen = 0
        if isinstance(argument, dict) and "resume" in argument:
            seen = argument["seen_revision"] if isinstance(argument.get("seen_revision"), int) else 0
            if argument.get("doubt") is True:
                await self._doubt()
                return
        else:
            self._request = argument
        given = OpenInput(
            workflow_id=workflow.info().workflow_id, argument=argument, problem=problem, seen_revision=seen
        )
        try:
            self._view = await self._transition(OperationActivities.open_operation, given)
        except StoreIsBehind:
            await self._doubt(seen)
        except ApplicationError as refusal:
            self._refusal = refusal
            while self._inbox or not workflow.all_handlers_finished():
                while self._inbox:
                    self._inbox.answer(self._inbox.take(), self._refused(str(refusal.type), refusal.message))
                await workflow.wait_condition(lambda: bool(self._inbox) or workflow.all_handlers_finished())
            raise

    async def _doubt(self, seen_revision: int = 0) -> None:
        """Nothing of the store is believed: look at what is there, and wait for a repair."""
        try:
            self._view = await self._transition(OperationActivities.reload, self._step_input())
        except (StoreIsBehind, ApplicationError):
            self._view = None
        self._remembered_revision = max(seen_revision, 0 if self._view is None else self._view.revision + 1)
        self._remembered_generation = 1 + (0 if self._view is None else self._view.generation)
        await self._await_repair()

    # steps

    async def _take(self, step: Step) -> None:
        """Take one step of an open operation."""
        match step.kind:
            case StepKind.WAIT:
                await self._wait(step.until)
            case StepKind.PREPARE if self._seen.blocked is not None:
                await self._wait(self._seen.deadline)
            case StepKind.EXPIRE if self._seen.attempt_open:
                await self._fence(self._seen.generation)
            case StepKind.EXPIRE:
                await self._move(OperationActivities.expire, self._step_input())
            case StepKind.FENCE:
                await self._fence(self._seen.generation)
            case StepKind.DISPATCH:
                await self._dispatch()
            case StepKind.PREPARE:
                await self._adapter_step(step, OperationActivities.prepare, "prepare")
            case StepKind.AWAIT_READINESS:
                await self._adapter_step(step, OperationActivities.await_readiness, "await readiness")
            case StepKind.OBSERVE:
                await self._adapter_step(step, OperationActivities.observe, "observe")
            case StepKind.CANCEL_AT_TARGET:
                await self._adapter_step(step, OperationActivities.cancel_at_target, "cancel at the target", ONCE)
            case StepKind.VERIFY:
                await self._adapter_step(step, OperationActivities.verify, "verify")
            case StepKind.DONE:
                raise AssertionError("a settled operation takes no step")

    async def _wait(self, until: datetime | None) -> None:
        timeout = None if until is None else seconds_between(workflow.now(), until)
        try:
            await workflow.wait_condition(lambda: self._woken or self._has_due(), timeout=timeout)
        except TimeoutError:
            return
        if self._woken:
            self._woken = False
            await self._move(OperationActivities.reload, self._step_input())

    async def _dispatch(self) -> None:
        """Dispatch once. Whatever is reported lost is decided by the fence, never by sending again."""
        generation = self._next_generation
        try:
            try:
                view = await self._watched(
                    StepKind.DISPATCH, OperationActivities.dispatch, "dispatch", ONCE, generation, self._seen.deadline
                )
            except ApplicationError:
                await self._fence(generation)
                await self._pause_after_loss()
                return
        except StoreIsBehind:
            self._remember(generation)
            raise
        if view is not None:
            self._adopt(view)

    async def _fence(self, generation: int) -> None:
        await self._move(OperationActivities.fence_dispatch, self._step_input(generation))

    async def _adapter_step(
        self,
        step: Step,
        activity: StepActivity,
        summary: str,
        retry: RetryPolicy = FOR_EVER,
    ) -> None:
        generation = self._next_generation
        until = self._seen.deadline if step.kind is StepKind.PREPARE else step.until
        try:
            view = await self._watched(step.kind, activity, summary, retry, generation, until)
        except ApplicationError:
            # Lost or refused: the row knows how far it came.
            await self._move(OperationActivities.reload, self._step_input())
            await self._pause_after_loss()
            return
        except StoreIsBehind:
            if step.kind is StepKind.PREPARE and self._seen.prepares_with_effect:
                self._remember(generation)
            raise
        if view is not None:
            self._adopt(view)

    @property
    def _next_generation(self) -> int:
        return max(self._seen.generation, self._seen.fence) + 1

    def _remember(self, generation: int) -> None:
        """The store went back while this attempt was under way: whatever the row says, it may have been made."""
        self._remembered_generation = max(self._remembered_generation, generation)
        self._remembered_revision = max(self._remembered_revision, self._seen.revision + 1)

    async def _pause_after_loss(self) -> None:
        """One lost activity is asked for again at once; when losses repeat, growing pauses keep the history short."""
        self._losses += 1
        if self._losses > 1:
            await self._wait(workflow.now() + timedelta(seconds=min(2**self._losses, LONGEST_PAUSE_SECONDS)))

    async def _watched(
        self,
        kind: StepKind,
        activity: StepActivity,
        summary: str,
        retry: RetryPolicy,
        generation: int,
        until: datetime | None = None,
    ) -> OperationView | None:
        """Run an adapter's activity on the attempt's own task queue, and go on taking commands while it runs.

        None where a command or a time limit made the step pointless, or the history has grown too long to wait in
        this run. An attempt that was journaled always runs to its end.
        """
        view = self._seen
        handle = workflow.start_activity_method(
            activity,
            self._step_input(generation),
            task_queue=view.task_queue,
            start_to_close_timeout=timedelta(seconds=2 * view.call_timeout_seconds) + MARGIN,
            heartbeat_timeout=timedelta(seconds=view.heartbeat_seconds),
            retry_policy=retry,
            cancellation_type=workflow.ActivityCancellationType.TRY_CANCEL,
            summary=f"{summary} · {view.label}"[:200],
        )
        while not handle.done():
            patience = None if until is None else seconds_between(workflow.now(), until)
            try:
                await workflow.wait_condition(
                    lambda: handle.done() or self._has_due() or self._has_outgrown(kind), timeout=patience
                )
            except TimeoutError:
                until = None
                await self._move(OperationActivities.expire, self._step_input())
            if handle.done():
                break
            if self._has_due():
                await self._apply_next()
            self._show()
            if self._has_outgrown(kind) or self._is_pointless(kind, generation):
                handle.add_done_callback(_looked_at)
                handle.cancel()
                return None
        try:
            view = await handle
        except ActivityError as error:
            raise self._typed(error) from error
        self._losses = 0
        return view

    def _is_pointless(self, kind: StepKind, generation: int) -> bool:
        view = self._seen
        if view.attempt_open or kind is StepKind.CANCEL_AT_TARGET:
            return False
        if kind is StepKind.DISPATCH:
            # It can no longer be granted. While it can, it is left alone, even where it has not been picked up yet.
            return view.state in CLOSED and view.generation < generation
        return next_step(view, workflow.now()).kind is not kind

    def _has_outgrown(self, kind: StepKind) -> bool:
        return kind in MAY_TAKE_LONG and workflow.info().is_continue_as_new_suggested()

    # transitions

    async def _move(self, activity: StepActivity, given: StepInput) -> None:
        self._adopt(await self._transition(activity, given))

    async def _transition(self, activity: Callable[[OperationActivities, Any], Any], given: Any) -> Any:
        """Run a transition: as a local activity, which costs no round trip; where that fails, as a patient one."""
        if self._view is not None and not self._view.local_transitions:
            return await self._patient_transition(activity, given, UNHEARD)
        try:
            return await workflow.execute_local_activity_method(
                activity,
                given,
                start_to_close_timeout=timedelta(seconds=8),
                retry_policy=LOCALLY,
            )
        except (ActivityError, ApplicationError) as error:
            # What a local activity raises may come as it is, without the wrapping of a regular one.
            typed = self._typed(error)
            if typed.non_retryable:
                raise typed from error
        return await self._patient_transition(activity, given, PATIENCE)

    async def _patient_transition(
        self, activity: Callable[[OperationActivities, Any], Any], given: Any, patience: timedelta
    ) -> Any:
        try:
            return await workflow.execute_activity_method(
                activity,
                given,
                start_to_close_timeout=patience,
                retry_policy=FOR_EVER,
            )
        except ActivityError as error:
            raise self._typed(error) from error

    @staticmethod
    def _typed(error: ActivityError | ApplicationError) -> ApplicationError:
        cause = error if isinstance(error, ApplicationError) else error.cause
        if isinstance(cause, ApplicationError):
            if cause.type == ErrorCode.STORE_BEHIND:
                raise StoreIsBehind from error
            return ApplicationError(cause.message, *cause.details, type=cause.type, non_retryable=cause.non_retryable)
        return ApplicationError(str(cause or error), type=ErrorCode.DISPATCH_LOST)

    # commands

    @workflow.signal(name="decide")
    def on_decide(self, command: RawValue) -> None:
        """Answer the question: `{"proposal_digest": …, "verdict": "approve" | "decline" | "revise", "notes": …}`."""
        self._signalled(CommandName.DECIDE, [command])

    @workflow.signal(name="cancel")
    def on_cancel(self, command: RawValue) -> None:
        """Ask that the operation end without further effect: `{"reason": …}`."""
        self._signalled(CommandName.CANCEL, [command])

    @workflow.signal(name="resolve_unknown")
    def on_resolve_unknown(self, command: RawValue) -> None:
        """Attest an unknown effect: `{"expected_revision": …, "resolution_key": …, "status": …, "summary": …}`."""
        self._signalled(CommandName.RESOLVE_UNKNOWN, [command])

    @workflow.signal(name="wake")
    def on_wake(self) -> None:
        """The row may have changed, or its turn may have come: look again."""
        self._woken = True

    @workflow.signal(dynamic=True)
    def on_anything(self, name: str, arguments: Sequence[RawValue]) -> None:
        """Any other command by its name; a name nobody knows is recorded as refused."""
        self._signalled(name, arguments)

    @workflow.update(name="opened")
    async def opened(self) -> OperationView:
        """The operation once its claim is decided; fails with the typed refusal where there is none."""
        await workflow.wait_condition(lambda: self._view is not None or self._refusal is not None or self._is_behind)
        if self._refusal is not None:
            raise self._refusal
        if self._is_behind:
            raise ApplicationError("the store is behind this operation", type=ErrorCode.STORE_BEHIND)
        return self._seen

    @workflow.update(name="decide")
    async def decide(self, command: RawValue) -> Answer:
        """The signal of the same name, answered."""
        return await self._answered(CommandName.DECIDE, command)

    @workflow.update(name="cancel")
    async def cancel(self, command: RawValue) -> Answer:
        """The signal of the same name, answered."""
        return await self._answered(CommandName.CANCEL, command)

    @workflow.update(name="resolve_unknown")
    async def resolve_unknown(self, command: RawValue) -> Answer:
        """The signal of the same name, answered."""
        return await self._answered(CommandName.RESOLVE_UNKNOWN, command)

    @workflow.update(name="prepare")
    async def prepare(self, command: RawValue) -> Answer:
        """Let a held operation prepare its proposal."""
        return await self._answered(CommandName.PREPARE, command)

    @workflow.update(name="execute")
    async def execute(self, command: RawValue) -> Answer:
        """Let a held or prepared operation go on to its effect."""
        return await self._answered(CommandName.EXECUTE, command)

    @workflow.update(name="reconcile")
    async def reconcile(self, command: RawValue) -> Answer:
        """Observe an unknown effect once more, or refresh a completed operation's verification."""
        return await self._answered(CommandName.RECONCILE, command)

    @workflow.update(name="repair")
    async def repair(self, command: RawValue) -> Answer:
        """Bring a store that is behind this workflow up to what the workflow remembers."""
        return await self._answered(CommandName.REPAIR, command)

    def _signalled(self, name: str, arguments: Sequence[RawValue]) -> None:
        payload, problem = decoded(arguments, COMMAND_LIMIT_BYTES)
        self._inbox.put(Received(name=printable(name), payload=payload, problem=problem, channel="signal"))

    async def _answered(self, name: CommandName, argument: RawValue) -> Answer:
        payload, problem = decoded([argument], COMMAND_LIMIT_BYTES)
        ticket = self._inbox.put(Received(name=name, payload=payload, problem=problem, channel="update"))
        return await self._inbox.answer_to(ticket)

    def _has_due(self) -> bool:
        return self._inbox.has_due(hold_decisions=self._is_preparing)

    @property
    def _is_preparing(self) -> bool:
        return self._view is not None and self._view.state is State.PREPARING

    async def _apply_next(self) -> None:
        taken = self._inbox.take(hold_decisions=self._is_preparing)
        try:
            applied = await self._applied(taken.received)
        except ApplicationError as refusal:
            self._inbox.answer(taken, self._refused(str(refusal.type), refusal.message))
        except StoreIsBehind:
            self._inbox.put_back(taken)
            raise
        else:
            self._adopt(applied.view)
            self._inbox.answer(taken, applied.answer)

    async def _applied(self, received: Received) -> Applied:
        applied: Applied = await self._transition(OperationActivities.apply_command, self._apply_input(received))
        return applied

    async def _all_answered(self) -> bool:
        """Let waiting updates take their answers; whether nothing new came meanwhile."""
        await workflow.wait_condition(lambda: workflow.all_handlers_finished() or self._has_due())
        return not self._inbox

    async def _await_repair(self) -> None:
        """The store is behind: dispatch nothing, refuse what comes, and wait for a repair."""
        self._is_behind = True
        workflow.set_current_details(BEHIND_DETAILS)
        self._announce((STORE_BEHIND, False, False))
        while True:
            await workflow.wait_condition(lambda: bool(self._inbox))
            taken = self._inbox.take()
            if taken.received.name != CommandName.REPAIR:
                refusal = self._refused(ErrorCode.STORE_BEHIND, "the store is behind this operation")
                self._inbox.answer(taken, refusal)
                continue
            try:
                applied = await self._applied(taken.received)
            except ApplicationError as error:
                self._inbox.answer(taken, self._refused(str(error.type), error.message))
                continue
            self._inbox.answer(taken, applied.answer)
            if applied.answer.status is not AnswerStatus.REFUSED:
                self._view = applied.view
                self._remembered_revision = self._remembered_generation = 0
                self._is_behind = False
                return

    def _refused(self, code: str, detail: str) -> Answer:
        return Answer(
            status=AnswerStatus.REFUSED,
            operation_id=workflow.info().workflow_id,
            state="none" if self._view is None else self._view.state,
            revision=0 if self._view is None else self._view.revision,
            code=code,
            detail=detail,
        )

    # what the loop knows, and what it shows

    @property
    def _seen(self) -> OperationView:
        assert self._view is not None
        return self._view

    def _adopt(self, view: OperationView) -> None:
        if self._view is None or view.version >= self._view.version:
            self._view = view

    def _step_input(self, generation: int = 0) -> StepInput:
        view = self._view
        return StepInput(
            operation_id=workflow.info().workflow_id,
            seen_revision=0 if view is None else view.revision,
            generation=generation,
        )

    def _apply_input(self, received: Received) -> ApplyInput:
        view = self._view
        repairing = received.name == CommandName.REPAIR
        return ApplyInput(
            operation_id=workflow.info().workflow_id,
            command=received,
            seen_revision=max(self._remembered_revision, 0 if view is None else view.revision),
            seen_generation=max(self._remembered_generation, 0 if view is None else view.generation),
            request=self._request if repairing else None,
        )

    def _show(self) -> None:
        """Tell the Temporal UI where the operation stands."""
        view = self._seen
        workflow.set_current_details(view.details)
        awaiting, unknown = view.state is State.AWAITING_DECISION, view.state is State.UNKNOWN
        # A dispatch under way changes its state within moments: not worth an event. Nor is the way to the first place
        # where an operation stays, which for a quick one is its end.
        status = State.QUEUED if view.state is State.DISPATCHING else view.state
        on_the_way = view.blocked is None and (status in PASSING or is_being_verified(view))
        if self._shown is not None or not on_the_way:
            self._announce((status, awaiting, unknown))

    def _announce(self, shown: tuple[str, bool, bool]) -> None:
        if shown == self._shown:
            return
        status, awaiting, unknown = shown
        changes: list[SearchAttributeUpdate[Any]] = [
            OPERATION_STATUS.value_set(status),
            AWAITING_DECISION.value_set(awaiting),
            UNKNOWN_EFFECT.value_set(unknown),
        ]
        if self._shown is None and self._view is not None:
            given = workflow.info().typed_search_attributes
            if given.get(OPERATION_SESSION) is None:
                changes.append(OPERATION_SESSION.value_set(self._view.session))
            if given.get(OPERATION_RESOURCES) is None and self._view.resources:
                changes.append(OPERATION_RESOURCES.value_set(list(self._view.resources)))
        workflow.upsert_search_attributes(changes)
        self._shown = shown


def _looked_at(handle: workflow.ActivityHandle[Any]) -> None:
    """An activity that was given up may fail as it likes."""
    if not handle.cancelled():
        handle.exception()


BEHIND_DETAILS = """**The store is behind this operation.**

The database was restored from before what this workflow has seen. Nothing is dispatched.
Run `counterfoil repair` to have it observed again, attested or abandoned.
"""
