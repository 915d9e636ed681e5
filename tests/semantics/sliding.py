"""Aggregations in sliding windows.

Windows are `difference` wide with both ends inside, and exist only where their content changes: for
each record at `t`, one that ends at `t`, and one that starts at `t + 1` if anything is in it. Windows
are never recomputed from records: a new window starts as a copy of the aggregate of an existing one
that holds the same records.
"""

from __future__ import annotations

from semantics.values import Record, Stamped, Window
from semantics.windows import WindowedTable


class SlidingAggregate(WindowedTable):
    """Records with a null key or a null value are skipped and don't move the time (other windows take nulls)."""

    end_inside = True

    @property
    def difference(self) -> int:
        return self.store.size_ms

    def process(self, record: Record) -> None:
        if record.key is None or record.value is None:
            return
        self.stream_time = max(self.stream_time, record.timestamp)
        close_time = self.stream_time - self.grace_ms
        # The last window that can contain a record starts just after it.
        if record.timestamp + 1 + self.difference > close_time:
            if record.timestamp < self.difference:
                self.take_early(record, close_time)
            else:
                self.take(record, close_time)
        self.emit_closed(record, close_time)

    def window(self, start: int) -> Window:
        return Window(start, start + self.difference)

    def empty(self, record: Record) -> Stamped:
        return Stamped(self.aggregation.initializer(), record.timestamp)

    def take(self, record: Record, close_time: int) -> None:
        """Update the windows around a record, the latest first, then create the missing ones."""
        at = record.timestamp
        around = self.store.fetch_range(record.key, max(0, at - 2 * self.difference), at + 1)
        starts: set[int] = set()
        left = right = previous = None
        has_left = has_right = False
        for start, kept in reversed(around):
            starts.add(start)
            end = start + self.difference
            if start == at + 1:
                has_right = True
            elif end > at:
                # The latest of these holds exactly the records in reach on the right.
                right = right or kept
                self.update(record, self.window(start), kept, close_time)
            elif end == at:
                has_left = True
                self.update(record, self.window(start), kept, close_time)
                if kept.timestamp >= at:
                    return  # There is a record with this timestamp, so all windows exist.
                previous = kept.timestamp
            else:
                # The nearest window that ended before has the previous record's timestamp (as its own).
                left, previous = kept, kept.timestamp
                break
        if previous is not None and previous + 1 not in starts and previous + 1 + self.difference >= at:
            self.update(record, self.window(previous + 1), self.empty(record), close_time)
        if not has_left:
            reaches = previous is not None and left is not None and at - self.difference <= previous
            base = Stamped(left.value, at) if reaches and left is not None else self.empty(record)
            self.update(record, self.window(at - self.difference), base, close_time)
        self.make_right(record, right, has_right)

    def take_early(self, record: Record, close_time: int) -> None:
        """Records before `difference` share one window [0, difference] as their left one."""
        at = record.timestamp
        combined = right = previous = None
        has_right = False
        starts: set[int] = set()
        for start, kept in self.store.fetch_range(record.key, 0, at + 1):
            starts.add(start)
            if start == 0:
                combined = kept
                if kept.timestamp < at:
                    previous = kept.timestamp
            elif start <= at:
                right = kept
                self.update(record, self.window(start), kept, close_time)
            else:
                has_right = True
        if right is None and combined is not None and combined.timestamp > at:
            right = combined
        self.make_right(record, right, has_right)
        if previous is not None and previous + 1 not in starts:
            self.update(record, self.window(previous + 1), self.empty(record), close_time)
        self.update(record, self.window(0), combined or self.empty(record), close_time)

    def make_right(self, record: Record, right: Stamped | None, exists: bool) -> None:
        """The window after the record: a copy of the earlier contents; the record itself is not in it."""
        if not exists and right is not None and right.timestamp > record.timestamp:
            self.put(record, self.window(record.timestamp + 1), None, right)
