"""Rows by key, and statements, on one connection: rows that were read or added are written back where they changed.

The statements by which rows are read and written are made once a process, which is what makes a unit of work cheap.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar, cast

from sqlalchemy import Executable, bindparam, insert, select, update
from sqlmodel import SQLModel

from counterfoil.activities.store.prepared import Found, Parameters, Prepared
from counterfoil.models.tables import table_of

Row = TypeVar("Row", bound=SQLModel)
Statement = Executable | Prepared
Execute = Callable[[Statement, Parameters], Awaitable[Found]]


@dataclass
class _Kept:
    """A row of this session, and what the database has of it; None where it has nothing yet."""

    row: SQLModel
    stored: dict[str, Any] | None
    locked: bool


class StoreSession:
    """What a unit of work does to the database."""

    def __init__(self, execute: Execute) -> None:
        self._execute = execute
        self._kept: dict[tuple[type[SQLModel], Any], _Kept] = {}

    async def get(self, entity: type[Row], key: Any, *, lock: bool = False) -> Row | None:
        """The row under a primary key (a tuple where it has several columns), or None. The same object each time.

        `lock` holds it against other transactions until this one ends; SQLite's write lock covers all rows anyway.
        """
        kept = self._kept.get((entity, key))
        if kept is not None and (kept.locked or not lock):
            return kept.row  # type: ignore[return-value]
        parts = key if isinstance(key, tuple) else (key,)
        asked = {f"key_{index}": part for index, part in enumerate(parts)}
        found = (await self._execute(_by_key(entity, lock), asked)).first()
        if found is None:
            return None
        row = _made(entity, found)
        self._kept[entity, key] = _Kept(row, dict(vars(row)), lock)
        return row

    def add(self, row: SQLModel) -> None:
        """Make a new row of this one."""
        key = tuple(getattr(row, column.name) for column in table_of(type(row)).primary_key)
        self._kept[type(row), key if len(key) > 1 else key[0]] = _Kept(row, None, locked=True)

    async def flush(self) -> None:
        """Write what was added or changed."""
        for kept in self._kept.values():
            values = vars(kept.row)
            if kept.stored is None:
                await self._execute(_new(type(kept.row)), values)
            elif changed := {name: value for name, value in values.items() if value != kept.stored[name]}:
                await self._write(kept, changed)
            else:
                continue
            kept.stored = dict(values)

    async def _write(self, kept: _Kept, changed: dict[str, Any]) -> None:
        entity, stored = type(kept.row), kept.stored or {}
        given = {f"key_{index}": stored[name] for index, name in enumerate(_key_names(entity))}
        given |= {f"new_{name}": value for name, value in changed.items()}
        written = await self._execute(_change(entity, tuple(changed)), given)
        if written.rowcount != 1:
            raise LookupError(f"a row of {entity.__tablename__} is gone that this transaction has read")

    async def all(self, entity: type[Row], statement: Statement, params: Parameters = None) -> list[Row]:
        """The rows that a query over an entity's table finds, to look at: changes of these are not written."""
        return [_made(entity, found) for found in (await self._execute(statement, params)).all()]

    async def execute(self, statement: Statement, params: Parameters = None) -> Found:
        """Run any other statement. It does not see what was added or changed and not flushed."""
        return await self._execute(statement, params)


def _made(entity: type[Row], found: Sequence[Any]) -> Row:
    return cast(Row, entity.model_construct(**dict(zip(_names(entity), found, strict=True))))


@lru_cache
def _names(entity: type[SQLModel]) -> tuple[str, ...]:
    return tuple(column.name for column in table_of(entity).columns)


@lru_cache
def _key_names(entity: type[SQLModel]) -> tuple[str, ...]:
    return tuple(column.name for column in table_of(entity).primary_key)


@lru_cache
def _by_key(entity: type[SQLModel], lock: bool) -> Prepared:
    table = table_of(entity)
    query = select(table).where(*_is_key(entity))
    return Prepared(query.with_for_update() if lock else query)


@lru_cache
def _new(entity: type[SQLModel]) -> Prepared:
    return Prepared(insert(table_of(entity)))


@lru_cache(maxsize=1024)
def _change(entity: type[SQLModel], names: tuple[str, ...]) -> Prepared:
    values: dict[str, Any] = {name: bindparam(f"new_{name}") for name in names}
    return Prepared(update(table_of(entity)).where(*_is_key(entity)).values(values))


def _is_key(entity: type[SQLModel]) -> list[Any]:
    table = table_of(entity)
    return [table.c[name] == bindparam(f"key_{index}") for index, name in enumerate(_key_names(entity))]
