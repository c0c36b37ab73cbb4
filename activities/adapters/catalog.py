"""Which adapters this process has. Hosts register them in code; a model never can."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from counterfoil.activities.adapters import cowork_tool
from counterfoil.activities.adapters.base import (
    ApplicationAdapter,
    CallsTools,
    CanCancel,
    CanObserve,
    CanPrepare,
    CanVerify,
    HasReadiness,
    PromisesByInput,
)
from counterfoil.activities.adapters.tools import ToolFunction, ToolRegistry
from counterfoil.models.errors import CounterfoilError, ErrorCode, Refusal
from counterfoil.models.operations.contract import OperationRequest, Resource
from counterfoil.models.operations.route import PreparationSupport, Route
from counterfoil.models.operations.tools import Tool

ENTRY_POINT_GROUP = "counterfoil.adapters"

Normaliser = Callable[[Resource], Resource]
"""Gives the one spelling of a resource within its system. Pure; raises `Refusal` on a name that cannot be one."""


class Catalog:
    """The routes of this process, and one normaliser per system."""

    def __init__(self) -> None:
        self._adapters: dict[str, ApplicationAdapter] = {}
        self._normalisers: dict[str, Normaliser] = {}
        self.tools = ToolRegistry()

    def register(self, adapter: ApplicationAdapter) -> None:
        """Add an adapter. Refuses a second one under the same route id, and one that lacks what its route declares."""
        route = adapter.route
        if route.id in self._adapters:
            raise ValueError(f"a route named '{route.id}' is registered already")
        _check_declared(adapter, route)
        self._adapters[route.id] = adapter

    def register_tool(self, tool: Tool, function: ToolFunction) -> None:
        """Add a tool that sessions may be let call; with the first one comes the route `cowork.tool`.

        Raises ValueError for a second one of this name and account, or an input schema that is none.
        """
        self.tools.register(tool, function)
        if cowork_tool.ROUTE_ID not in self._adapters:
            self.register(cowork_tool.CoworkTool(self.tools))

    def register_system(self, system: str, normaliser: Normaliser) -> None:
        """Say how resources of `system` are spelled. One normaliser a system, whichever adapters use it."""
        existing = self._normalisers.setdefault(system, normaliser)
        if existing != normaliser:
            raise ValueError(f"the system '{system}' has a normaliser already")

    def routes(self) -> list[Route]:
        """All routes, by id."""
        return [self._adapters[key].route for key in sorted(self._adapters)]

    def find(self, route_id: str) -> ApplicationAdapter | None:
        """The adapter of a route, if this process has it."""
        return self._adapters.get(route_id)

    def pinned(self, route: Route) -> ApplicationAdapter:
        """The adapter an operation was pinned to: same route, same adapter, same version, same environment.

        Raises `Refusal` (`ADAPTER_UNAVAILABLE`, `ADAPTER_VERSION_CHANGED`): another one is never put in its place.
        """
        adapter = self._adapters.get(route.id)
        if adapter is None:
            raise Refusal(
                ErrorCode.ADAPTER_UNAVAILABLE,
                f"this worker has no adapter for the route '{route.id}'",
                subject=route.id,
                remedy="start a worker that registers it",
            )
        have, want = adapter.route, route
        if (have.adapter, have.adapter_version, have.environment) != (
            want.adapter,
            want.adapter_version,
            want.environment,
        ):
            raise Refusal(
                ErrorCode.ADAPTER_VERSION_CHANGED,
                f"the operation is pinned to {want.adapter}@{want.adapter_version} in '{want.environment}'; "
                f"this worker has {have.adapter}@{have.adapter_version} in '{have.environment}'",
                subject=route.id,
                remedy=f"run a worker with {want.adapter}@{want.adapter_version} until its operations have settled",
            )
        return adapter

    def admit(self, request: OperationRequest) -> tuple[ApplicationAdapter, BaseModel, tuple[Resource, ...]]:
        """The adapter, the typed input and the normalised resources of a request; a `Refusal` where it names none."""
        adapter = self._adapters.get(request.route_id)
        if adapter is None:
            known = ", ".join(sorted(self._adapters)) or "none"
            raise Refusal(
                ErrorCode.UNKNOWN_ROUTE,
                f"there is no route '{request.route_id}'",
                subject=request.route_id,
                remedy=f"registered routes: {known}",
            )
        route = adapter.route
        if request.capability not in route.capabilities:
            raise Refusal(
                ErrorCode.UNKNOWN_CAPABILITY,
                f"the route '{route.id}' has no capability '{request.capability}'",
                subject=request.capability,
                remedy=f"it has: {', '.join(route.capabilities)}",
            )
        resources = tuple(self.normalise(resource) for resource in request.resources)
        return adapter, _validated(adapter, request), resources

    def normalise(self, resource: Resource) -> Resource:
        """A resource in its system's one spelling; as it is, where the system registered no normaliser."""
        normaliser = self._normalisers.get(resource.system)
        return resource if normaliser is None else normaliser(resource)


def promised(adapter: ApplicationAdapter, typed_input: BaseModel) -> Route:
    """The route that an operation with this input is pinned to: the adapter's, or the one it has for the input."""
    return adapter.route_for(typed_input) if isinstance(adapter, PromisesByInput) else adapter.route


def tools_needed(adapter: ApplicationAdapter, typed_input: BaseModel) -> tuple[Tool, ...]:
    """The tools that an operation with this input cannot do without."""
    return adapter.tools_for(typed_input) if isinstance(adapter, CallsTools) else ()


def _validated(adapter: ApplicationAdapter, request: OperationRequest) -> BaseModel:
    try:
        typed = adapter.validate_input(request)
    except CounterfoilError:
        raise
    except BaseException as error:  # a panic or an exit in here would end the worker
        raise Refusal(
            ErrorCode.INVALID_INPUT,
            f"the adapter refused the input: {type(error).__name__}: {error}"[:1000],
            subject=request.route_id,
            remedy="correct the input",
        ) from error
    if not isinstance(typed, BaseModel):
        raise Refusal(
            ErrorCode.ADAPTER_JUNK,
            f"validate_input returned {type(typed).__name__}, not a pydantic model",
            subject=request.route_id,
            remedy="mend the adapter",
        )
    return typed


def _check_declared(adapter: ApplicationAdapter, route: Route) -> None:
    declared: list[tuple[bool, type[Any], str]] = [
        (route.readiness, HasReadiness, "readiness"),
        (route.preparation is not PreparationSupport.NONE, CanPrepare, "prepare"),
        (route.observation, CanObserve, "observe"),
        (route.cancellation, CanCancel, "cancel"),
        (route.verification, CanVerify, "verify"),
    ]
    missing = [name for wanted, protocol, name in declared if wanted and not isinstance(adapter, protocol)]
    if route.read_only and (route.cancellation or route.preparation is PreparationSupport.EFFECTFUL):
        raise ValueError(f"the route '{route.id}' says that it changes nothing, and has something to prepare or cancel")
    if missing:
        raise ValueError(f"the route '{route.id}' declares {', '.join(missing)}, but the adapter has no such method")


def load_registrations(names: Iterable[str], *, with_entry_points: bool = True) -> list[Callable[[Catalog], None]]:
    """The `register(catalog)` functions named `package.module:register`, and those of installed distributions.

    Named ones may lie in the current folder. Where none is named it is not looked into: it may be a workspace that
    operations write to. Raises `Refusal` (`SETTINGS_INVALID`) naming what could not be imported.
    """
    found: list[Callable[[Catalog], None]] = []
    for name in names:
        here = str(Path.cwd())
        if here not in sys.path:
            sys.path.append(here)
        module, _, attribute = name.partition(":")
        try:
            register = getattr(importlib.import_module(module), attribute or "register")
        except Exception as error:  # whatever a module raises while it is imported
            raise Refusal(
                ErrorCode.SETTINGS_INVALID,
                f"no adapters can be had from '{name}': {type(error).__name__}: {error}",
                subject=name,
                remedy="name an importable function as package.module:register",
            ) from error
        found.append(register)
    if with_entry_points:
        found += [point.load() for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda p: p.name)]
    return found
