"""The state of one task between two triggers: the changelogs of its stores, compacted, in Spark's state.

Takes changelog rows, cells (Spark's MapState: a number, bytes). Returns the rows from which a store is restored. Owns
the chunks. A trigger appends its changes; when there are twice as many rows as after the last compaction, all are read,
and the last row of each key is written again. So the cost of a trigger is proportional to its changes, and that of a
restart to the kept rows. Independent of Spark and of the engine.
"""

from __future__ import annotations

import itertools
import json
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

HEAD = -1
"""The cell that lists the chunks, and the trigger that wrote them."""

_ROWS = 5_000
"""Rows per chunk."""
_SLACK = 1_000
"""Number of rows up to which compaction isn't worthwhile."""
_DAY_MS = 86_400_000
"""Kafka Streams keeps changelogs of windows a day longer than the windows."""

Headers = Sequence[tuple[str, bytes | None]]


class Change(NamedTuple):
    """A record of a changelog."""

    store: str
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: bytes | None


class Cells(Protocol):
    """The methods of a MapState that are used here."""

    def get(self, number: int) -> bytes | None:
        """Return a cell; `None` if it doesn't exist."""

    def put(self, number: int, data: bytes) -> None:
        """Write a cell."""

    def remove(self, number: int) -> None:
        """Remove an existing cell."""


@dataclass(frozen=True)
class Retention:
    """How long the rows of a store are kept."""

    retention_ms: int | None = None
    """For windows and sessions: relative to the time of the newest row."""
    history_ms: int | None = None
    """For versions: older ones are removed, except the last one of each key."""


@dataclass(frozen=True)
class _Head:
    token: str
    first: int
    after: int
    rows: int
    compacted: int

    def data(self) -> bytes:
        return json.dumps(vars(self)).encode()


_NOTHING = _Head("", 0, 0, 0, 0)


class TaskState:
    """The state of one task."""

    def __init__(self, cells: Cells, retentions: Mapping[str, Retention]) -> None:
        """Read only the head."""
        self._cells = cells
        self._keeping = retentions
        head = cells.get(HEAD)
        self._head = _NOTHING if head is None else _Head(**json.loads(head))

    @property
    def token(self) -> str:
        """Which trigger wrote this state; empty before the first one."""
        return self._head.token

    def rows(self) -> list[Change]:
        """Return the rows from which the stores are restored."""
        return compacted(self._all(), self._keeping)

    def add(self, changes: Iterable[Change], token: str) -> None:
        """Append the changes of a trigger; the token is new."""
        new = latest(changes, self._keeping)
        head = self._head
        if head.rows + len(new) > 2 * head.compacted + _SLACK:
            rows = compacted(itertools.chain(self._all(), new), self._keeping)
            for number in range(head.first, head.after):
                self._cells.remove(number)
            after = self._write(head.after, rows)
            self._head = _Head(token, head.after, after, len(rows), len(rows))
        else:
            after = self._write(head.after, new)
            self._head = _Head(token, head.first, after, head.rows + len(new), head.compacted)
        self._cells.put(HEAD, self._head.data())

    def _all(self) -> Iterator[Change]:
        for number in range(self._head.first, self._head.after):
            data = self._cells.get(number)
            if data is None:
                raise AssertionError(f"chunk {number} of {self._head} is not there")
            yield from read_chunk(data)

    def _write(self, number: int, rows: Sequence[Change]) -> int:
        for at in range(0, len(rows), _ROWS):
            self._cells.put(number, chunk(rows[at : at + _ROWS]))
            number += 1
        return number


def latest(changes: Iterable[Change], retentions: Mapping[str, Retention]) -> list[Change]:
    """Return the last row of each key (for versions, of each key and time), in the order of the last writes."""
    last: dict[tuple[Any, ...], Change] = {}
    for change in changes:
        versions = retentions.get(change.store, _FOREVER).history_ms is not None
        identity = (change.store, change.key, change.timestamp) if versions else (change.store, change.key)
        # Removed first, so that the order is that of the last writes.
        last.pop(identity, None)
        last[identity] = change
    return list(last.values())


def compacted(changes: Iterable[Change], retentions: Mapping[str, Retention]) -> list[Change]:
    """Return the rows that remain if no other rows precede them: no tombstones, nothing expired."""
    rows = latest(changes, retentions)
    newest: dict[str, int] = {}
    last_version: dict[tuple[str, bytes | None], int] = {}
    for row in rows:
        newest[row.store] = max(newest.get(row.store, 0), row.timestamp)
        at = (row.store, row.key)
        last_version[at] = max(last_version.get(at, 0), row.timestamp)
    return [row for row in rows if _stays(row, retentions, newest, last_version)]


def _stays(
    row: Change,
    retentions: Mapping[str, Retention],
    newest: Mapping[str, int],
    last_version: Mapping[tuple[str, bytes | None], int],
) -> bool:
    how = retentions.get(row.store, _FOREVER)
    if how.history_ms is not None:
        # A tombstone ends the version before it.
        young = row.timestamp >= newest[row.store] - how.history_ms - _DAY_MS
        return young or row.timestamp == last_version[row.store, row.key]
    if row.value is None:
        return False
    return how.retention_ms is None or row.timestamp >= newest[row.store] - how.retention_ms - _DAY_MS


_FOREVER = Retention()


def chunk(rows: Sequence[Change]) -> bytes:
    """Encode rows as an Arrow record batch, which any reader of Spark's state can decode."""
    import pyarrow as pa

    schema = pa.schema(
        [
            ("store", pa.string()), ("key", pa.binary()), ("value", pa.binary()), ("timestamp", pa.int64()),
            ("headers", pa.binary()),
        ]
    )  # fmt: skip
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), schema, strict=True)]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
    return bytes(sink.getvalue())


def read_chunk(data: bytes) -> Iterator[Change]:
    """Decode the rows of a chunk."""
    import pyarrow as pa

    with pa.ipc.open_stream(data) as reader:
        for batch in reader:
            yield from itertools.starmap(Change, zip(*(column.to_pylist() for column in batch.columns), strict=True))


def packed(headers: Headers) -> bytes | None:
    """Encode headers as bytes; `None` for no headers."""
    if not headers:
        return None
    parts = []
    for name, value in headers:
        text = name.encode()
        parts.append(struct.pack(">Ii", len(text), -1 if value is None else len(value)) + text + (value or b""))
    return b"".join(parts)


def unpacked(data: bytes | None) -> list[tuple[str, bytes | None]]:
    """Decode headers."""
    found: list[tuple[str, bytes | None]] = []
    at = 0
    while data is not None and at < len(data):
        name, value = struct.unpack_from(">Ii", data, at)
        at += 8
        text = data[at : at + name].decode()
        at += name
        found.append((text, None if value < 0 else data[at : at + value]))
        at += max(value, 0)
    return found
