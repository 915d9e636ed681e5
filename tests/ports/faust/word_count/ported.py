"""The number of occurrences of each word. There is no topic between splitting and counting."""

import stoatflow as sf


def topology():
    builder = sf.StreamsBuilder()
    words = builder.stream("posts", value=str).flat_map_values(sf.value.str.split()).group_by(sf.value, key=str)
    counts = words.count(store=sf.Materialized("word_counts", caching=False))
    counts.to_stream().to("counts", key=str, value=sf.Serdes.json())
    return builder.build()
