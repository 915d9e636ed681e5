"""Rows of a store as columns of Arrow.

Takes rows, page by page; returns a `pyarrow.Table` with the columns of `to_arrow`. Types come from a schema, or from
the values; values that no type holds are an error that names store and column. Never imports pyarrow: callers pass it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from stoatflow._runtime.bridge import to_python
from stoatflow.errors import ConfigError
from stoatflow.serdes.typed import text_of
from stoatflow.windowed import Windowed

__all__ = [
    "KEY",
    "TIMESTAMP",
    "VALUE",
    "WINDOW_END",
    "WINDOW_START",
    "Columns",
    "Row",
    "pages",
    "plain_value",
    "records",
    "row",
]

KEY, VALUE, TIMESTAMP = "_key", "value", "_timestamp"
WINDOW_START, WINDOW_END = "_window_start", "_window_end"
_PAGE = 10_000
_OWN = (KEY, WINDOW_START, WINDOW_END, TIMESTAMP)


class Row(NamedTuple):
    """An entry of a store."""

    key: Any
    value: Any
    timestamp: int
    window: tuple[int, int] | None = None


def plain_value(value: Any) -> Any:
    """Return a value as dicts, lists, text and numbers: views and objects of a type too."""
    text = text_of(value)
    return to_python(value) if text is None else json.loads(text)


def row(key: Any, value: Any, timestamp: int) -> Row:
    """Return an entry of a store as a row; its key may be windowed."""
    if isinstance(key, Windowed):
        return Row(key.key, value, timestamp, (key.window.start, key.window.end))
    return Row(key, value, timestamp)


def pages(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Split rows into pages, at least one."""
    page: list[Row] = []
    for each in rows:
        page.append(each)
        if len(page) == _PAGE:
            yield page
            page = []
    yield page


class Columns:
    """Columns that grow page by page."""

    def __init__(
        self,
        pa: Any,
        store: str,
        *,
        json_keys: bool = False,
        windows: bool = False,
        schema: Any = None,
        only: Iterable[str] | None = None,
    ) -> None:
        """`schema` names the columns of the values; `only` holds the wanted columns in lower case, `None` for all."""
        self._pa = pa
        self._store = store
        self._json_keys = json_keys
        self._windows = windows
        self._schema = schema
        self._only = None if only is None else frozenset(only)
        self._shape: str | None = None
        self._pages: list[dict[str, Any]] = []
        self._lengths: list[int] = []
        self._names: dict[str, None] = {} if schema is None else dict.fromkeys(schema.names)

    def look(self, rows: Sequence[Row], kinds: Mapping[str, str], members: Iterable[str]) -> None:
        """Derive columns and types from these rows, from serdes and from indexes, without adding rows."""
        pa = self._pa
        self.add(rows)
        page = {name: column.slice(0, 0) for name, column in self._pages.pop().items()}
        self._lengths.pop()
        if self._schema is None:
            types = {"text": pa.string(), "int": pa.int64(), "float": pa.float64()}
            for name, kind in kinds.items():
                if name == KEY or (self._shape != "object" and self._wanted(name)):
                    page[name] = pa.array([], types[kind])
            self._names.update(dict.fromkeys(name for name in page if name not in _OWN))
            self._names.update(dict.fromkeys(name for name in members if self._wanted(name)))
        self._pages.append(page)
        self._lengths.append(0)

    def add(self, rows: Sequence[Row]) -> None:
        """Append a page of rows."""
        pa, time = self._pa, self._pa.timestamp("ms", tz="UTC")
        page = self._values([row.value for row in rows])
        page[KEY] = self._array(KEY, [self._key(row.key) for row in rows], None)
        page[TIMESTAMP] = pa.array([row.timestamp for row in rows], time)
        if self._windows:
            windows = [row.window or (None, None) for row in rows]
            page[WINDOW_START] = pa.array([start for start, _ in windows], time)
            page[WINDOW_END] = pa.array([end for _, end in windows], time)
        self._pages.append(page)
        self._lengths.append(len(rows))

    def table(self) -> Any:
        """Return all rows."""
        pa, time = self._pa, self._pa.timestamp("ms", tz="UTC")
        windows = [WINDOW_START, WINDOW_END] if self._windows else []
        fixed = dict.fromkeys((*windows, TIMESTAMP), time)
        made = {}
        for name in [KEY, *windows, *self._names, TIMESTAMP]:
            if name in _OWN and not self._wanted(name):
                continue
            typed = fixed.get(name) or (self._schema.field(name).type if self._schema and name != KEY else None)
            made[name] = self._whole(name, typed)
        return pa.table(made) if made else pa.table({KEY: self._whole(KEY, None)})

    def _whole(self, name: str, typed: Any) -> Any:
        pa = self._pa
        parts = [
            page[name] if name in page else pa.nulls(n) for page, n in zip(self._pages, self._lengths, strict=True)
        ]
        try:
            kinds = [pa.schema([(name, part.type)]) for part in parts]
            kind = typed or (
                pa.unify_schemas(kinds, promote_options="permissive").field(0).type if kinds else pa.null()
            )
            tables = [pa.table({name: part}) for part in parts]
            empty = pa.schema([(name, kind)]).empty_table()
            column = pa.concat_tables([empty, *tables], promote_options="permissive").column(0)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise self._mixed(name, error) from None
        # Few programs can read a struct type without fields.
        return pa.array([_text(each) for each in column.to_pylist()], pa.string()) if _is_hollow(pa, kind) else column

    def _values(self, values: list[Any]) -> dict[str, Any]:
        plain = [plain_value(value) for value in values]
        shapes = {"object" if isinstance(value, Mapping) else "value" for value in plain if value is not None}
        if len(shapes | ({self._shape} - {None})) > 1:
            raise ConfigError(
                f"the store '{self._store}' holds objects and other values, which are no columns together",
                next_step="read it with app.store(...).find(...)",
            )
        self._shape = next(iter(shapes), self._shape)
        if self._shape != "object":
            if plain and self._schema is None and self._wanted(VALUE):
                self._names.setdefault(VALUE)
            return {name: self._array(name, plain, self._typed(name)) for name in self._names if name == VALUE}
        if self._schema is None:
            for value in plain:
                self._names.update(dict.fromkeys(name for name in value or () if self._wanted(name)))
        if taken := [name for name in self._names if name in _OWN]:
            raise ConfigError(
                f"values of the store '{self._store}' have a member '{taken[0]}', which is the name of a column",
                next_step="name the members that are wanted with schema=",
            )
        return {
            name: self._array(name, [None if value is None else value.get(name) for value in plain], self._typed(name))
            for name in self._names
        }

    def _typed(self, name: str) -> Any:
        return None if self._schema is None else self._schema.field(name).type

    def _wanted(self, name: str) -> bool:
        return self._only is None or name.casefold() in self._only

    def _key(self, key: Any) -> Any:
        return _text(to_python(key)) if self._json_keys else to_python(key)

    def _array(self, name: str, values: list[Any], typed: Any) -> Any:
        pa = self._pa
        try:
            return array(pa, values, typed)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, ValueError) as error:
            raise self._mixed(name, error) from None

    def _mixed(self, name: str, error: Exception) -> ConfigError:
        return ConfigError(
            f"the column '{name}' of the store '{self._store}' can't have one type: {str(error).splitlines()[0]}",
            next_step=f"leave '{name}' out of the query, or name columns and types with schema=",
        )


def array(pa: Any, values: list[Any], typed: Any = None) -> Any:
    """Return values as an array; integers beyond 64 bits become floats, as in `to_arrow`."""
    try:
        return pa.array(values, typed)
    except OverflowError:
        return pa.array([float(each) if isinstance(each, int) else each for each in values], typed)


def records(pa: Any, rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Any:
    """Return a table of rows that have all columns."""
    return pa.table({name: _record_column(pa, [to_python(row[name]) for row in rows], name) for name in names})


def _record_column(pa: Any, values: list[Any], name: str) -> Any:
    try:
        return array(pa, values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise ConfigError(
            f"the column '{name}' of what was found can't have one type: {str(error).splitlines()[0]}",
            next_step=f"leave '{name}' out of select=, or give it one type with .cast(...)",
        ) from None


def _text(content: Any) -> str | None:
    return None if content is None else json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def _is_hollow(pa: Any, kind: Any) -> bool:
    if pa.types.is_struct(kind):
        return kind.num_fields == 0 or any(_is_hollow(pa, kind.field(at).type) for at in range(kind.num_fields))
    return bool(pa.types.is_list(kind) and _is_hollow(pa, kind.value_type))
