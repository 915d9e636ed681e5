"""A whole word count application as Java guides show it: described, watched, stopped cleanly.

The configuration is that of a Java program, name by name: settings without a meaning in one process are accepted, and a
log line says why they have no effect. The uncaught exception handler, the state listener, the store query and
`close(timeout)` work as in Java. Signals need no hook: `run()` commits and closes on the first Ctrl-C or SIGTERM.

`python examples/kafka_streams/word_count_app.py` runs it on embedded topics, with `localhost:9092` on a broker (the
topics `text-input` and `wordcount-output` must exist).
"""

from __future__ import annotations

import re
import sys

import stoatflow as sf

CONFIG: dict[str, object] = {
    "application.id": "wordcount-v2",
    "bootstrap.servers": "kafka1:9092,kafka2:9092,kafka3:9092",
    "default.key.serde": "org.apache.kafka.common.serialization.Serdes$StringSerde",
    "default.value.serde": "org.apache.kafka.common.serialization.Serdes$StringSerde",
    "commit.interval.ms": 1000,
    "state.dir": "/data/kafka-streams",
    "num.stream.threads": 4,
    "num.standby.replicas": 1,
    "replication.factor": 3,
    "rocksdb.config.setter": "com.acme.ProductionRocksDBConfig",
}


def build() -> sf.Topology:
    """Lines to words to counts; counts are suppressed until the commit, one update per word."""
    builder = sf.StreamsBuilder()
    source = builder.stream("text-input", consumed=sf.Consumed(str, str, reset="earliest"))
    word_counts = (
        source.flat_map_values(lambda line: re.split(r"\W+", line.lower()))
        .filter(lambda key, word: word != "")
        .select_key(lambda key, word: word)
        .group_by_key(grouped=sf.Grouped(key=str, value=str))
        .count(
            store=sf.Materialized(
                "word-count-store", key=str, value=int, caching=True, logging={"min.insync.replicas": 2}
            )
        )
    )
    word_counts.to_stream().to("wordcount-output", produced=sf.Produced(key=str, value=int))
    return builder.build()


topology = build()


def on_uncaught(error: BaseException) -> sf.ExceptionResponse:
    """Restart from the last commit, in this process."""
    print(f"crashed: {error}", file=sys.stderr)
    return sf.ExceptionResponse.REPLACE_THREAD


def application(config: dict[str, object], broker: sf.EmbeddedBroker | None = None) -> sf.StoatFlow:
    """Return the application with its handler and its listener."""
    app = sf.StoatFlow(topology, config, broker=broker)
    app.set_uncaught_exception_handler(on_uncaught)
    app.add_state_listener(lambda new, old: print(f"{old} -> {new}"))
    return app


def on_embedded_topics() -> dict[str, int]:
    """Fill a topic in a temporary folder, run, look a word up, and return the table that arrived."""
    with sf.EmbeddedBroker() as broker:
        broker.create_topic("text-input")
        broker.create_topic("wordcount-output")
        for line in ("Kafka Streams is a library", "not a cluster: a library"):
            broker.produce("text-input", None, line.encode())
        # The topics are removed after this run, so the state must be too.
        there = {"bootstrap.servers": "embedded:", "default.dsl.store": "in_memory"}
        with application(CONFIG | there, broker) as app:
            app.wait_until(caught_up=True)
            store = app.store("word-count-store")
            print("kafka, from the store:", store.get("kafka"))
            app.close("30s")
        records = broker.read("wordcount-output")
        return {(record.key or b"").decode(): int.from_bytes(record.value or b"", "big") for record in records}


def main() -> None:
    """Run on embedded topics, or on the given broker."""
    print(topology.describe())
    if len(sys.argv) > 1:
        application(CONFIG | {"bootstrap.servers": sys.argv[1], "replication.factor": 1}).run()
        return
    for word, count in sorted(on_embedded_topics().items()):
        print(f"{count} {word}")


if __name__ == "__main__":
    main()
