"""Several aggregations over a tumbling window, emitted for each record."""

import stoatflow as sf

TIMESTAMPS = "Quix gives a result the time at which its window starts; here it has that of the record"


def result(sensor, found):
    return sensor.key, {"start": sensor.window.start, "end": sensor.window.end} | dict(found)


def topology():
    builder = sf.StreamsBuilder()
    celsius = sf.value["celsius"]
    windows = (
        builder.stream("readings", key=str, value=sf.Serdes.json())
        .group_by_key()
        .windowed_by(sf.TimeWindows("10s", grace="5s"))
        .aggregate(
            sf.agg(least=sf.min(celsius), most=sf.max(celsius), mean=sf.avg(celsius), n=sf.count()),
            store=sf.Materialized("windows", caching=False),
        )
    )
    windows.to_stream().map(result).to("windows", key=str, value=dict)
    return builder.build()
