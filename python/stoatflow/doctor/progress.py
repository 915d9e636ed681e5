"""Checks the committed positions of an application, and its leftovers on the broker and on disk.

Takes a topology and settings, returns findings, and `None` for what is fine. Reads what `stoatflow reset --dry-run`
reads, and changes nothing.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from stoatflow._runtime import bridge
from stoatflow.doctor.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stoatflow.settings import Settings
    from stoatflow.topology import Topology

# Clocks that are synchronized by NTP differ by less.
_APART_MS = 5_000
# Offsets to read at the end of the offsets topic: transaction markers take up offsets too.
_LAST = 100


def positions(topology: Topology, settings: Settings) -> Iterator[Finding | None]:
    """Check that the application can continue from its committed positions."""
    plan: dict[str, Any] = json.loads(bridge.reset(topology.plan, settings.pairs(), "earliest", 0, []))
    if plan["begun"]:
        yield Finding.of_surroundings(
            "position",
            f"a reset of '{plan['application']}' was begun and has not ended: the application refuses to start",
            "run the same stoatflow reset again: it goes on where it stopped",
        )
        return
    yield None
    for row in plan["partitions"]:
        was, first = row["from"], row["to"]
        if was is not None and first is not None and was < first and "global table" not in row["why"]:
            yield Finding.of_surroundings(
                "position",
                f"partition {row['partition']}: it was read up to offset {was}, and the first one that is there is "
                f"{first}: {first - was} offsets were removed before they were read",
                "raise retention.ms of the topic above the longest time that the application may stand still; what "
                "is gone is passed over",
                op="source",
                node=row["topic"],
            )


def orphans(topology: Topology, settings: Settings) -> Iterator[Finding | None]:
    """Check for changelogs or rows of stores that the topology no longer has."""
    orphans: dict[str, Any] = json.loads(bridge.remove_orphans(topology.plan, settings.pairs(), []))
    topics = [f"the topic {one['topic']}" for one in orphans["changelogs"]]
    left = [*topics, *(f"rows of '{store}' in {orphans['state']}" for store in orphans["stores"])]
    if not left:
        yield None
    else:
        yield Finding.of_surroundings(
            "orphans",
            f"stores that the topology doesn't have (any more) have left {', '.join(left)}",
            "when no release needs them, remove them: stoatflow reset --orphans",
        )


def clock(client: bridge.TopicsClient, application: str, now_ms: float | None = None) -> Iterator[Finding | None]:
    """Check that this machine's clock is not behind the broker's, which stamps the rows of the offsets topic."""
    topic = f"{application}-offsets"
    if client.topic(topic) is None:
        return
    ((begin, end),) = client.ranges(topic, 1)
    rows = client.read(topic, 0, max(begin, end - _LAST), end).next(_LAST) if begin < end else []
    behind_ms = max((row[1] for row in rows), default=0) - (time.time() * 1000 if now_ms is None else now_ms)
    if rows and behind_ms <= _APART_MS:
        yield None
    elif rows:
        yield Finding.of_surroundings(
            "clock",
            f"the clock of this machine is at least {behind_ms / 1000:.0f} s behind that of the broker, which has "
            f"stamped a row of {topic} with a later time",
            "have both set by NTP: punctuations by wall clock, and what is too far ahead, go by this clock",
        )
