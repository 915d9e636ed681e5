"""Measurements with events, and measurements without one as soon as no event can match any more."""

import stoatflow as sf

DIFFERENCE = """
Quix gives a measurement alone at once, and again with each event that comes later. Here it comes alone only if it has
found no event, once none can come any more; the last one is still waiting when the input ends.
"""
HERE = {
    "joined": [
        ["s1", {"event": "door", "celsius": 20, "at": 0}],
        ["s1", {"event": "door", "celsius": 21, "at": 200}],
        ["s1", {"event": "window", "celsius": 21, "at": 200}],
        ["s1", {"event": "window", "celsius": 22, "at": 400}],
        ["s2", {"event": "light", "celsius": 7, "at": 510}],
        ["s2", {"celsius": 8, "at": 511}],
        ["s3", {"celsius": 9, "at": 1000}],
    ]
}


def topology():
    json = sf.Serdes.json(decode="dict")
    builder = sf.StreamsBuilder()
    measurements, events = (builder.stream(topic, key=str, value=json) for topic in ("measurements", "events"))
    joined = measurements.left_join(
        events,
        lambda measurement, event: (event or {}) | measurement,
        sf.JoinWindows("5m", grace="0s"),
        joined=sf.StreamJoined(str, json, json, name="joined"),
    )
    joined.to("joined", value=json)
    return builder.build()
