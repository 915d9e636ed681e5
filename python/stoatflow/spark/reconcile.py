"""Reads a word count's input and output topics, and checks that the output is exactly right.

Takes the address of a broker and the names of two topics. Returns a `Reconciliation`, prints a report, returns an exit
code. Reads committed records only, and all of them: in real Kafka up to the high watermark, with no open transaction;
from an embedded broker after the application has closed it. `wordcount` does the comparison. Never changes a topic.

On the command line: ``python -m stoatflow.spark.reconcile --bootstrap HOST:PORT --input lines --output counts``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from stoatflow.spark import arguments, embedded, wordcount
from stoatflow.spark.errors import SparkUnavailableError, TopicError
from stoatflow.spark.kafka import KafkaTopics
from stoatflow.spark.report import Example, Fault, Reconciliation
from stoatflow.spark.session import local_session

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession


__all__ = ["Example", "Fault", "Reconciliation", "decode_updates", "reconcile_topics"]

ValueFormat = Literal["long", "string"]


def reconcile_topics(
    spark: SparkSession,
    bootstrap: str,
    input_topic: str,
    output_topic: str,
    *,
    every_update: bool = False,
    value_format: ValueFormat = "long",
    wait: float = 30.0,
    client: Mapping[str, str] | None = None,
) -> Reconciliation:
    """Compare the output topic of a word count with its input topic.

    ``wait`` is the number of seconds to wait for an open transaction in a real broker to end. Real Kafka needs a
    session of ``local_session(kafka=True)``; an embedded broker must not be open anywhere else.
    """
    started = time.monotonic()
    with _topics(spark, bootstrap, (input_topic, output_topic), wait, client) as (source, sink):
        lines = source.select(source["value"].cast("string").alias("value"))
        result = wordcount.reconcile(lines, decode_updates(sink, value_format), every_update=every_update)
    return replace(result, seconds=time.monotonic() - started)


def decode_updates(records: DataFrame, value_format: ValueFormat = "long") -> DataFrame:
    """Return partition, offset, key (string), value (long) of binary records; what cannot be decoded is null.

    ``long`` is Kafka's LongSerializer: eight bytes, big-endian. ``string`` is decimal digits.
    """
    from pyspark.sql import functions as f

    value: Column
    if value_format == "long":
        # The negative base makes `conv` return a signed number (two's complement).
        signed = f.conv(f.hex("value"), 16, -10).cast("long")
        value = f.when(f.octet_length("value") == 8, signed)
    else:
        value = f.col("value").cast("string").try_cast("long")
    return records.select("partition", "offset", f.col("key").cast("string").alias("key"), value.alias("value"))


@contextmanager
def _topics(
    spark: SparkSession, bootstrap: str, names: tuple[str, str], wait: float, client: Mapping[str, str] | None
) -> Iterator[tuple[DataFrame, DataFrame]]:
    path = embedded.path_of(bootstrap)
    if path is None:
        broker = KafkaTopics(spark, bootstrap, client)
        # The output first: its end is then never behind that of the input.
        sink = broker.read_committed(names[1], wait)
        yield broker.read_committed(names[0], wait), sink
        return
    if not path.is_dir():
        raise TopicError(f"there is no embedded broker at {path}: check the path after `embedded:`")
    with tempfile.TemporaryDirectory(prefix="stoatflow-reconcile-") as folder:
        with embedded.open_broker(path) as broker_in_file:
            files = embedded.dump(broker_in_file, names, Path(folder))
        yield embedded.read_dump(spark, files[names[0]]), embedded.read_dump(spark, files[names[1]])


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return 0 if the output is right, 1 if it is not, 2 if it could not be checked."""
    parser = argparse.ArgumentParser(
        prog="python -m stoatflow.spark.reconcile",
        description="Prove that the output topic of a word count holds exactly what its input topic demands.",
        epilog="Exit code: 0 proven right, 1 not right, 2 could not be checked.",
    )
    arguments.add_broker(parser)
    parser.add_argument("--input", required=True, help="the topic of lines")
    parser.add_argument("--output", required=True, help="the topic of counts; it must not be compacted")
    parser.add_argument("--every-update", action="store_true", help="each word must have all its counts, from 1 on")
    parser.add_argument("--value-format", choices=("long", "string"), default="long", help="default long")
    parser.add_argument("--wait", type=float, default=30.0, help="seconds for open transactions to end (default 30)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON instead of the report")
    given = parser.parse_args(argv)
    try:
        real = embedded.path_of(given.bootstrap) is None
        arguments.say_start(kafka=real)
        with local_session(kafka=real, cores=given.cores, conf=dict(given.spark_conf)) as spark:
            arguments.say(f"reconciling {given.output} with {given.input} at {given.bootstrap}")
            result = reconcile_topics(
                spark,
                given.bootstrap,
                given.input,
                given.output,
                every_update=given.every_update,
                value_format=given.value_format,
                wait=given.wait,
                client=dict(given.client_property),
            )
    except (SparkUnavailableError, TopicError, ValueError) as error:
        arguments.say(f"error: {error}")
        return 2
    sys.stdout.write((result.to_json() if given.json else result.render()) + "\n")
    return 0 if result.ok else 1


if __name__ == "__main__":
    sys.exit(main())
