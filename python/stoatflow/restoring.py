"""Watching a restore: the application's listener, and a progress bar on a terminal.

Takes the engine's progress of changelog partitions; calls the listener, and draws one line on a terminal. Never touches
a store, and never stops a restore: exceptions of a listener are logged.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple, TextIO

_log = logging.getLogger("stoatflow")
_WIDTH = 28


class TopicPartition(NamedTuple):
    """A partition of a topic.

    >>> sf.TopicPartition("orders", 0) == ("orders", 0)
    True
    """

    topic: str
    partition: int


class RestoreListener:
    """Called while stores are restored from their changelogs: extend it and override what matters.

    Only partitions with records to restore are reported. One thread of the engine makes the calls, in order, and
    restoring does not wait for them; the application runs when all calls have returned.

    >>> class Told(sf.RestoreListener):
    ...     def on_restore_end(self, partition, store, total):
    ...         print(f"{store}: {total} records of {partition.topic}")
    >>> Told().on_restore_end(sf.TopicPartition("users", 0), "users", 7)
    users: 7 records of users
    """

    def on_restore_start(self, partition: TopicPartition, store: str, start: int, end: int) -> None:
        """Called at the start: records from offset `start` to before `end` will be read.

        >>> class Told(sf.RestoreListener):
        ...     def on_restore_start(self, partition, store, start, end):
        ...         print(f"{store}: {end - start} records of {partition.topic}")
        >>> Told().on_restore_start(sf.TopicPartition("users", 0), "users", 3, 10)
        users: 7 records of users
        """

    def on_batch_restored(self, partition: TopicPartition, store: str, end: int, restored: int) -> None:
        """Called after a batch: `restored` more records are in the store; the next one is at offset `end`.

        >>> class Told(sf.RestoreListener):
        ...     def on_batch_restored(self, partition, store, end, restored):
        ...         print(f"{store}: {restored} more, up to {end}")
        >>> Told().on_batch_restored(sf.TopicPartition("users", 0), "users", 5, 2)
        users: 2 more, up to 5
        """

    def on_restore_end(self, partition: TopicPartition, store: str, total: int) -> None:
        """Called at the end: the store has caught up with the partition.

        >>> class Told(sf.RestoreListener):
        ...     def on_restore_end(self, partition, store, total):
        ...         print(f"{store}: {total} records of {partition.topic}-{partition.partition}")
        >>> Told().on_restore_end(sf.TopicPartition("users", 0), "users", 7)
        users: 7 records of users-0
        """

    def on_restore_suspended(self, partition: TopicPartition, store: str, total: int) -> None:
        """Called if the application stops before the store has caught up; the next start continues from there.

        >>> class Told(sf.RestoreListener):
        ...     def on_restore_suspended(self, partition, store, total):
        ...         print(f"{store}: stopped after {total} records")
        >>> Told().on_restore_suspended(sf.TopicPartition("users", 0), "users", 5)
        users: stopped after 5 records
        """


def restore_callback(listener: RestoreListener) -> Callable[[str, str, str, int, int, int], None]:
    """Convert a listener to the callback of the engine."""

    def notify(step: str, store: str, topic: str, number: int, first: int, second: int) -> None:
        partition = TopicPartition(topic, number)
        try:
            if step == "start":
                listener.on_restore_start(partition, store, first, second)
            elif step == "batch":
                listener.on_batch_restored(partition, store, first, second)
            elif step == "end":
                listener.on_restore_end(partition, store, first)
            else:
                listener.on_restore_suspended(partition, store, first)
        except Exception:  # an exception of a listener must not stop the restore
            _log.exception("a restore listener failed at '%s' of %s", step, store)

    return notify


class RestoreBar:
    """One line on a terminal that is rewritten, and removed at the end."""

    def __init__(self, stream: TextIO, now: Callable[[], float] = time.monotonic) -> None:
        """Write nothing yet."""
        self._stream, self._now = stream, now
        self._began: float | None = None
        self._shown = 0

    def draw(self, rows: Iterable[tuple[str, int, int, bool]]) -> None:
        """Show the progress of all stores: name, records to read, records read, and whether it has caught up."""
        stores = [row for row in rows if row[1]]
        total, done = sum(row[1] for row in stores), sum(row[2] for row in stores)
        if not total or all(row[3] for row in stores):
            self.clear()
            return
        now = self._now()
        self._began = now if self._began is None else self._began
        passed = now - self._began
        filled = done * _WIDTH // total
        line = (
            f"restoring [{'#' * filled}{'.' * (_WIDTH - filled)}] {100 * done // total:3}% "
            f"{done:,} of {total:,} records, {sum(row[3] for row in stores)} of {len(stores)} stores"
        )
        if done and passed > 1:
            line += f", {done / passed:,.0f}/s, {(total - done) * passed / done:.0f} s left"
        # The cursor returns to the start of the line, so that a log line overwrites the bar instead of
        # following it.
        self._stream.write(line.ljust(self._shown) + "\r")
        self._stream.flush()
        self._shown = len(line)

    def clear(self) -> None:
        """Remove the line."""
        if self._shown:
            self._stream.write(" " * self._shown + "\r")
            self._stream.flush()
            self._shown = 0
