"""Which records are late, and where they go: late for a closed window, by the stream time of all keys."""

import stoatflow as sf

DIFFERENCE = """
Bytewax has a watermark for each key, and what is behind it is late although its window is open: 4 and 8.
Here time is that of the partition (ann's second 12 closes a window of bob, so his 3 is late), and only what belongs to
a window that is closed is late: 4 counts.
"""
START = 1767225600000
HERE = {
    "windows": [
        ["ann", {"start": START, "values": [1]}],
        ["ann", {"start": START + 10_000, "values": [2, 4]}],
        ["bob", {"start": START + 10_000, "values": [5]}],
        ["ann", {"start": START + 20_000, "values": [6]}],
    ],
    # A dead letter holds the record as it was read.
    "late": [
        [None, {"user": "bob", "at": START + 3_000, "value": 3}],
        [None, {"user": "ann", "at": START + 9_000, "value": 7}],
        [None, {"user": "bob", "at": START + 13_000, "value": 8}],
    ],
}


def topology():
    builder = sf.StreamsBuilder()
    events = builder.stream(
        "events",
        value=sf.Serdes.json(),
        timestamp=sf.value["at"],
        watermark=sf.Watermark.none(),
        late=sf.DLQ("late"),
    )
    windows = events.group_by(sf.value["user"], key=str).windowed_by(
        sf.TimeWindows("10s", grace="0s", close_when_idle="10s")
    )
    values = windows.emit_strategy(sf.EmitStrategy.on_window_close()).aggregate(
        sf.collect(sf.value["value"]), store=sf.Materialized("values", retention="1d")
    )
    results = values.to_stream().map(lambda user, found: (user.key, {"start": user.window.start, "values": found}))
    results.to("windows", key=str, value=sf.Serdes.json())
    return builder.build()
