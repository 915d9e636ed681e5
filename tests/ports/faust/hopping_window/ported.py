"""Counts in windows of ten seconds that start every five seconds; only the newest window of each record."""

import stoatflow as sf


def newest(user, found):
    return user.window.start + 5_000 > found["last"]


def topology():
    builder = sf.StreamsBuilder()
    counts = (
        builder.stream("events", key=str, value=sf.Serdes.json())
        .group_by_key()
        .windowed_by(sf.TimeWindows("10s", advance="5s", grace="1d"))
        .aggregate(sf.agg(n=sf.count(), last=sf.last(sf.timestamp)), store=sf.Materialized("table", caching=False))
    )
    current = counts.to_stream().filter(newest)
    current.map(lambda user, found: (user.key, found["n"])).to("counts", key=str, value=sf.Serdes.json())
    return builder.build()
