"""A whole word count application as Java guides show it: described, watched, stopped cleanly.

What `StreamsConfig`, the state listener, the shutdown hook and `KafkaStreams.close(timeout)` do in Java. Signals need
no hook: `run()` commits and closes on the first Ctrl-C or SIGTERM. There are no standby replicas and no threads to
count: it is one process. RocksDB takes its memory from one budget, `state.memory.max.bytes`.

`python examples/kafka_streams/word_count_app.py` runs it on embedded topics, with `localhost:9092` on a broker (the
topics `text-input` and `wordcount-output` must exist).
"""

from __future__ import annotations

import re
import sys

import stoatflow as sf

CONFIG: dict[str, object] = {
    "application.id": "wordcount-v2",
    "commit.interval.ms": 1000,
    "processing.guarantee": "exactly_once_v2",
    "state.memory.max.bytes": 512 * 1024 * 1024,
    "replication.factor": 1,
}


def build() -> sf.Topology:
    """Lines to words to counts; the counts wait for the commit, one update per word."""
    builder = sf.StreamsBuilder()
    source = builder.stream("text-input", consumed=sf.Consumed(str, str, reset="earliest"))
    word_counts = (
        source.flat_map_values(lambda line: re.split(r"\W+", line.lower()))
        .filter(lambda key, word: word != "")
        .select_key(lambda key, word: word)
        .group_by_key(grouped=sf.Grouped(key=str, value=str))
        .count(
            store=sf.Materialized(
                "word-count-store", key=str, value=int, caching=True, logging={"min.insync.replicas": 1}
            )
        )
    )
    word_counts.to_stream().to("wordcount-output", produced=sf.Produced(key=str, value=int))
    return builder.build()


topology = build()


def on_embedded_topics() -> dict[str, int]:
    """Fill a topic in a temporary folder, run, and give the table that arrived."""
    states: list[str] = []
    with sf.EmbeddedBroker() as broker:
        broker.create_topic("text-input")
        broker.create_topic("wordcount-output")
        for line in ("Kafka Streams is a library", "not a cluster: a library"):
            broker.produce("text-input", None, line.encode())
        # The topics are gone after this run, so the state must be too.
        app = sf.StoatFlow(topology, CONFIG | {"default.dsl.store": "in_memory"}, broker=broker)
        app.add_state_listener(lambda new, old: states.append(f"{old} -> {new}"))
        with app:
            while app.state != sf.State.RUNNING or app.lag() > 0:
                app.wait("20ms")
        print("states:", ", ".join(states))
        records = broker.read("wordcount-output")
        return {(record.key or b"").decode(): int.from_bytes(record.value or b"", "big") for record in records}


def main() -> None:
    """Run where the arguments say."""
    print(topology.describe())
    if len(sys.argv) > 1:
        sf.StoatFlow(topology, CONFIG | {"bootstrap.servers": sys.argv[1]}).run()
        return
    for word, count in sorted(on_embedded_topics().items()):
        print(f"{count} {word}")


if __name__ == "__main__":
    main()
