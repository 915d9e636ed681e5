"""`stoatflow reset app.py`: rewind an application's input and delete its state, as Kafka's reset tool does.

Takes a file with a topology, the application's settings, and the new position. Prints a table of what will be done,
asks, and does it. Topics and stores come from the topology; the engine plans and executes the reset. Never touches
output topics, and changes nothing before it is confirmed.
"""

from __future__ import annotations

import argparse
import json
import re
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from stoatflow.cli.commands import COMMANDS
from stoatflow.cli.json_output import add_json, print_json

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from stoatflow.settings import Settings
    from stoatflow.topology import Topology

_BACK = re.compile(r"^-\d+(\.\d+)?(ms|s|m|h|d)?$")
_OFFSET = re.compile(r"offset[ :=](\d+)")
_GROUP = re.compile(r"group:(.+)")


class Target(NamedTuple):
    """The new position: the engine's name for its kind, and its number or name."""

    word: str
    of: int | str = 0


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "reset",
        help=COMMANDS["reset"],
        description="Rewind an application's input and throw its state away, so that it starts over. A running "
        "instance is stopped. Output topics are left as they are: results are written again behind the old ones.",
    )
    # `--to -2h` is a value, like `--shift-by -5`: argparse by itself accepts only numbers.
    parser._negative_number_matcher = _BACK
    add_application(parser)
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--to",
        type=target,
        metavar="WHERE",
        help="earliest (the default), latest, a time with its zone (2026-01-31T12:00:00Z), "
        "a duration back from now (-2h), offset:N, or group:NAME (where that consumer group is)",
    )
    where.add_argument("--shift-by", type=int, metavar="N", help="so many records behind (or before) what is committed")
    parser.add_argument(
        "--input-topic",
        action="append",
        default=[],
        metavar="TOPIC",
        help="rewind this topic only (may be given again); the state is thrown away all the same",
    )
    parser.add_argument(
        "--orphans",
        action="store_true",
        help="rewind nothing; only remove changelogs and local rows of stores that the topology no longer has",
    )
    parser.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="TOPIC",
        help="with --orphans: delete this topic too, which only its name says is a changelog (may be given again)",
    )
    add_consent(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def add_application(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that select the application, and its settings."""
    parser.add_argument(
        "app", metavar="APP.py[:topology]", help="a Python file with a Topology in a variable, or a module"
    )
    parser.add_argument("--config", metavar="FILE", help="the application's settings, TOML or JSON")
    parser.add_argument("--application-id", metavar="ID", help="instead of the file's")
    parser.add_argument("--bootstrap", metavar="HOST:PORT|embedded:PATH", help="instead of the file's")
    parser.add_argument("--state-dir", metavar="DIR", help="instead of the file's")


def add_consent(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for confirmation."""
    parser.add_argument("--dry-run", action="store_true", help="show what would be done, and change nothing")
    parser.add_argument("--yes", action="store_true", help="don't ask")


def target(text: str) -> Target:
    """Parse the new position; raise `ArgumentTypeError` for anything else."""
    from stoatflow.durations import duration_ms, timestamp_ms

    if text in {"earliest", "latest"}:
        return Target(text)
    offset, group = _OFFSET.fullmatch(text), _GROUP.fullmatch(text)
    if group is not None:
        return Target("group", group[1])
    try:
        if offset is not None:
            return Target("offset", int(offset[1]))
        if text.startswith("-"):
            return Target("ago", duration_ms(text[1:]))
        # Python 3.10 can't parse Z.
        return Target("since", timestamp_ms(datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", text))))
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no place to go to ({error}); write earliest, latest, a time with its zone "
            "such as 2026-01-31T12:00:00Z, a duration back such as -2h, offset:N or group:NAME"
        ) from None


def run(given: argparse.Namespace) -> int:
    """Show, ask, do."""
    if given.topic and not given.orphans:
        from stoatflow.errors import ConfigError

        raise ConfigError("--topic belongs to --orphans; to rewind one topic: --input-topic TOPIC")
    if given.orphans:
        from stoatflow.cli import orphans

        return orphans.run(given)
    to = given.to or Target("earliest") if given.shift_by is None else Target("shift", given.shift_by)
    request = ResetRequest(load_topology(given.app), settings(given), to, given.input_topic)
    if given.yes and not given.dry_run:
        made = request.make(lambda plan: show(given, render(plan)))
        print("done: it may be started")
        report(given, made, done=True)
        return 0
    shown = request.look()
    show(given, render(shown))
    if not consents(given, f"Reset '{shown['application']}'?"):
        report(given, shown, done=False)
        return 0 if given.dry_run else 1
    made = request.make(lambda plan: _tell_what_moved(shown, plan))
    print("done: it may be started")
    report(given, made, done=True)
    return 0


def show(given: argparse.Namespace, text: str) -> None:
    """Print a plan. With `--json`, only if the user has to confirm it."""
    if shows_plan(given):
        print(text, flush=True)


def shows_plan(given: argparse.Namespace) -> bool:
    """Return whether the plan is printed as text."""
    return not given.json or not (given.yes or given.dry_run)


def report(given: argparse.Namespace, plan: dict[str, Any], *, done: bool) -> None:
    """With `--json`, print the plan, and whether it was carried out."""
    if given.json:
        print_json(given, {**plan, "done": done})


def consents(given: argparse.Namespace, question: str) -> bool:
    """Ask for confirmation, unless it is a dry run; print why nothing is changed."""
    from stoatflow.cli.confirmation import confirm

    if given.dry_run:
        print("nothing was changed (--dry-run)")
        return False
    if not confirm(question):
        print("nothing was changed")
        return False
    return True


class ResetRequest:
    """One reset of one application."""

    def __init__(self, topology: Topology, settings: Settings, to: Target, topics: list[str]) -> None:
        """Keep the request; empty `topics` means all input topics."""
        self._arguments = (topology.plan, settings.pairs(), to.word, to.of, topics)

    def look(self) -> dict[str, Any]:
        """Return what the reset would do."""
        from stoatflow._runtime import bridge

        plan: dict[str, Any] = json.loads(bridge.reset(*self._arguments))
        return plan

    def make(self, agree: Any) -> dict[str, Any]:
        """Do the reset, and return its plan; `agree` is called with the plan before anything is changed."""
        from stoatflow._runtime import bridge

        made: dict[str, Any] = {}

        def take(text: str) -> None:
            made.update(json.loads(text))
            agree(made)

        bridge.reset(*self._arguments, agree=take)
        return made


def load_topology(app: str) -> Topology:
    """Return the topology of `APP.py[:name]`."""
    from stoatflow.cli.describe import load

    file, _, variable = app.rpartition(":")
    if file and variable.isidentifier():
        return load(file, variable, "FILE:NAME")
    return load(app, "topology", "FILE:NAME")


def settings(given: argparse.Namespace) -> Settings:
    """Read the settings that the arguments name."""
    from stoatflow.settings import Settings

    named = {
        "application.id": given.application_id,
        "bootstrap.servers": given.bootstrap,
        "state.dir": given.state_dir,
    }
    arguments = {name: value for name, value in named.items() if value is not None}
    made = Settings(arguments) if given.config is None else Settings.from_file(given.config, arguments)
    made.check()
    return made


def _tell_what_moved(shown: dict[str, Any], plan: dict[str, Any]) -> None:
    """Print which positions have moved since the plan was shown: a running instance may have gone on meanwhile."""
    if plan["partitions"] != shown["partitions"]:
        print("positions have moved meanwhile:")
        print("\n".join(positions(plan["partitions"])), flush=True)


def render(plan: dict[str, Any]) -> str:
    """Format a plan for people."""
    lines = [f"reset of '{plan['application']}' at {plan['address']}"]
    if plan["begun"]:
        lines.append("a reset was begun before and has not ended: this one ends it")
    lines += ["", *positions(plan["partitions"]), ""]
    if plan["changelogs"]:
        lines.append("changelog topics that are deleted:")
        lines += [f"  {one['topic']}  (at most {one['records']:,} records)" for one in plan["changelogs"]]
    else:
        lines.append("changelog topics that are deleted: none is there")
    state = plan["state"]
    lines += [
        "local state that is removed: " + ("none is here" if state is None else state),
        "",
        "A running instance is stopped (FencedError). Output topics stay as they are: results are written again",
        "behind the old ones. Local state on other machines must be removed there: StoatFlow.clean_up().",
    ]
    return "\n".join(lines)


def positions(partitions: list[dict[str, Any]]) -> list[str]:
    """Format the offsets before and after as a table."""
    rows = [("topic", "partition", "committed", "", "new", "")]
    rows += [
        (one["topic"], str(one["partition"]), _place(one["from"]), "->", _place(one["to"]), one["why"])
        for one in partitions
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    return [_row(row, widths) for row in rows]


def _row(row: tuple[str, ...], widths: Iterable[int]) -> str:
    topic, *numbers = (
        cell.ljust(width) if column == 0 else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=False))
    )
    return "  ".join(["", topic, *numbers, row[5]]).rstrip()


def _place(offset: int | None) -> str:
    return "-" if offset is None else str(offset)
