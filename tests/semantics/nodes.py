"""The graph of nodes, which processes one record at a time, depth first, and its environment.

`Node` forwards to its children in the order in which they were added. `World` holds what is outside the graph:
topics, both clocks, punctuations. Internal topics interrupt the depth-first order: their records are processed
after the record that caused them has been processed completely.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from semantics.values import Record

Function = Callable[..., Any]


class Node:
    """A step of the graph; the base class forwards everything."""

    def __init__(self, name: str | None = None) -> None:
        self.name = name
        self.children: list[Node] = []

    def then(self, child: Node) -> Node:
        self.children.append(child)
        return child

    def process(self, record: Record) -> None:
        self.forward(record)

    def forward(self, record: Record) -> None:
        for child in self.children:
            child.process(record)


class Call(Node):
    """A node with one function, which returns the records to forward."""

    def __init__(self, function: Callable[[Record], list[Record]], name: str | None = None) -> None:
        super().__init__(name)
        self.function = function

    def process(self, record: Record) -> None:
        for made in self.function(record):
            self.forward(made)


def parts_of(node: Node) -> set[int]:
    """All nodes, tables and stores that are reachable from a node, or held by it, up to internal topics.

    By reference, whatever their names: the world, its topics, and the builder are left out.
    """
    found: set[int] = set()
    # Kept, so that no other object reuses the identity of a visited one.
    seen: dict[int, object] = {}
    open_: list[object] = [node]
    while open_:
        one = open_.pop()
        if id(one) in seen:
            continue
        seen[id(one)] = one
        if isinstance(one, (list, tuple, set, frozenset)):
            open_ += one
        elif isinstance(one, dict):
            open_ += one.values()
        elif callable(one) and not isinstance(one, (type, Node)):
            open_ += [getattr(one, "__self__", None), *(cell.cell_contents for cell in closure(one))]
        elif _is_part(one):
            found.add(id(one))
            open_ += vars(one).values() if hasattr(one, "__dict__") else ()
    return found


def _is_part(one: object) -> bool:
    module = type(one).__module__
    return module.startswith("semantics.") and type(one).__name__ != "Builder" and not isinstance(one, World)


def closure(function: object) -> tuple[Any, ...]:
    """The closure cells of a function."""
    return getattr(function, "__closure__", None) or ()


@dataclass
class Metadata:
    """The source position of the current record."""

    topic: str
    partition: int
    offset: int


@dataclass
class Source:
    """The entry of a topic into the graph."""

    node: Node
    extractor: Function | None = None


@dataclass
class Schedule:
    """A punctuation: `at` is the next time."""

    at: int
    interval: int
    function: Callable[[int], None]
    cancelled: bool = False
    task: int = -1

    def cancel(self) -> None:
        self.cancelled = True


@dataclass
class World:
    """Topics, clocks, punctuations."""

    emit_interval_ms: int = 0
    order: str = "earliest"
    punctuate_after: str = "records"
    """What punctuations by stream time come after.

    Records, inputs (without those of internal topics), or everything that an input causes.
    """
    one_task: bool = True
    """Whether the whole topology is one task with one stream time, as in Kafka Streams' test driver.

    In a cluster each sub-topology has its own.
    """
    sources: dict[str, list[Source]] = field(default_factory=dict)
    globals: dict[str, Node] = field(default_factory=dict)
    outputs: dict[str, list[tuple[int, Record]]] = field(default_factory=dict)
    tells_time: bool = False
    """Whether there is a processor, which may read the stream time."""
    event: int = 0
    wall_time: int = 0
    stream_time: int = -1
    metadata: Metadata | None = None
    stream_schedules: list[Schedule] = field(default_factory=list)
    wall_schedules: list[Schedule] = field(default_factory=list)
    _queues: dict[str, deque[Record]] = field(default_factory=dict)
    _internal: set[str] = field(default_factory=set)
    _offsets: dict[str, int] = field(default_factory=dict)
    _partition_times: dict[str, int] = field(default_factory=dict)
    _tasks: dict[str, int] = field(default_factory=dict)
    """By input topic; determined at the first record."""
    _task_times: dict[int, int] = field(default_factory=dict)

    def pipe(self, topic: str, record: Record) -> None:
        """Process one input record, and everything that follows from it."""
        if topic in self.globals:
            # A global table is filled independently of stream time.
            self.globals[topic].process(record)
            return
        self.enqueue(topic, record)
        self.run()

    def enqueue(self, topic: str, record: Record) -> None:
        """Append to a topic that the topology reads."""
        self._queues.setdefault(topic, deque()).append(record)

    def send(self, topic: str, record: Record) -> None:
        """Write to an output topic; the topology may read it again."""
        self.outputs.setdefault(topic, []).append((self.event, record))
        if topic in self.sources:
            self.enqueue(topic, record)

    def run(self) -> None:
        while waiting := [topic for topic, queue in self._queues.items() if queue]:
            topic = self._pick(waiting)
            queue = self._queues[topic]
            record = self._by_key(queue) if self.order in ("keys", "keys_back") else queue[0]
            # By identity, because equal records may be waiting as well.
            del queue[next(i for i, one in enumerate(queue) if one is record)]
            self._take(topic, record)
        if self.punctuate_after == "everything":
            self._punctuate_tasks()
            if any(self._queues.values()):
                self.run()

    def _pick(self, waiting: list[str]) -> str:
        """Choose among internal topics: Kafka Streams takes the earliest head; no other order is guaranteed."""
        if self.order == "earliest":
            return min(waiting, key=lambda name: self._queues[name][0].timestamp)
        if self.order == "made":
            return next(name for name in self.sources if name in waiting)
        return max(waiting) if self.order == "last" else min(waiting)

    def _by_key(self, queue: deque[Record]) -> Record:
        """The first record of some key: what lanes may do, where keys don't wait for each other."""
        choose = min if self.order == "keys" else max
        return choose(queue, key=lambda record: repr(record.key))

    def _take(self, topic: str, record: Record) -> None:
        offset = self._offsets[topic] = self._offsets.get(topic, -1) + 1
        extractor = self.sources[topic][0].extractor
        if extractor is not None:
            timestamp = extractor(record, self._partition_times.get(topic, -1))
            if timestamp < 0:
                return
            record = record.but(timestamp=timestamp)
        self._partition_times[topic] = max(self._partition_times.get(topic, -1), record.timestamp)
        # One stream time for all topics of the task, including internal ones.
        task = self._task(topic)
        self.stream_time = max(self._task_times.get(task, -1), record.timestamp)
        self._task_times[task] = self.stream_time
        self.metadata = Metadata(topic, 0, offset)
        for source in self.sources[topic]:
            source.node.process(record)
        self.metadata = None
        # The record that advances the time precedes the punctuation that it causes.
        if self.punctuate_after == "records" or (self.punctuate_after == "inputs" and topic not in self._internal):
            self._punctuate_tasks()

    def _task(self, topic: str) -> int:
        if self.one_task or not self.tells_time:
            return -1
        if not self._tasks:
            reached = {name: set().union(*(parts_of(s.node) for s in read)) for name, read in self.sources.items()}
            for number, (name, own) in enumerate(reached.items()):
                joined = {task for other, task in self._tasks.items() if reached[other] & own}
                self._tasks = {t: number if task in joined else task for t, task in self._tasks.items()}
                self._tasks[name] = number
            for schedule in self.stream_schedules:
                owner = id(getattr(schedule.function, "__self__", None))
                schedule.task = next((self._tasks[name] for name, own in reached.items() if owner in own), -1)
        return self._tasks[topic]

    def _punctuate_tasks(self) -> None:
        for task, now in self._task_times.items():
            self._punctuate([schedule for schedule in self.stream_schedules if schedule.task == task], now)

    def advance(self, ms: int) -> None:
        """Advance the wall clock."""
        self.wall_time += ms
        self._punctuate(self.wall_schedules, self.wall_time)
        self.run()

    def _punctuate(self, schedules: list[Schedule], now: int) -> None:
        while due := [s for s in schedules if not s.cancelled and s.at <= now]:
            first = min(due, key=lambda schedule: schedule.at)
            # Missed firings collapse into one, at the current time; the grid stays.
            first.at += ((now - first.at) // first.interval + 1) * first.interval
            first.function(now)

    def through_topic(self, before: Node, topic: str) -> Node:
        """Return the node after an internal topic that `before` writes to."""
        after = Node()
        self.sources[topic] = [Source(after)]
        self._internal.add(topic)

        def write(record: Record) -> list[Record]:
            self.enqueue(topic, record)
            return []

        before.then(Call(write))
        return after
