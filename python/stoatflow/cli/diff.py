"""`stoatflow diff old.py new.py`: which state survives a change of the topology.

Takes two files or modules with a topology, and optional settings. Prints what the next start does with each store, and
which topics are added and dropped; returns an exit code. Never connects, and starts nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from typing import TYPE_CHECKING

from stoatflow.cli.commands import COMMANDS
from stoatflow.cli.json_output import add_json, print_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from stoatflow.settings import Settings
    from stoatflow.upgrade.comparison import Side


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "diff",
        help=COMMANDS["diff"],
        description="Compare two topologies of one application: what the next start does with each store of the old "
        "one. Exit code 0: nothing of the state is lost; 1: something is; 2: a file or a setting is wrong.",
    )
    what = "a Python file with a Topology in a variable, or a module"
    parser.add_argument("old", metavar="OLD.py[:topology]", help=f"what runs now: {what}")
    parser.add_argument("new", metavar="NEW.py[:topology]", help="what is to run next")
    parser.add_argument("--config", metavar="FILE", help="the application's settings, TOML or JSON")
    parser.add_argument("--new-config", metavar="FILE", help="those of the new one, if they change")
    add_json(parser)
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Load both topologies, compare them, print."""
    from stoatflow.cli.error_output import print_error
    from stoatflow.cli.loading import UserFileError
    from stoatflow.errors import StoatFlowError
    from stoatflow.upgrade.comparison import Comparison
    from stoatflow.upgrade.report import text

    try:
        old = load_side(given.old, given.config)
        new = load_side(given.new, given.new_config or given.config)
    # Errors exit with 2: exit code 1 means that state would be lost.
    except StoatFlowError as error:
        print_error(error)
        return 2
    except UserFileError as error:
        print(error.text, end="", file=sys.stderr)
        return 2
    compared = Comparison.of(old, new)
    if given.json:
        print_json(given, compared.to_json())
    else:
        print(text(compared), flush=True)
    return 1 if compared.is_lost else 0


def load_side(app: str, config: str | None) -> Side:
    """Return what is compared of one application; modules imported from its folder are unloaded again."""
    from stoatflow.cli.reset import load_topology
    from stoatflow.upgrade.comparison import Side

    with _forgotten(app):
        return Side.of(load_topology(app), _settings(config))


@contextlib.contextmanager
def _forgotten(app: str) -> Iterator[None]:
    """Unload modules imported from the folder of a file: the other file may have modules of the same names."""
    from stoatflow.cli.loading import split

    folder = os.path.dirname(os.path.abspath(split(app)[0])) + os.sep
    modules, path = set(sys.modules), list(sys.path)
    try:
        yield
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - modules:
            file = getattr(sys.modules[name], "__file__", None)
            if file is not None and os.path.abspath(file).startswith(folder):
                del sys.modules[name]


def _settings(config: str | None) -> Settings | None:
    from stoatflow.settings import Settings

    if config is None:
        return None
    settings = Settings.from_file(config)
    # The broker's address doesn't matter for the comparison.
    settings.with_defaults({"bootstrap.servers": "localhost:9092"}).check()
    return settings
