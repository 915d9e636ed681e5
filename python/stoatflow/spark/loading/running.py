"""Writes the records that a spec declares to topics, and returns a manifest.

Takes a spec, the address of a broker, for a real one a SparkSession; returns a `Manifest`. Records of a partition are
written in the order of their numbers, unchanged.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

from stoatflow._version import __version__
from stoatflow.errors import ConfigError
from stoatflow.spark import embedded
from stoatflow.spark.errors import TopicError
from stoatflow.spark.loading.frames import by_partition, require_arrow

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from stoatflow.spark.loading.spec import LoadSpec, TopicSpec

Progress = Callable[[int], None]


@dataclass
class Made:
    """Counts of a topic."""

    records: int = 0
    partitions: int = 1
    bytes: int = 0
    first_time: int | None = None
    last_time: int | None = None
    kinds: dict[str, int] = field(default_factory=dict)
    """Number of records that are duplicates, without a value, without a key, malformed, late or out of order."""
    times: str = "of the records"
    """Where event time is: `of the records`, or `when written` if Spark's sink can't set it."""
    schema: str | None = None
    seconds: float = 0.0


def counted(batch: pa.RecordBatch) -> Made:
    """Return the counts of a batch."""
    import pyarrow.compute as pc

    from stoatflow.spark.loading.batches import KINDS

    ends = pc.min_max(batch.column("timestamp")).as_py()
    sizes = (pc.sum(pc.binary_length(batch.column(name))).as_py() or 0 for name in ("key", "value"))
    bits = {kind: pc.not_equal(pc.bit_wise_and(batch.column("kinds"), bit), 0) for kind, bit in KINDS.items()}
    kinds = {kind: pc.sum(found).as_py() or 0 for kind, found in bits.items()}
    return Made(batch.num_rows, 1, sum(sizes), ends["min"], ends["max"], kinds)


def added(one: Made, other: Made) -> Made:
    """Add both; properties of the topic are those of the first."""
    firsts = [each for each in (one.first_time, other.first_time) if each is not None]
    lasts = [each for each in (one.last_time, other.last_time) if each is not None]
    return replace(
        one,
        records=one.records + other.records,
        bytes=one.bytes + other.bytes,
        first_time=min(firsts, default=None),
        last_time=max(lasts, default=None),
        kinds={kind: one.kinds.get(kind, 0) + other.kinds.get(kind, 0) for kind in one.kinds | other.kinds},
    )


@dataclass(frozen=True)
class Manifest:
    """What was written: enough to generate it again, and to check that it is there."""

    seed: int
    spec: str
    """SHA-256 of the parsed spec."""
    stoatflow: str
    topics: Mapping[str, Made]

    @property
    def records(self) -> int:
        """Number of records written."""
        return sum(made.records for made in self.topics.values())

    def to_json(self) -> str:
        """Return the manifest as JSON."""
        content = {
            "seed": self.seed,
            "spec": self.spec,
            "stoatflow": self.stoatflow,
            "records": self.records,
            "topics": {name: asdict(made) for name, made in self.topics.items()},
        }
        return json.dumps(content, indent=2, ensure_ascii=False)


def fingerprint(spec: LoadSpec) -> str:
    """Return the SHA-256 of a spec."""
    return hashlib.sha256(json.dumps(asdict(spec), sort_keys=True).encode()).hexdigest()


def load(
    spec: LoadSpec,
    bootstrap: str,
    *,
    spark: SparkSession | None = None,
    client: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Write all topics, one after the other.

    An embedded broker (`embedded:PATH`) needs no Spark: only one process may write to it, this one. A real broker needs
    a session of `local_session(kafka=True)`.
    """
    require_arrow() if spark is not None else _require_columns()
    path = embedded.path_of(bootstrap)
    made: dict[str, Made] = {}
    done = 0

    def report(written: int) -> None:
        if progress is not None:
            progress(done + written)

    if path is not None:
        for topic in spec.topics:
            _without_headers(topic)
        with embedded.open_broker(path) as broker:
            for topic in spec.topics:
                made[topic.name] = _into_embedded(spec, topic, broker, report)
                done += topic.records
    else:
        if spark is None:
            raise ConfigError(
                f"{bootstrap} is a real broker, which Spark writes to",
                next_step="pass spark=local_session(kafka=True), or load into embedded:PATH",
            )
        for topic in spec.topics:
            made[topic.name] = _into_kafka(spark, spec, topic, bootstrap, client, report)
            done += topic.records
    return Manifest(spec.seed, fingerprint(spec), __version__, made)


def _without_headers(topic: TopicSpec) -> None:
    if topic.headers:
        raise ConfigError(
            f"topic {topic.name} has headers, which an embedded broker takes from applications only",
            next_step=f"leave out [topics.{topic.name}.headers], or load into a real broker",
        )


def _require_columns() -> None:
    missing = [module for module in ("numpy", "pyarrow") if find_spec(module) is None]
    if missing:
        raise ConfigError(
            f"a load needs {' and '.join(missing)}, which this Python has not got",
            next_step="pip install 'stoatflow[spark]'",
        )


def _start(topic: TopicSpec) -> Made:
    from stoatflow.spark.loading import encode

    return Made(partitions=topic.partitions, schema=encode.schema(topic))


def _into_embedded(spec: LoadSpec, topic: TopicSpec, broker: embedded.Topics, progress: Progress) -> Made:
    from stoatflow.spark.loading.batches import batches

    began = time.monotonic()
    embedded.need_partitions(broker, topic.name, topic.partitions)
    made, written = _start(topic), 0
    for batch in batches(spec, topic, 0, topic.records):
        columns = (batch.column(name).to_pylist() for name in ("partition", "key", "value", "timestamp"))
        written += broker.produce_many(topic.name, list(zip(*columns, strict=True)))
        made = added(made, counted(batch))
        progress(written)
    made.records = written
    made.seconds = round(time.monotonic() - began, 3)
    return made


def _into_kafka(
    spark: SparkSession,
    spec: LoadSpec,
    topic: TopicSpec,
    bootstrap: str,
    client: Mapping[str, str] | None,
    progress: Progress,
) -> Made:
    from stoatflow.spark.kafka import KafkaTopics

    began = time.monotonic()
    topics = KafkaTopics(spark, bootstrap, client)
    topics.create(topic.name, topic.partitions)
    summed = spark.sparkContext.accumulator(Made(), _Sum())  # type: ignore[arg-type]
    rows = by_partition(spark, spec, topic, lambda batch: summed.add(counted(batch)))
    written = topics.write(_written(rows, topic), topic.name, progress)
    made = added(_start(topic), summed.value)
    made.records, made.times = written, "when written"
    if made.records < topic.records:
        message = (
            f"{topic.records:,} records were written to {topic.name}, but it grew by {made.records:,} only: delete the "
            "topic and load again"
        )
        raise TopicError(message)
    made.seconds = round(time.monotonic() - began, 3)
    return made


class _Sum:
    """Lets Spark add up the counts of its workers."""

    def zero(self, value: Made) -> Made:
        """Return the empty counts."""
        del value
        return Made()

    def addInPlace(self, value1: Made, value2: Made) -> Made:  # noqa: N802  # the name in Spark
        """Add two counts."""
        return added(value1, value2)


def _written(rows: DataFrame, topic: TopicSpec) -> DataFrame:
    wanted = ["partition", "key", "value", *(["headers"] if topic.headers else [])]
    return rows.select(*wanted)
