"""`stoatflow run app.py --engine spark`: a topology on Spark; with `--batch` over all that its topics or files hold.

Takes: a topology, the address of a broker or files. Gives: of a batch the results as Parquet files, and a summary;
else records in topics, or in Parquet files, until it is stopped.
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
    from stoatflow.spark.twin.streaming import TwinQuery
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
    parser.add_argument(
        "--output", type=Path, metavar="FOLDER", help="write Parquet files here: topics, and of a batch stores too"
    )
    parser.add_argument("--checkpoint", metavar="FOLDER", help="without --batch: where state and offsets are kept")
    parser.add_argument("--every", metavar="TIME", help="without --batch: how often a trigger begins, such as 10s")
    parser.add_argument("--until-end", action="store_true", help="without --batch: stop where the topics end now")
    parser.add_argument("--removed", action="store_true", help="go on where retention has removed records of the input")


def run(given: argparse.Namespace) -> int:
    """Run the batch, or the stream until it is stopped."""
    return _batch(given) if given.batch else _stream(given)


def _batch(given: argparse.Namespace) -> int:
    """Read, compute, write, sum up."""
    _only(given, {"--checkpoint": given.checkpoint, "--every": given.every, "--until-end": given.until_end}, "--batch")
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


def _stream(given: argparse.Namespace) -> int:
    """Run trigger by trigger, until Ctrl-C."""
    from stoatflow.durations import duration_ms
    from stoatflow.errors import ConfigError
    from stoatflow.spark import arguments
    from stoatflow.spark.errors import SparkUnavailableError, TopicError, TwinError
    from stoatflow.spark.session import local_session
    from stoatflow.spark.twin import faithful, incoming
    from stoatflow.spark.twin.streaming import run_stream

    topology = target(given)
    faithful.check(topology, streaming=True)
    _only(given, {"--input": given.input}, "a stream")
    for name, value in {"--bootstrap": given.bootstrap, "--checkpoint": given.checkpoint}.items():
        if value is None:
            raise ConfigError(f"{name} is missing: the streaming twin needs it", next_step="name it, or add --batch")
    every = f"{duration_ms(given.every)} milliseconds" if given.every else "0 seconds"
    try:
        incoming.refuse_embedded(given.bootstrap)
        arguments.say_start(kafka=True)
        with (
            local_session(kafka=True, cores=given.cores, conf=dict(given.spark_conf)) as spark,
            run_stream(
                spark,
                topology,
                given.bootstrap,
                given.output or given.bootstrap,
                checkpoint=given.checkpoint,
                client=dict(given.client_property),
                every=every,
                until_end=given.until_end,
                removed=given.removed,
                say=arguments.say,
            ) as query,
            contextlib.suppress(KeyboardInterrupt),
        ):
            _follow(query)
    except (SparkUnavailableError, TopicError, TwinError) as error:
        print(f"stoatflow: {error}", file=sys.stderr)
        return 2
    return 0


def _follow(query: TwinQuery) -> None:
    """Say what each trigger has read, until the query ends."""
    from stoatflow.spark import arguments

    said = -1
    ended = False
    while not ended:
        ended = query.wait(1)
        for trigger, count in query.progress():
            if trigger > said and count:
                arguments.say(f"trigger {trigger}: {count:,} records")
                said = trigger


def _only(given: argparse.Namespace, options: dict[str, object], what: str) -> None:
    from stoatflow.errors import ConfigError

    wrong = [name for name, value in options.items() if value]
    if wrong:
        instead = "leave out --batch" if given.batch else "add --batch"
        raise ConfigError(f"{wrong[0]} is not for {what}", next_step=f"leave it out, or {instead}")


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
