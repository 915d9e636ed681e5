"""Generates reproducible input, and writes it to a topic.

Takes the number of records and of words, and a seed. Returns a DataFrame of lines, or writes them to a topic. Every
field of record *i* is a hash of (seed, *i*, field), independent of the number of tasks, the cores and the machine: the
same seed is the same input, everywhere. Spark's ``rand`` is not used: its numbers depend on how the work is split.

`load` writes the records that a spec declares, see `stoatflow.spark.loading`; on the command line it is ``stoatflow
load``. Lines alone: ``python -m stoatflow.spark.load --bootstrap HOST:PORT --topic lines --records 1000000``.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from stoatflow.spark import arguments, embedded
from stoatflow.spark.errors import SparkUnavailableError, TopicError
from stoatflow.spark.kafka import KafkaTopics
from stoatflow.spark.session import local_session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from pyspark.sql import Column, DataFrame, SparkSession

    from stoatflow.spark.loading.running import Manifest
    from stoatflow.spark.loading.spec import LoadSpec

SHORTEST, LONGEST = 8, 12
"""Fewest and most words of a line."""

START_MS = 1_700_000_000_000
"""Event time of the first record; each record is a millisecond later than the one before."""


def load(
    spec: LoadSpec | str | Path | Mapping[str, Any],
    bootstrap: str,
    *,
    spark: SparkSession | None = None,
    client: Mapping[str, str] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Manifest:
    """Write the records that a spec (or its TOML file) declares to topics; return what was written.

    An embedded broker needs no Spark. For a real broker pass a session of `local_session(kafka=True)`.
    """
    # It needs numpy and pyarrow; lines alone don't.
    from stoatflow.spark.loading import running
    from stoatflow.spark.loading.spec import LoadSpec, read_spec

    read = spec if isinstance(spec, LoadSpec) else read_spec(spec)
    return running.load(read, bootstrap, spark=spark, client=client, progress=progress)


def lines(
    spark: SparkSession,
    records: int,
    vocabulary: int = 10_000,
    seed: int = 0,
    partitions: int = 1,
    *,
    skew: float = 1.0,
    keys: int = 0,
    tasks: int | None = None,
) -> DataFrame:
    """Return ``records`` lines of 8 to 12 words: partition (int), key (string), value (string), timestamp (long).

    Words are ``word00001`` to ``word<vocabulary>``; the first is the most frequent, word *n* about ``n**skew`` times
    rarer, as in natural text. Keys are null, or one of ``keys`` keys (``key00001``, as skewed as the words). Records
    are assigned to partitions round-robin. ``tasks`` is how Spark splits the work (default: 50,000 records each) and
    changes nothing else.
    """
    for name, number, least in (
        ("records", records, 0),
        ("vocabulary", vocabulary, 1),
        ("partitions", partitions, 1),
        ("keys", keys, 0),
    ):
        if number < least:
            raise ValueError(f"{name} must be at least {least}: {number}")
    if skew < 0:
        raise ValueError(f"skew must not be negative (0 makes all words equally frequent): {skew}")
    from pyspark.sql import functions as f

    if tasks is None:
        # The driver holds the rows of one task at a time in memory.
        tasks = max(2, records // 50_000)

    def dice(field: int) -> Column:
        """Return 53 random bits of this record for one of its fields, as a number in [0, 1)."""
        bits = f.shiftrightunsigned(f.xxhash64(f.lit(seed).cast("long"), "id", f.lit(field)), 11)
        return bits.cast("double") / f.lit(float(2**53))

    length = f.floor(dice(0) * (LONGEST - SHORTEST + 1)) + SHORTEST
    words = [_named("word", _rank(dice(n), vocabulary, skew), vocabulary) for n in range(1, LONGEST + 1)]
    # concat_ws skips nulls, which are the words beyond the length of the line.
    kept = [word if n <= SHORTEST else f.when(length >= n, word) for n, word in enumerate(words, start=1)]
    key = _named("key", _rank(dice(LONGEST + 1), keys, skew), keys) if keys else f.lit(None).cast("string")
    return spark.range(0, records, 1, tasks).select(
        (f.col("id") % partitions).cast("int").alias("partition"),
        key.alias("key"),
        f.concat_ws(" ", *kept).alias("value"),
        (f.col("id") + START_MS).alias("timestamp"),
    )


def _rank(dice: Column, size: int, skew: float) -> Column:
    """Return a rank from 1 to ``size``, by inversion of the (continuous) Zipf distribution.

    Spark computes `pow` with Java's StrictMath: the same bits on every machine.
    """
    from pyspark.sql import functions as f

    top = float(size + 1)
    if abs(skew - 1.0) < 1e-9:
        spread = f.pow(f.lit(top), dice)
    else:
        rest = 1.0 - skew
        spread = f.pow(dice * (top**rest - 1.0) + 1.0, f.lit(1.0 / rest))
    return f.least(f.floor(spread), f.lit(size))


def _named(prefix: str, rank: Column, size: int) -> Column:
    from pyspark.sql import functions as f

    return f.concat(f.lit(prefix), f.lpad(rank.cast("string"), max(5, len(str(size))), "0"))


def to_broker(
    df: DataFrame,
    bootstrap: str,
    topic: str,
    *,
    partitions: int | None = None,
    client: Mapping[str, str] | None = None,
    progress: Callable[[int], None] | None = None,
) -> int:
    """Append rows (partition, key, value, timestamp) to a topic, created if missing; return how many arrived.

    Within a partition records are written by timestamp. In real Kafka the record's timestamp is the time of writing,
    since Spark's sink cannot set it; an embedded broker uses the column. ``partitions`` defaults to the number in the
    rows. For a real broker, ``df`` needs a session with ``kafka=True``.
    """
    from pyspark.sql import functions as f

    if partitions is None:
        highest = df.agg(f.max("partition")).first()
        partitions = 1 if highest is None or highest[0] is None else int(highest[0]) + 1
    path = embedded.path_of(bootstrap)
    if path is not None:
        with embedded.open_broker(path) as broker:
            return embedded.write(df, broker, topic, partitions, progress)
    topics = KafkaTopics(df.sparkSession, bootstrap, client)
    topics.create(topic, partitions)
    # One task per partition: parallel writers would break the order by time within it.
    ordered = df.repartition(partitions, "partition").sortWithinPartitions("timestamp")
    return topics.write(ordered, topic, progress)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return 0, or 1 if fewer records arrived than were asked for, or 2 if it could not run."""
    parser = argparse.ArgumentParser(
        prog="python -m stoatflow.spark.load", description="Write reproducible lines of words into a topic."
    )
    arguments.add_broker(parser)
    parser.add_argument("--topic", required=True, help="the topic; made if it is missing")
    parser.add_argument("--records", type=arguments.positive, default=100_000, help="how many lines (default 100000)")
    parser.add_argument("--vocabulary", type=arguments.positive, default=10_000, help="how many words (default 10000)")
    parser.add_argument("--skew", type=float, default=1.0, help="0 for even, 1 for natural text (default 1)")
    parser.add_argument("--keys", type=int, default=0, help="how many different keys; 0 for null keys (default)")
    parser.add_argument("--seed", type=int, default=0, help="the same seed makes the same input (default 0)")
    parser.add_argument("--partitions", type=arguments.positive, default=1, help="partitions of the topic (default 1)")
    given = parser.parse_args(argv)
    started = time.monotonic()
    try:
        real = embedded.path_of(given.bootstrap) is None
        arguments.say_start(kafka=real)
        with local_session(kafka=real, cores=given.cores, conf=dict(given.spark_conf)) as spark:
            rows = lines(
                spark,
                given.records,
                given.vocabulary,
                given.seed,
                given.partitions,
                skew=given.skew,
                keys=given.keys,
                tasks=max(2 * given.cores, given.records // 50_000),
            )
            arguments.say(f"loading {given.records:,} lines into {given.topic} at {given.bootstrap}")
            arrived = to_broker(
                rows,
                given.bootstrap,
                given.topic,
                partitions=given.partitions,
                client=dict(given.client_property),
                progress=arguments.counter(given.records, "records"),
            )
    except (SparkUnavailableError, TopicError, ValueError) as error:
        arguments.say(f"error: {error}")
        return 2
    return _result(given, arrived, time.monotonic() - started)


def _result(given: argparse.Namespace, arrived: int, seconds: float) -> int:
    where = f"topic {given.topic} ({given.partitions} partition(s), seed {given.seed})"
    if arrived < given.records:
        arguments.say(f"error: {given.records:,} were written to {where}, but it grew by {arrived:,} only: load again")
        return 1
    if arrived > given.records:
        # Not an error: the application and the reconciliation read what the topic holds.
        arguments.say(f"note: {where} grew by {arrived:,}: somebody else writes to it as well")
    sys.stdout.write(f"loaded {given.records:,} records into {where} in {seconds:.1f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
