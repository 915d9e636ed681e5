"""Lists of three, with the times of their first and last records."""

import stoatflow as sf

TIMESTAMPS = "Quix gives a result the time at which its window starts; here it has that of the last record in it"


def topology():
    builder = sf.StreamsBuilder()
    batches = (
        builder.stream("measures", key=str, value=sf.Serdes.json())
        .group_by_key()
        .windowed_by(sf.CountWindows(3))
        .emit_strategy(sf.EmitStrategy.on_window_close())
        .aggregate(
            sf.agg(start=sf.min(sf.timestamp), end=sf.max(sf.timestamp), data=sf.collect(sf.value["data"])),
            store="batches",
        )
    )
    batches.to_stream(lambda key, batch: key.key).to("batches", key=str)
    return builder.build()
