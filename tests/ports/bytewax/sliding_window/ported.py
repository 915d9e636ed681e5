"""Orders in windows of an hour that start every 15 minutes. StoatFlow calls such windows hopping."""

import stoatflow as sf


def topology():
    builder = sf.StreamsBuilder()
    orders = builder.stream("orders", value=sf.Serdes.json(), timestamp=sf.value["at"])
    windows = orders.group_by(lambda key, order: "all", key=str).windowed_by(
        sf.TimeWindows("1h", advance="15m", grace="0s", close_when_idle="1h")
    )
    counts = windows.emit_strategy(sf.EmitStrategy.on_window_close()).count(
        store=sf.Materialized("counts", retention="1d")
    )
    results = counts.to_stream().map(lambda all_, count: (all_.key, {"start": all_.window.start, "count": count}))
    results.to("windows", key=str, value=sf.Serdes.json())
    return builder.build()
