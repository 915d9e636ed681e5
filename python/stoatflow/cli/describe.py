"""`stoatflow describe app.py`: the topology of a file, as Kafka Streams prints it; and how a topology is named."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import runpy
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from stoatflow.topology import Topology

_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser("describe", help="print the topology that a Python file defines")
    add_target(parser)
    parser.set_defaults(run=run)


def add_target(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say which topology."""
    parser.add_argument(
        "file", metavar="APP.py[:topology]", help="a Python file with a Topology in a variable, or a module"
    )
    parser.add_argument("--variable", default="topology", help="the variable's name (default: topology)")


def run(given: argparse.Namespace) -> int:
    """Load the file, print."""
    print(target(given).describe(), end="")
    return 0


def target(given: argparse.Namespace) -> Topology:
    """Return the topology that the arguments name."""
    file, _, variable = given.file.rpartition(":")
    if file and variable.isidentifier():
        return load(file, variable, "FILE:NAME")
    return load(given.file, given.variable)


def load(file: str, variable: str, choose: str = "--variable") -> Topology:
    """Return the topology of a file or module; `choose` is how another variable is named."""
    from stoatflow.errors import ConfigError
    from stoatflow.topology import Topology

    if _MODULE.fullmatch(file) and not file.endswith(".py") and not os.path.isfile(file):
        found = _import(file)
    else:
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


def _import(module: str) -> dict[str, Any]:
    """Import a module as `python -m` would find it."""
    from stoatflow.errors import ConfigError

    sys.path.insert(0, os.getcwd())
    try:
        return vars(importlib.import_module(module))
    except ModuleNotFoundError as error:
        # One that the module itself misses is shown with its traceback.
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise ConfigError(
            f"there is no module {module}", next_step="name a file, or a module that can be imported from here"
        ) from None
    finally:
        sys.path.remove(os.getcwd())
