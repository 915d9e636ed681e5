"""`stoatflow` on the command line.

Takes: arguments. Gives: an exit code (0 done, 1 failed, 2 wrong arguments or settings, 3 stalled). Owns nothing: every
command is a module beside this one, imported only when it is called.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from stoatflow._version import __version__

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command."""
    parser = argparse.ArgumentParser(
        prog="stoatflow", description="Kafka Streams topologies in Python, on one machine."
    )
    parser.add_argument("--version", action="version", version=f"stoatflow {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    from stoatflow.cli import demo, describe, doctor, reset, word_count, worker

    for command in (demo, describe, doctor, reset, word_count, worker):
        command.add_to(commands)
    given = parser.parse_args(argv)
    from stoatflow.errors import StoatFlowError

    try:
        return int(given.run(given))
    except StoatFlowError as error:
        print(f"stoatflow: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("stoatflow: interrupted", file=sys.stderr)
        return 130
