"""A record whose function raises goes to a dead letter topic, and processing continues."""

import stoatflow as sf

DIFFERENCE = "Faust logs the error and drops the event; here it is written to the topic of dead letters as it was read"
HERE = {
    "inverses": [[None, 1.0], [None, 0.5], [None, 0.25]],
    "dead": [[None, 0]],
}


def topology():
    builder = sf.StreamsBuilder()
    numbers = builder.stream("numbers", value=sf.Serdes.json())
    inverses = numbers.map_values(lambda number: 1 / number, on_error=sf.DLQ("dead"))
    inverses.to("inverses", value=sf.Serdes.json())
    return builder.build()
