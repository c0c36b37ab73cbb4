"""Statements made once: compiled once a process for SQLite, and then handed to its driver as they are.

SQLite answers in microseconds. What a general library does around each statement costs ten times that, and an operation
takes some twenty-five of them.
"""

from __future__ import annotations

import sqlite3
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import CursorResult, Select, UpdateBase
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.exc import DBAPIError

Parameters = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
Process = Callable[[Any], Any] | None
DIALECT = SQLiteDialect_pysqlite(paramstyle="qmark")


class Prepared:
    """A statement that is used again and again. It must not have a list as a parameter."""

    def __init__(self, statement: Select[Any] | UpdateBase) -> None:
        self.statement = statement
        self.on_sqlite = lru_cache(maxsize=64)(self._on_sqlite)

    def _on_sqlite(self, given: tuple[str, ...]) -> _Compiled:
        compiled = self.statement.compile(dialect=DIALECT, column_keys=list(given))
        if "POSTCOMPILE" in str(compiled):
            raise ValueError(f"a prepared statement cannot have a list as a parameter: {compiled}")
        names = tuple(compiled.positiontup or ())
        binds = [compiled.binds[name].type.dialect_impl(DIALECT).bind_processor(DIALECT) for name in names]
        columns = list(self.statement.exported_columns)
        fixed = {name: value for name, value in compiled.params.items() if name not in given}
        return _Compiled(
            sql=str(compiled),
            names=names,
            binds=tuple(binds),
            fixed=fixed,
            row=namedtuple("Found", [column.name for column in columns]) if columns else None,
            reads=tuple(column.type.dialect_impl(DIALECT).result_processor(DIALECT, None) for column in columns),
        )


@dataclass(frozen=True)
class Found:
    """What a statement found, or how many rows it wrote."""

    rows: Sequence[Any]
    rowcount: int

    def all(self) -> Sequence[Any]:
        """All rows; their columns by name or place."""
        return self.rows

    def first(self) -> Any:
        """The first row, or None."""
        return self.rows[0] if self.rows else None

    def scalars(self) -> list[Any]:
        """The first column of all rows."""
        return [row[0] for row in self.rows]

    def scalar(self) -> Any:
        """The first column of the first row, or None."""
        return self.rows[0][0] if self.rows else None


def found_by(result: CursorResult[Any]) -> Found:
    """What SQLAlchemy found, all of it."""
    return Found(result.all() if result.returns_rows else (), result.rowcount)


@dataclass(frozen=True)
class _Compiled:
    sql: str
    names: tuple[str, ...]
    binds: tuple[Process, ...]
    fixed: dict[str, Any]
    row: type[tuple[Any, ...]] | None
    reads: tuple[Process, ...]

    def values(self, given: Mapping[str, Any]) -> list[Any]:
        whole = {**self.fixed, **given} if self.fixed else given
        return [
            whole[name] if process is None else process(whole[name])
            for name, process in zip(self.names, self.binds, strict=True)
        ]

    def made(self, values: Sequence[Any]) -> Any:
        assert self.row is not None
        return self.row(
            *(value if process is None else process(value) for value, process in zip(values, self.reads, strict=True))
        )


def run_on_sqlite(driver: sqlite3.Connection, prepared: Prepared, params: Parameters) -> Found:
    """Run a prepared statement, once or for many sets of parameters, in the transaction that is open."""
    given = params or {}
    compiled = prepared.on_sqlite(tuple(given if isinstance(given, Mapping) else given[0]))
    try:
        if not isinstance(given, Mapping):
            return Found((), driver.executemany(compiled.sql, [compiled.values(one) for one in given]).rowcount)
        cursor = driver.execute(compiled.sql, compiled.values(given))
        found = [compiled.made(values) for values in cursor.fetchall()] if compiled.row is not None else []
        return Found(found, cursor.rowcount)
    except sqlite3.Error as error:
        raise DBAPIError.instance(compiled.sql, None, error, sqlite3.Error) from error
