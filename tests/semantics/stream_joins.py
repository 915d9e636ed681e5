"""Joins of two streams: inner, left, outer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from semantics.nodes import Function, Node, World
from semantics.stores import DuplicatesStore
from semantics.values import Record, key_bytes


@dataclass(eq=False)
class Waiting:
    """A record that may still find a partner."""

    key: Any
    value: Any
    timestamp: int
    left: bool

    @property
    def order(self) -> tuple[int, bool, bytes]:
        """By time, right before left, then by key."""
        return (self.timestamp, self.left, key_bytes(self.key))


@dataclass
class Shared:
    """The shared state of both sides of a join: the highest timestamp of both, and the waiting records."""

    world: World
    before_ms: int
    after_ms: int
    grace_ms: int
    stream_time: int = -1
    waiting: list[Waiting] | None = None
    min_time: int | None = None
    next_wall_time: int = 0

    @property
    def retention_ms(self) -> int:
        return self.before_ms + self.after_ms + self.grace_ms

    def expired(self, waiting: Waiting) -> bool:
        reach = self.after_ms if waiting.left else self.before_ms
        return waiting.timestamp + reach + self.grace_ms < self.stream_time


class JoinSide(Node):
    """Processes one side's records. They are stored for the other side, and look for partners there.

    Every record advances the time, whatever its key and value. Records that can't be joined: a null value is
    dropped; a null key is emitted alone immediately if this side is an outer one, otherwise dropped.
    """

    def __init__(self, shared: Shared, joiner: Function, *, left: bool, outer: bool, merged: Node) -> None:
        super().__init__()
        self.shared = shared
        self.joiner = joiner
        self.left = left
        self.outer = outer
        self.children = [merged]
        self.store = DuplicatesStore(shared.retention_ms)
        self.other: JoinSide = self

    def join(self, key: Any, mine: Any, theirs: Any) -> Any:
        return self.joiner(key, mine, theirs) if self.left else self.joiner(key, theirs, mine)

    def process(self, record: Record) -> None:
        shared, at = self.shared, record.timestamp
        before, after = (shared.before_ms, shared.after_ms) if self.left else (shared.after_ms, shared.before_ms)
        if record.key is not None and record.value is not None:
            self.store.put(record.key, record.value, at)
        shared.stream_time = max(shared.stream_time, at)
        if record.value is None or record.key is None:
            if self.outer and record.value is not None:
                self.forward(record.but(value=self.join(None, record.value, None)))
            return
        if at == shared.stream_time:
            self.emit_expired(record, after)
        # Late records look for partners too; they are limited only by what the other store still shows.
        found = self.other.store.fetch(record.key, max(0, at - before), max(0, at + after))
        for time, value in found:
            self.forget(record.key, time)
            joined = self.join(record.key, record.value, value)
            self.forward(record.but(value=joined, timestamp=max(at, time)))
        if self.outer and not found:
            # Its own window is over (grace does not count here): it is emitted alone immediately.
            if shared.waiting is None or max(0, at + after) < shared.stream_time:
                self.forward(record.but(value=self.join(record.key, record.value, None)))
            else:
                shared.min_time = at if shared.min_time is None else min(shared.min_time, at)
                shared.waiting.append(Waiting(record.key, record.value, at, self.left))

    def forget(self, key: Any, timestamp: int) -> None:
        """A partner was found: records of the other side with this key and time no longer wait."""
        shared = self.shared
        if shared.waiting is not None:
            gone = (timestamp, not self.left, key_bytes(key))
            shared.waiting = [waiting for waiting in shared.waiting if waiting.order != gone]

    def emit_expired(self, record: Record, own_reach: int) -> None:
        """Emits records whose window has passed without a partner.

        They come before the current record's matches, with its headers. Kafka Streams avoids passes over the
        waiting records with `min_time`, which is not what its name says: a pass leaves it at the last record it
        looked at, not at the earliest one that still waits. So results may be emitted later than the end of their
        window. Without one (at first, and after a pass over nothing) a pass takes place even if nothing waits, and
        counts for the interval.
        """
        shared = self.shared
        if shared.waiting is None:
            return
        if shared.min_time is not None and shared.min_time + own_reach + shared.grace_ms >= shared.stream_time:
            return
        if shared.world.wall_time < shared.next_wall_time:
            return
        shared.next_wall_time = shared.world.wall_time + shared.world.emit_interval_ms
        shared.min_time = None
        open_sides: set[bool] = set()
        for waiting in sorted(shared.waiting, key=lambda waiting: waiting.order):
            shared.min_time = waiting.timestamp
            if len(open_sides) == 2:
                break
            if not shared.expired(waiting):
                open_sides.add(waiting.left)
                continue
            shared.waiting.remove(waiting)
            left, right = (waiting.value, None) if waiting.left else (None, waiting.value)
            value = self.joiner(waiting.key, left, right)
            self.forward(record.but(key=waiting.key, value=value, timestamp=waiting.timestamp))


def join_streams(left: Node, right: Node, kind: str, joiner: Function, shared: Shared) -> Node:
    """Connect `join`, `left_join`, `outer_join`; return the result."""
    if kind != "join":
        shared.waiting = []
    merged = Node()
    ours = JoinSide(shared, joiner, left=True, outer=kind != "join", merged=merged)
    theirs = JoinSide(shared, joiner, left=False, outer=kind == "outer_join", merged=merged)
    ours.other, theirs.other = theirs, ours
    left.then(ours)
    right.then(theirs)
    return merged
