"""Stream-table joins with versioned tables: the stream meets the past, and may wait for the table.

Other effects of versioned tables are described where they happen: `stores.VersionedStore` (what is kept),
`tables.StoredTable.write` (what is too old is not forwarded), `aggregations.regroup` and
`table_joins.JoinedTable.take` (out-of-order updates are left out).
"""

from __future__ import annotations

from typing import Any

from semantics.nodes import Function
from semantics.table_joins import StreamTableJoin
from semantics.tables import Table
from semantics.values import Record, key_bytes


class VersionedStreamTableJoin(StreamTableJoin):
    """With `grace`, records wait until stream time is that far ahead, and are emitted by time, then key.

    A record that is older than that is joined immediately.
    """

    def __init__(self, table: Table, joiner: Function, *, outer: bool, grace_ms: int | None) -> None:
        super().__init__(table, joiner, outer=outer)
        self.grace_ms = grace_ms
        self.stream_time = -1
        self._waiting: list[Record] = []

    def lookup(self, key: Any, timestamp: int) -> Any:
        found = self.table.get_as_of(key, timestamp)
        return None if found is None else found.value

    def process(self, record: Record) -> None:
        if not self.joinable(record):
            return
        if self.grace_ms is None:
            self.join(record)
            return
        # The buffer's time is that of the records that it accepted.
        if record.timestamp < self.stream_time - self.grace_ms:
            self.join(record)
        else:
            self.stream_time = max(self.stream_time, record.timestamp)
            self._waiting.append(record)
        ripe = [waiting for waiting in self._waiting if waiting.timestamp <= self.stream_time - self.grace_ms]
        self._waiting = [waiting for waiting in self._waiting if waiting not in ripe]
        for waiting in sorted(ripe, key=lambda waiting: (waiting.timestamp, key_bytes(waiting.key))):
            self.join(waiting)
