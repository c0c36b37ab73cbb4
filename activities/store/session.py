"""The part of a database session that units of work use, and SQLite's own: no thread, no greenlet, no hop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar, TypeVarTuple, overload

from sqlalchemy import CursorResult, ScalarResult, UpdateBase
from sqlalchemy.engine.result import TupleResult
from sqlmodel import Session
from sqlmodel.sql.expression import Select, SelectOfScalar

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Parameters = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None


class StoreSession(Protocol):
    """What a unit of work may ask of its session. SQLModel's `AsyncSession` is one."""

    def add(self, instance: object, /) -> None: ...

    async def flush(self) -> None: ...

    async def commit(self) -> None: ...

    async def get(
        self, entity: type[T], ident: Any, /, *, populate_existing: bool = False, with_for_update: Any = None
    ) -> T | None: ...

    @overload
    async def exec(self, statement: SelectOfScalar[T], /, *, params: Parameters = None) -> ScalarResult[T]: ...

    @overload
    async def exec(self, statement: Select[*Ts], /, *, params: Parameters = None) -> TupleResult[tuple[*Ts]]: ...

    @overload
    async def exec(self, statement: UpdateBase, /, *, params: Parameters = None) -> CursorResult[*tuple[Any, ...]]: ...


class DirectSession:
    """A blocking session behind the same methods, for a database that answers without waiting."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, instance: object, /) -> None:
        self._session.add(instance)

    async def flush(self) -> None:
        self._session.flush()

    async def commit(self) -> None:
        self._session.commit()

    async def get(
        self, entity: type[T], ident: Any, /, *, populate_existing: bool = False, with_for_update: Any = None
    ) -> T | None:
        # A write transaction holds SQLite's only write lock already: rows need none of their own.
        return self._session.get(entity, ident, populate_existing=populate_existing)

    async def exec(self, statement: Any, /, *, params: Parameters = None) -> Any:
        return self._session.exec(statement, params=params)
