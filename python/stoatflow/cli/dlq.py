"""`stoatflow dlq list | show | replay TOPIC`: list dead letters by cause, show one, or replay them.

Takes a topic of dead letters and the settings with which an application reaches the broker. `replay` shows what it will
do, asks, and does it; `stoatflow.dlq` does the work.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from datetime import datetime
from typing import TYPE_CHECKING

from stoatflow.cli.commands import COMMANDS
from stoatflow.cli.json_output import add_json, print_json

if TYPE_CHECKING:
    from typing import Any

    from stoatflow.dlq.dead_letter import Cause, DeadLetter
    from stoatflow.dlq.marks import Replayed
    from stoatflow.dlq.replay import Plan, Replay
    from stoatflow.dlq.selection import Selection
    from stoatflow.dlq.topic import DeadLetterTopic

_PLACE = re.compile(r"(\d+):(\d+)")


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the commands."""
    parser = commands.add_parser(
        "dlq",
        help=COMMANDS["dlq"],
        description="Look at the dead letters of a topic by cause, show one, and send them back to where they came "
        "from. Headers of StoatFlow and of Kafka Streams (KIP-1034) are read.",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|show|replay")
    listing = _action(
        actions, "list", _list, "say what is in a topic of dead letters, by cause", "Print one line for each cause."
    )
    showing = _action(
        actions,
        "show",
        _show,
        "show one dead letter",
        "Show one dead letter: the record, where it came from, what went wrong. Without a place: the newest one that "
        "the options choose.",
    )
    showing.add_argument("place", nargs="?", type=place, metavar="PARTITION:OFFSET", help="where the letter stands")
    replaying = _action(
        actions,
        "replay",
        _replay,
        "send dead letters back to where they came from",
        "Send dead letters back to the topics and partitions that they came from, each one once: what was replayed is "
        "noted in the topic TOPIC-replayed, in the same transaction, and left out the next time.",
    )
    replaying.add_argument(
        "--offset",
        action="append",
        default=[],
        type=place,
        metavar="PARTITION:OFFSET",
        help="this letter (may be given again)",
    )
    replaying.add_argument("--again", action="store_true", help="those too that were replayed before")
    replaying.add_argument("--dry-run", action="store_true", help="show what would be done, and change nothing")
    replaying.add_argument("--yes", action="store_true", help="don't ask")
    for each in (listing, showing, replaying):
        add_json(each)


def _action(actions: argparse._SubParsersAction[Any], name: str, run: Any, short: str, long: str) -> Any:
    parser = actions.add_parser(name, help=short, description=long)
    # `--since -2h` is a value, like a negative number: argparse by itself accepts only numbers.
    parser._negative_number_matcher = re.compile(r"^-\d+(\.\d+)?(ms|s|m|h|d)$")
    parser.add_argument("topic", metavar="TOPIC", help="the topic of the dead letters")
    parser.add_argument("--config", metavar="FILE", help="settings, TOML or JSON: those of the application do")
    parser.add_argument("--bootstrap", metavar="HOST:PORT|embedded:PATH", help="instead of the file's")
    parser.add_argument(
        "--cause",
        action="append",
        default=[],
        metavar="CAUSE",
        help="only this cause, as `list` names it, or this exception (may be given again)",
    )
    parser.add_argument("--node", action="append", default=[], help="only what failed there (may be given again)")
    parser.add_argument(
        "--source", action="append", default=[], metavar="TOPIC", help="only what came from there (may be given again)"
    )
    parser.add_argument(
        "--since",
        type=since,
        metavar="TIME",
        help="only records of then or later: a time with its zone (2026-01-31T12:00:00Z), or a duration back (2h)",
    )
    parser.set_defaults(run=run)
    return parser


def place(text: str) -> tuple[int, int]:
    """Parse `PARTITION:OFFSET`; raise `ArgumentTypeError` for anything else."""
    found = _PLACE.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no place of a letter; write PARTITION:OFFSET, such as 0:17")
    return int(found[1]), int(found[2])


def since(text: str) -> int:
    """Parse a time, or a duration before now; raise `ArgumentTypeError` for anything else."""
    from stoatflow.durations import duration_ms, timestamp_ms

    back = text.removeprefix("-")
    try:
        if re.fullmatch(r"[\d.]+[a-z]+", back):
            return int(time.time() * 1000) - duration_ms(back)
        # Python 3.10 can't parse Z.
        return timestamp_ms(datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", text)))
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time ({error}); write one with its zone such as 2026-01-31T12:00:00Z, or a duration back "
            "such as 2h"
        ) from None


def _list(given: argparse.Namespace) -> int:
    from stoatflow.dlq import selection, text

    topic, chosen = _open(given), _selection(given)
    replayed, seen = _replayed(topic), selection.Seen()
    sums: dict[Cause, selection.Sum] = {}
    for letter in topic.letters():
        seen.note(letter, chosen)
        if chosen.takes(letter):
            selection.add(sums, letter, replayed=_is_in(replayed, letter))
    seen.check(chosen, topic.name)
    rows = sorted(sums.values(), key=lambda one: (-one.count, one.cause.id))
    if given.json:
        print_json(given, text.listed_json(topic, rows))
    else:
        print(text.listed(topic, rows))
    return 0


def _show(given: argparse.Namespace) -> int:
    from stoatflow.dlq import selection, text
    from stoatflow.errors import ConfigError

    places = () if given.place is None else (given.place,)
    topic, chosen = _open(given), _selection(given, places)
    seen = selection.Seen()
    newest: DeadLetter | None = None
    for letter in topic.letters():
        seen.note(letter, chosen)
        if chosen.takes(letter) and (newest is None or letter.timestamp >= newest.timestamp):
            newest = letter
    seen.check(chosen, topic.name)
    if newest is None:
        raise ConfigError(
            f"there is no such dead letter in '{topic.name}'",
            next_step=f"see what there is: stoatflow dlq list {topic.name}",
        )
    replayed = _is_in(_replayed(topic), newest)
    if given.json:
        print_json(given, text.shown_json(newest, replayed=replayed))
    else:
        print(text.shown(newest, replayed=replayed))
    return 0


def _replayed(topic: DeadLetterTopic) -> Replayed | None:
    """Read which letters were replayed; `None` if that can't be read, as letters can be listed without it."""
    from stoatflow.errors import AuthorizationError, IncompatibleStateError

    try:
        return topic.replayed()
    except (AuthorizationError, IncompatibleStateError) as error:
        print(f"stoatflow: which letters were replayed is not known: {error}", file=sys.stderr)
        return None


def _is_in(replayed: Replayed | None, letter: DeadLetter) -> bool | None:
    return None if replayed is None else (letter.partition, letter.offset) in replayed


def _replay(given: argparse.Namespace) -> int:
    from stoatflow.dlq import text
    from stoatflow.dlq.replay import Replay
    from stoatflow.dlq.topic import DeadLetterTopic, connect

    client = connect(_settings(given))
    topic = DeadLetterTopic(client, given.topic)
    replay = Replay(client, topic, _selection(given, given.offset), again=given.again)
    plan = replay.look()
    if not given.json or not (given.yes or given.dry_run):
        print(text.planned(topic, plan), flush=True)
    replay.check(plan)
    code, replayed = _confirm_and_make(given, replay, plan)
    if given.json:
        done = replayed is not None
        print_json(given, {**text.planned_json(topic, plan), "done": done, "replayed_now": replayed or 0})
    return code


def _confirm_and_make(given: argparse.Namespace, replay: Replay, plan: Plan) -> tuple[int, int | None]:
    """Return the exit code, and how many were replayed; `None` if nothing was to be changed."""
    from stoatflow.cli.confirmation import confirm
    from stoatflow.dlq.replay import Verdict

    total = plan.total(Verdict.SENT)
    if given.dry_run:
        print("\nnothing was changed (--dry-run)")
        return 0, None
    if total == 0:
        print("\nthere is nothing to replay")
        return 0, 0
    if not given.yes and not confirm(f"\nSend {total:,} back?"):
        print("\nnothing was changed")
        return 1, None
    return 0, _make(replay, total)


def _make(replay: Replay, total: int) -> int:
    ended = False
    try:
        done = replay.make(lambda count: print(f"{count:,} of {total:,}", file=sys.stderr, flush=True))
        ended = True
    finally:
        if not ended and replay.done:
            print(
                f"stoatflow: {replay.done:,} of {total:,} were replayed; the next replay leaves them out",
                file=sys.stderr,
            )
    print(f"\nreplayed: {done:,}")
    if done != total:
        print("\nanother replay has sent the others meanwhile")
    return done


def _open(given: argparse.Namespace) -> DeadLetterTopic:
    from stoatflow.dlq.topic import DeadLetterTopic, connect

    return DeadLetterTopic(connect(_settings(given)), given.topic)


def _selection(given: argparse.Namespace, places: Any = ()) -> Selection:
    from stoatflow.dlq.selection import Selection

    return Selection(tuple(given.cause), tuple(given.node), tuple(given.source), given.since, frozenset(places))


def _settings(given: argparse.Namespace) -> Any:
    from stoatflow.settings import Settings

    named = {} if given.bootstrap is None else {"bootstrap.servers": given.bootstrap}
    settings = Settings(named) if given.config is None else Settings.from_file(given.config, named)
    # Any name will do: the application itself isn't touched.
    settings = settings.with_defaults({"application.id": "stoatflow-dlq"})
    settings.check()
    return settings
