"""`stoatflow hand-over to-spark|from-spark app.py`: move an application to the streaming twin on Spark, or back.

Takes a file with a topology, the application's settings, the folder of a checkpoint. Prints what will be done, asks,
and does it. All decisions are made in `stoatflow.spark.handover`.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from stoatflow.cli.commands import COMMANDS
from stoatflow.cli.json_output import add_json

if TYPE_CHECKING:
    from typing import Any

    from pyspark.sql import SparkSession

    from stoatflow.spark.handover import FromSpark, ToSpark


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "hand-over",
        help=COMMANDS["hand-over"],
        description="Let a topology go on on Spark where the application stopped, with its state; or let the "
        "application go on where Spark stopped. Input and output topics are left as they are.",
    )
    ways = parser.add_subparsers(dest="way", required=True, metavar="WAY")
    there = ways.add_parser(
        "to-spark",
        help="write a checkpoint that begins where the application stopped",
        description="Write a checkpoint that begins where the application stopped, with what its stores hold. A "
        "running instance is stopped, and none starts until the work was handed back.",
    )
    _add(there)
    there.add_argument(
        "--tasks", type=int, metavar="N", help="that share what is shared out by key (default: two for each core)"
    )
    back = ways.add_parser(
        "from-spark",
        help="let the application go on where the query of a checkpoint stopped",
        description="Let the application go on where the query of a checkpoint stopped, with what its state holds. "
        "The query must have been stopped; it doesn't go on afterwards.",
    )
    _add(back)
    for way in (there, back):
        way.set_defaults(run=run)


def _add(parser: argparse.ArgumentParser) -> None:
    from stoatflow.cli.reset import add_application, add_consent
    from stoatflow.spark import arguments

    add_application(parser)
    parser.add_argument("--checkpoint", required=True, metavar="FOLDER", help="where state and offsets of Spark are")
    arguments.add_spark(parser)
    add_consent(parser)
    add_json(parser)


def run(given: argparse.Namespace) -> int:
    """Show, ask, do."""
    from stoatflow.cli.reset import consents, report, shows_plan
    from stoatflow.spark import arguments
    from stoatflow.spark.errors import SparkUnavailableError, TopicError, TwinError
    from stoatflow.spark.session import local_session

    try:
        arguments.say_start(kafka=True)
        with local_session(kafka=True, cores=given.cores, conf=dict(given.spark_conf)) as spark:
            plan = _plan(spark, given)
            if shows_plan(given):
                print(plan.describe(), flush=True)
            asks = given.dry_run or not given.yes
            if asks and not consents(given, f"Hand '{plan.application.id}' over?"):
                report(given, plan.to_json(), done=False)
                return 0 if given.dry_run else 1
            plan.make()
            report(given, plan.to_json(), done=True)
    except (SparkUnavailableError, TopicError, TwinError) as error:
        print(f"stoatflow: {error}", file=sys.stderr)
        return 2
    print("done: " + ("it may be started" if given.way == "from-spark" else _next(given)))
    return 0


def _plan(spark: SparkSession, given: argparse.Namespace) -> ToSpark | FromSpark:
    from stoatflow.cli.reset import load_topology, settings
    from stoatflow.spark.handover import FromSpark, ToSpark

    topology = load_topology(given.app)
    if given.way == "from-spark":
        return FromSpark(spark, topology, settings(given), given.checkpoint)
    return ToSpark(spark, topology, settings(given), given.checkpoint, tasks=given.tasks)


def _next(given: argparse.Namespace) -> str:
    return f"stoatflow run {given.app} --engine spark --checkpoint {given.checkpoint} goes on"
