"""Runs the engine on the records of one part, task by task. Spark's workers call this.

Takes batches of records, sorted by task and place; returns batches of outputs: records, hops, stores. Defines the place
of an output: the place of the record that produced it, and the output's number for that record. Independent of Spark.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

    from stoatflow._runtime.bridge import Driver
    from stoatflow.plan import Node

RECORD, HOP, STORE, DROP = "record", "hop", "store", "drop"
SPARK_SCHEMA = (
    "kind string, name string, task int, hash int, key binary, value binary, timestamp long, "
    "headers array<struct<key: string, value: binary>>, start long, end long, place binary"
)
INPUT = ("task", "name", "key", "value", "timestamp", "headers", "place", "hashed")

_ROWS = 2_000
"""Outputs per batch."""
_TOGETHER = 500
"""Records per commit, if it isn't needed which of them produced an output."""


class Row(NamedTuple):
    """One output."""

    kind: str
    name: str
    task: int
    hash: int | None
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: list[tuple[str, bytes | None]] | None
    start: int | None
    end: int | None
    place: bytes | None


@dataclass(frozen=True)
class Work:
    """The description of a part for a worker."""

    number: int
    nodes: tuple[Node, ...]
    pairs: tuple[tuple[str, object], ...]
    keep_null: dict[str, bool]
    """By hop: whether records without a key are passed on."""
    sinks: tuple[str, ...]
    dynamic: bool
    stores: tuple[str, ...]
    batched: bool
    partitions: int | None
    """Number of Kafka's partitions, if the part depends on them; `None`: they are not checked."""
    drops: bool = False
    """Whether dropped records are reported."""
    sorts: bool = False
    """Whether the worker sorts in memory; otherwise the server has sorted."""


def runner(work: Work) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    """Return the function that a worker runs."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        given = _sorted(batches) if work.sorts else batches
        yield from batches_of(outputs(work, _in_order(_records(given))))

    return run


def _records(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
    for batch in batches:
        yield from zip(*(batch.column(name).to_pylist() for name in INPUT), strict=True)


def _sorted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    if found := list(batches):
        yield from pa.Table.from_batches(found).sort_by([("task", "ascending"), ("place", "ascending")]).to_batches()


def _in_order(records: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Raise for a record that is out of order: its result would be wrong."""
    before = (-1, b"")
    for record in records:
        at = (record[0], record[6])
        if at < before:
            raise AssertionError(f"{at} comes after {before}: this server loses the order of sorted rows")
        before = at
        yield record


def batches_of(rows: Iterator[Row]) -> Iterator[pa.RecordBatch]:
    """Convert rows to batches of Arrow."""
    import pyarrow as pa

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    types = [
        pa.string(), pa.string(), pa.int32(), pa.int32(), pa.binary(), pa.binary(), pa.int64(), pa.list_(header),
        pa.int64(), pa.int64(), pa.binary(),
    ]  # fmt: skip
    schema = pa.schema(list(zip(Row._fields, types, strict=True)))
    while found := list(itertools.islice(rows, _ROWS)):
        columns = [pa.array(column, kind) for column, kind in zip(zip(*found, strict=True), types, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def outputs(work: Work, records: Iterator[tuple[Any, ...]]) -> Iterator[Row]:
    """Run one engine after the other, one for each task."""
    from stoatflow.topology import Topology

    topology = Topology(work.nodes)
    for task, group in itertools.groupby(records, key=lambda record: record[0]):
        yield from Task(work, topology, task).run(group)


class Task:
    """One task of a part: pipes records into its engine, and returns its output."""

    def __init__(self, work: Work, topology: Any, task: int) -> None:
        """Keep the part, its topology and the number of the task."""
        self.work = work
        self.topology = topology
        self.task = task
        self.topics = (*work.sinks, *work.keep_null)
        self.keyless: Counter[str] = Counter()
        """Records without a key that are not passed on, by hop."""

    def run(self, records: Iterator[tuple[Any, ...]]) -> Iterator[Row]:
        """Run an engine over all records, and return its stores' rows at the end."""
        driver = self.start()
        try:
            yield from self.process(driver, records)
            yield from self.store_rows(driver)
            if self.work.drops:
                yield from self.drop_rows(driver)
        finally:
            driver.close()

    def start(self) -> Driver:
        """Start an engine with empty stores."""
        from stoatflow._runtime import bridge

        return bridge.Driver(self.topology.plan, list(self.work.pairs), 1, 0)

    def process(self, driver: Driver, records: Iterator[tuple[Any, ...]]) -> Iterator[Row]:
        """Pipe records, and yield the output."""
        return self._batched(driver, records) if self.work.batched else self._each(driver, records)

    def _each(self, driver: Driver, records: Iterator[tuple[Any, ...]]) -> Iterator[Row]:
        for _, name, key, value, timestamp, headers, place, hashed in records:
            self._check(name, key, hashed)
            driver.pipe(name, 0, key, value, timestamp, _pairs(headers))
            yield from self._drain(driver, place)

    def _batched(self, driver: Driver, records: Iterator[tuple[Any, ...]]) -> Iterator[Row]:
        while together := list(itertools.islice(records, _TOGETHER)):
            if self.work.partitions is not None:
                for _, name, key, _, _, _, _, hashed in together:
                    self._check(name, key, hashed)
            driver.hold()
            driver.pipe_all(
                [
                    (name, (key, value, timestamp, _pairs(headers)))
                    for _, name, key, value, timestamp, headers, _, _ in together
                ]
            )
            driver.release()
            yield from self._drain(driver, together[0][6])

    def _drain(self, driver: Driver, place: bytes) -> Iterator[Row]:
        number = 0
        topics = self.topics
        if self.work.dynamic:
            topics = tuple(dict.fromkeys((*topics, *driver.produced_topics())))
        for topic in topics:
            hop = topic in self.work.keep_null
            for key, value, timestamp, headers in driver.drain(topic):
                if hop and key is None and not self.work.keep_null[topic]:
                    self.keyless[topic] += 1
                    continue
                # The part's number distinguishes parts that write one topic from the same record.
                at = place + self.work.number.to_bytes(2, "big") + number.to_bytes(4, "big")
                number += 1
                hashed = murmur2(key) if hop and key is not None else None
                kind = HOP if hop else RECORD
                yield Row(kind, topic, self.task, hashed, key, value, timestamp, headers or None, None, None, at)

    def store_rows(self, driver: Driver) -> Iterator[Row]:
        """Yield the rows of the part's stores."""
        for name in self.work.stores:
            for key, window, value, timestamp in driver.store_rows(name):
                start, end = window or (None, None)
                yield Row(STORE, name, self.task, None, key, value, timestamp, None, start, end, None)

    def drop_rows(self, driver: Driver) -> Iterator[Row]:
        """Yield the number of dropped records by node and reason, in the columns hash, key and timestamp."""
        dropped = [
            (drop["node"], drop["reason"], drop["count"]) for drop in json.loads(driver.metrics_json())["dropped"]
        ]
        dropped += [(hop, "null_key", count) for hop, count in self.keyless.items()]
        for node, reason, count in dropped:
            yield Row(DROP, node, self.task, self.work.number, reason.encode(), None, count, None, None, None, None)

    def _check(self, topic: str, key: bytes | None, hashed: bool) -> None:
        """Check a source record's partition: repartitioned records of its key are where Kafka's producers put it."""
        if self.work.partitions is None or key is None or not hashed:
            return
        wanted = murmur2(key) % self.work.partitions
        if wanted != self.task:
            from stoatflow.errors import TopologyError

            raise TopologyError(
                f"topic {topic} has the key {key!r} in partition {self.task}, and Kafka's producers put it into "
                f"{wanted}: records that were given this key on the way would not meet it there",
                next_step="write .repartition() behind that source",
            )


def _pairs(headers: list[dict[str, Any]] | None) -> list[tuple[str, bytes | None]]:
    return [(header["key"], header["value"]) for header in headers or ()]


def murmur2(key: bytes) -> int:
    """Return Kafka's hash of a key, made positive."""
    from stoatflow._runtime import bridge

    return bridge.murmur2(key)
