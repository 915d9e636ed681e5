"""A look into a store of a test: what is committed, decoded.

Takes bytes from the engine, gives Python values in the order of the key bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

from stoatflow.serdes import Serde

K = TypeVar("K")
V = TypeVar("V")

Scan = Callable[["bytes | None", "bytes | None", "int | None"], "list[tuple[bytes, bytes, int]]"]


class Entry(NamedTuple):
    """A key with its value and the value's timestamp."""

    key: Any
    value: Any
    timestamp: int


class TestStore(Generic[K, V]):
    """The committed state of one store."""

    __test__ = False

    def __init__(self, name: str, scan: Scan, key: Serde[K], value: Serde[V]) -> None:
        """Made by `TopologyTestDriver.store`."""
        self.name = name
        self._scan = scan
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
        """Give everything, with timestamps: also for keys that no dict can hold."""
        return self._entries(None, None, None)

    def __contains__(self, key: K) -> bool:
        """Is the key there?"""
        return self.entry(key) is not None

    def __len__(self) -> int:
        """How many keys are there."""
        return len(self._scan(None, None, None))

    def __bool__(self) -> bool:
        """Refuse a surprise: an empty store is still a store."""
        return True

    def __iter__(self) -> Iterator[K]:
        """Give the keys in the order of their bytes."""
        return (entry.key for entry in self.entries())

    def _entries(self, from_key: bytes | None, to_key: bytes | None, limit: int | None) -> list[Entry]:
        return [
            Entry(self._key.deserialize(key), self._value.deserialize(value), timestamp)
            for key, value, timestamp in self._scan(from_key, to_key, limit)
        ]
