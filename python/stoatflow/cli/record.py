"""`stoatflow record --topic orders --out orders.jsonl`: record topics, as inputs of `stoatflow prove`.

Takes topics, and the settings with which an application reaches the broker; writes a file of JSON lines.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from stoatflow.cli.commands import COMMANDS
from stoatflow.cli.json_output import add_json, print_json

if TYPE_CHECKING:
    from typing import Any


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "record",
        help=COMMANDS["record"],
        description="Read the first records of topics (what is committed), and write them in the order of their "
        "timestamps, each partition in its own order: a line of JSON each, for stoatflow prove --inputs or --like.",
    )
    parser.add_argument("--topic", action="append", required=True, metavar="TOPIC", help="may be given again")
    parser.add_argument("--out", required=True, type=Path, metavar="FILE", help="one that is there is replaced")
    parser.add_argument(
        "--records", type=int, default=1000, metavar="N", help="so many of each at most (default: 1000)"
    )
    parser.add_argument("--last", action="store_true", help="the last ones, not the first")
    parser.add_argument("--config", metavar="FILE", help="settings: those of the application do")
    parser.add_argument("--bootstrap", metavar="HOST:PORT|embedded:PATH", help="instead of the file's")
    add_json(parser, "a JSON object with the number of records of each topic")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Read, write, print how many records."""
    from stoatflow.dlq.topic import connect
    from stoatflow.errors import ConfigError
    from stoatflow.prove import inputs
    from stoatflow.prove.recording import record
    from stoatflow.settings import Settings

    if given.records < 1:
        raise ConfigError(f"--records {given.records} records nothing", next_step="write a number from 1 on")
    named = {} if given.bootstrap is None else {"bootstrap.servers": given.bootstrap}
    settings = Settings(named) if given.config is None else Settings.from_file(given.config, named)
    # Any name will do: the application itself isn't touched.
    settings = settings.with_defaults({"application.id": "stoatflow-record"})
    settings.check()
    topics = list(dict.fromkeys(given.topic))
    found = record(connect(settings), topics, given.records, last=given.last)
    try:
        inputs.write(given.out, found)
    except OSError as error:
        raise ConfigError(f"{given.out} can't be written: {error}", next_step="name another file") from error
    counts = {topic: sum(one.topic == topic for one in found) for topic in topics}
    if given.json:
        print_json(given, {"file": str(given.out), "topics": counts})
        return 0
    for topic, count in counts.items():
        print(f"{count:,} record(s) of '{topic}'")
    print(f"written to {given.out}", file=sys.stderr)
    return 0
