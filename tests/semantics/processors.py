"""The registry's processors, once more: with this interpreter's context and stores, not the engine's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conformance.functions import text
from semantics.nodes import Node, Schedule, World
from semantics.stores import IS_LATEST, NOT_PUT, KeyValueStore, SessionStore, Version, VersionedStore, WindowStore
from semantics.values import Record, Window, Windowed, key_bytes


class Processor(Node):
    """A node with connected stores, clocks and punctuations."""

    def __init__(self, world: World, stores: list[Any]) -> None:
        super().__init__()
        self.world = world
        world.tells_time = True
        self.stores = stores
        self.init()

    def init(self) -> None:
        """Schedule punctuations here."""

    @property
    def kv(self) -> KeyValueStore:
        assert isinstance(self.stores[0], KeyValueStore)
        return self.stores[0]

    def every_stream_time(self, interval: int, function: Callable[[int], None]) -> Schedule:
        """First due at 0, so the first record makes it fire."""
        schedule = Schedule(0, interval, function)
        self.world.stream_schedules.append(schedule)
        return schedule

    def every_wall_time(self, interval: int, function: Callable[[int], None]) -> Schedule:
        """First due after one interval."""
        schedule = Schedule(self.world.wall_time + interval, interval, function)
        self.world.wall_schedules.append(schedule)
        return schedule


class RunningTotal(Processor):
    def process(self, record: Record) -> None:
        total = None
        if record.value is not None:
            kept = self.kv.get(record.key)
            total = record.value + (kept.value if kept else 0)
        self.kv.put(record.key, total)
        self.forward(record.but(value=total))


class Dedup(Processor):
    def process(self, record: Record) -> None:
        kept = self.kv.get(record.key)
        if record.value is None or kept is None or kept.value != record.value:
            self.kv.put(record.key, record.value)
            self.forward(record)


class FlushStreamTime(Processor):
    def init(self) -> None:
        self.every_stream_time(50, self.flush)

    def process(self, record: Record) -> None:
        self.kv.put(record.key, record.value)

    def flush(self, now: int) -> None:
        entries = self.kv.items()
        for key, kept in entries:
            self.forward(Record(key, kept.value, now))
        for key, _ in entries:
            self.kv.put(key, None)


class FlushWallClock(FlushStreamTime):
    def init(self) -> None:
        self.every_wall_time(100, self.flush)


class StampHeader(Processor):
    def process(self, record: Record) -> None:
        kept = tuple(header for header in record.headers if header[0] != "drop")
        self.forward(record.but(headers=(*kept, ("seen", "yes"))))


class ShiftTimestamp(Processor):
    def process(self, record: Record) -> None:
        self.forward(record.but(timestamp=record.timestamp + 1000))


class RecordMeta(Processor):
    def process(self, record: Record) -> None:
        meta = self.world.metadata
        assert meta is not None
        self.forward(record.but(value=f"{meta.topic}:{meta.partition}:{meta.offset}"))


class StreamTime(Processor):
    def process(self, record: Record) -> None:
        self.forward(record.but(value=f"{text(record.value)}@{self.world.stream_time}"))


class WallTime(Processor):
    def process(self, record: Record) -> None:
        self.forward(record.but(value=f"{text(record.value)}@{self.world.wall_time}"))


class WindowSum(Processor):
    def process(self, record: Record) -> None:
        store, at = self.stores[0], record.timestamp
        assert isinstance(store, WindowStore)
        if record.key is None:
            return
        if record.value is not None:
            store.put(record.key, record.value, at, at)
        found = store.fetch_range(record.key, max(0, at - 20), at)
        self.forward(record.but(value=sum(kept.value for _, kept in found)))


class SessionCount(Processor):
    def process(self, record: Record) -> None:
        store, at = self.stores[0], record.timestamp
        assert isinstance(store, SessionStore)
        store.put(Windowed(record.key, Window(at, at + 5, session=True)), record.value)
        self.forward(record.but(value=len(store.find(record.key, max(0, at - 10), at + 10))))


class VersionedAsOf(Processor):
    def process(self, record: Record) -> None:
        store = self.stores[0]
        assert isinstance(store, VersionedStore)
        code = store.put(record.key, record.value, record.timestamp)
        now, before = store.get_version(record.key), store.get_version(record.key, record.timestamp - 10)
        shown = {IS_LATEST: "open", NOT_PUT: "rejected"}.get(code, str(code))
        self.forward(record.but(value=f"{self.shown(now)}|{self.shown(before)}|{shown}"))

    @staticmethod
    def shown(version: Version | None) -> str:
        return "none" if version is None else f"{version.value}@{version.valid_from}"


class RouteChildren(Processor):
    def process(self, record: Record) -> None:
        if record.value is None:
            self.forward(record)
            return
        wanted = "evens" if record.value % 2 == 0 else "odds"
        for child in self.children:
            if child.name == wanted:
                child.process(record)


class PunctTrace(Processor):
    def init(self) -> None:
        self.firings = 0
        self.schedule = self.every_stream_time(100, self.on_stream_time)
        self.every_wall_time(1000, lambda now: self.forward(Record("wall", str(now), now)))

    def on_stream_time(self, now: int) -> None:
        self.forward(Record("stream", str(now), now))
        self.firings += 1
        if self.firings == 3:
            self.schedule.cancel()


class TtlExpire(Processor):
    def init(self) -> None:
        self.every_stream_time(100, self.expire)

    def process(self, record: Record) -> None:
        self.kv.put(record.key, record.value, record.timestamp)
        self.forward(record)

    def expire(self, now: int) -> None:
        for key, kept in self.kv.items():
            if kept.timestamp < now - 200:
                self.kv.put(key, None)
                self.forward(Record(key, None, now))


class Lookup(Processor):
    def process(self, record: Record) -> None:
        kept = None if record.key is None else self.kv.get(record.key)
        shown = "none" if kept is None else f"{text(kept.value)}@{kept.timestamp}"
        self.forward(record.but(value=f"{text(record.value)}/{shown}"))


class RangeDump(Processor):
    def process(self, record: Record) -> None:
        if record.value is not None:
            self.kv.put(record.key, record.value)
            return
        entries = self.kv.items()
        for key, kept in entries:
            if key_bytes(key) >= key_bytes(record.key):
                self.forward(record.but(key=key, value=kept.value))
        for key, kept in reversed(entries):
            self.forward(record.but(key="r" + key, value=kept.value))


class DoubleForward(Processor):
    def process(self, record: Record) -> None:
        if record.value is not None:
            self.forward(record.but(value=record.value + "1"))
            self.forward(record.but(value=record.value + "2", timestamp=record.timestamp + 5))


PROCESSORS: dict[str, type[Processor]] = {
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
    "lookup": Lookup,
    "range_dump": RangeDump,
    "double_forward": DoubleForward,
}
