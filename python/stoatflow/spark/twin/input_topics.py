"""The input of a streaming query: the topics of a broker, or streaming DataFrames.

Takes the address of a broker, or DataFrames by topic. Returns one streaming DataFrame of all records, and the number of
partitions of each topic. Never reads a topic that the topology itself writes.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stoatflow.errors import ConfigError
from stoatflow.spark import embedded
from stoatflow.spark.audit.reading import whole
from stoatflow.spark.audit.reconciling import topics_read
from stoatflow.spark.client_properties import java_client
from stoatflow.spark.errors import TopicError, TwinError
from stoatflow.spark.kafka import KafkaTopics
from stoatflow.spark.twin.running import complete, known
from stoatflow.spark.twin.stages import SOURCE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from stoatflow.topology import Topology


@dataclass(frozen=True)
class Source:
    """All records of the inputs, and their numbers of partitions."""

    rows: DataFrame
    partitions: Mapping[str, int]


def source(
    spark: SparkSession,
    topology: Topology,
    inputs: str | Mapping[str, DataFrame],
    client: Mapping[str, str] | None,
    partitions: Mapping[str, int] | None,
    *,
    at_most: int,
    removed: bool,
    begin: Mapping[str, Mapping[str, int]] | None = None,
    has_read: bool = False,
) -> Source:
    """Return the input of the topology.

    `begin`: where the first trigger begins, if not with the first records. `has_read`: the first trigger has run
    already.
    """
    topics = topics_read(topology)
    if isinstance(inputs, str):
        if partitions is not None:
            raise ConfigError("partitions= is of DataFrames", next_step="leave it out: the broker says it")
        return _kafka(
            spark, topics, inputs, client or {}, at_most=at_most, removed=removed, begin=begin, has_read=has_read
        )
    if begin is not None:
        raise ConfigError(
            "the checkpoint goes on where an application stopped, in topics of Kafka, and DataFrames are given",
            next_step="give the address of the broker instead",
        )
    known(topology, inputs)
    missing = sorted(set(topics) - set(inputs))
    if missing:
        raise ConfigError(
            f"the topology reads {', '.join(missing)}, of which no input is given",
            next_step="give a streaming DataFrame for each source topic",
        )
    return _frames({topic: inputs[topic] for topic in topics}, partitions or {})


def refuse_embedded(bootstrap: str) -> None:
    """Raise `TwinError` for an embedded broker: its topics belong to one process, not to Spark's workers."""
    if embedded.path_of(bootstrap) is not None:
        raise TwinError(
            f"{bootstrap} is an embedded broker, whose topics one process may open, and Spark's workers are others: "
            "give the address of a Kafka broker, or run the batch twin (--batch), which reads a copy"
        )


def _kafka(
    spark: SparkSession,
    topics: Sequence[str],
    bootstrap: str,
    client: Mapping[str, str],
    *,
    at_most: int,
    removed: bool,
    begin: Mapping[str, Mapping[str, int]] | None,
    has_read: bool,
) -> Source:
    from pyspark.sql import functions as f

    refuse_embedded(bootstrap)
    broker = KafkaTopics(spark, bootstrap, client)
    partitions = {}
    for topic in topics:
        begins = broker.begins(topic)
        if begin is not None and not has_read:
            _there(topic, begin[topic], begins)
        if begin is None and not removed:
            whole(topic, begins)
        partitions[topic] = len(begins)
    # All topics in one source, so a trigger has one range of offsets for all parts.
    rows = (
        spark.readStream.format("kafka")
        .options(**{f"kafka.{name}": value for name, value in java_client(client).items()})
        .option("kafka.bootstrap.servers", bootstrap)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", ",".join(topics))
        .option("startingOffsets", "earliest" if begin is None else json.dumps(begin))
        .option("maxOffsetsPerTrigger", str(at_most))
        .option("failOnDataLoss", "true")
        .option("includeHeaders", "true")
        .load()
    )
    millis = f.unix_millis("timestamp").alias("timestamp")
    order = f.lit(None).cast("long").alias("order")
    named = f.col("topic").alias("name")
    return Source(rows.select(named, "partition", "offset", "key", "value", millis, "headers", order), partitions)


def _there(topic: str, wanted: Mapping[str, int], begins: Mapping[int, int]) -> None:
    """Raise `TopicError` if retention has removed the next records."""
    for partition, first in begins.items():
        if (at := wanted.get(str(partition))) is None:
            raise TopicError(
                f"topic {topic} has got the partition {partition} since the hand-over: keys now go elsewhere than "
                "where their state is. Hand the application over again, into a new folder"
            )
        if at < first:
            raise TopicError(
                f"topic {topic}, partition {partition} begins at offset {first}, and the application stopped at {at}: "
                "retention has removed what comes between. Hand back (stoatflow hand-over from-spark), and see what "
                "the application says of it"
            )


def _frames(inputs: Mapping[str, DataFrame], partitions: Mapping[str, int]) -> Source:
    from pyspark.sql import functions as f

    frames = []
    for topic, frame in inputs.items():
        if not frame.isStreaming:
            raise ConfigError(
                f"the input of {topic} is no streaming DataFrame",
                next_step="read it with spark.readStream, or run the batch twin over it: run_batch",
            )
        rows = complete(topic, frame).withColumn("name", f.lit(topic))
        if "order" not in rows.columns:
            rows = rows.withColumn("order", f.lit(None))
        frames.append(rows.withColumn("order", f.col("order").cast("long")).select(*SOURCE))
    rows = functools.reduce(lambda one, other: one.unionByName(other), frames)
    return Source(rows, {topic: partitions.get(topic, 1) for topic in inputs})
