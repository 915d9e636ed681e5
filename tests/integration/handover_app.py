"""The application that is handed over to Spark and back: counts, windows, sessions, a table, and sums by another key.

`HANDOVER` names it: NAME, or NAME:SUFFIX for one that writes to its own topics.
"""

from __future__ import annotations

import os

import stoatflow as sf

SINKS = ("per-user", "per-minute", "by-window", "final", "visits", "by-session", "per-region")


def build(name: str, suffix: str = "") -> sf.Topology:
    """Read NAME-orders and NAME-users; write a topic for each of `SINKS`."""
    builder = sf.StreamsBuilder()
    users = builder.table(f"{name}-users", key=str, value=str, store="users")
    orders = builder.stream(f"{name}-orders", key=str, value=int)

    def to(stream: sf.KStream[str, int], sink: str) -> None:
        stream.to(f"{name}-{sink}{suffix}", key=str, value=int)

    by_user = orders.group_by_key()
    to(by_user.count(store="per-user").to_stream(), "per-user")
    windows = by_user.windowed_by(sf.TimeWindows("1m", grace="30s")).count(store="per-minute")
    to(windows.to_stream(lambda window, _: f"{window.key} {window.window.start}"), "per-minute")
    # With windowed keys, which are partitioned by the key within.
    windows.to_stream().to(f"{name}-by-window{suffix}")
    final = windows.suppress(sf.Suppressed.until_window_closes(name="final"))
    to(final.to_stream(lambda window, _: f"{window.key} {window.window.start}"), "final")
    sessions = by_user.windowed_by(sf.SessionWindows("30s", grace="30s")).count(store="visits")
    to(sessions.to_stream(lambda window, _: f"{window.key} {window.window.start}"), "visits")
    sessions.to_stream().to(f"{name}-by-session{suffix}")
    regions = orders.join(users, lambda amount, region: (region, amount))
    by_region = regions.map(lambda _, pair: pair).group_by_key(key=str, value=int)
    to(by_region.reduce(lambda one, other: one + other, store="per-region").to_stream(), "per-region")
    return builder.build()


if name := os.environ.get("HANDOVER"):
    topology = build(*name.split(":"))
