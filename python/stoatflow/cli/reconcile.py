"""`stoatflow reconcile app.py`: check that the output topics hold what follows from the input topics.

Takes a topology and the address of a broker. Prints a report (text, JSON, HTML); exit code 0 right, 1 wrong, 2 could
not be checked. Never changes a topic.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from stoatflow.cli.commands import COMMANDS
from stoatflow.cli.describe import add_target, target
from stoatflow.cli.json_output import add_json, print_json

if TYPE_CHECKING:
    from typing import Any

    from stoatflow.spark.audit.findings import Audit


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser("reconcile", help=COMMANDS["reconcile"])
    add_target(parser)
    from stoatflow.spark import arguments

    arguments.add_broker(parser)
    parser.add_argument(
        "--topic", action="append", metavar="TOPIC", help="check this output topic only; may be repeated"
    )
    parser.add_argument(
        "--updates",
        choices=["auto", "all", "last", "final"],
        default="auto",
        help="must all records be there, the last of each key, or its last value? auto: what the engine's cache leaves",
    )
    parser.add_argument("--no-timestamps", action="store_true", help="compare keys and values only")
    parser.add_argument("--removed", action="store_true", help="go on where retention has removed records of the input")
    parser.add_argument("--wait", type=float, default=30.0, help="seconds for open transactions to end (default 30)")
    parser.add_argument(
        "--counters",
        metavar="URL|FILE",
        help="/metrics of the application, or a copy: are its counters of dropped records those of the twin?",
    )
    add_json(parser, "a JSON object instead of the report")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the report as a page too")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Reconcile, report."""
    from stoatflow.cli.error_output import print_error
    from stoatflow.errors import StoatFlowError
    from stoatflow.spark.audit import page
    from stoatflow.spark.errors import SparkUnavailableError, TopicError, TwinError

    try:
        audit = _audit(given)
    except StoatFlowError as error:
        print_error(error)
        return 2
    except (SparkUnavailableError, TopicError, TwinError) as error:
        print(f"stoatflow: {error}", file=sys.stderr)
        return 2
    if given.html is not None:
        given.html.write_text(page.render(audit, f"Reconciliation of {given.file}"), "utf-8")
    if given.json:
        print_json(given, json.loads(audit.to_json()))
    else:
        print(audit.render())
    return 0 if audit.ok else 1


def _audit(given: argparse.Namespace) -> Audit:
    from stoatflow.spark import arguments, embedded
    from stoatflow.spark.audit.reconciling import reconcile
    from stoatflow.spark.session import local_session

    topology = target(given)
    kafka = embedded.path_of(given.bootstrap) is None
    arguments.say_start(kafka=kafka)
    with local_session(kafka=kafka, cores=given.cores, conf=dict(given.spark_conf)) as spark:
        return reconcile(
            spark,
            topology,
            given.bootstrap,
            topics=given.topic,
            updates=given.updates,
            timestamps=not given.no_timestamps,
            wait=given.wait,
            client=dict(given.client_property),
            removed=given.removed,
            counters=given.counters,
            say=arguments.say,
        )
