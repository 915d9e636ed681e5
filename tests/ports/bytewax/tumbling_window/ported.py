"""Each user's actions in windows of ten seconds."""

import stoatflow as sf


def topology():
    builder = sf.StreamsBuilder()
    events = builder.stream("events", value=sf.Serdes.json(), timestamp=sf.value["at"])
    windows = events.group_by(sf.value["user"], key=str).windowed_by(
        # When no more records arrive, the last windows are closed by the wall clock.
        sf.TimeWindows("10s", grace="0s", close_when_idle="10s")
    )
    values = windows.emit_strategy(sf.EmitStrategy.on_window_close()).aggregate(
        sf.collect(sf.value["value"]), store=sf.Materialized("values", retention="1d")
    )
    results = values.to_stream().map(lambda user, found: (user.key, {"start": user.window.start, "values": found}))
    results.to("windows", key=str, value=sf.Serdes.json())
    return builder.build()
