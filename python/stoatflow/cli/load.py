"""`stoatflow load spec.toml`: write the records that a spec declares into Kafka or embedded topics.

Takes a spec and the address of a broker; prints progress and a manifest. Never starts Spark for an embedded broker.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from stoatflow.cli.commands import COMMANDS
from stoatflow.cli.json_output import add_json, print_json

if TYPE_CHECKING:
    from typing import Any

    from stoatflow.spark.loading.running import Manifest
    from stoatflow.spark.loading.spec import LoadSpec


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser("load", help=COMMANDS["load"])
    parser.add_argument("spec", metavar="SPEC.toml", help="what to make; docs/guide/spark-load.md has all of it")
    from stoatflow.spark import arguments

    arguments.add_broker(parser)
    parser.add_argument("--seed", type=int, help="another seed than the spec's")
    parser.add_argument(
        "--records", type=arguments.positive, help="so many records for each topic, instead of the spec's"
    )
    parser.add_argument(
        "--manifest", type=Path, metavar="FILE", help="write what was made as JSON (default: to stdout)"
    )
    add_json(parser, "the manifest, also with --manifest")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Read the spec, write the topics, print the manifest."""
    from stoatflow.spark.errors import SparkUnavailableError, TopicError
    from stoatflow.spark.loading.spec import read_spec

    spec = read_spec(given.spec)
    if given.seed is not None:
        spec = replace(spec, seed=given.seed)
    if given.records is not None:
        spec = replace(spec, topics=tuple(replace(topic, records=given.records) for topic in spec.topics))
    began = time.monotonic()
    try:
        manifest = _load(spec, given)
    except (SparkUnavailableError, TopicError) as error:
        print(f"stoatflow: {error}", file=sys.stderr)
        return 2
    text = manifest.to_json()
    if given.json or given.manifest is None:
        print_json(given, json.loads(text))
    if given.manifest is not None:
        given.manifest.write_text(f"{text}\n", "utf-8")
    names = ", ".join(f"{name} ({made.records:,})" for name, made in manifest.topics.items())
    print(f"loaded {names} in {time.monotonic() - began:.1f} s", file=sys.stderr)
    return 0


def _load(spec: LoadSpec, given: argparse.Namespace) -> Manifest:
    from stoatflow.spark import arguments, embedded
    from stoatflow.spark.load import load
    from stoatflow.spark.session import local_session

    progress = arguments.counter(spec.records, "records")
    if embedded.path_of(given.bootstrap) is not None:
        return load(spec, given.bootstrap, progress=progress)
    arguments.say_start(kafka=True)
    client = dict(given.client_property)
    with local_session(kafka=True, cores=given.cores, conf=dict(given.spark_conf)) as spark:
        return load(spec, given.bootstrap, spark=spark, client=client, progress=progress)
