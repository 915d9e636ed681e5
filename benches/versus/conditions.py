"""Conditions that are the same for all engines of a run, and their arguments.

Takes a command line and a broker; returns `Conditions`, and adds arguments to the benchmarks' parsers. Owns the
defaults that the benchmarks share. Starts nothing, and names no engine.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass

from bench_broker import AnyBroker, SecuredBroker
from workloads.workload import TABLE_KEYS


@dataclass(frozen=True)
class Conditions:
    """Conditions that are the same for all engines."""

    bootstrap: str
    broker_pid: int
    commit_interval_ms: int
    cache_bytes: int
    guarantee: str
    threads: int
    timeout_s: float
    python: str = sys.executable
    # Additional settings for StoatFlow only; empty unless given on the command line.
    settings: tuple[str, ...] = ()
    # Where engines connect, if not to the plaintext listener, and their client properties: the same for all
    # of them.
    secured_address: str = ""
    client: tuple[tuple[str, str], ...] = ()

    @property
    def address(self) -> str:
        """Address to which engines connect."""
        return self.secured_address or self.bootstrap

    @classmethod
    def of(cls, options: argparse.Namespace, broker: AnyBroker, *, secured: bool = True) -> Conditions:
        """Conditions of a parsed command line (`add_arguments`), with a running broker.

        Engines use the secured listener if the broker has one, unless `secured` is false.
        """
        by = broker if secured and isinstance(broker, SecuredBroker) else None
        return cls(
            bootstrap=broker.bootstrap,
            broker_pid=broker.pid,
            commit_interval_ms=options.commit_interval_ms,
            cache_bytes=options.cache_bytes,
            guarantee=options.guarantee,
            threads=options.threads,
            timeout_s=options.timeout,
            python=options.python,
            settings=tuple(options.set),
            secured_address=by.address if by else "",
            client=_client(options, by),
        )


def _client(options: argparse.Namespace, broker: SecuredBroker | None) -> tuple[tuple[str, str], ...]:
    client = dict(broker.client) if broker else {}
    if getattr(options, "compression", "none") != "none":
        client["producer.compression.type"] = options.compression
    return tuple(client.items())


def names(of: Collection[str], what: str) -> Callable[[str], list[str]]:
    """Return a parser of comma-separated names, each listed once; unknown names are refused."""

    def parse(text: str) -> list[str]:
        found = list(dict.fromkeys(text.split(",")))
        unknown = sorted(set(found) - set(of))
        if unknown:
            raise argparse.ArgumentTypeError(f"unknown {what} {unknown[0]!r}; there are {', '.join(of)}")
        return found

    return parse


def add_arguments(parser: argparse.ArgumentParser, *, repeats: int) -> None:
    """Add the arguments of all benchmarks; `repeats` is the default number of repeats."""
    parser.add_argument("--table-keys", type=_at_least_one, default=TABLE_KEYS, help="rows of the table of w4")
    parser.add_argument("--repeats", type=_at_least_one, default=repeats)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--commit-interval-ms", type=int, default=100)
    parser.add_argument("--cache-bytes", type=int, default=10 * 1024 * 1024)
    parser.add_argument("--guarantee", choices=["exactly_once_v2", "at_least_once"], default="exactly_once_v2")
    parser.add_argument("--threads", type=_at_least_one, default=2, help="num.stream.threads of Kafka Streams")
    parser.add_argument(
        "--set", type=_setting, action="append", default=[], metavar="KEY=VALUE",
        help="a setting for StoatFlow alone, which is then not at its defaults any more; shown in the report",
    )  # fmt: skip
    parser.add_argument(
        "--timeout", type=float, default=600.0,
        help="seconds that one run may take; where records are sent at a rate: that an engine may take to start",
    )  # fmt: skip
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has StoatFlow")


def _setting(text: str) -> str:
    key, equals, _ = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"wants KEY=VALUE, not {text!r}")
    return text


def _at_least_one(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"wants a whole number of at least 1, not {text!r}")
    return number
