"""Timers of a processor in a unit test: recorded, and fired on request.

Takes registrations, returns timers in the engine's order: by time, then by the bytes of their keys. Keys are
serialized, as in the engine. Uses no clock.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from stoatflow.durations import Timestamp, timestamp_ms
from stoatflow.serdes import Serde, resolve
from stoatflow.stores import StoreBuilder
from stoatflow.timers import TimeDomain, Timer

_NOBODY: Any = object()


class _Row(NamedTuple):
    """A timer, ordered as timers fire."""

    domain: TimeDomain
    at: int
    key: bytes
    store: str


class MockTimers:
    """The timers of all stores of a mock."""

    def __init__(self) -> None:
        """Start without timers."""
        self._stores: dict[str, MockTimerStore] = {}
        self._pending: set[_Row] = set()
        self._key: Any = _NOBODY
        self._firing: _Row | None = None
        self._due: list[_Row] = []
        self._until = 0

    def add(self, store: StoreBuilder[Any, Any]) -> None:
        """Add a timer store."""
        self._stores[store.name] = MockTimerStore(self, store.name, resolve(store.key))

    def store(self, name: str) -> MockTimerStore | None:
        """Return the handle of a store, if it is a timer store."""
        return self._stores.get(name)

    @contextmanager
    def at_hand(self, key: Any) -> Iterator[None]:
        """Use this key if none is given."""
        before, self._key = self._key, key
        try:
            yield
        finally:
            self._key = before

    def all(self) -> list[Timer[Any]]:
        """Return the pending timers in firing order."""
        return [self.timer(row) for row in sorted(self._pending)]

    def of_key(self, store: str, key: bytes) -> list[Timer[Any]]:
        """Return the pending timers of a key in a store."""
        return [self.timer(row) for row in sorted(self._pending) if (row.store, row.key) == (store, key)]

    def timer(self, row: _Row) -> Timer[Any]:
        """Return the timer of a row."""
        return Timer(row.store, self._stores[row.store].serde.deserialize(row.key), row.at, row.domain)

    def key(self, given: Any, method: str) -> Any:
        """Return the given key, or the current one."""
        if given is not None:
            return given
        if self._key is _NOBODY:
            raise RuntimeError(
                f"{method}() needs a key here: no record is being processed. "
                f"Next: write {method}(at, key=...), or call context.process(record) in the test"
            )
        return self._key

    def register(self, row: _Row) -> None:
        """Add a timer."""
        self._pending.add(row)
        now = self._firing
        follows = now is not None and (now.domain, now.key) == (row.domain, row.key) and now.at < row.at <= self._until
        if follows and row not in self._due:
            insort(self._due, row)

    def cancel(self, row: _Row) -> None:
        """Remove a timer."""
        self._pending.discard(row)

    def fire(self, call: Callable[[Any], object], until: int, domain: TimeDomain) -> list[Timer[Any]]:
        """Call for the timers that are due, in order."""
        self._due = sorted(row for row in self._pending if row.domain == domain and row.at <= until)
        self._until = until
        fired = []
        try:
            while self._due:
                row = self._due.pop(0)
                if row not in self._pending:
                    continue
                self._pending.discard(row)
                self._firing = row
                timer = self.timer(row)
                fired.append(timer)
                with self.at_hand(timer.key):
                    call(timer)
        finally:
            self._firing, self._due = None, []
        return fired


class MockTimerStore:
    """A `TimerStore` in a unit test of a processor."""

    def __init__(self, timers: MockTimers, name: str, serde: Serde[Any]) -> None:
        """Created by `MockProcessorContext`."""
        self.name = name
        self.serde = serde
        self._timers = timers

    def register(self, at: Timestamp, *, key: Any = None, domain: TimeDomain = "event") -> None:
        """Record a timer."""
        self._timers.register(self._row("register", at, key, domain))

    def cancel(self, at: Timestamp, *, key: Any = None, domain: TimeDomain = "event") -> None:
        """Cancel a timer, if it exists."""
        self._timers.cancel(self._row("cancel", at, key, domain))

    def pending(self, key: Any = None) -> list[Timer[Any]]:
        """Return the timers of a key, event time first, then by time."""
        return self._timers.of_key(self.name, self._bytes("pending", key))

    def __repr__(self) -> str:
        """Show the name of the store."""
        return f"<TimerStore '{self.name}' of a MockProcessorContext>"

    def _row(self, method: str, at: Timestamp, key: Any, domain: TimeDomain) -> _Row:
        if domain not in ("event", "processing"):
            raise ValueError(
                f'domain= is "event" (the time of records) or "processing" (the machine\'s clock), not {domain!r}'
            )
        return _Row(domain, timestamp_ms(at), self._bytes(method, key), self.name)

    def _bytes(self, method: str, key: Any) -> bytes:
        meant = self._timers.key(key, method)
        if meant is None:
            raise ValueError("a timer has no null key. Next: skip records without a key: if record.key is None: return")
        return self.serde.serialize(meant)
