"""The stores of a topology: key-value, versioned, window and session stores.

Each one is a plain dictionary and a rule for what is still visible. Entries are sorted as Kafka Streams sorts them
on disk.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from typing import Any, NamedTuple

from semantics.values import Stamped, Window, Windowed, key_bytes

IS_LATEST, NOT_PUT = -1, -(2**63)


class KeyValueStore:
    """Values by key. `stamped` says whether it keeps timestamps (the store of a table does)."""

    def __init__(self, stamped: bool = True) -> None:
        self.stamped = stamped
        self._entries: dict[bytes, tuple[Any, Stamped]] = {}

    def get(self, key: Any) -> Stamped | None:
        found = self._entries.get(key_bytes(key))
        return None if found is None else found[1]

    def put(self, key: Any, value: Any, timestamp: int = -1) -> int:
        """Write; null deletes. An older timestamp overwrites all the same: only versioned stores order by time."""
        if value is None:
            self._entries.pop(key_bytes(key), None)
        else:
            self._entries[key_bytes(key)] = (key, Stamped(value, timestamp))
        return IS_LATEST

    def items(self) -> list[tuple[Any, Stamped]]:
        return [self._entries[at] for at in sorted(self._entries)]


class Version(NamedTuple):
    """A value and its validity; `valid_to` null: it is still valid."""

    value: Any
    valid_from: int
    valid_to: int | None


class VersionedStore:
    """Values by key and time, as far back as the history goes."""

    def __init__(self, history_ms: int) -> None:
        self.history_ms = history_ms
        self._stream_time = -1
        self._versions: dict[bytes, dict[int, Any]] = {}
        self._keys: dict[bytes, Any] = {}

    def put(self, key: Any, value: Any, timestamp: int) -> int:
        """Write (null is a version too); return the end of its validity, or that it was too old."""
        if timestamp < self._stream_time - self.history_ms:
            return NOT_PUT
        self._stream_time = max(self._stream_time, timestamp)
        versions = self._versions.setdefault(key_bytes(key), {})
        self._keys[key_bytes(key)] = key
        versions[timestamp] = value
        return min((at for at in versions if at > timestamp), default=IS_LATEST)

    def get(self, key: Any) -> Stamped | None:
        found = self.get_version(key)
        return None if found is None else Stamped(found.value, found.valid_from)

    def get_version(self, key: Any, as_of: int | None = None) -> Version | None:
        versions = self._versions.get(key_bytes(key), {})
        times = sorted(versions)
        at = len(times) if as_of is None else bisect.bisect_right(times, as_of)
        if at == 0 or versions[times[at - 1]] is None:
            return None
        latest = at == len(times)
        # The latest version is found however old it is; earlier ones only inside the history.
        if not latest and as_of is not None and as_of < self._stream_time - self.history_ms:
            return None
        return Version(versions[times[at - 1]], times[at - 1], None if latest else times[at])

    def items(self) -> list[tuple[Any, Stamped]]:
        found = [(self._keys[at], self.get(self._keys[at])) for at in sorted(self._keys)]
        return [(key, stamped) for key, stamped in found if stamped is not None]


class WindowStore:
    """Values by key and window start. Old windows expire as later ones are written."""

    def __init__(self, size_ms: int, retention_ms: int, *, stamped: bool = True) -> None:
        self.stamped = stamped
        self.size_ms = size_ms
        self.retention_ms = retention_ms
        self._highest = -1
        self._entries: dict[tuple[bytes, int], tuple[Any, Stamped]] = {}

    def put(self, key: Any, value: Any, timestamp: int, start: int) -> None:
        # The store has its own clock, from window starts; deleting advances it too.
        self._highest = max(self._highest, start)
        if value is None:
            self._entries.pop((key_bytes(key), start), None)
        else:
            self._entries[key_bytes(key), start] = (key, Stamped(value, timestamp))

    def visible(self, start: int) -> bool:
        return start > self._highest - self.retention_ms

    def fetch(self, key: Any, start: int) -> Stamped | None:
        found = self._entries.get((key_bytes(key), start))
        return found[1] if found and self.visible(start) else None

    def fetch_range(self, key: Any, lowest: int, highest: int) -> list[tuple[int, Stamped]]:
        """Windows of a key whose start is between the two, both included, ascending."""
        wanted = key_bytes(key)
        found = [(start, stamped) for (at, start), (_, stamped) in self._entries.items() if at == wanted]
        return sorted((start, s) for start, s in found if lowest <= start <= highest and self.visible(start))

    def all_by_time(self) -> list[tuple[Windowed, Stamped]]:
        """Windows that may be emitted on close, by start, then by key: one more start than is visible by key."""
        order = sorted(self._entries, key=lambda at: (at[1], at[0]))
        oldest = self._highest - self.retention_ms
        return [(self._windowed(*at), self._entries[at][1]) for at in order if at[1] >= oldest]

    def items(self) -> list[tuple[Windowed, Stamped]]:
        """All visible windows, by key, then start."""
        return [(self._windowed(*at), self._entries[at][1]) for at in sorted(self._entries) if self.visible(at[1])]

    def _windowed(self, at: bytes, start: int) -> Windowed:
        return Windowed(self._entries[at, start][0], Window(start, start + self.size_ms))


class DuplicatesStore:
    """One side of a stream-stream join: every record by key and time, including equal ones."""

    def __init__(self, retention_ms: int) -> None:
        self.retention_ms = retention_ms
        self._highest = -1
        self._entries: dict[bytes, list[tuple[int, Any]]] = {}

    def put(self, key: Any, value: Any, timestamp: int) -> None:
        self._highest = max(self._highest, timestamp)
        self._entries.setdefault(key_bytes(key), []).append((timestamp, value))

    def fetch(self, key: Any, lowest: int, highest: int) -> list[tuple[int, Any]]:
        """By time; equal timestamps in order of arrival."""
        found = [entry for entry in self._entries.get(key_bytes(key), []) if lowest <= entry[0] <= highest]
        return sorted((e for e in found if e[0] > self._highest - self.retention_ms), key=lambda e: e[0])


class SessionStore:
    """Values by key and session. Old sessions expire as later ones are written."""

    def __init__(self, retention_ms: int) -> None:
        self.retention_ms = retention_ms
        self._highest = -1
        self._entries: dict[tuple[bytes, int, int], tuple[Windowed, Any]] = {}

    def put(self, key: Windowed, value: Any) -> None:
        start, end, _ = key.window
        self._highest = max(self._highest, end)
        if value is None:
            self._entries.pop((key_bytes(key.key), start, end), None)
        else:
            self._entries[key_bytes(key.key), start, end] = (key, value)

    def remove(self, key: Windowed) -> None:
        self.put(key, None)

    def find(self, key: Any, earliest_end: int, latest_start: int) -> list[tuple[Windowed, Any]]:
        """Sessions of a key within these limits of end and start, by end, then start."""
        wanted = key_bytes(key)
        return [
            (found, value)
            for at, found, value in self._visible()
            if at == wanted and found.window.end >= earliest_end and found.window.start <= latest_start
        ]

    def ended(self, earliest: int, latest: int) -> list[tuple[Windowed, Any]]:
        """Sessions of all keys by end, then start, then key.

        Includes those that retention hides from the other methods.
        """
        return [(found, value) for _, found, value in self._by_end() if earliest <= found.window.end <= latest]

    def items(self) -> list[tuple[Windowed, Any]]:
        """All visible sessions, by key, start, end."""
        visible = sorted(self._visible(), key=lambda entry: (entry[0], entry[1].window))
        return [(found, value) for _, found, value in visible]

    def _by_end(self) -> Iterator[tuple[bytes, Windowed, Any]]:
        for at in sorted(self._entries, key=lambda at: (at[2], at[1], at[0])):
            yield at[0], *self._entries[at]

    def _visible(self) -> Iterator[tuple[bytes, Windowed, Any]]:
        return (entry for entry in self._by_end() if entry[1].window.end > self._highest - self.retention_ms)
