"""The processors of FUNCTIONS.md, as a user would write them.

Takes a vector's processor name and the names of its stores, returns classes that take these names:
`PROCESSORS[name](*stores)` creates one processor, as a supplier must. Separate from the functions, so that vectors
without processors don't need the Processor API.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conformance.functions import text
from stoatflow import FixedKeyProcessor, Processor, PunctuationType, Record, ValueAndTimestamp, Window, Windowed

UNDEFINED, NOT_PUT = -1, -(2**63)


class _Base:
    """Keeps the context and the first connected store."""

    context: Any
    store: Any

    def __init__(self, *stores: str) -> None:
        self.stores = stores

    def init(self, context: Any) -> None:
        self.context = context
        self.store = context.state_store(self.stores[0]) if self.stores else None


class RunningTotal(_Base, Processor[Any, Any, Any, Any]):
    """The sum of a key's values; a null value resets it."""

    def process(self, record: Any) -> None:
        if record.value is None:
            self.store.delete(record.key)
            self.context.forward(record)
            return
        total = (self.store.get(record.key) or 0) + record.value
        self.store.put(record.key, total)
        self.context.forward(record.replace(value=total))


class Dedup(_Base, FixedKeyProcessor[Any, Any, Any]):
    """Forwards values that differ from the key's last one."""

    def process(self, record: Any) -> None:
        if record.value is None:
            self.store.delete(record.key)
        elif self.store.get(record.key) == record.value:
            return
        else:
            self.store.put(record.key, record.value)
        self.context.forward(record)


class _Flush(_Base, Processor[Any, Any, Any, Any]):
    interval: str
    type: PunctuationType

    def init(self, context: Any) -> None:
        super().init(context)
        context.schedule(self.interval, self.type, self.flush)

    def process(self, record: Any) -> None:
        if record.value is None:
            self.store.delete(record.key)
        else:
            self.store.put(record.key, record.value)

    def flush(self, timestamp: int) -> None:
        entries = list(self.store.all())
        for key, value in entries:
            self.context.forward(Record(key=key, value=value, timestamp=timestamp))
        for key, _ in entries:
            self.store.delete(key)


class FlushStreamTime(_Flush):
    """Collects records, and forwards them every 50 ms of stream time."""

    interval, type = "50ms", PunctuationType.STREAM_TIME


class FlushWallClock(_Flush):
    """Collects records, and forwards them every 100 ms of wall clock time."""

    interval, type = "100ms", PunctuationType.WALL_CLOCK_TIME


class StampHeader(_Base, Processor[Any, Any, Any, Any]):
    """Drops some headers and adds one."""

    def process(self, record: Any) -> None:
        kept = [header for header in record.headers if header[0] != "drop"]
        self.context.forward(record.replace(headers=[*kept, ("seen", b"yes")]))


class ShiftTimestamp(_Base, Processor[Any, Any, Any, Any]):
    """Moves a record one second into the future."""

    def process(self, record: Any) -> None:
        self.context.forward(record.replace(timestamp=record.timestamp + 1000))


class RecordMeta(_Base, FixedKeyProcessor[Any, Any, Any]):
    """Forwards the source position of each record."""

    def process(self, record: Any) -> None:
        meta = self.context.record_metadata
        self.context.forward(record.replace(value=f"{meta.topic}:{meta.partition}:{meta.offset}"))


class StreamTime(_Base, FixedKeyProcessor[Any, Any, Any]):
    """Forwards the stream time."""

    def process(self, record: Any) -> None:
        self.context.forward(record.replace(value=f"{text(record.value)}@{self.context.stream_time_ms}"))


class WallTime(_Base, FixedKeyProcessor[Any, Any, Any]):
    """Forwards the wall clock time."""

    def process(self, record: Any) -> None:
        self.context.forward(record.replace(value=f"{text(record.value)}@{self.context.system_time_ms}"))


class WindowSum(_Base, Processor[Any, Any, Any, Any]):
    """The sum of the last 20 ms."""

    def process(self, record: Any) -> None:
        if record.key is None:
            return
        if record.value is not None:
            self.store.put(record.key, record.value, record.timestamp)
        found = self.store.fetch(record.key, frm=max(0, record.timestamp - 20), to=record.timestamp)
        self.context.forward(record.replace(value=sum(value for _, value in found)))


class SessionCount(_Base, Processor[Any, Any, Any, Any]):
    """The number of sessions around a record."""

    def process(self, record: Any) -> None:
        at = record.timestamp
        self.store.put(Windowed(record.key, Window(at, at + 5)), record.value)
        found = self.store.find_sessions(record.key, earliest_end=max(0, at - 10), latest_start=at + 10)
        self.context.forward(record.replace(value=sum(1 for _ in found)))


class VersionedAsOf(_Base, Processor[Any, Any, Any, Any]):
    """The current version in a versioned store, the one 10 ms before, and the result of its `put`."""

    def process(self, record: Any) -> None:
        code = self.store.put(record.key, record.value, record.timestamp)
        now = self.store.get(record.key)
        before = self.store.get(record.key, as_of=record.timestamp - 10)
        shown = "open" if code == UNDEFINED else "rejected" if code == NOT_PUT else str(code)
        self.context.forward(record.replace(value=f"{self.shown(now)}|{self.shown(before)}|{shown}"))

    @staticmethod
    def shown(version: Any) -> str:
        return "none" if version is None else f"{version.value}@{version.timestamp}"


class RouteChildren(_Base, Processor[Any, Any, Any, Any]):
    """Picks a child by the value."""

    def process(self, record: Any) -> None:
        if record.value is None:
            self.context.forward(record)
        else:
            self.context.forward(record, child="evens" if record.value % 2 == 0 else "odds")


class PunctTrace(_Base, Processor[Any, Any, Any, Any]):
    """Forwards the times of punctuations; cancels one of them."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.firings = 0
        self.schedule = context.schedule("100ms", PunctuationType.STREAM_TIME, self.on_stream_time)
        context.schedule("1s", PunctuationType.WALL_CLOCK_TIME, self.on_wall_clock)

    def process(self, record: Any) -> None:
        self.context.forward(record)

    def on_stream_time(self, timestamp: int) -> None:
        self.context.forward(Record(key="stream", value=str(timestamp), timestamp=timestamp))
        self.firings += 1
        if self.firings == 3:
            self.schedule.cancel()

    def on_wall_clock(self, timestamp: int) -> None:
        self.context.forward(Record(key="wall", value=str(timestamp), timestamp=timestamp))


class TtlExpire(_Base, Processor[Any, Any, Any, Any]):
    """Deletes rows that were not written for 200 ms."""

    interval = "100ms"

    def init(self, context: Any) -> None:
        super().init(context)
        context.schedule(self.interval, PunctuationType.STREAM_TIME, self.expire)

    def process(self, record: Any) -> None:
        if record.value is None:
            self.store.delete(record.key)
        else:
            self.store.put(record.key, ValueAndTimestamp(record.value, record.timestamp))
        self.context.forward(record)

    def expire(self, timestamp: int) -> None:
        for key, kept in list(self.store.all()):
            if kept.timestamp < timestamp - 200:
                self.store.delete(key)
                self.context.forward(Record(key=key, value=None, timestamp=timestamp))


class ExpireAfterFive(TtlExpire):
    """Deletes rows not written for 5 s, in whole seconds, so the result doesn't depend on the number of calls."""

    interval = "1s"

    def expire(self, timestamp: int) -> None:
        edge = timestamp // 1000 * 1000 - 5000
        for key, kept in list(self.store.all()):
            if kept.timestamp < edge:
                self.store.delete(key)


class Lookup(_Base, FixedKeyProcessor[Any, Any, Any]):
    """Forwards a table's value for a record's key."""

    def process(self, record: Any) -> None:
        kept = None if record.key is None else self.store.get(record.key)
        shown = "none" if kept is None else f"{text(kept.value)}@{kept.timestamp}"
        self.context.forward(record.replace(value=f"{text(record.value)}/{shown}"))


class RangeDump(_Base, Processor[Any, Any, Any, Any]):
    """Forwards a store's rows in order at a null value."""

    def process(self, record: Any) -> None:
        if record.value is not None:
            self.store.put(record.key, record.value)
            return
        for key, value in self.store.range(record.key, None):
            self.context.forward(record.replace(key=key, value=value))
        for key, value in self.store.reverse_all():
            self.context.forward(record.replace(key="r" + key, value=value))


class DoubleForward(_Base, Processor[Any, Any, Any, Any]):
    """Forwards twice, the second time with a later timestamp."""

    def process(self, record: Any) -> None:
        if record.value is None:
            return
        self.context.forward(record.replace(value=record.value + "1"))
        self.context.forward(record.replace(value=record.value + "2", timestamp=record.timestamp + 5))


PROCESSORS: dict[str, Callable[..., Any]] = {
    "running_total": RunningTotal,
    "dedup": Dedup,
    "flush_stream_time": FlushStreamTime,
    "flush_wall_clock": FlushWallClock,
    "stamp_header": StampHeader,
    "shift_timestamp": ShiftTimestamp,
    "record_meta": RecordMeta,
    "stream_time": StreamTime,
    "wall_time": WallTime,
    "window_sum": WindowSum,
    "session_count": SessionCount,
    "versioned_asof": VersionedAsOf,
    "route_children": RouteChildren,
    "punct_trace": PunctTrace,
    "ttl_expire": TtlExpire,
    "expire_after_five": ExpireAfterFive,
    "lookup": Lookup,
    "range_dump": RangeDump,
    "double_forward": DoubleForward,
}
