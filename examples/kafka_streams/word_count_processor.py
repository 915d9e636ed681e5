"""Kafka Streams' `WordCountProcessorDemo`: the word count with the Processor API.

A processor counts in a store; every second of stream time it forwards all counts. `python
examples/kafka_streams/word_count_processor.py` runs it in the test driver.
"""

from __future__ import annotations

import stoatflow as sf
from stoatflow import Processor, ProcessorContext, PunctuationType, Record, Stores
from stoatflow.testing import TopologyTestDriver


class WordCountProcessor(Processor[str, str, str, str]):
    """Counts the words of each line in a store."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        """Get the store, and schedule a call every second."""
        self.context = context
        self.counts = context.state_store("Counts")
        context.schedule("1s", PunctuationType.STREAM_TIME, self.forward_all)

    def process(self, record: Record[str, str]) -> None:
        """Count the words of a line."""
        for word in (record.value or "").lower().split():
            self.counts.put(word, (self.counts.get(word) or 0) + 1)

    def forward_all(self, time: int) -> None:
        """Forward every count."""
        for word, count in self.counts.all():
            self.context.forward(Record(word, str(count), time))


def build() -> sf.Topology:
    """Source, processor with its store, sink."""
    topology = sf.Topology()
    topology.add_source("Source", "streams-plaintext-input", key=str, value=str)
    topology.add_processor("Process", WordCountProcessor, "Source")
    topology.add_state_store(Stores.in_memory_key_value("Counts", key=str, value=int), "Process")
    topology.add_sink("Sink", "streams-wordcount-processor-output", "Process", key=str, value=str)
    return topology


topology = build()


def main() -> None:
    """Count the words of three lines, the last one a second later."""
    with TopologyTestDriver(topology) as driver:
        lines = driver.input("streams-plaintext-input", str, str)
        lines.pipe("all streams", timestamp=0)
        driver.output("streams-wordcount-processor-output", str, str).read_all()
        lines.pipe("lead to kafka", timestamp=500)
        lines.pipe("all of them", timestamp=1000)
        for record in driver.output("streams-wordcount-processor-output", str, str):
            print(record.timestamp, record.key, record.value)


if __name__ == "__main__":
    main()
