"""Reconciles a topology: compares its output topics with what the batch twin computes from the input topics.

Takes a topology and the address of a broker, or two DataFrames; returns an `Audit`. Decides which updates must exist.
Never changes a topic.
"""

from __future__ import annotations

import functools
import itertools
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stoatflow.errors import ConfigError, StoatFlowError
from stoatflow.plan import nodes
from stoatflow.serdes import Serde
from stoatflow.serdes.planned import planned
from stoatflow.spark import connected
from stoatflow.spark.audit import compare, reading
from stoatflow.spark.audit.counters import Counters
from stoatflow.spark.audit.counters import compare as compare_drops
from stoatflow.spark.audit.counters import read as read_counters
from stoatflow.spark.audit.findings import Audit, AuditExample, DropAudit, TopicAudit
from stoatflow.spark.twin.parts import topics_of
from stoatflow.spark.twin.running import Say, run_batch
from stoatflow.spark.twin.shape import GROUPED_TABLE, TABLE, Shape

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from stoatflow.topology import Topology

_EXAMPLES = 5
"""Most examples of one kind of fault in one topic."""
_TASKS_EXAMPLES = 5
_COLUMNS = ("topic", "key", "side", "value", "timestamp", "partition", "offset")
_RESULT = (
    "topic string, fault string, count long, key binary, expected binary, expected_time long, found binary, "
    "found_time long, partition int, offset long"
)
_RESULT_NAMES = tuple(each.split()[0] for each in _RESULT.split(", "))

Shown = Callable[["bytes | None", "bytes | None", "int | None"], str]


def reconcile(
    spark: SparkSession,
    topology: Topology,
    bootstrap: str,
    *,
    topics: Sequence[str] | None = None,
    updates: Mapping[str, str] | str = "auto",
    expected: Mapping[str, DataFrame] | None = None,
    config: Mapping[str, object] | None = None,
    timestamps: bool = True,
    wait: float = 30.0,
    client: Mapping[str, str] | None = None,
    removed: bool = False,
    counters: Counters | None = None,
    say: Say | None = None,
) -> Audit:
    """Compare output topics with their expected content.

    `topics` defaults to all that the topology writes to. `updates` says for all topics, or for each, whether `all`
    records must exist, the `last` one of each key, or its `final` value; `auto` uses `last` for updates of tables,
    which the engine's cache may combine, and `final` downstream of a regrouped table. `expected` replaces the batch
    twin: a DataFrame for each topic, with key, value, timestamp and order. `timestamps=False` compares only keys and
    values. `counters` are those of an engine that has read the whole input since its start: `app.metrics()`, the
    address of its `/metrics`, or a file with them.
    """
    connected.need_classic(spark, "a reconciliation", "give a session that was made with master()")
    began = time.monotonic()
    shape = Shape(topology.nodes)
    checked = list(topics) if topics is not None else _written(topology)
    if not checked:
        raise ConfigError("the topology writes to no topic that has a name", next_step="name some: topics=[...]")
    modes = {topic: _mode(shape, topic, updates) for topic in checked}
    counted = None if counters is None else read_counters(counters)
    if counted is not None and expected is not None:
        raise ConfigError("counters= are compared with the batch twin", next_step="leave out expected=")
    drops: tuple[DropAudit, ...] | None = None
    inputs = [] if expected is not None else topics_read(topology)
    with reading.topics(spark, bootstrap, inputs, checked, wait=wait, client=client, removed=removed) as readable:
        keyless, counts = _counted(readable, inputs)
        if expected is not None:
            wanted = _expected(expected, checked)
            audit = _compare(spark, wanted, readable, modes, timestamps)
            counts = {f"(expected) {topic}": frame.count() for topic, frame in expected.items()}
        else:
            given = readable.only(inputs)
            with run_batch(
                topology,
                given,
                config=config,
                partitions=readable.partitions,
                # Records dropped upstream of a store count too.
                only=checked if counted is None else None,
                count_drops=counted is not None,
                say=say,
            ) as result:
                drops = None if counted is None else compare_drops(result.drops(), counted)
                audit = _compare(
                    spark, result.records().withColumnRenamed("name", "topic"), readable, modes, timestamps
                )
    found = replace(audit, inputs=counts, keyless=keyless, drops=drops, seconds=time.monotonic() - began)
    return replace(found, examples=tuple(_readable(topology, found.examples)))


def _written(topology: Topology) -> list[str]:
    return list(dict.fromkeys(n.topic for n in topology.nodes if isinstance(n, nodes.To) and n.topic is not None))


def topics_read(topology: Topology) -> list[str]:
    """Return the topics that a topology reads and doesn't write."""
    written = set(_written(topology))
    found = dict.fromkeys(topic for node in topology.nodes for topic in topics_of(node))
    return [topic for topic in found if topic not in written]


def _mode(shape: Shape, topic: str, updates: Mapping[str, str] | str) -> str:
    given = updates if isinstance(updates, str) else updates.get(topic, "auto")
    if given in {"all", "last", "final"}:
        return given
    if given != "auto":
        raise ConfigError(f"updates of {topic} are {given!r}", next_step="write all, last, final or auto")
    sinks = [at for at, node in enumerate(shape.nodes) if isinstance(node, nodes.To) and node.topic == topic]
    if any(_below_regrouped(shape, at) for at in sinks):
        return "final"
    return "last" if any(_below_table(shape, at) for at in sinks) else "all"


def _below_regrouped(shape: Shape, at: int) -> bool:
    """Whether it is downstream of a regrouped table. Combining updates there changes the updates of other keys."""
    return any(
        shape.kinds[edge.parent] == GROUPED_TABLE or _below_regrouped(shape, edge.parent) for edge in shape.edges[at]
    )


def _below_table(shape: Shape, at: int) -> bool:
    for edge in shape.edges[at]:
        joined = edge.slot == "other" and shape.kinds[edge.child] != TABLE
        if not joined and (shape.kinds[edge.parent] == TABLE or _below_table(shape, edge.parent)):
            return True
    return False


def _counted(readable: reading.Readable, inputs: Sequence[str]) -> tuple[int, dict[str, int]]:
    from pyspark.sql import functions as f

    counts, keyless = {}, 0
    for topic in inputs:
        row = readable.frames[topic].agg(f.count(f.lit(1)), f.count("key")).first()
        records, with_key = (0, 0) if row is None else (int(row[0]), int(row[1]))
        counts[topic] = records
        keyless += records - with_key
    return keyless, counts


def _expected(expected: Mapping[str, DataFrame], checked: Sequence[str]) -> DataFrame:
    from pyspark.sql import functions as f

    unknown = sorted(set(checked) - set(expected))
    if unknown:
        raise ConfigError(f"nothing is expected of {', '.join(unknown)}", next_step="give a DataFrame for each topic")
    frames = [
        frame.select(
            f.lit(topic).alias("topic"),
            f.col("key").cast("binary"),
            f.col("value").cast("binary"),
            f.col("timestamp").cast("long"),
            f.unhex(f.lpad(f.hex(f.col("order").cast("long")), 16, "0")).alias("place"),
        )
        for topic, frame in expected.items()
    ]
    return functools.reduce(lambda one, other: one.unionByName(other), frames)


def _compare(
    spark: SparkSession, wanted: DataFrame, readable: reading.Readable, modes: Mapping[str, str], timestamps: bool
) -> Audit:
    from pyspark.sql import functions as f

    left = wanted.where(f.col("topic").isin(*modes)).select(
        "topic", "key", f.lit(0).alias("side"), "value", "timestamp", f.lit(None).cast("int").alias("partition"),
        f.lit(None).cast("long").alias("offset"), "place",
    )  # fmt: skip
    rights = [
        readable.frames[topic].select(
            f.lit(topic).alias("topic"), "key", f.lit(1).alias("side"), "value", "timestamp", "partition", "offset",
            f.lit(None).cast("binary").alias("place"),
        )
        for topic in modes
    ]  # fmt: skip
    both = functools.reduce(lambda one, other: one.unionByName(other), [left, *rights])
    cores = max(2, spark.sparkContext.defaultParallelism)
    by_key = both.repartition(cores, "topic", "key").sortWithinPartitions(
        "topic", "key", "side", "place", "partition", "offset"
    )
    rows = by_key.select(*_COLUMNS).mapInArrow(_comparison(dict(modes), timestamps), _RESULT).collect()
    return _summed([row.asDict() for row in rows], readable, modes)


def _comparison(
    modes: dict[str, str], timestamps: bool
) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    """Return the function that a worker runs: sorted records in, faults and counts out."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        rows = itertools.chain.from_iterable(
            zip(*(batch.column(name).to_pylist() for name in _COLUMNS), strict=True) for batch in batches
        )
        found = list(_compared(rows, modes, timestamps))
        types = [
            pa.string(), pa.string(), pa.int64(), pa.binary(), pa.binary(), pa.int64(), pa.binary(), pa.int64(),
            pa.int32(), pa.int64(),
        ]  # fmt: skip
        columns = zip(*found, strict=True) if found else ([] for _ in types)
        arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names=list(_RESULT_NAMES))

    return run


def _compared(rows: Iterator[tuple[Any, ...]], modes: Mapping[str, str], timestamps: bool) -> Iterator[tuple[Any, ...]]:
    sums: Counter[tuple[str, str]] = Counter()
    shown: Counter[tuple[str, str]] = Counter()
    for (topic, key), group in itertools.groupby(rows, key=lambda row: (row[0], row[1])):
        expected: list[compare.Content] = []
        found: list[compare.Found] = []
        for _, _, side, value, timestamp, partition, offset in group:
            content = (value, timestamp if timestamps else None)
            if side == 0:
                expected.append(content)
            else:
                found.append(compare.Found(content, partition, offset))
        sums[topic, "expected"] += len(expected)
        sums[topic, "found"] += len(found)
        sums[topic, "keys"] += 1
        if modes[topic] == "final":
            faults = compare.compare_last(expected, found)
        else:
            faults = compare.compare_key(expected, found, updates=modes[topic] == "all", ordered=key is not None)
        for fault in faults:
            sums[topic, fault.kind] += 1
            shown[topic, fault.kind] += 1
            # All missing records are kept, to be searched among aborted records.
            if shown[topic, fault.kind] <= (_TASKS_EXAMPLES if fault.kind != compare.MISSING else 10_000):
                yield _fault_row(topic, key, fault)
    for (topic, name), count in sums.items():
        yield (topic, name, count, *[None] * 7)


def _fault_row(topic: str, key: bytes | None, fault: compare.Fault) -> tuple[Any, ...]:
    expected = fault.expected or (None, None)
    if fault.found is None:
        return (topic, fault.kind, None, key, *expected, None, None, None, None)
    return (topic, fault.kind, None, key, *expected, *fault.found.content, fault.found.partition, fault.found.offset)


def _summed(rows: Sequence[dict[str, Any]], readable: reading.Readable, modes: Mapping[str, str]) -> Audit:
    sums: Counter[tuple[str, str]] = Counter()
    faults: list[dict[str, Any]] = []
    for row in rows:
        if row["count"] is None:
            faults.append(row)
        else:
            sums[row["topic"], row["fault"]] += row["count"]
    for row in _aborted([row for row in faults if row["fault"] == compare.MISSING], readable):
        sums[row["topic"], compare.MISSING] -= 1
        sums[row["topic"], compare.ABORTED] += 1
        row["fault"] = compare.ABORTED
    topics = tuple(
        TopicAudit(
            topic,
            mode,
            sums[topic, "expected"],
            sums[topic, "found"],
            sums[topic, "keys"],
            {fault: sums[topic, fault] for fault in compare.FAULTS},
        )
        for topic, mode in modes.items()
    )
    shown: list[Any] = []
    taken: Counter[tuple[str, str]] = Counter()
    for row in faults:
        taken[row["topic"], row["fault"]] += 1
        if taken[row["topic"], row["fault"]] <= _EXAMPLES:
            shown.append(row)
    return Audit(topics, {}, examples=tuple(shown))


def _aborted(missing: Sequence[dict[str, Any]], readable: reading.Readable) -> Iterator[dict[str, Any]]:
    """Find missing records among those of aborted transactions; return their positions there."""
    if not missing or readable.kafka is None:
        return
    for topic in dict.fromkeys(row["topic"] for row in missing):
        hidden = readable.kafka.read_aborted(topic)
        keys = {row["key"] and bytes(row["key"]) for row in missing if row["topic"] == topic}
        places = {}
        for hit in hidden.collect():
            key, value = (None if hit[name] is None else bytes(hit[name]) for name in ("key", "value"))
            if key in keys:
                places[key, value] = (hit["partition"], hit["offset"])
        for row in missing:
            value = None if row["expected"] is None else bytes(row["expected"])
            place = places.get((None if row["key"] is None else bytes(row["key"]), value))
            if row["topic"] == topic and place is not None:
                row["partition"], row["offset"] = place
                yield row


def _readable(topology: Topology, examples: Sequence[Any]) -> Iterator[AuditExample]:
    """Show keys and values as their serdes read them."""
    sinks = {each["topic"]: each for each in json.loads(topology.plan.physical_json)["sinks"]}
    for row in examples:
        sink = sinks.get(row["topic"])
        key, value = (
            (None, None) if sink is None else (planned(sink[side], topology.custom_serde) for side in ("key", "value"))
        )

        def content(side: str, row: dict[str, Any] = row, serde: Serde[Any] | None = value) -> str | None:
            time = row["expected_time" if side == "expected" else "found_time"]
            if row[side] is None and time is None and row["fault"] != compare.DUPLICATED:
                return None
            shown = text_of(row[side], serde)
            return shown if time is None else f"{shown} at {time}"

        yield AuditExample(
            row["topic"], row["fault"], text_of(row["key"], key), content("expected"), content("found"),
            row["partition"], row["offset"],
        )  # fmt: skip


def text_of(data: Any, serde: Serde[Any] | None) -> str:
    """Return bytes as readable text."""
    if data is None:
        return "null"
    raw = bytes(data)
    if serde is not None:
        try:
            return repr(serde.deserialize(raw))
        except (StoatFlowError, ValueError):
            pass  # shown unchanged
    return repr(raw)
