"""`stoatflow prove`: compares a topology in Java with its port on the same inputs, and shows where they first differ.

`inputs` reads and writes inputs, `generate` creates random ones, `recording` reads them from topics; `java` finds Java
and the class path, `jvm` runs Kafka Streams' TopologyTestDriver, `engine_side` the engine's; `compare` finds the first
difference, `shorten` the fewest inputs that show it, `hints` its possible reasons, `report` prints it. `proving`
combines all of them.
"""
