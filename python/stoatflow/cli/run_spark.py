"""`stoatflow run app.py --engine spark --batch`: a topology over all that its topics or files hold, on Spark.

Takes: a topology, the address of a broker or files. Gives: the results as Parquet files, and a summary.
Never: writes to a topic.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from stoatflow.cli.describe import target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from stoatflow.spark.twin.running import TwinResult
    from stoatflow.topology import Topology


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what counts with `--engine spark` only, and `--bootstrap`."""
    from stoatflow.spark import arguments

    arguments.add_broker(parser, required=False)
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        type=arguments.pair,
        metavar="TOPIC=PATH",
        help="read a topic from Parquet files (key, value, timestamp, offset) instead; may be repeated",
    )
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="write topics and stores as Parquet files here")
    parser.add_argument("--removed", action="store_true", help="go on where retention has removed records of the input")


def run(given: argparse.Namespace) -> int:
    """Read, compute, write, sum up."""
    from stoatflow.spark import arguments, embedded
    from stoatflow.spark.errors import SparkUnavailableError, TopicError, TwinError
    from stoatflow.spark.session import local_session
    from stoatflow.spark.twin import faithful
    from stoatflow.spark.twin.running import run_batch

    topology = target(given)
    faithful.check(topology)
    kafka = given.bootstrap is not None and embedded.path_of(given.bootstrap) is None
    began = time.monotonic()
    arguments.say_start(kafka=kafka)
    try:
        with (
            local_session(kafka=kafka, cores=given.cores, conf=dict(given.spark_conf)) as spark,
            _inputs(spark, topology, given) as (frames, partitions),
            run_batch(topology, frames, partitions=partitions, say=arguments.say) as result,
        ):
            _give(result, given.output)
    except (SparkUnavailableError, TopicError, TwinError) as error:
        print(f"stoatflow: {error}", file=sys.stderr)
        return 2
    arguments.say(f"took {time.monotonic() - began:.1f} s")
    return 0


@contextlib.contextmanager
def _inputs(
    spark: SparkSession, topology: Topology, given: argparse.Namespace
) -> Iterator[tuple[dict[str, DataFrame], dict[str, int]]]:
    from stoatflow.errors import ConfigError
    from stoatflow.spark.audit import reading
    from stoatflow.spark.audit.reconciling import topics_read

    files = {topic: spark.read.parquet(path) for topic, path in given.input}
    rest = [topic for topic in topics_read(topology) if topic not in files]
    if not rest:
        yield files, {}
        return
    if given.bootstrap is None:
        raise ConfigError(
            f"no input is named for {', '.join(rest)}", next_step="give --bootstrap, or --input TOPIC=PATH for each"
        )
    client = dict(given.client_property)
    with reading.topics(spark, given.bootstrap, rest, client=client, removed=given.removed) as readable:
        yield readable.frames | files, readable.partitions


def _give(result: TwinResult, folder: Path | None) -> None:
    for topic in result.topics:
        rows = result.output(topic)
        if folder is not None:
            rows.write.mode("overwrite").parquet(str(folder / "topics" / topic))
        print(f"topic {topic}: {rows.count():,} records")
    for store in result.stores:
        rows = result.store(store)
        if folder is not None:
            rows.write.mode("overwrite").parquet(str(folder / "stores" / store))
        print(f"store {store}: {rows.count():,} entries")
