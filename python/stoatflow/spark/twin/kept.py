"""The state of one task between two triggers: the changelogs of its stores, compacted, in Spark's state.

Takes: rows of changelogs, cells (Spark's MapState: a number, bytes). Gives: the rows that a store is restored from.
Owns: the chunks. A trigger appends what has changed; when there are twice as many rows as the last compaction left,
all are read, and of each key the last one is written again. So a trigger costs what it changes, and a restart what is
kept. Never: knows of Spark or of the engine.
"""

from __future__ import annotations

import itertools
import json
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

HEAD = -1
"""The cell that says which chunks there are, and of which trigger they are."""

_ROWS = 5_000
"""Rows of one chunk."""
_SLACK = 1_000
"""Rows that are never worth a compaction."""
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
    """What is used of a MapState."""

    def get(self, number: int) -> bytes | None:
        """Return a cell; none if it isn't there."""

    def put(self, number: int, data: bytes) -> None:
        """Write a cell."""

    def remove(self, number: int) -> None:
        """Remove a cell that is there."""


@dataclass(frozen=True)
class Keeping:
    """How long the rows of a store are kept."""

    retention_ms: int | None = None
    """Of windows and sessions: by the time of the newest row."""
    history_ms: int | None = None
    """Of versions: older ones go, but for the last of each key."""


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


class Kept:
    """The state of one task."""

    def __init__(self, cells: Cells, keeping: Mapping[str, Keeping]) -> None:
        """Read the head, nothing else."""
        self._cells = cells
        self._keeping = keeping
        head = cells.get(HEAD)
        self._head = _NOTHING if head is None else _Head(**json.loads(head))

    @property
    def token(self) -> str:
        """Which trigger this is the state of; empty before the first one."""
        return self._head.token

    def rows(self) -> list[Change]:
        """Return what the stores are to be restored from."""
        return compacted(self._all(), self._keeping)

    def add(self, changes: Iterable[Change], token: str) -> None:
        """Write what a trigger has changed; the token is new."""
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


def latest(changes: Iterable[Change], keeping: Mapping[str, Keeping]) -> list[Change]:
    """Return the last row of each key, of versions the last of each key and time, in the order in which they came."""
    last: dict[tuple[Any, ...], Change] = {}
    for change in changes:
        versions = keeping.get(change.store, _FOREVER).history_ms is not None
        identity = (change.store, change.key, change.timestamp) if versions else (change.store, change.key)
        # Removed first, so that the order is that of the last writes.
        last.pop(identity, None)
        last[identity] = change
    return list(last.values())


def compacted(changes: Iterable[Change], keeping: Mapping[str, Keeping]) -> list[Change]:
    """Return what is left of these rows if nothing stands before them: no tombstones, nothing that is too old."""
    rows = latest(changes, keeping)
    newest: dict[str, int] = {}
    last_version: dict[tuple[str, bytes | None], int] = {}
    for row in rows:
        newest[row.store] = max(newest.get(row.store, 0), row.timestamp)
        at = (row.store, row.key)
        last_version[at] = max(last_version.get(at, 0), row.timestamp)
    return [row for row in rows if _stays(row, keeping, newest, last_version)]


def _stays(
    row: Change,
    keeping: Mapping[str, Keeping],
    newest: Mapping[str, int],
    last_version: Mapping[tuple[str, bytes | None], int],
) -> bool:
    how = keeping.get(row.store, _FOREVER)
    if how.history_ms is not None:
        # A tombstone ends the version before it.
        young = row.timestamp >= newest[row.store] - how.history_ms - _DAY_MS
        return young or row.timestamp == last_version[row.store, row.key]
    if row.value is None:
        return False
    return how.retention_ms is None or row.timestamp >= newest[row.store] - how.retention_ms - _DAY_MS


_FOREVER = Keeping()


def chunk(rows: Sequence[Change]) -> bytes:
    """Return rows as bytes: a record batch of Arrow, which any reader of Spark's state can read too."""
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
    """Return the rows of a chunk."""
    import pyarrow as pa

    with pa.ipc.open_stream(data) as reader:
        for batch in reader:
            yield from itertools.starmap(Change, zip(*(column.to_pylist() for column in batch.columns), strict=True))


def packed(headers: Headers) -> bytes | None:
    """Return headers as bytes; none if there are none."""
    if not headers:
        return None
    parts = []
    for name, value in headers:
        text = name.encode()
        parts.append(struct.pack(">Ii", len(text), -1 if value is None else len(value)) + text + (value or b""))
    return b"".join(parts)


def unpacked(data: bytes | None) -> list[tuple[str, bytes | None]]:
    """Return the headers again."""
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
