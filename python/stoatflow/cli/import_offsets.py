"""`stoatflow import-offsets app.py --from-group OLD`: start a new application at a consumer group's offsets.

Takes a file with a topology, the application's settings, and the name of the group. Prints a table of the offsets,
asks, and commits them as the application's own. It works as a reset to those offsets, for a new application only: an
application that has offsets or state already, or needs state that the group doesn't have, is refused. Never changes the
group.
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from stoatflow.cli.commands import COMMANDS
from stoatflow.cli.json_output import add_json

if TYPE_CHECKING:
    from typing import Any

    from stoatflow.topology import Topology


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    from stoatflow.cli.reset import add_application, add_consent

    parser = commands.add_parser(
        "import-offsets",
        help=COMMANDS["import-offsets"],
        description="Let a new application go on where a consumer group stopped. The group must have no members any "
        "more; it is left as it is.",
    )
    add_application(parser)
    parser.add_argument("--from-group", required=True, metavar="GROUP", help="whose offsets")
    parser.add_argument(
        "--input-topic",
        action="append",
        default=[],
        metavar="TOPIC",
        help="of this topic only (may be given again); the others are read as auto.offset.reset says",
    )
    parser.add_argument(
        "--empty-stores",
        action="store_true",
        help="the topology's stores may begin empty in the middle of the input",
    )
    add_consent(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Show, ask, do."""
    from stoatflow.cli.reset import ResetRequest, Target, consents, load_topology, report, settings, show

    topology, group = load_topology(given.app), given.from_group
    request = ResetRequest(topology, settings(given), Target("group", group), given.input_topic)
    stores = [] if given.empty_stores else stores_fed_by(topology, given.input_topic)

    def check(plan: dict[str, Any]) -> None:
        refuse_old(plan)
        refuse_stores(stores, plan["application"], group)

    def check_and_show(plan: dict[str, Any]) -> None:
        check(plan)
        show(given, render(plan, group))

    if given.yes and not given.dry_run:
        made = request.make(check_and_show)
    else:
        shown = request.look()
        check_and_show(shown)
        if not consents(given, f"Let '{shown['application']}' begin there?"):
            report(given, shown, done=False)
            return 0 if given.dry_run else 1
        made = request.make(check)
    print("done: it may be started")
    report(given, made, done=True)
    return 0


def stores_fed_by(topology: Topology, topics: list[str]) -> list[str]:
    """List the stores that would lack the records before the offsets; without topics, all topics count."""
    plan = json.loads(topology.plan.physical_json)
    whole = {topic for source in plan["sources"] if source["global"] for topic in source["topics"]}
    read = {topic for source in plan["sources"] for topic in source["topics"]}
    moved = set(topics) or read
    return [
        store["name"]
        for store in plan["stores"]
        # No upstream topics means unknown: those of a pattern, or of a store that a processor writes.
        if store["source_changelog"] not in whole
        and (not store["upstream_topics"] or moved & set(store["upstream_topics"]))
    ]


def refuse_old(plan: dict[str, Any]) -> None:
    """Raise if the application is not new: its offsets and state would be lost."""
    from stoatflow.errors import ConfigError

    has = [
        f"a committed offset in {one['topic']}-{one['partition']}"
        for one in plan["partitions"]
        if one["from"] is not None
    ]
    has += [f"the changelog topic {one['topic']}" for one in plan["changelogs"]]
    has += [] if plan["state"] is None else [f"local state in {plan['state']}"]
    if has and not plan["begun"]:
        more = f" and {len(has) - 1} more" if len(has) > 1 else ""
        raise ConfigError(
            f"the application '{plan['application']}' is not new: it has {has[0]}{more}; nothing was changed",
            next_step="give it another application.id; or throw its work away: stoatflow reset --to group:NAME",
        )


def refuse_stores(stores: list[str], application: str, group: str) -> None:
    """Raise if stores would start empty in the middle of the input."""
    from stoatflow.errors import ConfigError

    if stores:
        names = ", ".join(f"'{name}'" for name in stores[:5]) + (f" and {len(stores) - 5} more" if stores[5:] else "")
        raise ConfigError(
            f"stores of the topology would be empty where the group '{group}' is: {names}; what they hold from before "
            "is not in the offsets; nothing was changed",
            next_step=f"if '{group}' is a Kafka Streams application, start this one under its application.id, which "
            f"brings the state along; if only some topics should go on there, name them (--input-topic); if "
            f"'{application}' may begin with empty stores, say --empty-stores",
        )


def render(plan: dict[str, Any], group: str) -> str:
    """Format a plan for people."""
    from stoatflow.cli.reset import positions

    lines = [f"'{plan['application']}' at {plan['address']} begins where the group '{group}' is"]
    if plan["begun"]:
        lines.append("this was begun before and has not ended: it goes on")
    return "\n".join([*lines, "", *positions(plan["partitions"]), ""])
