"""Converts changelog rows between the engine's topics and the tasks of Spark.

Takes rows of a store, and how a part partitions records. Returns the task of each row, stream times by task, and the
records that turn a changelog into given rows. Pure: independent of a broker and of Spark.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from stoatflow.errors import IncompatibleStateError
from stoatflow.spark.twin.parts import KEYS, ONE
from stoatflow.spark.twin.routing import Reader
from stoatflow.spark.twin.task import murmur2
from stoatflow.spark.twin.task_state import Change, Retention, compacted

CLOCKS = "clocks"
"""The store in which the engine keeps stream times."""
APPLICATION = "application"
"""The clock that every record advances: each task has one."""

_SEVERAL = 1

TaskOf = Callable[[bytes | None], int]


class Time(NamedTuple):
    """The engine's row for an operator's time in a task (`Time` in `lane/stream_time.rs`)."""

    stream: int
    mark: int
    newest: int


NONE = Time(-1, -1, -1)


def task_of(behind: int, how: str, tasks: int) -> TaskOf:
    """Return a function that computes the task of a row; its key has `behind` bytes after the record's key.

    If Spark's tasks are those of Kafka Streams, this is the partition that Kafka's producers choose for the key.
    """
    if how == ONE or tasks == 1:
        return lambda _: 0
    reader = Reader(0, how, tasks, False)

    def of(key: bytes | None) -> int:
        plain = None if key is None else key[: len(key) - behind]
        if how == KEYS:
            return reader.task(plain, 0)
        return 0 if plain is None else murmur2(plain) % tasks

    return of


def times_of(value: bytes) -> list[Time]:
    """Decode a row of the store of stream times: one time for each task."""
    whole = struct.Struct(">qqq")
    if len(value) == 16:
        stream, mark = struct.unpack(">qq", value)
        return [Time(stream, mark, -1)]
    if len(value) == whole.size:
        return [Time(*whole.unpack(value))]
    if value[:1] == bytes([_SEVERAL]) and (len(value) - 1) % whole.size == 0:
        return [Time(*each) for each in whole.iter_unpack(value[1:])]
    raise IncompatibleStateError(
        "a row of the changelog of stream times holds no times",
        next_step=f"check that nothing else writes to the changelog topic of '{CLOCKS}'",
    )


def row_of(times: Sequence[Time]) -> tuple[bytes, int]:
    """Encode such a row: its value, and the timestamp of its record."""
    if len(times) == 1:
        (time,) = times
        value = struct.pack(">qq", time.stream, time.mark)
        if time.newest >= 0:
            value += struct.pack(">q", time.newest)
    else:
        value = bytes([_SEVERAL]) + b"".join(struct.pack(">qqq", *time) for time in times)
    return value, max(0, *(time.stream for time in times))


def is_time(key: bytes | None) -> bool:
    """Whether a row of that store is a time; other rows say in which task something is pending."""
    return key is not None and b"\0" not in key


def clocks_of_task(rows: Iterable[Change], task: int, clocks: frozenset[str], tasks: int) -> Iterator[Change]:
    """Return the rows of these clocks with which one of `tasks` tasks continues."""
    for row in rows:
        clock = (row.key or b"").partition(b"\0")[0].decode()
        if row.value is None or clock not in clocks:
            continue
        if not is_time(row.key):
            # A single task keeps such a row; among several tasks there is none (`ToSpark` refuses it).
            yield from [row] if tasks == 1 else []
            continue
        times = times_of(row.value)
        at = 0 if clock == APPLICATION else task
        if at < len(times) and times[at] != NONE:
            value, timestamp = row_of([times[at]])
            yield Change(CLOCKS, row.key, value, timestamp, None)


def clocks_of_all(of_tasks: Mapping[int, Iterable[Change]], tasks: int) -> Iterator[Change]:
    """Merge the rows of all tasks to those of one application: its own time is the highest of all."""
    found: dict[bytes, list[Time]] = {}
    for task, rows in of_tasks.items():
        for row in rows:
            if row.key is None or row.value is None:
                continue
            if not is_time(row.key):
                yield row
                continue
            (time,) = times_of(row.value)
            if row.key.decode() == APPLICATION:
                found[row.key] = [Time(*map(max, found.get(row.key, [NONE])[0], time))]
            else:
                found.setdefault(row.key, [NONE] * tasks)[task] = time
    for key, times in found.items():
        value, timestamp = row_of(times)
        yield Change(CLOCKS, key, value, timestamp, None)


def to_write(
    before: Iterable[Change], wanted: Iterable[Change], retentions: Mapping[str, Retention]
) -> Iterator[tuple[bytes | None, bytes | None, int, bytes | None]]:
    """Return the records (key, value, timestamp, headers) that turn the rows of a changelog into the wanted ones.

    `before` are all records of the changelog in order. Unchanged rows are not written again. A version older than the
    history is not deleted: it expires by itself.
    """
    old = {_identity(row, retentions): row for row in compacted(before, retentions)}
    for row in compacted(wanted, retentions):
        known = old.pop(_identity(row, retentions), None)
        if known is None or known[1:] != row[1:]:
            yield row.key, row.value, row.timestamp, row.headers
    for identity, row in old.items():
        if len(identity) == 1:
            yield row.key, None, row.timestamp, None


def _identity(row: Change, retentions: Mapping[str, Retention]) -> tuple[object, ...]:
    return (row.key, row.timestamp) if retentions[row.store].history_ms is not None else (row.key,)
