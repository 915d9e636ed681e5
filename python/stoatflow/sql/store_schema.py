"""What is known about a store before a query reads it: its columns, and the kinds of their values.

Takes the store's form and a few of its rows; returns columns by their names in SQL, ignoring case. A kind is known only
if all examined values have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from stoatflow._runtime.columns import KEY, TIMESTAMP, VALUE, WINDOW_END, WINDOW_START, Row, plain_value

__all__ = ["ABSENT", "Column", "StoreForm", "StoreSchema", "forms_of"]

ABSENT = "absent"
"""Kind of a column without a value in any row."""
_READABLE = {"key_value", "window", "session", "versioned"}
_KINDS: dict[frozenset[type], str] = {
    frozenset([bool]): "bool",
    frozenset([int]): "int",
    frozenset([float]): "float",
    frozenset([int, float]): "float",
    frozenset([str]): "text",
}
_SERDES = {"string": "text", "int32": "int", "int64": "int", "double": "float"}


class StoreForm(NamedTuple):
    """The properties of a store."""

    kind: str
    """`key_value`, `window`, `session` or `versioned`."""
    key: Any = None
    """The key's serde."""
    value: Any = None
    """The value's serde."""
    indexes: tuple[tuple[tuple[str, ...], ...], ...] = ()
    """For each index, the members that its fields read; empty for other fields."""

    @property
    def has_json_keys(self) -> bool:
        """Whether keys are JSON."""
        return str(_inner(self.key)) == "json"

    @property
    def has_windows(self) -> bool:
        """Whether rows have a window."""
        return self.kind in {"window", "session"} or _is_windowed(self.key)

    @property
    def may_hold_nan(self) -> bool:
        """Whether numbers may be NaN."""
        return self.value not in {"json", "int32", "int64", "string"} if isinstance(self.value, str) else True

    @property
    def is_custom(self) -> bool:
        """Whether only Python can read its values."""
        return isinstance(self.value, Mapping) and "custom" in self.value

    @property
    def members(self) -> list[tuple[str, ...]]:
        """Members that indexes read."""
        return list(dict.fromkeys(field for fields in self.indexes for field in fields))


def _is_windowed(serde: Any) -> bool:
    return isinstance(serde, Mapping) and not {"time_windowed", "session_windowed"}.isdisjoint(serde)


def _inner(serde: Any) -> Any:
    return next(iter(serde.values())) if _is_windowed(serde) else serde


def forms_of(stores: Iterable[Mapping[str, Any]]) -> dict[str, StoreForm]:
    """Return the forms of the stores that have rows, from the physical plan."""
    forms = {
        store["name"]: StoreForm(
            store["kind"]["type"].removeprefix("timestamped_"),
            store["key"],
            store["value"],
            tuple(_index(index) for index in store.get("indexes", ())),
        )
        for store in stores
    }
    return {name: form for name, form in forms.items() if form.kind in _READABLE}


def _index(index: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    paths = (_member(field["expr"]) for field in index["fields"])
    return tuple(path for path in paths if path)


def _member(expr: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the path of a member of the value; empty for anything else."""
    if expr["op"] == "located":
        return _member(expr["args"][0])
    if expr["op"] != "get":
        return ()
    inner = expr["args"][0]
    while inner["op"] == "located":
        inner = inner["args"][0]
    above = () if inner["op"] == "value" else _member(inner)
    return (*above, expr["name"]) if above or inner["op"] == "value" else ()


class Column(NamedTuple):
    """A column, or a member within one."""

    path: tuple[str, ...]
    """Its name, and those of nested members."""
    kind: str | None
    """`text`, `int`, `float`, `bool`, `time`, `texts`, `ints`, `absent`, or `None` if unknown."""


class StoreSchema:
    """What is known about one store."""

    def __init__(self, form: StoreForm, rows: Sequence[Row], absent: Iterable[tuple[str, ...]] = ()) -> None:
        """`absent`: members that no row has."""
        self.form = form
        self.rows = rows
        self._absent = set(absent)
        self._values = [plain_value(row.value) for row in rows]
        self.holds_objects = any(isinstance(value, Mapping) for value in self._values)
        self.holds_only_objects = bool(rows) and all(isinstance(value, Mapping) for value in self._values)

    @property
    def serde_kinds(self) -> dict[str, str]:
        """Kinds of columns that serdes define."""
        kinds = {KEY: _SERDES.get(str(_inner(self.form.key))), VALUE: _SERDES.get(str(self.form.value))}
        return {name: kind for name, kind in kinds.items() if kind}

    @property
    def members(self) -> list[str]:
        """Columns of the values."""
        found = dict.fromkeys(name for value in self._values if isinstance(value, Mapping) for name in value)
        found.update(dict.fromkeys(path[0] for path in self.form.members))
        return list(found)

    def column(self, names: Sequence[str]) -> Column | None:
        """Return a column by its name and those of nested members."""
        own = self._own(names[0].casefold()) if len(names) == 1 else None
        if own is not None:
            return own
        values: list[Any] = self._values
        path: tuple[str, ...] = ()
        for name in names:
            found = {each for value in values if isinstance(value, Mapping) for each in value}
            found |= {each[len(path)] for each in self.form.members if each[: len(path)] == path and each[len(path) :]}
            alike = [each for each in found if each.casefold() == name.casefold()]
            if len(alike) != 1:
                return None
            path = (*path, alike[0])
            values = [value.get(alike[0]) for value in values if isinstance(value, Mapping)]
        return Column(path, ABSENT if path in self._absent else _kind(values))

    def _own(self, name: str) -> Column | None:
        if name == KEY:
            return Column((KEY,), _SERDES.get(str(_inner(self.form.key))))
        if name == TIMESTAMP or (self.form.has_windows and name in {WINDOW_START, WINDOW_END}):
            return Column((name,), "time")
        if name == VALUE and not self.holds_objects:
            if serde := _SERDES.get(str(self.form.value)):
                return Column((VALUE,), serde)
            return Column((VALUE,), _kind(self._values)) if self._values else None
        return None


def _kind(values: Iterable[Any]) -> str | None:
    there = [value for value in values if value is not None]
    types = frozenset(type(value) for value in there)
    if types == {list}:
        inner = _kind([each for value in there for each in value])
        return f"{inner}s" if inner in {"text", "int"} else None
    return _KINDS.get(types)
