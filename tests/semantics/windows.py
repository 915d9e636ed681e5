"""Aggregations in windows of one size and in count windows, and the common parts of all windowed aggregations.

The operator's time is the highest timestamp of its own records. A window accepts records as long as its end plus
grace is above that time.
"""

from __future__ import annotations

from typing import Any

from semantics.aggregations import Aggregation
from semantics.nodes import World
from semantics.stores import WindowStore
from semantics.tables import Table
from semantics.values import Change, Record, Stamped, Window, Windowed, key_bytes


class OnClose:
    """When `on_window_close` looks for results to emit: at most once per interval of the wall clock."""

    def __init__(self, world: World, enabled: bool) -> None:
        self.world = world
        self.enabled = enabled
        self.next_wall_time = 0
        self.last_close_time: int | None = None

    def due(self, close_time: int) -> bool:
        if not self.enabled or self.world.wall_time < self.next_wall_time:
            return False
        # A pass counts, whether or not anything has closed since.
        self.next_wall_time = self.world.wall_time + self.world.emit_interval_ms
        return self.last_close_time is None or self.last_close_time < close_time


class WindowedTable(Table):
    """A windowed aggregation's result."""

    # Sliding windows hold records of their end's time, so they close one millisecond later.
    end_inside = False

    def __init__(self, aggregation: Aggregation, store: WindowStore, grace_ms: int, on_close: OnClose) -> None:
        super().__init__()
        self.aggregation = aggregation
        self.store = store
        self.grace_ms = self.open_ms = grace_ms
        self.on_close = on_close
        self.stream_time = -1
        self.send_old = False

    def enable_old(self, force: bool) -> bool:
        self.send_old = True
        return True

    def need_values(self) -> None:
        pass

    def get(self, key: Windowed) -> Stamped | None:
        return self.store.fetch(key.key, key.window.start)

    def update(self, record: Record, window: Window, base: Stamped, close_time: int) -> None:
        """Add a record to the contents of a window (`base`), if the window is still open."""
        if window.end + self.end_inside <= close_time:
            return
        timestamp = record.timestamp if base.value is None else max(record.timestamp, base.timestamp)
        new = self.aggregation.add(record.key, record.value, base.value)
        self.put(record, window, base.value, Stamped(new, timestamp))

    def put(self, record: Record, window: Window, old: Any, new: Stamped) -> None:
        self.store.put(record.key, new.value, new.timestamp, window.start)
        if not self.on_close.enabled:
            change = Change(new.value, old if self.send_old else None)
            self.forward(record.but(key=Windowed(record.key, window), value=change, timestamp=new.timestamp))

    def emit_closed(self, record: Record, close_time: int) -> None:
        """`on_window_close`: final results, by window start, then key. Headers are the current record's."""
        if not self.on_close.due(close_time):
            return
        newest, before = close_time - self.store.size_ms - self.end_inside, self.on_close.last_close_time
        if newest < 0:
            return
        oldest = 0 if before is None else max(0, before - self.store.size_ms - self.end_inside + 1)
        for key, stamped in self.store.all_by_time():
            if oldest <= key.window.start <= newest:
                self.forward(record.but(key=key, value=Change(stamped.value), timestamp=stamped.timestamp))
        self.on_close.last_close_time = close_time


class TimeWindowedAggregate(WindowedTable):
    """Tumbling and hopping windows.

    Null keys are skipped and don't advance the time. Null values are not skipped: the aggregator gets them, `count`
    counts them.
    """

    def __init__(
        self, aggregation: Aggregation, store: WindowStore, grace_ms: int, on_close: OnClose, advance_ms: int
    ) -> None:
        super().__init__(aggregation, store, grace_ms, on_close)
        self.advance_ms = advance_ms

    def windows_for(self, timestamp: int) -> list[Window]:
        """Windows that start at multiples of the advance, the earliest first."""
        size = self.store.size_ms
        first = max(0, timestamp - size + self.advance_ms) // self.advance_ms * self.advance_ms
        return [Window(start, start + size) for start in range(first, timestamp + 1, self.advance_ms)]

    def process(self, record: Record) -> None:
        if record.key is None:
            return
        self.stream_time = max(self.stream_time, record.timestamp)
        close_time = self.stream_time - self.grace_ms
        for window in self.windows_for(record.timestamp):
            if window.end > close_time:
                kept = self.store.fetch(record.key, window.start)
                base = kept or Stamped(self.aggregation.initializer(), record.timestamp)
                self.update(record, window, base, close_time)
        self.emit_closed(record, close_time)


class CountWindowedAggregate(WindowedTable):
    """Windows of a number of records per key; start and end count them. Not in Kafka Streams.

    No record is late. Null keys are skipped, null values are records. The open window and the last full one are
    kept. `positions` (the number of records of each key) is shared by the parts of a cogroup.
    """

    def __init__(
        self, aggregation: Aggregation, store: WindowStore, positions: dict[bytes, int], on_close: OnClose
    ) -> None:
        super().__init__(aggregation, store, 0, on_close)
        self.positions = positions

    def process(self, record: Record) -> None:
        if record.key is None:
            return
        size, at = self.store.size_ms, key_bytes(record.key)
        position = self.positions.get(at, 0)
        self.positions[at] = position + 1
        start = position // size * size
        window = Window(start, start + size)
        kept = self.store.fetch(record.key, start)
        base = kept or Stamped(self.aggregation.initializer(), record.timestamp)
        timestamp = max(record.timestamp, base.timestamp)
        new = self.aggregation.add(record.key, record.value, base.value)
        self.put(record, window, base.value, Stamped(new, timestamp))
        if position + 1 == window.end:
            self.store.put(record.key, None, timestamp, start - size)
            if self.on_close.enabled and new is not None:
                self.forward(record.but(key=Windowed(record.key, window), value=Change(new), timestamp=timestamp))
