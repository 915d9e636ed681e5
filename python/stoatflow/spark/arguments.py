"""Command line options that the commands of this package share.

Takes an `argparse.ArgumentParser`, adds the options for the broker and for Spark; prints progress on stderr. Never
prints to stdout, which is for the result.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from stoatflow.spark.session import starting

if TYPE_CHECKING:
    from collections.abc import Callable


def add_broker(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Add the options for the broker's address and for Spark."""
    parser.add_argument(
        "--bootstrap", required=required, help="HOST:PORT of a Kafka broker, or embedded:PATH of an embedded one"
    )
    parser.add_argument(
        "--client-property",
        action="append",
        default=[],
        type=pair,
        metavar="NAME=VALUE",
        help="a property for the Kafka client, such as security.protocol=SSL; may be repeated",
    )
    add_spark(parser)


def add_spark(parser: argparse.ArgumentParser) -> None:
    """Add the options for Spark."""
    parser.add_argument(
        "--spark-conf",
        action="append",
        default=[],
        type=pair,
        metavar="NAME=VALUE",
        help="a Spark setting, such as spark.driver.memory=2g; may be repeated",
    )
    parser.add_argument("--cores", type=positive, default=2, help="cores that Spark may use (default 2)")


def positive(text: str) -> int:
    """Parse an integer of at least one; underscores are allowed (1_000_000)."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return number


def pair(text: str) -> tuple[str, str]:
    """Parse NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def say(text: str) -> None:
    """Print one line of progress."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def say_start(*, kafka: bool) -> None:
    """Print that Spark starts."""
    say(starting(kafka=kafka))


def counter(total: int, noun: str) -> Callable[[int], None]:
    """Return a function that shows how many of ``total`` are done: in place on a terminal, or every few seconds."""
    started = time.monotonic()
    live = sys.stderr.isatty()
    pause = 0.2 if live else 5.0
    shown = started

    def report(done: int) -> None:
        nonlocal shown
        now = time.monotonic()
        if done == 0 or (now - shown < pause and done < total):
            return
        shown = now
        rate = done / max(now - started, 1e-9)
        line = f"  {done:>12,} of {total:,} {noun}  {done / total:4.0%}  {rate:>9,.0f}/s"
        last = done >= total
        sys.stderr.write(("\r" if live else "") + line + ("\n" if last or not live else ""))
        sys.stderr.flush()

    return report
