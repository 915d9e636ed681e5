"""Kafka Streams' first tutorial program, `Pipe`: a topic copied into another one.

`python examples/kafka_streams/pipe.py` runs it in the test driver; `topology` is what an application would run.
"""

from __future__ import annotations

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver


def build() -> sf.Topology:
    """Read, write."""
    builder = sf.StreamsBuilder()
    builder.stream("streams-plaintext-input").to("streams-pipe-output")
    return builder.build()


topology = build()


def main() -> None:
    """Send two lines through."""
    with TopologyTestDriver(topology) as driver:
        driver.input("streams-plaintext-input").pipe_all([b"all streams lead to kafka", b"hello kafka streams"])
        for record in driver.output("streams-pipe-output"):
            print((record.value or b"").decode())


if __name__ == "__main__":
    main()
