"""Following a store: its rows as of one commit, then the changes of later commits, in order.

Takes a function that opens the store, returns batches of rows, to threads and event loops. The engine buffers up to
`buffer_bytes` for a reader; no commit waits for a reader.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from stoatflow.durations import Duration, timeout_s
from stoatflow.errors import ConfigError
from stoatflow.finding import query
from stoatflow.restoring import TopicPartition
from stoatflow.windowed import Windowed

if TYPE_CHECKING:
    from types import TracebackType

    from stoatflow._runtime import bridge
    from stoatflow.expressions import Expression

__all__ = ["BUFFER_BYTES", "ChangeBatch", "Changes", "FollowableKeys", "FollowableWindows", "Opens"]

K = TypeVar("K")
V = TypeVar("V")

BUFFER_BYTES = 64 << 20
"""Default of `buffer_bytes`: most bytes that wait for a reader, in addition to one commit."""

_LOOK_S = 0.2
"""How often a waiting thread checks for signals."""

Opens = Callable[[tuple[bool, int], tuple[Any, Any, Any], bytes], "bridge.StateChanges"]
"""Opens a follower of a store: (with a snapshot, bytes to buffer), (first key, last key, prefix), condition."""


@dataclass(frozen=True, slots=True)
class ChangeBatch(Generic[K, V]):
    """Rows of one commit, or a part of them.

    >>> sf.ChangeBatch(epoch=7, positions={}, rows=[("u1", None)], snapshot=False, complete=True).rows
    [('u1', None)]
    """

    epoch: int
    """Number of the commit in this run; 0: the state that earlier runs left."""
    positions: dict[TopicPartition, int]
    """Input that the commit includes: the next offset of each partition."""
    rows: list[tuple[K, V | None]]
    """Key and value; the value is `None` if the row was deleted. A key occurs once per commit."""
    snapshot: bool
    """Whether these rows existed at the start."""
    complete: bool
    """Whether it is the last batch of its commit or of the snapshot. Large ones have several; the last may be empty."""


class Changes(Generic[K, V]):
    """The changes of a store, for one reader: a thread (`for`) or a task (`async for`).

    Created by `store.follow()`; opened by `with`, `async with` or the first read. It ends when it is closed, or the
    application has stopped.

    >>> builder = sf.StreamsBuilder()
    >>> users = builder.table("users", key=str, value=str, store="users")
    >>> with sf.EmbeddedBroker() as broker:
    ...     broker.create_topic("users")
    ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
    ...         app.wait_until("RUNNING")
    ...         with app.store("users").follow() as changes:
    ...             before = next(changes).rows
    ...             broker.produce("users", "u1", "Ann")
    ...             print(before, next(changes).rows)
    [] [('u1', 'Ann')]
    """

    def __init__(self, opens: Callable[[], bridge.StateChanges], show: Callable[[Any, int], Any]) -> None:
        """Created by the stores."""
        self._opens = opens
        self._show = show
        self._native: bridge.StateChanges | None = None
        self._opening = threading.Lock()
        self._reading = threading.Lock()
        self._kept: ChangeBatch[K, V] | None = None
        self._closed = False
        self._awaited = False

    def __iter__(self) -> Changes[K, V]:
        """Return itself."""
        return self

    def __next__(self) -> ChangeBatch[K, V]:
        """Wait for the next batch."""
        native = self._opened()
        while (batch := self._next()) is None:
            if native.is_over():
                raise StopIteration
            native.wait(_LOOK_S)
        return batch

    def poll(self, timeout: float | Duration = 0) -> ChangeBatch[K, V] | None:
        """Return the next batch; `None` if none arrives within `timeout`, or there are no more.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     broker.produce("users", "u1", "Ann")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         with app.store("users").follow() as changes:
        ...             print(changes.poll("10s").rows, changes.poll())
        [('u1', 'Ann')] None
        """
        native = self._opened()
        until = time.monotonic() + (timeout_s(timeout) or 0.0)
        while (batch := self._next()) is None:
            left = until - time.monotonic()
            if left <= 0 or native.is_over():
                return None
            native.wait(min(left, _LOOK_S))
        return batch

    def __aiter__(self) -> Changes[K, V]:
        """Return itself."""
        return self

    async def __anext__(self) -> ChangeBatch[K, V]:
        """Wait for the next batch without blocking the event loop. Nothing is lost if this is cancelled."""
        if self._awaited:
            raise ConfigError(
                "these changes are awaited by another task already",
                next_step="read them in one task, or follow the store once for each",
            )
        self._awaited = True
        try:
            native = await asyncio.to_thread(self._opened)
            while True:
                await asyncio.to_thread(self._fetch)
                if (batch := self._next(fetch=False)) is not None:
                    return batch
                if native.is_over():
                    raise StopAsyncIteration
                await _ready(native)
        finally:
            self._awaited = False

    def close(self) -> None:
        """End it, also for a reader that waits. May be called more than once.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until("RUNNING")
        ...         changes = app.store("users").follow()
        ...         changes.close()
        ...         print(list(changes))
        []
        """
        self._closed = True
        if self._native is not None:
            self._native.close()

    def __enter__(self) -> Changes[K, V]:
        """Open it: every later commit is included."""
        self._opened()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    async def __aenter__(self) -> Changes[K, V]:
        """Open it without blocking the event loop."""
        await asyncio.to_thread(self._opened)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def _opened(self) -> bridge.StateChanges:
        with self._opening:
            if self._native is None:
                self._native = self._opens()
                if self._closed:  # closed meanwhile, by another thread
                    self._native.close()
            return self._native

    def _next(self, *, fetch: bool = True) -> ChangeBatch[K, V] | None:
        """Return a batch that was not returned before."""
        if fetch:
            self._fetch()
        with self._reading:
            batch, self._kept = self._kept, None
            return batch

    def _fetch(self) -> None:
        """Read a batch, and keep it until it is returned: a task that awaits it may be cancelled."""
        native = self._opened()
        with self._reading:
            if self._kept is not None or (found := native.next()) is None:
                return
            epoch, positions, snapshot, complete, rows = found
            self._kept = ChangeBatch(
                epoch,
                {TopicPartition(topic, number): offset for topic, number, offset in positions},
                [(key, None if value is None else self._show(value, at)) for key, value, at in rows],
                snapshot,
                complete,
            )


async def _ready(native: bridge.StateChanges) -> None:
    """Wait until there may be something to read."""
    if not native.wake_later():
        return
    loop = asyncio.get_running_loop()
    woken = asyncio.Event()
    loop.add_reader(native.fileno(), woken.set)
    try:
        await woken.wait()
    finally:
        loop.remove_reader(native.fileno())


class _Followable:
    name: str
    _opens: Opens | None
    _headers: bool
    _value: Callable[[Any, int], Any]

    def _followed(
        self, where: Expression | None, keys: tuple[Any, Any, Any], snapshot: bool, buffer_bytes: int
    ) -> Changes[Any, Any]:
        opens = self._opens
        if opens is None:
            raise ConfigError(
                f"the store '{self.name}' of a snapshot stands still",
                next_step=f"follow app.store({self.name!r}): it begins with a snapshot of its own",
            )
        if self._headers:
            raise ConfigError(
                f"the changes of the store '{self.name}' are values without their headers",
                next_step=f"follow app.store({self.name!r}), and read the headers of a key with get()",
            )
        if not isinstance(buffer_bytes, int) or isinstance(buffer_bytes, bool) or buffer_bytes < 1:
            raise ConfigError(
                f"buffer_bytes={buffer_bytes!r} is no number of bytes", next_step="give at least 1, or leave it out"
            )
        lo, hi, prefix = keys
        if prefix is not None and (lo is not None or hi is not None):
            raise ConfigError("prefix= stands beside lo= or hi=", next_step="give a prefix, or a range")
        condition, _ = query(where, None, None, None, True)
        return Changes(lambda: opens((bool(snapshot), buffer_bytes), keys, condition), self._value)


class FollowableKeys(_Followable, Generic[K, V]):
    """A key-value store that can be followed."""

    def follow(
        self,
        where: Expression | None = None,
        *,
        lo: K | None = None,
        hi: K | None = None,
        prefix: K | bytes | None = None,
        snapshot: bool = True,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> Changes[K, V]:
        """Follow the rows: first the existing ones (with `snapshot`), then those that each commit changes.

        Only rows that meet `where`, a condition as in `find`: a row that no longer meets it is reported as deleted.
        Only rows between two keys, both included, or with a prefix. A reader that leaves more than `buffer_bytes`
        unread, in addition to one commit, gets a `ChangesLostError`.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     broker.produce("users", "u1", "Ann")
        ...     broker.produce("users", "u2", "Bob")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         with app.store("users").follow(sf.value == "Bob") as changes:
        ...             print(next(changes).rows)
        [('u2', 'Bob')]
        """
        return self._followed(where, (lo, hi, prefix), snapshot, buffer_bytes)


class FollowableWindows(_Followable, Generic[K, V]):
    """A store of windows or sessions that can be followed."""

    def follow(self, *, snapshot: bool = True, buffer_bytes: int = BUFFER_BYTES) -> Changes[Windowed[K], V]:
        """Follow the rows: first the existing ones (with `snapshot`), then those that each commit changes.

        Rows removed by retention are not reported. A reader that leaves more than `buffer_bytes` unread, in addition to
        one commit, gets a `ChangesLostError`.

        >>> builder = sf.StreamsBuilder()
        >>> clicks = builder.stream("clicks", key=str, value=str).group_by_key()
        >>> visits = clicks.windowed_by(sf.SessionWindows("1m", grace="0s")).count(store="visits")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("clicks")
        ...     broker.produce("clicks", "ann", "/home", timestamp=60_000)
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         with app.store("visits").follow() as changes:
        ...             print(next(changes).rows)
        [(Windowed(key='ann', window=Window(start=60000, end=60000)), 1)]
        """
        return self._followed(None, (None, None, None), snapshot, buffer_bytes)
