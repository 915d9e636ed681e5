"""The number of occurrences of each word so far."""

import re

import stoatflow as sf

DIFFERENCE = "count_final gives a count when the input ends; a topic has no end, so each update of a count is given"
LAST = True


def topology():
    builder = sf.StreamsBuilder()
    lines = builder.stream("lines", value=str)
    words = lines.map_values(str.lower).flat_map_values(lambda line: re.findall(r"[^\s!,.?\":;0-9]+", line))
    counts = words.group_by(sf.value, key=str).count(store="counts")
    counts.to_stream().to("counts", key=str, value=sf.Serdes.json())
    return builder.build()
