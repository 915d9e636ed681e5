"""Read-only stores whose rows have times: windows, sessions, versions.

Takes a function that opens a reader for each read; returns lists of windows, sessions or versions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from stoatflow._runtime.read_only import ReadOnlyStore
from stoatflow.durations import Timestamp, timestamp_ms
from stoatflow.following import FollowableWindows
from stoatflow.stores import VersionedRecord
from stoatflow.windowed import Windowed

__all__ = ["ReadOnlySessionStore", "ReadOnlyVersionedStore", "ReadOnlyWindowStore"]

K = TypeVar("K")
V = TypeVar("V")

_LAST = 2**63 - 1


class ReadOnlyWindowStore(ReadOnlyStore, FollowableWindows[K, V], Generic[K, V]):
    """A value per key and window. Time bounds are inclusive and refer to the starts of windows.

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
        """Return the value of the window that starts at `start`; without it (start, value) of the key's windows.

        >>> builder = sf.StreamsBuilder()
        >>> clicks = builder.stream("clicks", key=str, value=str).group_by_key()
        >>> counts = clicks.windowed_by(sf.TimeWindows("1m", grace="0s")).count(store="counts")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("clicks")
        ...     broker.produce("clicks", "ann", "/home", timestamp=60_000)
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         print(app.store("counts").fetch("ann", 60_000), app.store("counts").fetch("ann"))
        1 [(60000, 1)]
        """
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
        """Return the windows of the keys between two keys.

        >>> builder = sf.StreamsBuilder()
        >>> clicks = builder.stream("clicks", key=str, value=str).group_by_key()
        >>> counts = clicks.windowed_by(sf.TimeWindows("1m", grace="0s")).count(store="counts")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("clicks")
        ...     broker.produce("clicks", "ann", "/home", timestamp=60_000)
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         print(app.store("counts").fetch_range("ann", "bob", frm=60_000))
        [(Windowed(key='ann', window=Window(start=60000, end=120000)), 1)]
        """
        return self._windows(lo, hi, frm, to, reverse=reverse)

    def fetch_all(
        self, frm: Timestamp | None = None, to: Timestamp | None = None, *, reverse: bool = False
    ) -> list[tuple[Windowed[K], V]]:
        """Return the windows of all keys that start between two times.

        >>> builder = sf.StreamsBuilder()
        >>> clicks = builder.stream("clicks", key=str, value=str).group_by_key()
        >>> counts = clicks.windowed_by(sf.TimeWindows("1m", grace="0s")).count(store="counts")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("clicks")
        ...     broker.produce("clicks", "ann", "/home", timestamp=60_000)
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         print(app.store("counts").fetch_all(60_000, 120_000))
        [(Windowed(key='ann', window=Window(start=60000, end=120000)), 1)]
        """
        return self._windows(None, None, frm, to, reverse=reverse)

    def all(self, *, reverse: bool = False) -> list[tuple[Windowed[K], V]]:
        """Return all windows.

        >>> builder = sf.StreamsBuilder()
        >>> clicks = builder.stream("clicks", key=str, value=str).group_by_key()
        >>> counts = clicks.windowed_by(sf.TimeWindows("1m", grace="0s")).count(store="counts")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("clicks")
        ...     broker.produce("clicks", "ann", "/home", timestamp=60_000)
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         print(app.store("counts").all())
        [(Windowed(key='ann', window=Window(start=60000, end=120000)), 1)]
        """
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
        """Return all sessions of a key, or of the keys between two.

        >>> builder = sf.StreamsBuilder()
        >>> clicks = builder.stream("clicks", key=str, value=str).group_by_key()
        >>> visits = clicks.windowed_by(sf.SessionWindows("1m", grace="0s")).count(store="visits")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("clicks")
        ...     broker.produce("clicks", "ann", "/home", timestamp=60_000)
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         print(app.store("visits").fetch("ann"))
        [(Windowed(key='ann', window=Window(start=60000, end=60000)), 1)]
        """
        return self._sessions(lo, lo if hi is None else hi, 0, _LAST, reverse=reverse)

    def find_sessions(
        self, key: K | None = None, *, earliest_end: Timestamp, latest_start: Timestamp, reverse: bool = False
    ) -> list[tuple[Windowed[K], V]]:
        """Return the sessions that end at `earliest_end` or later and start at `latest_start` or earlier.

        >>> builder = sf.StreamsBuilder()
        >>> clicks = builder.stream("clicks", key=str, value=str).group_by_key()
        >>> visits = clicks.windowed_by(sf.SessionWindows("1m", grace="0s")).count(store="visits")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("clicks")
        ...     broker.produce("clicks", "ann", "/home", timestamp=60_000)
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         print(app.store("visits").find_sessions("ann", earliest_end=50_000, latest_start=70_000))
        [(Windowed(key='ann', window=Window(start=60000, end=60000)), 1)]
        """
        times = timestamp_ms(earliest_end), timestamp_ms(latest_start)
        return self._sessions(key, key, *times, reverse=reverse)

    def fetch_session(self, key: K, start: Timestamp, end: Timestamp) -> V | None:
        """Return the value of one session.

        >>> builder = sf.StreamsBuilder()
        >>> clicks = builder.stream("clicks", key=str, value=str).group_by_key()
        >>> visits = clicks.windowed_by(sf.SessionWindows("1m", grace="0s")).count(store="visits")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("clicks")
        ...     broker.produce("clicks", "ann", "/home", timestamp=60_000)
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         print(app.store("visits").fetch_session("ann", 60_000, 60_000))
        1
        """
        first, last = timestamp_ms(start), timestamp_ms(end)
        found = self._sessions(key, key, last, first, reverse=False)
        exact = (value for windowed, value in found if (windowed.window.start, windowed.window.end) == (first, last))
        return next(exact, None)

    def all(self, *, reverse: bool = False) -> list[tuple[Windowed[K], V]]:
        """Return all sessions.

        >>> builder = sf.StreamsBuilder()
        >>> clicks = builder.stream("clicks", key=str, value=str).group_by_key()
        >>> visits = clicks.windowed_by(sf.SessionWindows("1m", grace="0s")).count(store="visits")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("clicks")
        ...     broker.produce("clicks", "ann", "/home", timestamp=60_000)
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         print(app.store("visits").all())
        [(Windowed(key='ann', window=Window(start=60000, end=60000)), 1)]
        """
        return self._sessions(None, None, 0, _LAST, reverse=reverse)

    def _rows(self) -> Iterable[tuple[Any, Any, int]]:
        return self._read().sessions(None, None, 0, _LAST, False)

    def _sessions(self, lo: Any, hi: Any, earliest_end: int, latest_start: int, *, reverse: bool) -> list[Any]:
        found = self._read().sessions(lo, hi, earliest_end, latest_start, reverse)
        return [(windowed, self._value(value, time)) for windowed, value, time in found]


class ReadOnlyVersionedStore(ReadOnlyStore, Generic[K, V]):
    """Versions of a key's value, by the timestamp since which each is valid.

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
        """Return the version that is valid now, or was valid at a time.

        >>> builder = sf.StreamsBuilder()
        >>> prices = builder.table("prices", key=str, value=str, store=sf.Materialized("prices", history="1h"))
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("prices")
        ...     broker.produce("prices", "tea", "cheap", timestamp=1_000)
        ...     broker.produce("prices", "tea", "dear", timestamp=2_000)
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         prices = app.store("prices")
        ...         print(prices.get("tea").value, prices.get("tea", as_of=1_500).value)
        dear cheap
        """
        found = self._read().version(key, None if as_of is None else timestamp_ms(as_of))
        return None if found is None else VersionedRecord(*found)

    def history(self, key: K, frm: Timestamp | None = None, to: Timestamp | None = None) -> list[VersionedRecord[V]]:
        """Return the versions that were valid at some time between two times, the oldest first.

        >>> builder = sf.StreamsBuilder()
        >>> prices = builder.table("prices", key=str, value=str, store=sf.Materialized("prices", history="1h"))
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("prices")
        ...     broker.produce("prices", "tea", "cheap", timestamp=1_000)
        ...     broker.produce("prices", "tea", "dear", timestamp=2_000)
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         print([(each.value, each.timestamp) for each in app.store("prices").history("tea")])
        [('cheap', 1000), ('dear', 2000)]
        """
        times = (0 if frm is None else timestamp_ms(frm), _LAST if to is None else timestamp_ms(to))
        return [VersionedRecord(*found) for found in self._read().history(key, *times)]
