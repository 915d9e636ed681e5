"""The output of a streaming query: records with headers about their origin, to Kafka, to files, or to a function.

Takes `Routed` rows of a trigger, returns records, in order for each key. Owns the headers by which a reader detects a
record that was written twice: Spark writes a trigger again after a failure, so its output in Kafka is at least once.
Never changes the topology's records.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stoatflow.spark.client_properties import java_client
from stoatflow.spark.twin.routing import source_of
from stoatflow.spark.twin.task import murmur2
from stoatflow.spark.twin.task_state import unpacked

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from stoatflow.topology import Topology

PREFIX = "__stoatflow.twin."
SCHEMA = (
    "topic string, key binary, value binary, timestamp long, headers array<struct<key: string, value: binary>>, "
    "place binary"
)

_WRITTEN = "topic string, key binary, value binary, headers array<struct<key: string, value: binary>>"
_BEHIND = {"time_windowed": 8, "session_windowed": 16}

Output = Callable[["DataFrame", int], None]
"""Called with the records of a trigger and its number."""


def records(rows: DataFrame, topics: Sequence[str], end: int, trigger: int) -> DataFrame:
    """Return the output of a trigger: topic, key, value, timestamp, headers, and `place`, which orders the records."""
    return rows.where(f"part = {end}").mapInArrow(_with_headers(topics, trigger), SCHEMA)


def _with_headers(topics: Sequence[str], trigger: int) -> Callable[[Iterable[pa.RecordBatch]], Iterator[Any]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
        for batch in batches:
            columns = {name: batch.column(name) for name in ("name", "key", "value", "timestamp", "headers", "place")}
            rows = zip(*(columns[name].to_pylist() for name in ("headers", "place", "timestamp")), strict=True)
            headers = [
                [(name, value) for name, value in unpacked(given)] + provenance(topics, place, timestamp, trigger)
                for given, place, timestamp in rows
            ]
            listed = [[{"key": name, "value": value} for name, value in each] for each in headers]
            yield pa.RecordBatch.from_arrays(
                [
                    *(columns[name] for name in ("name", "key", "value", "timestamp")),
                    pa.array(listed, header),
                    columns["place"],
                ],
                names=["topic", "key", "value", "timestamp", "headers", "place"],
            )

    return run


def provenance(topics: Sequence[str], place: bytes, timestamp: int, trigger: int) -> list[tuple[str, bytes | None]]:
    """Return the headers about a record's origin and trigger: unique within one trigger."""
    topic, partition, offset, ordinal = source_of(place)
    origin = {
        "topic": topics[topic], "partition": partition, "offset": offset, "ordinal": ordinal, "timestamp": timestamp,
        "trigger": trigger,
    }  # fmt: skip
    return [(PREFIX + name, str(value).encode()) for name, value in origin.items()]


@dataclass(frozen=True)
class WindowedTopic:
    """A topic with windowed keys: as in Kafka Streams, the key within chooses the partition."""

    behind: int
    """Number of bytes after the key within: the times of the window."""
    partitions: int


def windowed_topics(topology: Topology, partitions: Mapping[str, int]) -> dict[str, WindowedTopic]:
    """Return the topics that get windowed keys; `partitions` is the number of partitions of each topic."""
    found = {}
    for sink in json.loads(topology.plan.physical_json)["sinks"]:
        behind = next((size for kind, size in _BEHIND.items() if kind in sink["key"]), None)
        if behind is not None and sink["topic"] is not None:
            found[sink["topic"]] = WindowedTopic(behind, partitions[sink["topic"]])
    return found


def to_kafka(
    bootstrap: str,
    client: Mapping[str, str] | None = None,
    writers: int = 2,
    windowed: Mapping[str, WindowedTopic] | None = None,
) -> Output:
    """Write to the topics that the topology names. Kafka stamps records on arrival: their timestamp is in a header.

    Kafka's default partitioner chooses partitions, except for `windowed` topics.
    """
    properties = {f"kafka.{name}": value for name, value in java_client(client or {}).items()}

    def write(rows: DataFrame, _: int) -> None:
        # One task writes all records of a key, so that they keep their order.
        ordered = rows.repartition(writers, "key").sortWithinPartitions("place")
        kept = ordered.select("topic", "key", "value", "headers")
        if windowed:
            kept = kept.mapInArrow(_with_partitions(windowed), f"{_WRITTEN}, partition int")
        (
            kept.write.format("kafka")
            .options(**properties)
            .option("kafka.bootstrap.servers", bootstrap)
            .option("includeHeaders", "true")
            .save()
        )

    return write


def _with_partitions(windowed: Mapping[str, WindowedTopic]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[Any]]:
    def partition(topic: str, key: bytes | None) -> int | None:
        of = windowed.get(topic)
        if of is None or key is None:
            return None
        return murmur2(key[: -of.behind]) % of.partitions

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            pairs = zip(batch.column("topic").to_pylist(), batch.column("key").to_pylist(), strict=True)
            chosen = pa.array([partition(topic, key) for topic, key in pairs], pa.int32())
            yield pa.RecordBatch.from_arrays([*batch.columns, chosen], names=[*batch.schema.names, "partition"])

    return run


def to_files(folder: str | Path) -> Output:
    """Write Parquet files, `trigger=N` for each trigger; a repeated trigger replaces its files, without duplicates."""

    def write(rows: DataFrame, trigger: int) -> None:
        rows.write.mode("overwrite").parquet(f"{folder}/trigger={trigger}")

    return write


def to_function(function: Output) -> Output:
    """Call a function with the records of a trigger. It may read them more than once."""

    def call(rows: DataFrame, trigger: int) -> None:
        kept = rows.persist()
        try:
            # Computed completely, whatever the function reads: records that aren't computed would be
            # missing in the state too.
            kept.count()
            function(kept, trigger)
        finally:
            kept.unpersist()

    return call
