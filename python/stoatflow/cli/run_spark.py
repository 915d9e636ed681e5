"""`stoatflow run app.py --engine spark`: run a topology on Spark; with `--batch`, over the whole content of its input.

Takes what a file defines, settings from a file, variables and flags, the address of a broker or files. A batch writes
its results as Parquet files, and prints a summary; a stream writes records to topics, or to Parquet files, until it is
stopped. It runs as `StoatFlow(..., engine="spark")` does.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from stoatflow.cli.json_output import print_json

if TYPE_CHECKING:
    from typing import Any

    from stoatflow.app import StoatFlow


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that apply only with `--engine spark`, and `--bootstrap`."""
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
    from stoatflow.spark import arguments
    from stoatflow.spark.errors import SparkUnavailableError, TopicError, TwinError

    began = time.monotonic()
    try:
        app = application(given)
        if given.check:
            if given.json:
                print_json(given, {"application": _name(app), "valid": True, "parts": _parts(app)})
            else:
                print(app.spark.describe())
            return 0
        try:
            app.run()
            if given.batch:
                _sum_up(app, given)
                arguments.say(f"took {time.monotonic() - began:.1f} s")
        finally:
            app.close()
    except (SparkUnavailableError, TopicError, TwinError) as error:
        print(f"stoatflow: {error}", file=sys.stderr)
        return 2
    return 0


def application(given: argparse.Namespace) -> StoatFlow:
    """Return the application to run."""
    from stoatflow.app import StoatFlow
    from stoatflow.cli import run as command
    from stoatflow.spark import arguments
    from stoatflow.spark.options import SparkOptions

    topology, settings = command.found_with_settings(given)
    _check(given, settings.get("bootstrap.servers"))
    options = SparkOptions(
        inputs=dict(given.input),
        output=given.output,
        checkpoint=given.checkpoint,
        every=given.every,
        until_end=given.until_end,
        removed=given.removed,
        client=dict(given.client_property),
        cores=given.cores,
        conf=dict(given.spark_conf),
        say=arguments.say,
    )
    return StoatFlow(topology, settings, engine="spark", batch=given.batch, spark=options)


def _check(given: argparse.Namespace, bootstrap: object) -> None:
    """Raise `ConfigError` that names the flags."""
    from stoatflow.errors import ConfigError

    only_stream = {"--checkpoint": given.checkpoint, "--every": given.every, "--until-end": given.until_end}
    wrong = [name for name, value in (only_stream if given.batch else {"--input": given.input}).items() if value]
    if wrong:
        what, instead = ("--batch", "leave out --batch") if given.batch else ("a stream", "add --batch")
        raise ConfigError(f"{wrong[0]} is not for {what}", next_step=f"leave it out, or {instead}")
    if not given.batch:
        for name, value in {"--bootstrap": bootstrap, "--checkpoint": given.checkpoint}.items():
            if value is None:
                raise ConfigError(
                    f"{name} is missing: the streaming twin needs it", next_step="name it, or add --batch"
                )


def _sum_up(app: StoatFlow, given: argparse.Namespace) -> None:
    topics = {topic: app.spark.output(topic).count() for topic in app.spark.topics}
    stores = {store: app.spark.store(store).count() for store in app.spark.stores}
    if given.json:
        print_json(given, {"application": _name(app), "topics": topics, "stores": stores})
        return
    for topic, count in topics.items():
        print(f"topic {topic}: {count:,} records")
    for store, count in stores.items():
        print(f"store {store}: {count:,} entries")


def _parts(app: StoatFlow) -> list[dict[str, Any]]:
    from stoatflow.spark.twin.parts import cut

    return [part.to_json() for part in cut(app.topology)]


def _name(app: StoatFlow) -> str | None:
    name = app.settings.get("application.id")
    return None if name is None else str(name)
