"""A stream is split in two by a predicate."""

import stoatflow as sf


def topology():
    builder = sf.StreamsBuilder()
    halves = builder.stream("numbers", value=sf.Serdes.json()).split({"even": sf.value % 2 == 0}, default="odd")
    halves["even"].to("even")
    halves["odd"].to("odd")
    return builder.build()
