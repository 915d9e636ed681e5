"""A look into a store of a test: what is committed, decoded.

Takes bytes from the engine, gives Python values in the order of the key bytes.
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
VersionAt = Callable[[bytes, "int | None"], "tuple[bytes, int] | None"]


class Entry(NamedTuple):
    """A key (a `Windowed` one in stores of windows and sessions) with its value and the value's timestamp."""

    key: Any
    value: Any
    timestamp: int


class TestStore(Generic[K, V]):
    """The committed state of one store. Expired windows and sessions are not in it."""

    __test__ = False

    def __init__(self, name: str, scan: Scan, rows: Rows, key: Serde[K], value: Serde[V]) -> None:
        """Made by `TopologyTestDriver.store`."""
        self.name = name
        self._scan = scan
        self._rows = rows
        self._key = key
        self._value = value

    def get(self, key: K) -> V | None:
        """Give the value of a key."""
        entry = self.entry(key)
        return None if entry is None else entry.value

    def entry(self, key: K) -> Entry | None:
        """Give key, value and timestamp of a key."""
        data = self._key.serialize(key)
        found = self._entries(data, data, 1)
        return found[0] if found else None

    def all(self) -> dict[K, V]:
        """Give all keys with their values."""
        return {entry.key: entry.value for entry in self.entries()}

    def range(self, from_key: K | None = None, to_key: K | None = None) -> dict[K, V]:
        """Give the keys between two, both included, in the order of their bytes."""
        ends = [None if key is None else self._key.serialize(key) for key in (from_key, to_key)]
        return {entry.key: entry.value for entry in self._entries(ends[0], ends[1], None)}

    def entries(self) -> list[Entry]:
        """Give everything, with timestamps, by key bytes, then window: also for keys that no dict can hold."""
        return [
            Entry(self._shown(key, window), self._value.deserialize(value), timestamp)
            for key, window, value, timestamp in self._rows()
        ]

    def __contains__(self, key: K) -> bool:
        """Is the key there?"""
        return self.entry(key) is not None

    def __len__(self) -> int:
        """How many entries are there."""
        return len(self._rows())

    def __bool__(self) -> bool:
        """Refuse a surprise: an empty store is still a store."""
        return True

    def __iter__(self) -> Iterator[K]:
        """Give the keys in the order of their bytes."""
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
    """The committed windows or sessions of one store: keys are `Windowed`."""

    def entry(self, key: Any) -> Entry | None:
        """Give the entry of `Windowed(key, Window(start, end))`."""
        return next((entry for entry in self.entries() if entry.key == key), None)

    def fetch(self, key: Any) -> dict[Window, V]:
        """Give the windows of a key."""
        return {entry.key.window: entry.value for entry in self.entries() if entry.key.key == key}

    def range(self, from_key: Any = None, to_key: Any = None) -> dict[K, V]:
        """Give the windows of the keys between two, both included, in the order of their bytes."""
        lo, hi = (None if key is None else self._key.serialize(key) for key in (from_key, to_key))
        return {
            entry.key: entry.value
            for entry in self.entries()
            if (lo is None or self._key.serialize(entry.key.key) >= lo)
            and (hi is None or self._key.serialize(entry.key.key) <= hi)
        }


class TestVersionedStore(TestStore[K, V]):
    """The committed versions of one store: `entries()` and `all()` give the latest of each key."""

    def __init__(self, name: str, scan: Scan, rows: Rows, version: VersionAt, key: Serde[K], value: Serde[V]) -> None:
        """Made by `TopologyTestDriver.store`."""
        super().__init__(name, scan, rows, key, value)
        self._version = version

    def get(self, key: K, as_of: int | None = None) -> Any:
        """Give the `VersionedRecord` that holds, or held at a time."""
        found = self._version(self._key.serialize(key), as_of)
        return None if found is None else VersionedRecord(self._value.deserialize(found[0]), found[1], None)

    def entry(self, key: K) -> Entry | None:
        """Give key, value and timestamp of the latest version."""
        return next((entry for entry in self.entries() if entry.key == key), None)

    def range(self, from_key: K | None = None, to_key: K | None = None) -> dict[K, V]:
        """Give the latest versions of the keys between two, both included, in the order of their bytes."""
        lo, hi = (None if key is None else self._key.serialize(key) for key in (from_key, to_key))
        return {
            entry.key: entry.value
            for entry in self.entries()
            if (lo is None or self._key.serialize(entry.key) >= lo)
            and (hi is None or self._key.serialize(entry.key) <= hi)
        }


class TestTimerStore(Generic[K]):
    """The committed timers of one store: those that are still to fire."""

    __test__ = False

    def __init__(self, name: str, rows: Rows, key: Serde[K]) -> None:
        """Made by `TopologyTestDriver.store`."""
        self.name = name
        self._rows = rows
        self._key = key

    def all(self, domain: TimeDomain | None = None) -> list[Timer[K]]:
        """Give all timers (of one clock), as they will fire: those of event time first, by time, then by key bytes."""
        rows = [(data.decode(), at, key) for key, _, data, at in self._rows()]
        return [
            Timer(self.name, self._key.deserialize(key), at, "event" if of == "event" else "processing")
            for of, at, key in sorted(rows)
            if domain in (None, of)
        ]

    def pending(self, key: K) -> list[Timer[K]]:
        """Give the timers of a key."""
        return [timer for timer in self.all() if timer.key == key]

    def __len__(self) -> int:
        """How many are there."""
        return len(self._rows())

    def __bool__(self) -> bool:
        """Refuse a surprise: an empty store is still a store."""
        return True

    def __iter__(self) -> Iterator[Timer[K]]:
        """Give all timers, as they will fire."""
        return iter(self.all())
