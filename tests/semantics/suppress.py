"""Suppress: a buffer with one update per key, between a table and its children."""

from __future__ import annotations

from typing import Any

from semantics.tables import Table
from semantics.values import Record, Stamped, key_bytes


class SuppressedTable(Table):
    """Holds updates back until their time has come.

    An entry's position in the buffer is that of its first update; its contents, timestamp and headers are those of
    its last one. The operator's time is the highest timestamp of the updates that it saw.
    """

    def __init__(self, parent: Table, wait_ms: int, *, until_close: bool, max_records: int | None = None) -> None:
        super().__init__()
        self.parent = parent
        # Always: the value before an update in the buffer is what this table shows to joins.
        parent.enable_old(force=True)
        self.versioned = parent.versioned
        self.open_ms = parent.open_ms
        self.wait_ms = wait_ms
        self.until_close = until_close
        self.max_records = max_records
        self.stream_time = -1
        self._line: dict[bytes, tuple[int, Record, Any]] = {}

    def enable_old(self, force: bool) -> bool:
        return self.parent.enable_old(force)

    def need_values(self) -> None:
        self.parent.need_values()

    def get(self, key: Any) -> Stamped | None:
        waiting = self._line.get(key_bytes(key))
        if waiting is None:
            return self.parent.get(key)
        prior = waiting[2]
        return None if prior is None else Stamped(prior, -1)

    def process(self, record: Record) -> None:
        self.stream_time = max(self.stream_time, record.timestamp)
        key = key_bytes(record.key)
        buffer_time = record.key.window.end if self.until_close else record.timestamp
        if key in self._line:
            buffer_time, _, prior = self._line[key]
        else:
            prior = record.value.old
        self._line[key] = (buffer_time, record, prior)
        self.release()

    def release(self) -> None:
        while self._line:
            # The buffer is sorted by time, then by the key's bytes.
            key = min(self._line, key=lambda key: (self._line[key][0], key))
            full = self.max_records is not None and len(self._line) > self.max_records
            if self._line[key][0] > self.stream_time - self.wait_ms and not full:
                return
            _, record, _ = self._line.pop(key)
            # A window that closes without a value (a merged session, a filtered result) emits nothing.
            if record.value.new is not None or not self.until_close:
                self.forward(record)
