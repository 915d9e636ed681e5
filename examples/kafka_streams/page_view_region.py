"""Kafka Streams' `PageViewTypedDemo`: page views per region, in overlapping windows of seven days.

A stream of views is joined with the table of users, which says where each user lives; the views of a region are
counted. `python examples/kafka_streams/page_view_region.py` runs it in the test driver.
"""

from __future__ import annotations

from typing import Any

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver

DAY = 86_400_000


def with_region(view: dict[str, Any], profile: dict[str, Any] | None) -> dict[str, Any]:
    """Add the user's region to the page view."""
    return {"page": view["page"], "region": profile["region"] if profile else "UNKNOWN"}


def build() -> sf.Topology:
    """Join, re-key by region, count."""
    builder = sf.StreamsBuilder()
    views = builder.stream("streams-pageview-input", key=str, value=dict)
    users = builder.table("streams-userprofile-input", key=str, value=dict, store="profiles")
    (
        views.left_join(users, with_region)
        .map(lambda user, view: (view["region"], view))
        .group_by_key(key=str, value=dict)
        .windowed_by(sf.TimeWindows("7d", advance="1d", grace="0s"))
        .count(store="RollingSevenDaysOfPageViewsByRegion")
        .to_stream()
        .map(lambda windowed, count: (windowed.key, {"from": windowed.window.start // DAY, "count": count}))
        .to("streams-pageviewstats-output", key=str, value=dict)
    )
    return builder.build()


topology = build()


def main() -> None:
    """Three views of two users, one of them unknown."""
    with TopologyTestDriver(topology) as driver:
        driver.input("streams-userprofile-input", str, dict).pipe("ann", {"region": "europe"}, timestamp=0)
        views = driver.input("streams-pageview-input", str, dict)
        views.pipe("ann", {"page": "index"}, timestamp=7 * DAY)
        views.pipe("ann", {"page": "about"}, timestamp=8 * DAY)
        views.pipe("eve", {"page": "index"}, timestamp=8 * DAY)
        latest: dict[tuple[str, int], int] = {}
        for region, stats in driver.output("streams-pageviewstats-output", str, dict).read_key_values_to_list():
            assert region is not None
            assert stats is not None
            latest[region, stats["from"]] = stats["count"]
        for (region, day), count in sorted(latest.items()):
            print(f"{region}, seven days from day {day}: {count}")


if __name__ == "__main__":
    main()
