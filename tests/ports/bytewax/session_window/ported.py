"""A user's actions in session windows with a gap of five seconds."""

import stoatflow as sf


def result(user, did):
    return user.key, {"start": user.window.start, "end": user.window.end, "did": did}


def topology():
    builder = sf.StreamsBuilder()
    events = builder.stream("events", value=sf.Serdes.json(), timestamp=sf.value["at"])
    windows = events.group_by(sf.value["user"], key=str).windowed_by(
        sf.SessionWindows("5s", grace="0s", close_when_idle="5s")
    )
    sessions = windows.emit_strategy(sf.EmitStrategy.on_window_close()).aggregate(
        sf.collect(sf.value["what"]), store=sf.Materialized("sessions", retention="1d")
    )
    sessions.to_stream().map(result).to("sessions", key=str, value=sf.Serdes.json())
    return builder.build()
