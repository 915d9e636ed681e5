"""Aggregations in sessions: records of a key that are at most a gap apart."""

from __future__ import annotations

from typing import Any

from semantics.aggregations import Aggregation
from semantics.nodes import Function
from semantics.stores import SessionStore
from semantics.tables import Table
from semantics.values import Change, Record, Stamped, Window, Windowed
from semantics.windows import OnClose


class SessionAggregate(Table):
    """A record merges every session that it touches into one session.

    Null keys are skipped and don't advance the time; null values are aggregated. Results have no headers, and the
    session's end as timestamp. Lateness is decided after merging: a late record merged with a session that is still
    retained may be in time.
    """

    def __init__(
        self,
        aggregation: Aggregation,
        merger: Function,
        store: SessionStore,
        gap_ms: int,
        grace_ms: int,
        on_close: OnClose,
    ) -> None:
        super().__init__()
        self.aggregation = aggregation
        self.merger = merger
        self.store = store
        self.gap_ms = gap_ms
        self.open_ms = grace_ms + gap_ms
        self.on_close = on_close
        self.stream_time = -1
        self.send_old = False

    def enable_old(self, force: bool) -> bool:
        self.send_old = True
        return True

    def need_values(self) -> None:
        pass

    def get(self, key: Windowed) -> Stamped | None:
        found = self.store.find(key.key, key.window.start, key.window.end)
        values = [value for session, value in found if session.window == key.window]
        return Stamped(values[0], key.window.end) if values else None

    def process(self, record: Record) -> None:
        if record.key is None:
            return
        at = record.timestamp
        self.stream_time = max(self.stream_time, at)
        assert self.open_ms is not None
        close_time = self.stream_time - self.open_ms
        touched = self.store.find(record.key, at - self.gap_ms, at + self.gap_ms)
        window = alone = Window(at, at, session=True)
        # The merger gets the initial value first, then each session by its end; the new value comes last.
        agg = self.aggregation.initializer()
        for session, value in touched:
            agg = self.merger(record.key, agg, value)
            start, end = min(window.start, session.window.start), max(window.end, session.window.end)
            window = Window(start, end, session=True)
        if window.end >= close_time:
            if window != alone:
                # Even a session with unchanged bounds is deleted first; only one of a single instant is not.
                for session, value in touched:
                    self.store.remove(session)
                    self.send(session, value, None)
            agg = self.aggregation.add(record.key, record.value, agg)
            session = Windowed(record.key, window)
            self.store.put(session, agg)
            self.send(session, None, agg)
        self.emit_closed(record, close_time)

    def send(self, session: Windowed, old: Any, new: Any) -> None:
        if not self.on_close.enabled:
            change = Change(new, old if self.send_old else None)
            self.forward(Record(session, change, session.window.end))

    def emit_closed(self, record: Record, close_time: int) -> None:
        """`on_window_close`: sessions whose end is before the close time, by end, start and key."""
        if not self.on_close.due(close_time) or close_time < 1:
            return
        for session, value in self.store.ended(self.on_close.last_close_time or 0, close_time - 1):
            self.forward(record.but(key=session, value=Change(value), timestamp=session.window.end))
        self.on_close.last_close_time = close_time
