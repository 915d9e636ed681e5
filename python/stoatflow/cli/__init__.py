"""The command line: `stoatflow`.

Takes arguments, returns an exit code (0 done, 1 failed, 2 wrong arguments or settings, 3 stalled, 4 fenced by another
instance). Every command is a module beside this one, imported only when it is called. With `--json` a command prints
one JSON object or array on stdout, and nothing else there.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

from stoatflow._version import __version__
from stoatflow.cli.commands import COMMANDS

__all__ = ["call", "main"]

_VERSIONS = {"--version", "--verbose", "--json"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command."""
    parser = argparse.ArgumentParser(
        prog="stoatflow", description="Kafka Streams topologies in Python, on one machine."
    )
    parser.add_argument("--version", action="version", version=f"stoatflow {__version__}")
    parser.add_argument(
        "--verbose", action="store_true", help="with --version: what it is built with (--json: as a JSON object)"
    )
    given = sys.argv[1:] if argv is None else argv
    if "--version" in given and set(given) & {"--verbose", "--json"} and set(given) <= _VERSIONS:
        return _built_with(as_json="--json" in given)
    wanted = next((word for word in given if not word.startswith("-")), "")
    of_all = _parser(parser, wanted)
    if not given:
        of_all.print_help(sys.stderr)
        return 2
    return call(of_all.parse_args(given))


def parser_of_all() -> argparse.ArgumentParser:
    """Return the parser with all commands and their options."""
    return _parser(argparse.ArgumentParser(prog="stoatflow"), None)


def _parser(parser: argparse.ArgumentParser, wanted: str | None) -> argparse.ArgumentParser:
    """Add all commands. Only the wanted one is imported and gets its options; `None` wants all."""
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in COMMANDS.items():
        if wanted in {None, name}:
            module: Any = importlib.import_module(f"stoatflow.cli.{name.replace('-', '_')}")
            module.add_to(commands)
        else:
            commands.add_parser(name, help=text)
    return parser


def call(given: argparse.Namespace) -> int:
    """Run the parsed command; print errors to stderr."""
    from stoatflow.cli.error_output import print_error
    from stoatflow.cli.json_output import only_json
    from stoatflow.cli.loading import UserFileError
    from stoatflow.errors import StoatFlowError

    try:
        with only_json(given):
            return int(given.run(given))
    except StoatFlowError as error:
        print_error(error)
        return error.exit_code
    except UserFileError as error:
        print(error.text, end="", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # In `stoatflow ... | head` the reader has closed the pipe. Nothing more may be written, not even at
        # the end of the process.
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # for the rest of the process
        return 0
    except KeyboardInterrupt:
        print("stoatflow: interrupted", file=sys.stderr)
        return 130


def _built_with(*, as_json: bool) -> int:
    """Print the versions of all parts."""
    import platform

    from stoatflow._runtime import bridge
    from stoatflow.cli.json_output import print_json

    rows = [*bridge.built_with(), ("Python", f"{platform.python_version()} ({platform.python_implementation()})")]
    rows.append(("platform", platform.platform()))
    if as_json:
        print_json(argparse.Namespace(), {"stoatflow": __version__, **dict(rows)})
        return 0
    print(f"stoatflow {__version__}")
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name.ljust(width)}  {value}")
    return 0
