"""Count words, exactly once: `python examples/word_count.py`.

Without arguments it runs on embedded topics and fills them itself. With a broker it counts the lines in a topic:
`python examples/word_count.py localhost:9092` (topics `lines` and `counts` must exist; Ctrl-C commits and ends).
"""

from __future__ import annotations

import sys

import stoatflow as sf

LINES = ["To be, or not to be, that is the question", "To die, to sleep", "To sleep, perchance to dream"]


def build() -> sf.Topology:
    """Lines to words, words to counts."""
    builder = sf.StreamsBuilder()
    lines = builder.stream("lines", value=str)
    words = lines.flat_map_values(lambda line: line.lower().replace(",", "").split())
    words.group_by(sf.value, key=str).count(store="counts").to_stream().to("counts", key=str, value=int)
    return builder.build()


topology = build()


def on_embedded_topics() -> dict[str, int]:
    """Fill topics in a temporary folder, count, and return the last count of each word."""
    with sf.EmbeddedBroker() as broker:
        broker.create_topic("lines", partitions=2)
        broker.create_topic("counts", partitions=2)
        for line in LINES:
            broker.produce("lines", None, line.encode())
        # The topics are removed at the end, so the state must not outlive them.
        config = {"application.id": "word-count-example", "default.dsl.store": "in_memory"}
        with sf.StoatFlow(topology, config, broker=broker) as app:
            app.wait_until(caught_up=True)
        last: dict[str, int] = {}
        for record in broker.read("counts"):
            if record.key is not None and record.value is not None:
                last[record.key.decode()] = sf.Serdes.int64().deserialize(record.value)
        return last


def main() -> None:
    """Run on embedded topics, or on the given broker."""
    if len(sys.argv) > 1:
        sf.StoatFlow(topology, {"application.id": "word-count-example", "bootstrap.servers": sys.argv[1]}).run()
        return
    for word, count in sorted(on_embedded_topics().items(), key=lambda item: (-item[1], item[0])):
        print(f"{count:3} {word}")


if __name__ == "__main__":
    main()
