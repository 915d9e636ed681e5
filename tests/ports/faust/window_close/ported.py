"""Count and mean of ten seconds when the window closes: by stream time or, without new records, by the wall clock."""

import stoatflow as sf


def result(name, found):
    start = name.window.start / 1000
    return name.key, {"start": start, "count": found["count"], "mean": found["mean"]}


def topology():
    builder = sf.StreamsBuilder()
    raw = builder.stream("raw", value=sf.Serdes.json(), timestamp=lambda record, time: int(record.value["at"] * 1000))
    aggregates = (
        raw.group_by(lambda key, event: "events", key=str)
        .windowed_by(sf.TimeWindows("10s", grace="1s", close_when_idle="2s"))
        .emit_strategy(sf.EmitStrategy.on_window_close())
        .aggregate(
            sf.agg(count=sf.count(), mean=sf.avg(sf.value["value"])),
            store=sf.Materialized("tumbling_table", retention="1d"),
        )
    )
    written = aggregates.to_stream().map(result)
    written.to("aggregates", key=str, value=dict)
    return builder.build()
