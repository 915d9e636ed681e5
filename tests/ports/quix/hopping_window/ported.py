"""The mean of an hour, every ten minutes."""

import stoatflow as sf

TIMESTAMPS = "Quix gives a result the time at which its window starts; here it has that of the record"


def result(sensor, mean):
    return sensor.key, {"start": sensor.window.start, "end": sensor.window.end, "mean": mean}


def topology():
    builder = sf.StreamsBuilder()
    means = (
        builder.stream("readings", key=str, value=sf.Serdes.json())
        .group_by_key()
        .windowed_by(sf.TimeWindows("1h", advance="10m", grace="0s"))
        .aggregate(sf.avg(sf.value["celsius"]), store=sf.Materialized("means", caching=False))
    )
    means.to_stream().map(result).to("windows", key=str, value=dict)
    return builder.build()
