"""`stoatflow doctor app.py`: check a topology before it runs, and what it will meet on the broker and this machine."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from stoatflow.cli.commands import COMMANDS
from stoatflow.cli.describe import add_target, target
from stoatflow.cli.json_output import add_json, print_json

if TYPE_CHECKING:
    from typing import Any

    from stoatflow.doctor.finding import Finding
    from stoatflow.settings import Settings
    from stoatflow.topology import Topology

_FOUND = 1


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "doctor",
        help=COMMANDS["doctor"],
        description="Load the topology of a file without running it. Say, function by function, which expression does "
        "the same without the interpreter and where it differs, and what is certain to go wrong. A line with "
        "`# doctor: ok` in the function is silent. With the application's settings, also say which open transactions "
        "hold back its sources. With --live, also what the application will meet: settings, this machine, the "
        "broker, topics. Nothing is started, and nothing changed.",
    )
    add_target(parser)
    parser.add_argument("--config", metavar="FILE", help="the application's settings, TOML or JSON: ask its broker too")
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="ask this broker about the topics that are read")
    parser.add_argument(
        "--live",
        action="store_true",
        help="look at settings, machine and broker too, as the application will meet them",
    )
    parser.add_argument("--strict", action="store_true", help="end with exit code 1 if there is anything to say")
    add_json(parser, "a JSON array of findings")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Load the file, examine it, print the findings."""
    from stoatflow.doctor.examination import examine

    topology = target(given)
    findings = examine(topology)
    seen: list[str] = []
    if given.live:
        from stoatflow.doctor.live import examine_live

        report = examine_live(topology, _settings(given, {}))
        findings += report.findings
        seen = [
            f"Looked at and fine: {', '.join(report.fine) or 'nothing'}.",
            f"Not looked at: {', '.join(report.not_looked_at)}.",
        ]
    else:
        findings += _on_the_broker(given, topology)
    if given.json:
        print_json(given, [finding.to_json() for finding in findings])
    else:
        for finding in findings:
            print(finding, end="\n\n")
        for line in seen:
            print(line)
        print(_summary(len(findings)))
    return _FOUND if given.strict and findings else 0


def _on_the_broker(given: argparse.Namespace, topology: Topology) -> list[Finding]:
    if given.config is None and given.bootstrap is None:
        return []
    from stoatflow.doctor.broker import open_transactions

    # Without a settings file only an application id is missing.
    settings = _settings(given, {"application.id": "stoatflow-doctor"} if given.config is None else {})
    settings.check()
    return open_transactions(topology, settings)


def _settings(given: argparse.Namespace, named: dict[str, object]) -> Settings:
    from stoatflow.settings import Settings

    named = named | ({"bootstrap.servers": given.bootstrap} if given.bootstrap else {})
    return Settings(named) if given.config is None else Settings.from_file(given.config, named)


def _summary(count: int) -> str:
    if count == 0:
        return "Nothing to say."
    return f"{count} finding{'s' if count > 1 else ''}. What they mean: docs/guide/doctor.md"
