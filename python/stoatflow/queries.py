"""Queries of committed state from outside the topology: from any thread, at any time, consistent within one commit.

`StoatFlow.store` returns handles that read the last commit; `StoatFlow.snapshot` holds one commit for several reads, of
all stores. Nothing here waits for the lanes, and what isn't committed is never seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from stoatflow._runtime.read_only import Entries, Forms, ReadOnlyKeyValueStore, ReadOnlyStore
from stoatflow._runtime.read_only_windows import ReadOnlySessionStore, ReadOnlyVersionedStore, ReadOnlyWindowStore
from stoatflow.durations import Duration, timeout_s
from stoatflow.restoring import TopicPartition

if TYPE_CHECKING:
    from stoatflow._runtime import bridge
    from stoatflow.sql import Parameters, SqlResult

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

Positions = Mapping["TopicPartition | tuple[str, int]", int]
"""The next offset to read, by topic and partition."""

_KINDS: dict[str, type[ReadOnlyStore]] = {
    "key_value": ReadOnlyKeyValueStore,
    "window": ReadOnlyWindowStore,
    "session": ReadOnlySessionStore,
    "versioned": ReadOnlyVersionedStore,
}


class Snapshot:
    """All stores as of one commit. Opened by `with`, `async with` or the first read; it ends with the application.

    `at_least` waits until input before these positions is committed, at most for `timeout`.

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
        """Created by `StoatFlow.snapshot`; `forms` describes the stores."""
        self._engine = engine
        self._forms = forms
        self._at_least = wanted(at_least)
        self._timeout = timeout_s(timeout) or 0.0
        self._native: bridge.StateSnapshot | None = None

    @property
    def epoch(self) -> int:
        """Number of the commit in this run; 0: the state that earlier runs left.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     broker.produce("users", "u1", "Ann")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         with app.snapshot() as at:
        ...             print(at.epoch > 0)
        True
        """
        return self._opened().epoch

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """Input that the commit includes: the next offset of each partition.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     broker.produce("users", "u1", "Ann")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         with app.snapshot() as at:
        ...             print(at.positions)
        {TopicPartition(topic='users', partition=0): 1}
        """
        return {TopicPartition(topic, number): offset for topic, number, offset in self._opened().positions()}

    def store(self, name: str, *, timestamps: bool = False, headers: bool = False) -> Any:
        """Return a store of the snapshot; with `timestamps`, values are `ValueAndTimestamp`.

        With `headers`, values of a store that keeps headers are `ValueTimestampHeaders`.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     broker.produce("users", "u1", "Ann")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         with app.snapshot() as at:
        ...             print(dict(at.store("users").all()))
        {'u1': 'Ann'}
        """
        reader = self._opened().reader(name, headers)
        return _KINDS[reader.kind](name, lambda: reader, timestamps, self._forms, headers=headers)

    def sql(
        self,
        query: str,
        parameters: Parameters | None = None,
        *,
        schema: Mapping[str, object] | None = None,
        allow_scan: bool = False,
    ) -> SqlResult:
        """Run a SELECT over the stores of this commit, like `StoatFlow.sql`.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     broker.produce("users", "u1", "Ann")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         with app.snapshot() as at:
        ...             print(at.sql("select value from users where _key = 'u1'").rows)
        [{'value': 'Ann'}]
        """
        from stoatflow.sql.engine import run  # only this method needs it
        from stoatflow.sql.reading import SnapshotStores

        stores = SnapshotStores(self._opened(), self._forms())
        return run(stores, query, parameters, schema=schema, allow_scan=allow_scan)

    def close(self) -> None:
        """Release the snapshot: later reads are errors. May be called more than once.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     broker.produce("users", "u1", "Ann")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         at = app.snapshot()
        ...         print(at.store("users").get("u1"))
        ...         at.close()
        Ann
        """
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
    """Return positions in the engine's form."""
    return [(topic, number, offset) for (topic, number), offset in (at_least or {}).items()]


def read_only_store(
    engine: bridge.Engine,
    name: str,
    at_least: Positions | None,
    timeout: float | Duration | None,
    timestamps: bool,
    forms: Forms,
    headers: bool = False,
) -> Any:
    """Return a handle whose reads each see the last commit."""
    given = (wanted(at_least), timeout_s(timeout) or 0.0)

    def read() -> bridge.StateReader:
        return engine.snapshot(name, *given).reader(name, headers)

    def opens(how: tuple[bool, int], keys: tuple[Any, Any, Any], condition: bytes) -> bridge.StateChanges:
        return engine.follow(name, given, how, keys, condition)

    return _KINDS[engine.store_kind(name)](name, read, timestamps, forms, opens, headers)
