"""A window accepts late records until its grace period is over."""

import stoatflow as sf

DIFFERENCE = """
Faust expires windows by the wall clock, when it next cleans up: however far behind the other events one is, it is
counted if its window is still there. Here the time of the records decides: after 01:30:00 comes, 00:00:10 is late for
its window, whose grace of an hour is over.
"""
HERE = {"counts": [["home", 1], ["home", 2], ["home", 3], ["home", 1]]}


def topology():
    builder = sf.StreamsBuilder()
    views = (
        builder.stream("clicks", key=str, value=sf.Serdes.json())
        .group_by(sf.value["page"], key=str)
        .windowed_by(sf.TimeWindows("1m", grace="1h"))
        .count(store=sf.Materialized("views", caching=False))
    )
    views.to_stream(lambda page, count: page.key).to("counts", key=str, value=sf.Serdes.json())
    return builder.build()
