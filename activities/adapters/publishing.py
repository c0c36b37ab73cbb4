"""What every adapter shares that puts one prepared file in place: is the root there, publish once, say what came of it.

An adapter of this kind says where the file is, which bytes it was prepared as, and how the result reads.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import NamedTuple

from counterfoil.activities.adapters.base import AdapterContext, Order
from counterfoil.activities.adapters.jail import WorkspaceRoot
from counterfoil.activities.adapters.publication import Absent, Applied, Publication, Publisher, Undecided
from counterfoil.models.errors import CounterfoilError, ErrorCode, Refusal, Unavailable
from counterfoil.models.operations.outcomes import (
    Completed,
    Evidence,
    Failed,
    NotApplied,
    NotReady,
    Prepared,
    Ready,
    TypedResult,
    UnknownEffect,
)
from counterfoil.models.operations.route import Route


class Bound(NamedTuple):
    """The digests a publication is bound to: of the bytes it brings, and of those it replaces (None: of no file)."""

    content: str
    replaced: str | None


class FilePublishing(ABC):
    """The base. `publisher` must publish below the same `root`."""

    def __init__(self, publisher: Publisher, root: WorkspaceRoot, route: Route) -> None:
        self._publisher = publisher
        self._root = root
        self._route = route

    @property
    def route(self) -> Route:
        return self._route

    @abstractmethod
    def _path(self, order: Order) -> str:
        """The file, relative to the root."""

    @abstractmethod
    def _bound(self, prepared: Prepared) -> Bound:
        """What was prepared, and of what."""

    @abstractmethod
    def _published(self, order: Order, prepared: Prepared, evidence: Evidence, *, still_current: bool) -> TypedResult:
        """The result of a publication; `still_current`: the file still holds its bytes."""

    def readiness(self, context: AdapterContext) -> Ready | NotReady:
        """Whether the root is there and can be written to."""
        try:
            os.close(self._root.open_root())
        except Refusal as refusal:
            return NotReady(detail=refusal.detail)
        if not os.access(self._root.path, os.W_OK | os.X_OK):
            return NotReady(detail=f"the workspace root {self._root.path} is not writable")
        return Ready()

    def execute(self, context: AdapterContext, order: Order) -> Completed | Failed | UnknownEffect:
        """Publish the prepared bytes, only while the file is what it was when they were prepared."""
        prepared = order.prepared
        if prepared is None or prepared.material is None:
            return _never_prepared()
        try:
            content = context.blobs.get(prepared.material)
        except CounterfoilError as error:
            return Failed(code=error.code, detail=f"nothing was written: {error.detail}")
        bound = self._bound(prepared)
        publication = Publication(
            path=self._path(order), content=content, content_digest=bound.content, expected_digest=bound.replaced
        )
        try:
            evidence = self._publisher.publish(context, publication, order.generation)
        except Refusal as refusal:
            return Failed(code=refusal.code, detail=refusal.detail)
        except Unavailable as unavailable:
            return UnknownEffect(code=unavailable.code, detail=unavailable.detail)
        return Completed(result=self._published(order, prepared, evidence, still_current=True))

    def observe(self, context: AdapterContext, order: Order) -> Completed | Failed | NotApplied | UnknownEffect:
        """What the publication's records say became of the attempt."""
        prepared = order.prepared
        if prepared is None:
            return _never_prepared()
        finding = self._publisher.observe(
            context,
            path=self._path(order),
            content_digest=self._bound(prepared).content,
            generation=order.generation,
        )
        match finding:
            case Applied(evidence, still_current):
                return Completed(result=self._published(order, prepared, evidence, still_current=still_current))
            case Absent(evidence):
                return NotApplied(detail="the file was not written, and this attempt no longer can", evidence=evidence)
            case Undecided(detail):
                return UnknownEffect(code=ErrorCode.OBSERVATION_PENDING, detail=detail)


def _never_prepared() -> Failed:
    return Failed(code=ErrorCode.INTERNAL, detail="nothing was prepared, so nothing was written")
