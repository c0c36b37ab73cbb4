"""What a session may do with a tool: said once, recorded, and looked up anew whenever it counts."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable

from sqlalchemy import bindparam, or_, select

from counterfoil.activities.adapters.base import CallsTools
from counterfoil.activities.adapters.catalog import Catalog, promised, tools_needed
from counterfoil.activities.store import ledger
from counterfoil.activities.store.ledger import Entry
from counterfoil.activities.store.prepared import Prepared
from counterfoil.activities.store.unit import UnitOfWork
from counterfoil.models.common import Actor
from counterfoil.models.errors import ErrorCode, Refusal
from counterfoil.models.operations.contract import OperationRequest
from counterfoil.models.operations.lifecycle import State
from counterfoil.models.operations.route import Route
from counterfoil.models.operations.tools import (
    CallableTool,
    Origin,
    Permission,
    PermissionRecord,
    Tool,
    refused_call,
    standing_permission,
)
from counterfoil.models.tables import OPERATIONS, PERMISSIONS, OperationRow, PermissionRow, SessionRow

ANY_ACCOUNT = ""

_SAID = Prepared(
    select(PERMISSIONS.c.permission).where(
        PERMISSIONS.c.session == bindparam("session"),
        PERMISSIONS.c.tool == bindparam("tool"),
        or_(PERMISSIONS.c.account == ANY_ACCOUNT, PERMISSIONS.c.account == bindparam("account")),
    )
)
_UNKNOWN = Prepared(
    select(OPERATIONS.c.id)
    .where(OPERATIONS.c.session == bindparam("session"), OPERATIONS.c.state == State.UNKNOWN)
    .order_by(OPERATIONS.c.created_at)
    .limit(1)
)


async def permit(
    work: UnitOfWork,
    *,
    session: str,
    workspace: str | None,
    tool: str,
    account_id: str | None,
    permission: Permission,
    actor: Actor,
) -> PermissionRecord:
    """Say what a session may do with a tool from now on, and record who said so: both, or neither.

    Raises `Refusal` (`NOT_FOUND`) for a session that nothing is known of where its workspace is not named.
    """
    workspace = await _workspace_of(work, session, workspace)
    account = account_id or ANY_ACCOUNT
    key = _key(session, tool, account)
    row = await work.session.get(PermissionRow, key, lock=True)
    before = None if row is None else row.permission
    if row is None:
        row = PermissionRow(
            id=key,
            workspace=workspace,
            session=session,
            tool=tool,
            account=account,
            permission=permission,
            actor=actor.model_dump_json(),
            at=work.now,
        )
        work.session.add(row)
    row.permission, row.actor, row.at = permission, actor.model_dump_json(), work.now
    whose = "" if account_id is None else f" for account {account_id}"
    summary = f"{actor.principal} sets '{tool}'{whose} to {permission}"
    data = {"tool": tool, "account_id": account_id, "from": before, "to": permission}
    entry = Entry(kind="permission", summary=summary, actor=actor, data=data)
    ledger.append(work, row, entry)
    return _record(row)


async def said_in(work: UnitOfWork, session: str) -> list[PermissionRecord]:
    """Everything that was said of tools in a session."""
    query = select(PERMISSIONS).where(PERMISSIONS.c.session == session)
    rows = await work.session.all(PermissionRow, query.order_by(PERMISSIONS.c.tool, PERMISSIONS.c.account))
    return [_record(row) for row in rows]


async def standing(work: UnitOfWork, session: str, tool: Tool) -> Permission:
    """What a session may do with a tool, at this instant."""
    asked = {"session": session, "tool": tool.name, "account": tool.account_id or ANY_ACCOUNT}
    said = (await work.session.execute(_SAID, asked)).scalars()
    return standing_permission(tool, [Permission(one) for one in said])


async def callable_tools(work: UnitOfWork, session: str, tools: Iterable[Tool]) -> list[CallableTool]:
    """Tools with what a session may do with them."""
    return [CallableTool(tool=tool, permission=await standing(work, session, tool)) for tool in tools]


async def require_callable(
    work: UnitOfWork, tools: Iterable[Tool], *, session: str, origin: Origin, approved: bool
) -> None:
    """Refuse a call of any of these tools that its session may not make now."""
    for tool in tools:
        unknown = await _unknown_effects(work, session) if origin is Origin.DIRECT and not tool.read_only else []
        permission = await standing(work, session, tool)
        refusal = refused_call(tool, origin=origin, permission=permission, approved=approved, unknown_effects=unknown)
        if refusal is not None:
            raise refusal


async def require_creatable(work: UnitOfWork, catalog: Catalog, request: OperationRequest) -> None:
    """Refuse a request whose route needs a tool that its session may not call, or only after a decision nobody asks."""
    if not isinstance(catalog.find(request.route_id), CallsTools):
        return
    adapter, typed, _ = catalog.admit(request)
    tools, origin = tools_needed(adapter, typed), origin_of_effect(promised(adapter, typed))
    may_be_approved = request.decision is not None
    await require_callable(work, tools, session=request.owner.session, origin=origin, approved=may_be_approved)


async def require_dispatchable(work: UnitOfWork, row: OperationRow, route: Route, tools: Iterable[Tool]) -> None:
    """Refuse a dispatch that needs a tool which its session may not call any more."""
    await require_callable(work, tools, session=row.session, origin=origin_of_effect(route), approved=is_approved(row))


def origin_of_effect(route: Route) -> Origin:
    """Where the calls of a route's `execute` come from."""
    return Origin.LOOK if route.read_only else Origin.ACT


def is_approved(row: OperationRow) -> bool:
    """Whether a person approved exactly the proposal that stands."""
    return row.approved_digest is not None and row.approved_digest == row.proposal_digest


async def _unknown_effects(work: UnitOfWork, session: str) -> list[str]:
    found: list[str] = (await work.session.execute(_UNKNOWN, {"session": session})).scalars()
    return found


async def _workspace_of(work: UnitOfWork, session: str, named: str | None) -> str:
    row = await work.session.get(SessionRow, session)
    if row is not None and named in (None, row.workspace):
        return row.workspace
    if row is not None:
        raise Refusal(
            ErrorCode.BAD_COMMAND,
            f"the session '{session}' belongs to the workspace '{row.workspace}'",
            subject=session,
            remedy="leave the workspace out, or name that one",
        )
    if named is None:
        raise Refusal(
            ErrorCode.NOT_FOUND,
            f"nothing is known of a session '{session}' yet",
            subject=session,
            remedy="check its name; for one that has done nothing yet, name its workspace too",
        )
    return named


def _key(session: str, tool: str, account: str) -> str:
    said_of = hashlib.sha256("\x00".join((session, tool, account)).encode()).digest()
    return "permission-" + base64.b32encode(said_of).decode().lower()[:32]


def _record(row: PermissionRow) -> PermissionRecord:
    return PermissionRecord(
        session=row.session,
        tool=row.tool,
        account_id=row.account or None,
        permission=Permission(row.permission),
        actor=Actor.model_validate_json(row.actor),
        at=row.at,
    )
