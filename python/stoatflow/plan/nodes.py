"""One frozen class per DSL call, equal in name and fields to the engine's `plan/src/logical.rs`.

A field `parent` is `from` in the JSON (a keyword of Python). Nodes name earlier nodes by position.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from stoatflow.expressions import Expression
from stoatflow.serdes import Serde


@dataclass(frozen=True, slots=True, eq=False)
class Udf:
    """A user's function with its name in messages (`app.py:12 is_large`)."""

    call: Callable[..., Any]
    display: str


Function: TypeAlias = Udf | Expression


@dataclass(frozen=True, slots=True, eq=False)
class StoreSpec:
    """How a table is kept."""

    store: str | None = None
    key: Serde[Any] | None = None
    value: Serde[Any] | None = None
    logged: bool = True


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Node:
    """A DSL call: where it was written, and the user's name for it."""

    op: ClassVar[str]
    line: str | None
    name: str | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Stream(Node):
    """A source of records."""

    op = "stream"
    topics: tuple[str, ...]
    key: Serde[Any]
    value: Serde[Any]
    reset: str | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Table(Node):
    """A source of updates, kept as a table."""

    op = "table"
    topic: str
    key: Serde[Any]
    value: Serde[Any]
    materialized: StoreSpec | None = None
    reset: str | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Filter(Node):
    """Keep what fits."""

    op = "filter"
    parent: int
    function: Function


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FilterNot(Node):
    """Drop what fits."""

    op = "filter_not"
    parent: int
    function: Function


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Map(Node):
    """Another key and value."""

    op = "map"
    parent: int
    function: Function


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MapValues(Node):
    """Another value."""

    op = "map_values"
    parent: int
    function: Function
    with_key: bool = False


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FlatMap(Node):
    """Any number of keys and values."""

    op = "flat_map"
    parent: int
    function: Function


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FlatMapValues(Node):
    """Any number of values."""

    op = "flat_map_values"
    parent: int
    function: Function
    with_key: bool = False


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SelectKey(Node):
    """Another key."""

    op = "select_key"
    parent: int
    function: Function


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Peek(Node):
    """Look at records."""

    op = "peek"
    parent: int
    function: Function


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Foreach(Node):
    """Do something with records, at the end."""

    op = "foreach"
    parent: int
    function: Function


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Merge(Node):
    """Two streams as one."""

    op = "merge"
    parent: int
    other: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class GroupByKey(Node):
    """Group by the key there is."""

    op = "group_by_key"
    parent: int
    key: Serde[Any] | None = None
    value: Serde[Any] | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class GroupBy(Node):
    """Group by another key."""

    op = "group_by"
    parent: int
    function: Function
    key: Serde[Any] | None = None
    value: Serde[Any] | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Count(Node):
    """How many records of each key."""

    op = "count"
    parent: int
    materialized: StoreSpec | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Reduce(Node):
    """Values of each key made one."""

    op = "reduce"
    parent: int
    function: Function
    materialized: StoreSpec | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Aggregate(Node):
    """Values of each key made one of another type."""

    op = "aggregate"
    parent: int
    initializer: Function
    function: Function
    materialized: StoreSpec | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ToStream(Node):
    """The updates of a table."""

    op = "to_stream"
    parent: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class To(Node):
    """Write to a topic."""

    op = "to"
    parent: int
    topic: str
    key: Serde[Any] | None = None
    value: Serde[Any] | None = None


NODE_CLASSES: tuple[type[Node], ...] = (
    Stream, Table, Filter, FilterNot, Map, MapValues, FlatMap, FlatMapValues, SelectKey, Peek, Foreach,
    Merge, GroupByKey, GroupBy, Count, Reduce, Aggregate, ToStream, To,
)  # fmt: skip
"""All of them; a test holds their tags equal to the engine's."""
