"""Readers of stores in tests: committed rows, decoded.

Takes bytes from the engine, returns Python values in the order of the key bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

from stoatflow.serdes import Serde
from stoatflow.stores import VersionedRecord
from stoatflow.timers import TimeDomain, Timer
from stoatflow.windowed import Window, Windowed

K = TypeVar("K")
V = TypeVar("V")

Scan = Callable[["bytes | None", "bytes | None", "int | None"], "list[tuple[bytes, bytes, int]]"]
Rows = Callable[[], "list[tuple[bytes, tuple[int, int] | None, bytes, int]]"]
HeadersOf = Callable[[bytes], "tuple[tuple[str, bytes | None], ...] | None"]
VersionAt = Callable[[bytes, "int | None"], "tuple[bytes, int] | None"]


class Entry(NamedTuple):
    """A key (a `Windowed` in stores of windows and sessions) with its value and the value's timestamp."""

    key: Any
    value: Any
    timestamp: int


class TestStore(Generic[K, V]):
    """The committed state of one store, without expired windows and sessions.

    >>> builder = sf.StreamsBuilder()
    >>> orders = builder.table("orders", key=str, value=int, store="orders")
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("orders", str, int).pipe_all([("ann", 30), ("bob", 20)])
    ...     store = driver.store("orders")
    ...     print(store.all(), "ann" in store, len(store))
    {'ann': 30, 'bob': 20} True 2
    """

    __test__ = False

    def __init__(
        self, name: str, scan: Scan, rows: Rows, key: Serde[K], value: Serde[V], headers: HeadersOf | None = None
    ) -> None:
        """Created by `TopologyTestDriver.store`."""
        self.name = name
        self._scan = scan
        self._rows = rows
        self._key = key
        self._value = value
        self._headers = headers

    def headers(self, key: K) -> tuple[tuple[str, bytes | None], ...] | None:
        """Return the headers that a key-value store with `headers=True` keeps with the value of a key.

        >>> class Last(sf.ContextualProcessor[str, int, str, int]):
        ...     def process(self, record):
        ...         value = sf.ValueTimestampHeaders(record.value, record.timestamp, record.headers)
        ...         self.context.state_store("last").put(record.key, value)
        >>> builder, kind = sf.StreamsBuilder(), sf.Stores.in_memory_timestamped_key_value
        >>> _ = builder.add_state_store(kind("last", key=str, value=int, headers=True))
        >>> _ = builder.stream("orders", key=str, value=int).process(Last, stores=["last"])
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("orders", str, int).pipe("ann", 30, headers=[("trace", b"7f")])
        ...     print(driver.store("last").get("ann"), driver.store("last").headers("ann"))
        30 (('trace', b'7f'),)
        """
        if self._headers is None:
            raise LookupError(f"the store '{self.name}' keeps no headers of keys. Next: declare it with headers=True")
        return self._headers(self._key.serialize(key))

    def get(self, key: K) -> V | None:
        """Return the value of a key.

        >>> builder = sf.StreamsBuilder()
        >>> orders = builder.table("orders", key=str, value=int, store="orders")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("orders", str, int).pipe("ann", 30)
        ...     print(driver.store("orders").get("ann"), driver.store("orders").get("bob"))
        30 None
        """
        entry = self.entry(key)
        return None if entry is None else entry.value

    def entry(self, key: K) -> Entry | None:
        """Return key, value and timestamp of a key.

        >>> builder = sf.StreamsBuilder()
        >>> orders = builder.table("orders", key=str, value=int, store="orders")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("orders", str, int).pipe("ann", 30, timestamp=1000)
        ...     print(driver.store("orders").entry("ann"))
        Entry(key='ann', value=30, timestamp=1000)
        """
        data = self._key.serialize(key)
        found = self._entries(data, data, 1)
        return found[0] if found else None

    def all(self) -> dict[K, V]:
        """Return all keys with their values.

        >>> builder = sf.StreamsBuilder()
        >>> orders = builder.table("orders", key=str, value=int, store="orders")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("orders", str, int).pipe_all([("ann", 30), ("bob", 20)])
        ...     print(driver.store("orders").all())
        {'ann': 30, 'bob': 20}
        """
        return {entry.key: entry.value for entry in self.entries()}

    def range(self, from_key: K | None = None, to_key: K | None = None) -> dict[K, V]:
        """Return the entries between two keys, both included, in the order of their bytes.

        >>> builder = sf.StreamsBuilder()
        >>> orders = builder.table("orders", key=str, value=int, store="orders")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("orders", str, int).pipe_all([("ann", 30), ("bob", 20), ("cyd", 10)])
        ...     print(driver.store("orders").range("b", "cyd"))
        {'bob': 20, 'cyd': 10}
        """
        ends = [None if key is None else self._key.serialize(key) for key in (from_key, to_key)]
        return {entry.key: entry.value for entry in self._entries(ends[0], ends[1], None)}

    def entries(self) -> list[Entry]:
        """Return all entries with timestamps, by key bytes, then window; also for keys that can't be in a dict.

        >>> builder = sf.StreamsBuilder()
        >>> orders = builder.table("orders", key=str, value=int, store="orders")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("orders", str, int).pipe("ann", 30, timestamp=1000)
        ...     print(driver.store("orders").entries())
        [Entry(key='ann', value=30, timestamp=1000)]
        """
        return [
            Entry(self._shown(key, window), self._value.deserialize(value), timestamp)
            for key, window, value, timestamp in self._rows()
        ]

    def __contains__(self, key: K) -> bool:
        """Whether the key exists."""
        return self.entry(key) is not None

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._rows())

    def __bool__(self) -> bool:
        """Return True: an empty store is still a store."""
        return True

    def __iter__(self) -> Iterator[K]:
        """Iterate over the keys in the order of their bytes."""
        return (entry.key for entry in self.entries())

    def _shown(self, key: bytes, window: tuple[int, int] | None) -> Any:
        inner = self._key.deserialize(key)
        return inner if window is None else Windowed(inner, Window(*window))

    def _entries(self, from_key: bytes | None, to_key: bytes | None, limit: int | None) -> list[Entry]:
        return [
            Entry(self._key.deserialize(key), self._value.deserialize(value), timestamp)
            for key, value, timestamp in self._scan(from_key, to_key, limit)
        ]


class TestWindowStore(TestStore[K, V]):
    """The committed windows or sessions of one store: keys are `Windowed`.

    >>> builder = sf.StreamsBuilder()
    >>> grouped = builder.stream("orders", key=str).group_by_key()
    >>> counts = grouped.windowed_by(sf.TimeWindows("1m", grace="10s")).count(store="counts")
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("orders", str, str).pipe_all([("ann", "tea"), ("ann", "milk")], start=0, advance="1m")
    ...     print(driver.store("counts").fetch("ann"))
    {Window(start=0, end=60000): 1, Window(start=60000, end=120000): 1}
    """

    def entry(self, key: Any) -> Entry | None:
        """Return the entry of `Windowed(key, Window(start, end))`.

        >>> builder = sf.StreamsBuilder()
        >>> grouped = builder.stream("orders", key=str).group_by_key()
        >>> counts = grouped.windowed_by(sf.TimeWindows("1m", grace="10s")).count(store="counts")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("orders", str, str).pipe("ann", "tea", timestamp=1000)
        ...     print(driver.store("counts").entry(sf.Windowed("ann", sf.Window(0, 60_000))).value)
        1
        """
        return next((entry for entry in self.entries() if entry.key == key), None)

    def fetch(self, key: Any) -> dict[Window, V]:
        """Return the windows of a key.

        >>> builder = sf.StreamsBuilder()
        >>> grouped = builder.stream("orders", key=str).group_by_key()
        >>> counts = grouped.windowed_by(sf.TimeWindows("1m", grace="10s")).count(store="counts")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("orders", str, str).pipe_all([("ann", "tea"), ("ann", "milk")])
        ...     print(driver.store("counts").fetch("ann"))
        {Window(start=0, end=60000): 2}
        """
        return {entry.key.window: entry.value for entry in self.entries() if entry.key.key == key}

    def range(self, from_key: Any = None, to_key: Any = None) -> dict[K, V]:
        """Return the windows of the keys between two keys, both included, in the order of their bytes.

        >>> builder = sf.StreamsBuilder()
        >>> grouped = builder.stream("orders", key=str).group_by_key()
        >>> counts = grouped.windowed_by(sf.TimeWindows("1m", grace="10s")).count(store="counts")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("orders", str, str).pipe_all([("ann", "tea"), ("bob", "milk"), ("cyd", "tea")])
        ...     print([windowed.key for windowed in driver.store("counts").range("bob", "cyd")])
        ['bob', 'cyd']
        """
        lo, hi = (None if key is None else self._key.serialize(key) for key in (from_key, to_key))
        return {
            entry.key: entry.value
            for entry in self.entries()
            if (lo is None or self._key.serialize(entry.key.key) >= lo)
            and (hi is None or self._key.serialize(entry.key.key) <= hi)
        }


class TestVersionedStore(TestStore[K, V]):
    """The committed versions of one store: `entries()` and `all()` return the latest version of each key.

    >>> builder = sf.StreamsBuilder()
    >>> prices = builder.table("prices", key=str, value=int, store=sf.Materialized("prices", history="1h"))
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("prices", str, int).pipe_all([("tea", 3), ("tea", 4)], start=0, advance="1m")
    ...     store = driver.store("prices")
    ...     print(store.get("tea").value, store.get("tea", as_of=30_000).value)
    4 3
    """

    def __init__(self, name: str, scan: Scan, rows: Rows, version: VersionAt, key: Serde[K], value: Serde[V]) -> None:
        """Created by `TopologyTestDriver.store`."""
        super().__init__(name, scan, rows, key, value)
        self._version = version

    def get(self, key: K, as_of: int | None = None) -> Any:
        """Return the `VersionedRecord` that is valid now, or was valid at a time.

        >>> builder = sf.StreamsBuilder()
        >>> prices = builder.table("prices", key=str, value=int, store=sf.Materialized("prices", history="1h"))
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("prices", str, int).pipe_all([("tea", 3), ("tea", 4)], start=0, advance="1m")
        ...     print(driver.store("prices").get("tea", as_of=30_000))
        VersionedRecord(value=3, timestamp=0, valid_to=None)
        """
        found = self._version(self._key.serialize(key), as_of)
        return None if found is None else VersionedRecord(self._value.deserialize(found[0]), found[1], None)

    def entry(self, key: K) -> Entry | None:
        """Return key, value and timestamp of the latest version.

        >>> builder = sf.StreamsBuilder()
        >>> prices = builder.table("prices", key=str, value=int, store=sf.Materialized("prices", history="1h"))
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("prices", str, int).pipe_all([("tea", 3), ("tea", 4)], start=0, advance="1m")
        ...     print(driver.store("prices").entry("tea"))
        Entry(key='tea', value=4, timestamp=60000)
        """
        return next((entry for entry in self.entries() if entry.key == key), None)

    def range(self, from_key: K | None = None, to_key: K | None = None) -> dict[K, V]:
        """Return the latest versions of the keys between two keys, both included, in the order of their bytes.

        >>> builder = sf.StreamsBuilder()
        >>> prices = builder.table("prices", key=str, value=int, store=sf.Materialized("prices", history="1h"))
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("prices", str, int).pipe_all([("milk", 2), ("tea", 3), ("tea", 4)])
        ...     print(driver.store("prices").range("n", "tea"))
        {'tea': 4}
        """
        lo, hi = (None if key is None else self._key.serialize(key) for key in (from_key, to_key))
        return {
            entry.key: entry.value
            for entry in self.entries()
            if (lo is None or self._key.serialize(entry.key) >= lo)
            and (hi is None or self._key.serialize(entry.key) <= hi)
        }


class TestTimerStore(Generic[K]):
    """The committed timers of one store that have not fired yet.

    >>> class Reminder(sf.ContextualProcessor[str, str, str, str]):
    ...     def process(self, record):
    ...         self.context.state_store("reminders").register(record.timestamp + 60_000)
    ...     def on_timer(self, timer): print("remind", timer.key)
    >>> builder = sf.StreamsBuilder()
    >>> _ = builder.add_state_store(sf.Stores.timers("reminders", key=str))
    >>> _ = builder.stream("orders", key=str, value=str).process(Reminder, stores=["reminders"])
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("orders", str, str).pipe("ann", "tea", timestamp=1000)
    ...     print([(timer.key, timer.at) for timer in driver.store("reminders")])
    [('ann', 61000)]
    """

    __test__ = False

    def __init__(self, name: str, rows: Rows, key: Serde[K]) -> None:
        """Created by `TopologyTestDriver.store`."""
        self.name = name
        self._rows = rows
        self._key = key

    def all(self, domain: TimeDomain | None = None) -> list[Timer[K]]:
        """Return all timers (of one clock) in firing order: event time first, by time, then by key bytes.

        >>> class Reminder(sf.ContextualProcessor[str, str, str, str]):
        ...     def process(self, record):
        ...         self.context.state_store("reminders").register(record.timestamp + 60_000)
        ...     def on_timer(self, timer): print("remind", timer.key)
        >>> builder = sf.StreamsBuilder()
        >>> _ = builder.add_state_store(sf.Stores.timers("reminders", key=str))
        >>> _ = builder.stream("orders", key=str, value=str).process(Reminder, stores=["reminders"])
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("orders", str, str).pipe_all([("ann", "tea"), ("bob", "milk")])
        ...     print([timer.key for timer in driver.store("reminders").all()])
        ['ann', 'bob']
        """
        rows = [(data.decode(), at, key) for key, _, data, at in self._rows()]
        return [
            Timer(self.name, self._key.deserialize(key), at, "event" if of == "event" else "processing")
            for of, at, key in sorted(rows)
            if domain in (None, of)
        ]

    def pending(self, key: K) -> list[Timer[K]]:
        """Return the timers of a key.

        >>> class Reminder(sf.ContextualProcessor[str, str, str, str]):
        ...     def process(self, record):
        ...         self.context.state_store("reminders").register(record.timestamp + 60_000)
        ...     def on_timer(self, timer): print("remind", timer.key)
        >>> builder = sf.StreamsBuilder()
        >>> _ = builder.add_state_store(sf.Stores.timers("reminders", key=str))
        >>> _ = builder.stream("orders", key=str, value=str).process(Reminder, stores=["reminders"])
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("orders", str, str).pipe("ann", "tea")
        ...     print(driver.store("reminders").pending("ann")[0].at, driver.store("reminders").pending("bob"))
        60000 []
        """
        return [timer for timer in self.all() if timer.key == key]

    def __len__(self) -> int:
        """Return the number of timers."""
        return len(self._rows())

    def __bool__(self) -> bool:
        """Return True: an empty store is still a store."""
        return True

    def __iter__(self) -> Iterator[Timer[K]]:
        """Iterate over all timers in firing order."""
        return iter(self.all())
