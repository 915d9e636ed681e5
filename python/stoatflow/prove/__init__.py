"""`stoatflow prove`: a topology in Java and its port do the same with the same inputs, or where they first differ.

`inputs` reads and writes them, `generate` makes some, `recording` takes them from topics; `java` finds Java and the
class path, `jvm` runs Kafka Streams' TopologyTestDriver, `ours` the engine's; `compare` finds the first difference,
`shorten` the fewest inputs that show it, `hints` what is known of it, `report` says it. `proving` does it all.
"""
