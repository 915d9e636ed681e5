"""Kafka Streams' second tutorial program, `LineSplit`: lines cut into words.

`python examples/kafka_streams/line_split.py` runs it in the test driver.
"""

from __future__ import annotations

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver


def build() -> sf.Topology:
    """Split with a native expression: no Python function runs per record."""
    builder = sf.StreamsBuilder()
    lines = builder.stream("streams-plaintext-input", key=str, value=str)
    lines.flat_map_values(sf.value.str.split()).to("streams-linesplit-output", key=str, value=str)
    return builder.build()


topology = build()


def main() -> None:
    """Split two lines."""
    with TopologyTestDriver(topology) as driver:
        driver.input("streams-plaintext-input", str, str).pipe_all(["all streams lead to kafka", "hello kafka"])
        print(" | ".join(str(record.value) for record in driver.output("streams-linesplit-output", str, str)))


if __name__ == "__main__":
    main()
