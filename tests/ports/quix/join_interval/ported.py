"""Measurements with the events up to five minutes before or after: a join of two streams."""

import stoatflow as sf


def topology():
    json = sf.Serdes.json(decode="dict")
    builder = sf.StreamsBuilder()
    measurements, events = (builder.stream(topic, key=str, value=json) for topic in ("measurements", "events"))
    joined = measurements.join(
        events,
        lambda measurement, event: event | measurement,
        sf.JoinWindows("5m", grace="7d"),
        joined=sf.StreamJoined(str, json, json, name="joined"),
    )
    joined.to("joined", value=json)
    return builder.build()
