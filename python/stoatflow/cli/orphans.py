"""`stoatflow reset --orphans`: remove changelogs and rows of stores that the topology no longer has.

Takes the arguments of `stoatflow reset`. Prints what will be removed, asks, and does it. The engine knows which
changelogs belong to the application. Never touches committed offsets, nor stores that the topology has.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from typing import Any

_REWINDS = {"--to": "to", "--shift-by": "shift_by", "--input-topic": "input_topic"}


def run(given: argparse.Namespace) -> int:
    """Show, ask, do."""
    from stoatflow.cli.reset import consents, load_topology, report, settings, show
    from stoatflow.errors import ConfigError

    if rewinds := [name for name, at in _REWINDS.items() if getattr(given, at) not in (None, [])]:
        raise ConfigError(f"--orphans rewinds nothing, so it doesn't go with {', '.join(rewinds)}")
    topology, pairs = load_topology(given.app), settings(given).pairs()

    def remove(agree: Callable[[str], object] | None) -> dict[str, Any]:
        from stoatflow._runtime import bridge

        found: dict[str, Any] = json.loads(bridge.remove_orphans(topology.plan, pairs, given.topic, agree))
        return found

    found = remove(None)
    show(given, render(found))
    if not found["changelogs"] and not found["stores"]:
        report(given, found, done=not given.dry_run)
        return 0
    agreed = given.yes and not given.dry_run
    if not agreed and not consents(given, f"Remove what '{found['application']}' no longer has?"):
        report(given, found, done=False)
        return 0 if given.dry_run else 1
    remove(lambda now: _refuse_more(found, json.loads(now)))
    print("done: it may be started")
    report(given, found, done=True)
    return 0


def _refuse_more(shown: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise if there are more orphans than were shown: another release may have been started meanwhile."""
    from stoatflow.errors import ConfigError

    names = [{one["topic"] for one in found["changelogs"]} | set(found["stores"]) for found in (shown, now)]
    if more := sorted(names[1] - names[0]):
        raise ConfigError(f"there is more now: {', '.join(more)}. Next: look again; nothing was removed")


def render(found: dict[str, Any]) -> str:
    """Format for people what is removed."""
    lines = [f"stores that the topology of '{found['application']}' doesn't have, at {found['address']}", ""]
    if found["changelogs"]:
        lines.append("changelog topics that are deleted:")
        lines += [f"  {one['topic']}  (at most {one['records']:,} records)" for one in found["changelogs"]]
    else:
        lines.append("changelog topics that are deleted: none is there")
    if found["stores"]:
        lines += [f"local rows that are removed, in {found['state']}:", *(f"  {store}" for store in found["stores"])]
    else:
        lines.append("local rows that are removed: none are here")
    if found["unsure"]:
        lines.append("topics that are named like changelogs, but may be another application's, and stay:")
        lines += [f"  {topic}  (delete it too: --topic {topic})" for topic in found["unsure"]]
    if found["changelogs"] or found["stores"]:
        lines += [
            "",
            "A running instance is stopped (FencedError). A release that still has these stores computes them anew.",
        ]
    return "\n".join(lines)
