"""`stoatflow explain NAME`: print what an error, a setting, a metric or a drop reason means.

Takes a name. Prints its entry in the engine's tables, and the page with more. Never connects.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from stoatflow.cli.commands import COMMANDS
from stoatflow.cli.json_output import add_json, print_json

if TYPE_CHECKING:
    from typing import Any

_UNKNOWN = 2


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "explain",
        help=COMMANDS["explain"],
        description="Say what a name means, without a network: the class or kind of an error (FencedError, fenced), a "
        "setting (commit.interval.ms), why records are dropped (null_key), a metric "
        "(stoatflow_last_commit_timestamp_seconds), a name of Kafka Streams' configuration, or a method or class of "
        "Kafka Streams (KStream.mapValues). Without a name: list all but methods. Exit code 2: nothing has this name.",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="what to explain")
    add_json(parser, "a JSON array")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Look the name up, print."""
    from stoatflow.explain.catalog import entries, find, nearest
    from stoatflow.explain.methods import find as method
    from stoatflow.explain.text import listed, shown

    known = entries()
    found = known if given.name is None else find(given.name, known) or [each.to_entry() for each in method(given.name)]
    if not found:
        near = nearest(given.name, known)
        hint = f"the nearest: {', '.join(near)}" if near else "`stoatflow explain` lists all that is known"
        print(f"stoatflow: nothing is called '{given.name}'. Next: {hint}", file=sys.stderr)
        return _UNKNOWN
    if given.json:
        print_json(given, [entry.to_json() for entry in found])
    elif given.name is None:
        print(listed(known))
    else:
        print("\n\n".join(map(shown, found)))
    return 0
