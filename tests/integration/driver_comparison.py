"""The same topology and records on a real broker and in the test driver, which equals Kafka Streams.

Takes a topology and records in phases; a phase writes to one partition of one topic, so its order is certain, and
the application is restarted for each, every second time without its state. Asserts that with one lane the output is
the same record by record, and with several lanes the same records per key.
"""

from __future__ import annotations

import shutil
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from confluent_kafka import Producer
from counting import consume
from topics import PATIENCE_S, KafkaTopics

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver

HOUR = 3_600_000
START = int(time.time() * 1000) // HOUR * HOUR - 4 * HOUR
"""Recent: a broker deletes records older than its retention, and rejects those too far in the future."""
SETTINGS: dict[str, object] = {
    "statestore.cache.max.bytes": 0,
    "emit.interval.ms.kstreams.windowed.aggregation": 0,
    "emit.interval.ms.kstreams.outer.join.spurious.results.fix": 0,
}
Entry = tuple[str, str | None, int]
"""Key, value, milliseconds after the start."""
Phase = tuple[str, list[Entry]]
"""A topic, and what is written to it."""
Pair = tuple[bytes | None, bytes | None]


def long(data: bytes | None) -> int:
    """Decoded from Java's Long."""
    assert data is not None
    return int(struct.unpack(">q", data)[0])


def in_driver(topology: sf.Topology, phases: Iterable[Phase], outputs: Iterable[str]) -> dict[str, list[Pair]]:
    """The output of the test driver."""
    with TopologyTestDriver(topology, SETTINGS) as driver:
        for topic, entries in phases:
            source = driver.input(topic, str, str)
            for key, value, at in entries:
                source.pipe(key, value, timestamp=START + at)
        return {topic: [(r.key, r.value) for r in driver.output(topic).read_all()] for topic in outputs}


def write(kafka: KafkaTopics, topic: str, entries: Iterable[Entry]) -> None:
    """Write to the first partition."""
    producer = Producer({"bootstrap.servers": kafka.address, "acks": "all", "log_level": 0})
    for key, value, at in entries:
        producer.produce(
            topic, None if value is None else value.encode(), key.encode(), partition=0, timestamp=START + at
        )
    assert producer.flush(PATIENCE_S) == 0


def check(
    kafka: KafkaTopics,
    name: str,
    state: Path,
    build: Callable[[], sf.Topology],
    phases: list[Phase],
    *,
    lanes: int,
    outputs: tuple[str, ...] = ("out",),
    last_only: bool = False,
) -> dict[str, list[Pair]]:
    """Compare the outputs; with `last_only`, only their last values.

    Topics of the topology are named `<name>-...`; `phases` and `outputs` have them without the name.
    """
    named = [(f"{name}-{topic}", entries) for topic, entries in phases]
    topics = [f"{name}-{output}" for output in outputs]
    for topic in dict.fromkeys([topic for topic, _ in named] + topics):
        kafka.create(topic, 1, {"retention.ms": "-1"})
    wanted = in_driver(build(), named, topics)
    config = SETTINGS | {"application.id": name, "bootstrap.servers": kafka.address, "state.dir": state}
    for number, (topic, entries) in enumerate(named):
        if number % 2:
            shutil.rmtree(state, ignore_errors=True)
        write(kafka, topic, entries)
        consume(sf.StoatFlow(build(), config | {"lanes.count": lanes}))
    for topic in topics:
        found = [(row.key, row.value) for row in kafka.read(topic)]
        assert found, f"{topic} is empty"
        if last_only:
            assert folded(found) == folded(wanted[topic])
        elif lanes == 1:
            assert found == wanted[topic]
        else:
            assert Counter(found) == Counter(wanted[topic])
            assert by_key(found) == by_key(wanted[topic])
    return wanted


def folded(pairs: Iterable[Pair]) -> dict[bytes | None, bytes | None]:
    """The last value of each key, without tombstones."""
    return {key: value for key, value in dict(pairs).items() if value is not None}


def by_key(pairs: Iterable[Pair]) -> dict[bytes | None, list[bytes | None]]:
    """The values of each key, in order."""
    found: dict[bytes | None, list[bytes | None]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found
