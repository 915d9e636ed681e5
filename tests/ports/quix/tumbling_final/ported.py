"""Sums of windows that are closed by the time of the partition."""

import stoatflow as sf

TIMESTAMPS = "Quix gives a result the time at which its window starts; here it has that of the last record in it"


def result(user, total):
    return user.key, {"start": user.window.start, "end": user.window.end, "total": total}


def topology():
    builder = sf.StreamsBuilder()
    totals = (
        builder.stream("payments", key=str, value=sf.Serdes.json())
        .group_by_key()
        .windowed_by(sf.TimeWindows("10s", grace="0s"))
        .emit_strategy(sf.EmitStrategy.on_window_close())
        .aggregate(sf.sum(sf.value["amount"]), store=sf.Materialized("totals", retention="1d"))
    )
    totals.to_stream().map(result).to("totals", key=str, value=dict)
    return builder.build()
