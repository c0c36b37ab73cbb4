"""Pure rules over JSON records: picking a field, putting one in, comparing what was asked with what is there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from counterfoil.activities.adapters.text_preview import visible
from counterfoil.models.common import canonical_json, digest_of
from counterfoil.models.operations.outcomes import PREVIEW_ROWS, Preview

DEEPEST = 32
"""Levels of a request's fields."""

COLUMNS = ("Field", "Before", "After")
ABSENT = "⟨absent⟩"


class Missing:
    """A field that is not there, which is not the same as null."""


MISSING = Missing()


def pick(value: Any, path: str) -> Any:
    """The field at a dotted path, or `MISSING`; the value itself for no path."""
    for name in path.split(".") if path else ():
        if not isinstance(value, dict) or name not in value:
            return MISSING
        value = value[name]
    return value


def put(record: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy of a record with the field at a dotted path set. What is no object on the way is replaced by one."""
    name, _, rest = path.partition(".")
    if rest:
        inner = record.get(name)
        value = put(inner if isinstance(inner, dict) else {}, rest, value)
    return {**record, name: value}


def word_at(value: Any, path: str) -> str | None:
    """A text or a whole number at a dotted path, as text; None for anything else."""
    found = pick(value, path)
    if isinstance(found, bool) or not isinstance(found, str | int):
        return None
    return str(found)


def same(asked: Any, found: Any) -> bool:
    """Whether a target keeps what was asked: equal JSON, where an object may have gained fields of the target's own."""
    if isinstance(asked, bool) or isinstance(found, bool) or asked is None or found is None:
        return asked is found
    if isinstance(asked, int | float) and isinstance(found, int | float):
        return asked == found
    if isinstance(asked, dict) and isinstance(found, dict):
        return all(name in found and same(value, found[name]) for name, value in asked.items())
    if isinstance(asked, list) and isinstance(found, list):
        return len(asked) == len(found) and all(map(same, asked, found))
    return type(asked) is type(found) and bool(asked == found)


@dataclass(frozen=True)
class Comparison:
    """Which of the asked fields a record holds."""

    held: tuple[str, ...]
    other: tuple[str, ...]

    @property
    def whole(self) -> bool:
        return not self.other


def compare(asked: Mapping[str, Any], record: Mapping[str, Any]) -> Comparison:
    """What of `asked` the record holds. An asked null is held by a field that is null or gone."""
    held = [name for name, value in asked.items() if same(value, record.get(name, None if value is None else MISSING))]
    return Comparison(tuple(sorted(held)), tuple(sorted(set(asked) - set(held))))


def digest_without(record: Mapping[str, Any], volatile: Iterable[str]) -> str:
    """What stands for a record's version where the target has none."""
    return digest_of({name: value for name, value in record.items() if name not in set(volatile)})


def depth_of(value: Any) -> int:
    """How many levels of objects and lists a value has."""
    levels, level = 0, [value]
    while level := [one for one in level if isinstance(one, dict | list)]:
        levels += 1
        level = [inner for one in level for inner in _inner(one)]
    return levels


def _inner(value: dict[str, Any] | list[Any]) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value


def preview_of(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> Preview:
    """The fields that change, before and after. None: no such record."""
    was, becomes = before or {}, after or {}
    rows = [
        (visible(name), _shown(was, name), _shown(becomes, name))
        for name in sorted(set(was) | set(becomes))
        if name not in was or name not in becomes or not same(becomes[name], was[name])
    ]
    return Preview(columns=COLUMNS, rows=tuple(rows[:PREVIEW_ROWS]), omitted_rows=max(0, len(rows) - PREVIEW_ROWS))


def _shown(record: Mapping[str, Any], name: str) -> str:
    if name not in record:
        return ABSENT
    value = record[name]
    return visible(value if isinstance(value, str) else canonical_json(value).decode())
