"""The people in each place, kept as a sorted list."""

import stoatflow as sf


def move(place, event, people):
    if event["does"] == "join":
        return sorted({*people, event["name"]})
    return [name for name in people if name != event["name"]]


def topology():
    builder = sf.StreamsBuilder()
    moves = builder.stream("moves", key=str, value=sf.Serdes.json(decode="dict")).group_by_key()
    store = sf.Materialized("people", value=sf.Serdes.json(decode="dict"), caching=False)
    moves.aggregate(list, move, store=store).to_stream().to("present")
    return builder.build()
