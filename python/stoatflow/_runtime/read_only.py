"""Read-only stores, as read from outside the topology: their base class, and key-value stores.

Takes a function that opens a reader for each read; returns entries, and pages of rows found by `find`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from stoatflow.errors import ConfigError
from stoatflow.finding import Found, OrderBy, QueryPlan, Select, query, read_cursor, selected_table, shown_cursor
from stoatflow.following import FollowableKeys, Opens
from stoatflow.stores import ValueAndTimestamp, ValueTimestampHeaders

if TYPE_CHECKING:
    from stoatflow._runtime import bridge
    from stoatflow.expressions import Expression
    from stoatflow.sql.store_schema import StoreForm

__all__ = ["Entries", "Forms", "ReadOnlyKeyValueStore", "ReadOnlyStore"]

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

Forms = Callable[[], Mapping[str, "StoreForm"]]
"""The serdes and other properties of stores, by store name."""


class Entries(Generic[T]):
    """Entries of a store in their order, read lazily; also a context manager.

    >>> builder = sf.StreamsBuilder()
    >>> users = builder.table("users", key=str, value=str, store="users")
    >>> with sf.EmbeddedBroker() as broker:
    ...     broker.create_topic("users")
    ...     broker.produce("users", "u1", "Ann")
    ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
    ...         app.wait_until(caught_up=True)
    ...         entries: sf.Entries[tuple[str, str]] = app.store("users").all()
    ...         print(next(entries))
    ('u1', 'Ann')
    """

    def __init__(self, rows: bridge.StateRows, show: Callable[[Any, Any, int], T]) -> None:
        """Created by the read methods of a store."""
        self._rows = rows
        self._show = show

    def __iter__(self) -> Entries[T]:
        """Return itself."""
        return self

    def __next__(self) -> T:
        """Return the next one."""
        return self._show(*next(self._rows))

    def close(self) -> None:
        """Drop the entries not read yet: a later read is an error.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         with app.store("users").all() as entries:
        ...             print(list(entries))
        ...         entries.close()  # as the end of the block has done
        []
        """
        self._rows.close()

    def __enter__(self) -> Entries[T]:
        """Return itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close it."""
        self.close()


class ReadOnlyStore:
    """What all read-only stores have: a name, and where they are read from."""

    kind = ""

    def __init__(
        self,
        name: str,
        read: Callable[[], bridge.StateReader],
        timestamps: bool,
        forms: Forms = dict,
        opens: Opens | None = None,
        headers: bool = False,
    ) -> None:
        """Created by `StoatFlow.store` and `Snapshot.store`."""
        self.name = name
        self._read = read
        self._timestamps = timestamps
        self._forms = forms
        self._opens = opens
        self._headers = headers

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return all rows of one commit as columns, those of `to_arrow`, for pyarrow, Polars, pandas and DuckDB."""
        return self._table(self._rows()).__arrow_c_stream__(requested_schema)

    def _rows(self) -> Iterable[tuple[Any, Any, int]]:
        raise ConfigError(
            f"the {self.kind} store '{self.name}' can't be read as a whole here",
            next_step="read it by key, or use app.to_arrow: it has the latest versions",
        )

    def _table(self, rows: Iterable[tuple[Any, Any, int]]) -> Any:
        from stoatflow import arrow  # needed only for columns
        from stoatflow._runtime import columns

        pa = arrow.load(arrow.Caller("__arrow_c_stream__", ConfigError))
        form = self._forms().get(self.name)
        made = columns.Columns(
            pa,
            self.name,
            json_keys=form is not None and form.has_json_keys,
            windows=form is not None and form.has_windows,
        )
        # Values with headers are pairs of both; the columns are those of a store without headers.
        plain = ((key, value[1], time) for key, value, time in rows) if self._headers else rows
        for page in columns.pages(columns.row(*each) for each in plain):
            made.add(page)
        return made.table()

    def _value(self, value: Any, timestamp: int) -> Any:
        if self._headers:
            from stoatflow._runtime.bridge import headers_from_bytes  # only queries need the engine

            return ValueTimestampHeaders(value[1], timestamp, headers_from_bytes(value[0]))
        return ValueAndTimestamp(value, timestamp) if self._timestamps else value

    def _found(self, found: tuple[Any, int] | None) -> Any:
        return None if found is None else self._value(*found)

    def __getattr__(self, name: str) -> Any:
        """Raise an error that names the store's kind and the methods that it has instead."""
        if name.startswith("_") or not any(hasattr(other, name) for other in ReadOnlyStore.__subclasses__()):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        named = {each for cls in type(self).__mro__ for each in vars(cls) if not each.startswith("_")}
        own = ", ".join(sorted(named - {"kind"}))
        raise AttributeError(f"the store '{self.name}' is a {self.kind} store, without {name!r}. Next: use {own}")

    def __repr__(self) -> str:
        """Show kind and name."""
        return f"<{type(self).__name__} '{self.name}'>"


class ReadOnlyKeyValueStore(ReadOnlyStore, FollowableKeys[K, V], Generic[K, V]):
    """A value per key: the store of a table, an aggregation without windows, or a processor.

    >>> builder = sf.StreamsBuilder()
    >>> users = builder.table("users", key=str, value=str, store="users")
    >>> with sf.EmbeddedBroker() as broker:
    ...     broker.create_topic("users")
    ...     broker.produce("users", "u1", "Ann")
    ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
    ...         app.wait_until(caught_up=True)
    ...         store = app.store("users")
    ...         print(store.get("u1"), store.get("u2", "nobody"), store.count())
    Ann nobody 1
    """

    kind = "key-value"

    def get(self, key: K, default: Any = None) -> V | Any:
        """Return the value of a key.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     broker.produce("users", "u1", "Ann")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         print(app.store("users").get("u1"), app.store("users").get("u2"))
        Ann None
        """
        found = self._read().get(key)
        return default if found is None else self._value(*found)

    def get_many(self, keys: Iterable[K]) -> dict[K, V]:
        """Return the values of those keys that have one, all as of one commit.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     broker.produce("users", "u1", "Ann")
        ...     broker.produce("users", "u2", "Bob")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         print(app.store("users").get_many(["u2", "u3"]))
        {'u2': 'Bob'}
        """
        asked = list(keys)
        found = self._read().get_many(asked)
        return {key: self._value(*each) for key, each in zip(asked, found, strict=True) if each is not None}

    def range(self, lo: K | None = None, hi: K | None = None, *, reverse: bool = False) -> Entries[tuple[K, V]]:
        """Return the entries between two keys, both included, in the order of the keys' bytes.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     broker.produce("users", "u1", "Ann")
        ...     broker.produce("users", "u2", "Bob")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         print(list(app.store("users").range("u1", "u2")))
        [('u1', 'Ann'), ('u2', 'Bob')]
        """
        return self._entries(self._read().rows(lo, hi, None, reverse))

    def reverse_range(self, lo: K | None = None, hi: K | None = None) -> Entries[tuple[K, V]]:
        """Return the entries between two keys in descending order.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     broker.produce("users", "u1", "Ann")
        ...     broker.produce("users", "u2", "Bob")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         print(list(app.store("users").reverse_range("u1", "u2")))
        [('u2', 'Bob'), ('u1', 'Ann')]
        """
        return self.range(lo, hi, reverse=True)

    def prefix_scan(self, prefix: K | bytes, *, reverse: bool = False) -> Entries[tuple[K, V]]:
        """Return the entries whose key bytes begin with those of `prefix`.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     broker.produce("users", "u1", "Ann")
        ...     broker.produce("users", "v1", "Eve")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         print(list(app.store("users").prefix_scan("u")))
        [('u1', 'Ann')]
        """
        return self._entries(self._read().rows(None, None, prefix, reverse))

    def all(self, *, reverse: bool = False) -> Entries[tuple[K, V]]:
        """Return all entries.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     broker.produce("users", "u1", "Ann")
        ...     broker.produce("users", "u2", "Bob")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         print(dict(app.store("users").all()))
        {'u1': 'Ann', 'u2': 'Bob'}
        """
        return self.range(reverse=reverse)

    def reverse_all(self) -> Entries[tuple[K, V]]:
        """Return all entries in descending order.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     broker.produce("users", "u1", "Ann")
        ...     broker.produce("users", "u2", "Bob")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         print(list(app.store("users").reverse_all()))
        [('u2', 'Bob'), ('u1', 'Ann')]
        """
        return self.range(reverse=True)

    def count(self, lo: K | None = None, hi: K | None = None, *, prefix: K | bytes | None = None) -> int:
        """Count the keys (between two, or with a prefix). Reads all of them.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     broker.produce("users", "u1", "Ann")
        ...     broker.produce("users", "u2", "Bob")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         print(app.store("users").count(), app.store("users").count(lo="u2"))
        2 1
        """
        return self._read().count(lo, hi, prefix)

    def find(
        self,
        where: Expression | None = None,
        *,
        order_by: OrderBy | None = None,
        limit: int | None = None,
        select: Select | None = None,
        cursor: str | None = None,
        allow_scan: bool = False,
    ) -> Found[Any]:
        """Return the rows that meet a condition: `store.find(sf.value["city"] == "Oslo", limit=100)`.

        Rows are found by key or through an index of the store; reading all rows is an error without `allow_scan`. Rows
        are (key, value), or the result of `select`. `cursor` is that of the previous page: reading continues after its
        last row, in the same snapshot or another one.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     broker.produce("users", "u1", "Ann")
        ...     broker.produce("users", "u2", "Bob")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         print(app.store("users").find(sf.key >= "u2", select=sf.value))
        <1 rows by key_range: ['Bob']>
        """
        asked, show = query(where, order_by, limit, select, allow_scan)
        rows, last, how = self._read().find(asked, read_cursor(cursor))
        end, plan = shown_cursor(last), QueryPlan(*how)
        if show is None or select is None:
            pairs = [(key, self._value(value, time)) for key, value, time in rows]
            return Found(pairs, end, plan, lambda: self._table(rows))
        found = [show(value) for _, value, _ in rows]
        return Found(found, end, plan, lambda: selected_table(select, found))

    def explain(
        self,
        where: Expression | None = None,
        *,
        order_by: OrderBy | None = None,
        limit: int | None = None,
        select: Select | None = None,
        allow_scan: bool = False,
    ) -> QueryPlan:
        """Explain how `find` would find its rows, without reading any.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     broker.produce("users", "u1", "Ann")
        ...     broker.produce("users", "u2", "Bob")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         print(app.store("users").explain(sf.key >= "u2").way)
        key_range
        """
        asked, _ = query(where, order_by, limit, select, allow_scan)
        return QueryPlan(*self._read().explain(asked))

    def __getitem__(self, key: K) -> V:
        """Return the value of a key; raise `KeyError` if it has none."""
        found = self._read().get(key)
        if found is None:
            raise KeyError(key)
        value: V = self._value(*found)
        return value

    def __contains__(self, key: K) -> bool:
        """Whether the key has a value."""
        return self._read().get(key) is not None

    def __iter__(self) -> Iterator[K]:
        """Iterate over all keys in the order of their bytes."""
        return Entries(self._read().rows(None, None, None, False), lambda key, _value, _time: key)

    def _rows(self) -> Iterable[tuple[Any, Any, int]]:
        return self._read().rows(None, None, None, False)

    def _entries(self, rows: bridge.StateRows) -> Entries[Any]:
        return Entries(rows, lambda key, value, time: (key, self._value(value, time)))
