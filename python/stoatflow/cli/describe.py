"""`stoatflow describe app.py`: the topology of a file, as Kafka Streams prints it."""

from __future__ import annotations

import argparse
import runpy
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from stoatflow.topology import Topology


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser("describe", help="print the topology that a Python file defines")
    parser.add_argument("file", help="a Python file with a Topology in a variable")
    parser.add_argument("--variable", default="topology", help="the variable's name (default: topology)")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Load the file, print."""
    print(load(given.file, given.variable).describe(), end="")
    return 0


def load(file: str, variable: str, choose: str = "--variable") -> Topology:
    """Return the topology that a file defines; `choose` is how another variable is named."""
    from stoatflow.errors import ConfigError
    from stoatflow.topology import Topology

    try:
        found = runpy.run_path(file, run_name="__stoatflow__")
    except OSError as error:
        raise ConfigError(f"the file {file} can't be read: {error.strerror}") from error
    topology = found.get(variable)
    if isinstance(topology, Topology):
        return topology
    others = [name for name, value in found.items() if isinstance(value, Topology)]
    hint = f"; it defines {', '.join(others)}: choose with {choose}" if others else ""
    raise ConfigError(f"{file} defines no Topology named '{variable}'{hint}")
