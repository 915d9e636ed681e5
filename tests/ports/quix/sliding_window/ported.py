"""The mean of the last hour, at each record: of the sliding windows, the one that ends with the record."""

import stoatflow as sf

TIMESTAMPS = "Quix gives a result the time at which its window starts; here it has that of the record"


def result(sensor, found):
    return sensor.key, {"start": sensor.window.start, "end": sensor.window.end, "mean": found["mean"]}


def topology():
    builder = sf.StreamsBuilder()
    means = (
        builder.stream("readings", key=str, value=sf.Serdes.json())
        .group_by_key()
        .windowed_by(sf.SlidingWindows("1h", grace="0s"))
        .aggregate(
            sf.agg(mean=sf.avg(sf.value["celsius"]), last=sf.max(sf.timestamp)),
            store=sf.Materialized("means", caching=False),
        )
    )
    ends_with_it = means.to_stream().filter(lambda sensor, found: sensor.window.end == found["last"])
    ends_with_it.map(result).to("windows", key=str, value=dict)
    return builder.build()
