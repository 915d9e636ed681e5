"""A topic is deleted and created again under a running application."""

from __future__ import annotations

import struct
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from counting import PATIENCE_S, until_consumed
from topics import KafkaTopics

import stoatflow as sf

CLIENTS = {
    "native": {},
    "librdkafka": {"kafka.client": "librdkafka", "producer.linger.ms": 1, "consumer.fetch.wait.max.ms": 50},
}


def counting(kafka: KafkaTopics, name: str, state: Path, client: str = "native") -> sf.StoatFlow:
    """Counts the records of each value."""
    builder = sf.StreamsBuilder()
    words = builder.stream(f"{name}-in", key=bytes, value=str)
    words.group_by(sf.value, key=str).count(store="counts").to_stream().to(f"{name}-out", key=str, value=int)
    config = {
        "application.id": name,
        "bootstrap.servers": kafka.address,
        "state.dir": state,
        "statestore.cache.max.bytes": 0,
        "metadata.max.age.ms": 300,
        **CLIENTS[client],
    }
    return sf.StoatFlow(builder.build(), config)


def counts(kafka: KafkaTopics, name: str) -> list[int]:
    return [struct.unpack(">q", row.value or b"")[0] for row in kafka.read(f"{name}-out")]


def make_anew(kafka: KafkaTopics, topic: str, config: dict[str, str]) -> None:
    """As quickly as possible: a client that looks only at names may not notice."""
    kafka.delete([topic])
    began = time.monotonic()
    while True:
        try:
            return kafka.create(topic, 1, config)
        except KafkaException:  # noqa: PERF203 (it is still being deleted)
            assert time.monotonic() - began < PATIENCE_S
            time.sleep(0.05)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_recreated_source_topic(kafka: KafkaTopics, name: str, tmp_path: Path, client: str) -> None:
    """The application ends, and so does each new start, until an operator decides."""
    source = f"{name}-in"
    for topic in (source, f"{name}-out"):
        kafka.create(topic)

    def work() -> None:
        with counting(kafka, name, tmp_path, client) as app:
            kafka.write(source, ["word"] * 10)
            until_consumed(app)
            make_anew(kafka, source, {})
            began = time.monotonic()
            while not app.wait(0.05):
                kafka.write(source, ["word"])
                assert time.monotonic() - began < PATIENCE_S, "it goes on"

    with pytest.raises(sf.IncompatibleStateError, match=source) as ended:
        work()
    assert "reset the application" in str(ended.value)
    assert counts(kafka, name) == list(range(1, 11))
    with pytest.raises(sf.IncompatibleStateError, match=f"'{source}' was deleted and created again"):
        counting(kafka, name, tmp_path, client).run()


def test_records_of_a_recreated_source_topic_are_never_read(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    """A slow function holds up the reader, so that no fetch is under way that would fail while the topic is deleted.

    Then nothing but its id tells the new topic from the old one: it has more records, and the same leader and epoch.
    The application fetches by the id (KIP-516), and need not wait for its next request for metadata.
    """
    source, sink = f"{name}-in", f"{name}-out"
    for topic in (source, sink):
        kafka.create(topic)
    kafka.write(source, [f"old {'x' * 1000}"] * 3_000)
    called, going = threading.Event(), threading.Event()

    def first_word(text: str) -> str:
        called.set()
        assert going.wait(PATIENCE_S)
        return text.split(maxsplit=1)[0]

    builder = sf.StreamsBuilder()
    builder.stream(source, value=str).map_values(first_word).to(sink, value=str)
    config = {
        "application.id": name,
        "bootstrap.servers": kafka.address,
        "state.dir": tmp_path,
        "metadata.max.age.ms": 600_000,
        "in.flight.max.bytes": "64KiB",
    }

    def work() -> None:
        with sf.StoatFlow(builder.build(), config) as app:
            try:
                assert called.wait(PATIENCE_S)
                # It fetches as much as it has room for, and nothing more.
                time.sleep(1.0)
                make_anew(kafka, source, {})
                kafka.write(source, [f"new {'x' * 1000}"] * 6_000)
            finally:
                going.set()
            assert app.wait(PATIENCE_S), "it goes on"

    with pytest.raises(sf.IncompatibleStateError, match=f"{source}-0 was deleted while it was read, and another topic"):
        work()
    assert {row.value for row in kafka.read(sink)} <= {b"old"}


def test_a_recreated_changelog(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    """It ends, and no start mistakes the new topic for the old one, with local state or without."""
    changelog = f"{name}-counts-changelog"
    for topic in (f"{name}-in", f"{name}-out"):
        kafka.create(topic)

    def work() -> None:
        with counting(kafka, name, tmp_path) as app:
            kafka.write(f"{name}-in", ["word"] * 10)
            until_consumed(app)
            make_anew(kafka, changelog, {"cleanup.policy": "compact"})
            began = time.monotonic()
            while not app.wait(0.05):
                kafka.write(f"{name}-in", ["word"])
                assert time.monotonic() - began < PATIENCE_S, "it goes on"

    refusal = f"'{changelog}' was deleted and created again"
    with pytest.raises(sf.IncompatibleStateError, match=refusal):
        work()
    found = counts(kafka, name)
    assert found == list(range(1, len(found) + 1))
    for state in (tmp_path, tmp_path / "elsewhere"):
        with pytest.raises(sf.IncompatibleStateError, match=refusal):
            counting(kafka, name, state).run()


def test_a_recreated_sink_topic(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    """Its records are lost with it; all later ones are in the new topic."""
    for topic in (f"{name}-in", f"{name}-out"):
        kafka.create(topic)
    with counting(kafka, name, tmp_path) as app:
        kafka.write(f"{name}-in", ["word"] * 10)
        until_consumed(app)
        make_anew(kafka, f"{name}-out", {})
        for _ in range(5):
            kafka.write(f"{name}-in", ["word"])
        until_consumed(app)
    assert counts(kafka, name) == list(range(11, 16))
