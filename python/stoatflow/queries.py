"""Reads of committed state from outside the topology: any thread, any time, one moment for the whole answer.

`StoatFlow.store` gives handles that read the last commit; `StoatFlow.snapshot` holds one commit for several reads, of
all stores. Nothing here waits for the lanes, and what isn't committed is never seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from stoatflow.durations import Duration, Timestamp, timeout_s, timestamp_ms
from stoatflow.errors import ConfigError
from stoatflow.finding import Found, OrderBy, QueryPlan, Select, query, read_cursor, selected_table, shown_cursor
from stoatflow.following import FollowableKeys, FollowableWindows, Opens
from stoatflow.restoring import TopicPartition
from stoatflow.stores import ValueAndTimestamp, VersionedRecord
from stoatflow.windowed import Windowed

if TYPE_CHECKING:
    from stoatflow._runtime import bridge
    from stoatflow.expressions import Expression
    from stoatflow.sql import Parameters, SqlResult
    from stoatflow.sql.known import StoreForm

__all__ = [
    "Entries",
    "Positions",
    "ReadOnlyKeyValueStore",
    "ReadOnlySessionStore",
    "ReadOnlyStore",
    "ReadOnlyVersionedStore",
    "ReadOnlyWindowStore",
    "Snapshot",
    "read_only_store",
]

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

Positions = Mapping["TopicPartition | tuple[str, int]", int]
"""The next offset to read, by topic and partition."""

Forms = Callable[[], Mapping[str, "StoreForm"]]
"""How stores are made, by their names."""

_LAST = 2**63 - 1


class Entries(Generic[T]):
    """Entries in their order, read as they are asked for; also a context manager."""

    def __init__(self, rows: bridge.StateRows, show: Callable[[Any, Any, int], T]) -> None:
        """Made by the reads of a store."""
        self._rows = rows
        self._show = show

    def __iter__(self) -> Entries[T]:
        """Itself."""
        return self

    def __next__(self) -> T:
        """Give the next one."""
        return self._show(*next(self._rows))

    def close(self) -> None:
        """Forget the rest: a later read is an error."""
        self._rows.close()

    def __enter__(self) -> Entries[T]:
        """Itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close it."""
        self.close()


class ReadOnlyStore:
    """What all stores have: a name, and what they are read from."""

    kind = ""

    def __init__(
        self,
        name: str,
        read: Callable[[], bridge.StateReader],
        timestamps: bool,
        forms: Forms = dict,
        opens: Opens | None = None,
    ) -> None:
        """Made by `StoatFlow.store` and `Snapshot.store`."""
        self.name = name
        self._read = read
        self._timestamps = timestamps
        self._forms = forms
        self._opens = opens

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Give all rows of one moment as columns, for pyarrow, Polars, pandas, DuckDB: those of `to_arrow`."""
        return self._table(self._rows()).__arrow_c_stream__(requested_schema)

    def _rows(self) -> Iterable[tuple[Any, Any, int]]:
        raise ConfigError(
            f"the {self.kind} store '{self.name}' can't be read as a whole here",
            next_step="read it by key, or use app.to_arrow: it has the latest versions",
        )

    def _table(self, rows: Iterable[tuple[Any, Any, int]]) -> Any:
        from stoatflow import arrow  # only who asks for columns needs them
        from stoatflow._runtime import columns

        pa = arrow.load(arrow.Caller("__arrow_c_stream__", ConfigError))
        form = self._forms().get(self.name)
        made = columns.Columns(
            pa,
            self.name,
            json_keys=form is not None and form.has_json_keys,
            windows=form is not None and form.has_windows,
        )
        for page in columns.pages(columns.row(*each) for each in rows):
            made.add(page)
        return made.table()

    def _value(self, value: Any, timestamp: int) -> Any:
        return ValueAndTimestamp(value, timestamp) if self._timestamps else value

    def _found(self, found: tuple[Any, int] | None) -> Any:
        return None if found is None else self._value(*found)

    def __getattr__(self, name: str) -> Any:
        """Say what kind of store this is, and what it has instead."""
        if name.startswith("_") or not any(hasattr(other, name) for other in _KINDS.values()):
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
        """Give the value of a key."""
        found = self._read().get(key)
        return default if found is None else self._value(*found)

    def get_many(self, keys: Iterable[K]) -> dict[K, V]:
        """Give the values of those keys that have one, all of one moment."""
        asked = list(keys)
        found = self._read().get_many(asked)
        return {key: self._value(*each) for key, each in zip(asked, found, strict=True) if each is not None}

    def range(self, lo: K | None = None, hi: K | None = None, *, reverse: bool = False) -> Entries[tuple[K, V]]:
        """Give the entries between two keys, both included, in the order of the keys' bytes."""
        return self._entries(self._read().rows(lo, hi, None, reverse))

    def reverse_range(self, lo: K | None = None, hi: K | None = None) -> Entries[tuple[K, V]]:
        """Give the entries between two keys, the last one first."""
        return self.range(lo, hi, reverse=True)

    def prefix_scan(self, prefix: K | bytes, *, reverse: bool = False) -> Entries[tuple[K, V]]:
        """Give the entries whose key's bytes begin with those of `prefix`."""
        return self._entries(self._read().rows(None, None, prefix, reverse))

    def all(self, *, reverse: bool = False) -> Entries[tuple[K, V]]:
        """Give all entries."""
        return self.range(reverse=reverse)

    def reverse_all(self) -> Entries[tuple[K, V]]:
        """Give all entries, the last one first."""
        return self.range(reverse=True)

    def count(self, lo: K | None = None, hi: K | None = None, *, prefix: K | bytes | None = None) -> int:
        """Count the keys (between two, or with a prefix). It reads all of them."""
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
        """Give the rows that meet a condition: `store.find(sf.value["city"] == "Oslo", limit=100)`.

        They are found by key or along an index of the store; reading all of them is an error without `allow_scan`.
        Rows are (key, value), or what `select` makes of them. `cursor` is that of the page before: it goes on behind
        its last row, in the same snapshot or another one.
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
        """Say how `find` would find its rows, without reading one."""
        asked, _ = query(where, order_by, limit, select, allow_scan)
        return QueryPlan(*self._read().explain(asked))

    def __getitem__(self, key: K) -> V:
        """Give the value of a key; raise `KeyError` if it has none."""
        found = self._read().get(key)
        if found is None:
            raise KeyError(key)
        value: V = self._value(*found)
        return value

    def __contains__(self, key: K) -> bool:
        """Has the key a value?"""
        return self._read().get(key) is not None

    def __iter__(self) -> Iterator[K]:
        """Give all keys in the order of their bytes."""
        return Entries(self._read().rows(None, None, None, False), lambda key, _value, _time: key)

    def _rows(self) -> Iterable[tuple[Any, Any, int]]:
        return self._read().rows(None, None, None, False)

    def _entries(self, rows: bridge.StateRows) -> Entries[Any]:
        return Entries(rows, lambda key, value, time: (key, self._value(value, time)))


class ReadOnlyWindowStore(ReadOnlyStore, FollowableWindows[K, V], Generic[K, V]):
    """A value per key and window. Bounds of time are inclusive, and mean the starts of windows.

    >>> builder = sf.StreamsBuilder()
    >>> users = builder.stream("users", key=str, value=str)
    >>> windowed = users.group_by_key().windowed_by(sf.UnlimitedWindows())
    >>> counts = windowed.count(store=sf.Materialized("counts", key=str))
    >>> with sf.EmbeddedBroker() as broker:
    ...     broker.create_topic("users")
    ...     broker.produce("users", "u1", "Ann")
    ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
    ...         app.wait_until(caught_up=True)
    ...         print(app.store("counts").fetch_all())
    [(Windowed(key='u1', window=Window(start=0, end=9223372036854775807)), 1)]
    """

    kind = "window"

    def fetch(
        self,
        key: K,
        start: Timestamp | None = None,
        *,
        frm: Timestamp | None = None,
        to: Timestamp | None = None,
        reverse: bool = False,
    ) -> Any:
        """Give the value of the window that starts at `start`; without it (start, value) of the key's windows."""
        if start is not None:
            return self._found(self._read().window(key, timestamp_ms(start)))
        found = self._windows(key, key, frm, to, reverse=reverse)
        return [(windowed.window.start, value) for windowed, value in found]

    def fetch_range(
        self,
        lo: K | None = None,
        hi: K | None = None,
        *,
        frm: Timestamp | None = None,
        to: Timestamp | None = None,
        reverse: bool = False,
    ) -> list[tuple[Windowed[K], V]]:
        """Give the windows of the keys between two."""
        return self._windows(lo, hi, frm, to, reverse=reverse)

    def fetch_all(
        self, frm: Timestamp | None = None, to: Timestamp | None = None, *, reverse: bool = False
    ) -> list[tuple[Windowed[K], V]]:
        """Give the windows of all keys that start between two times."""
        return self._windows(None, None, frm, to, reverse=reverse)

    def all(self, *, reverse: bool = False) -> list[tuple[Windowed[K], V]]:
        """Give everything."""
        return self._windows(None, None, None, None, reverse=reverse)

    def _rows(self) -> Iterable[tuple[Any, Any, int]]:
        return self._read().windows(None, None, 0, _LAST, False)

    def _windows(self, lo: Any, hi: Any, frm: Timestamp | None, to: Timestamp | None, *, reverse: bool) -> list[Any]:
        times = (0 if frm is None else timestamp_ms(frm), _LAST if to is None else timestamp_ms(to))
        found = self._read().windows(lo, hi, *times, reverse)
        return [(windowed, self._value(value, time)) for windowed, value, time in found]


class ReadOnlySessionStore(ReadOnlyStore, FollowableWindows[K, V], Generic[K, V]):
    """A value per key and session.

    >>> builder = sf.StreamsBuilder()
    >>> users = builder.stream("users", key=str, value=str)
    >>> windowed = users.group_by_key().windowed_by(sf.SessionWindows("1m", grace="0s"))
    >>> counts = windowed.count(store=sf.Materialized("counts", key=str))
    >>> with sf.EmbeddedBroker() as broker:
    ...     broker.create_topic("users")
    ...     broker.produce("users", "u1", "Ann")
    ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
    ...         app.wait_until(caught_up=True)
    ...         print([value for _, value in app.store("counts").fetch("u1")])
    [1]
    """

    kind = "session"

    def fetch(self, lo: K, hi: K | None = None, *, reverse: bool = False) -> list[tuple[Windowed[K], V]]:
        """Give all sessions of a key, or of the keys between two."""
        return self._sessions(lo, lo if hi is None else hi, 0, _LAST, reverse=reverse)

    def find_sessions(
        self, key: K | None = None, *, earliest_end: Timestamp, latest_start: Timestamp, reverse: bool = False
    ) -> list[tuple[Windowed[K], V]]:
        """Give the sessions that end at `earliest_end` or later and start at `latest_start` or earlier."""
        times = timestamp_ms(earliest_end), timestamp_ms(latest_start)
        return self._sessions(key, key, *times, reverse=reverse)

    def fetch_session(self, key: K, start: Timestamp, end: Timestamp) -> V | None:
        """Give the value of one session."""
        first, last = timestamp_ms(start), timestamp_ms(end)
        found = self._sessions(key, key, last, first, reverse=False)
        exact = (value for windowed, value in found if (windowed.window.start, windowed.window.end) == (first, last))
        return next(exact, None)

    def all(self, *, reverse: bool = False) -> list[tuple[Windowed[K], V]]:
        """Give everything."""
        return self._sessions(None, None, 0, _LAST, reverse=reverse)

    def _rows(self) -> Iterable[tuple[Any, Any, int]]:
        return self._read().sessions(None, None, 0, _LAST, False)

    def _sessions(self, lo: Any, hi: Any, earliest_end: int, latest_start: int, *, reverse: bool) -> list[Any]:
        found = self._read().sessions(lo, hi, earliest_end, latest_start, reverse)
        return [(windowed, self._value(value, time)) for windowed, value, time in found]


class ReadOnlyVersionedStore(ReadOnlyStore, Generic[K, V]):
    """Values of a key by the time since when they hold.

    >>> builder = sf.StreamsBuilder()
    >>> users = builder.table("users", key=str, value=str, store=sf.Materialized("users", history="1h"))
    >>> with sf.EmbeddedBroker() as broker:
    ...     broker.create_topic("users")
    ...     broker.produce("users", "u1", "Ann")
    ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
    ...         app.wait_until(caught_up=True)
    ...         print(app.store("users").get("u1").value)
    Ann
    """

    kind = "versioned"

    def get(self, key: K, as_of: Timestamp | None = None) -> VersionedRecord[V] | None:
        """Give the version that holds, or held at a time."""
        found = self._read().version(key, None if as_of is None else timestamp_ms(as_of))
        return None if found is None else VersionedRecord(*found)

    def history(self, key: K, frm: Timestamp | None = None, to: Timestamp | None = None) -> list[VersionedRecord[V]]:
        """Give the versions that held at some time between two, the oldest first."""
        times = (0 if frm is None else timestamp_ms(frm), _LAST if to is None else timestamp_ms(to))
        return [VersionedRecord(*found) for found in self._read().history(key, *times)]


_KINDS: dict[str, type[ReadOnlyStore]] = {
    "key_value": ReadOnlyKeyValueStore,
    "window": ReadOnlyWindowStore,
    "session": ReadOnlySessionStore,
    "versioned": ReadOnlyVersionedStore,
}


class Snapshot:
    """One commit of all stores. Opened by its `with`, `async with` or first read; it ends with the application.

    `at_least` waits, for `timeout` at most, until input before these positions is committed.

    >>> builder = sf.StreamsBuilder()
    >>> users = builder.table("users", key=str, value=str, store="users")
    >>> with sf.EmbeddedBroker() as broker:
    ...     broker.create_topic("users")
    ...     broker.produce("users", "u1", "Ann")
    ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
    ...         app.wait_until(caught_up=True)
    ...         with app.snapshot() as at:
    ...             print(list(at.store("users").all()), at.positions)
    [('u1', 'Ann')] {TopicPartition(topic='users', partition=0): 1}
    """

    def __init__(
        self,
        engine: bridge.Engine,
        at_least: Positions | None,
        timeout: float | Duration | None,
        forms: Forms,
    ) -> None:
        """Made by `StoatFlow.snapshot`; `forms` says how stores are made."""
        self._engine = engine
        self._forms = forms
        self._at_least = wanted(at_least)
        self._timeout = timeout_s(timeout) or 0.0
        self._native: bridge.StateSnapshot | None = None

    @property
    def epoch(self) -> int:
        """The number of the commit in this run; 0: what earlier runs have left."""
        return self._opened().epoch

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The input it stands for: the next offset of each partition."""
        return {TopicPartition(topic, number): offset for topic, number, offset in self._opened().positions()}

    def store(self, name: str, *, timestamps: bool = False) -> Any:
        """Give a store of it to read; `timestamps` shows values as `ValueAndTimestamp`."""
        reader = self._opened().reader(name)
        return _KINDS[reader.kind](name, lambda: reader, timestamps, self._forms)

    def sql(
        self,
        query: str,
        parameters: Parameters | None = None,
        *,
        schema: Mapping[str, object] | None = None,
        allow_scan: bool = False,
    ) -> SqlResult:
        """Run a SELECT over the stores of this commit: as `StoatFlow.sql`."""
        from stoatflow.sql.engine import run  # only this method needs it
        from stoatflow.sql.reading import SnapshotStores

        stores = SnapshotStores(self._opened(), self._forms())
        return run(stores, query, parameters, schema=schema, allow_scan=allow_scan)

    def close(self) -> None:
        """Let it go: later reads are errors. More than once is allowed."""
        self._opened().close()

    def __enter__(self) -> Snapshot:
        """Open it."""
        self._opened()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    async def __aenter__(self) -> Snapshot:
        """Open it without blocking the event loop."""
        await asyncio.to_thread(self._opened)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def _opened(self) -> bridge.StateSnapshot:
        if self._native is None:
            self._native = self._engine.snapshot(None, self._at_least, self._timeout)
        return self._native


def wanted(at_least: Positions | None) -> list[tuple[str, int, int]]:
    """Positions as the engine takes them."""
    return [(topic, number, offset) for (topic, number), offset in (at_least or {}).items()]


def read_only_store(
    engine: bridge.Engine,
    name: str,
    at_least: Positions | None,
    timeout: float | Duration | None,
    timestamps: bool,
    forms: Forms,
) -> Any:
    """Give a handle whose reads each show the last commit."""
    given = (wanted(at_least), timeout_s(timeout) or 0.0)

    def read() -> bridge.StateReader:
        return engine.snapshot(name, *given).reader(name)

    def opens(how: tuple[bool, int], keys: tuple[Any, Any, Any], condition: bytes) -> bridge.StateChanges:
        return engine.follow(name, given, how, keys, condition)

    return _KINDS[engine.store_kind(name)](name, read, timestamps, forms, opens)
