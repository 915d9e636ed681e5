"""A transaction hangs in a partition: its coordinator has ended it, but the partition still has it open.

Kafka 4.4.0 drops the markers of partitions without a leader, as when a killed broker comes back after a transaction
has timed out. These tests let another client keep a transaction open in a topic of the application: a start can't tell
the two apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from counting import until, until_consumed
from test_long_downtime import counting, counts
from topics import KafkaTopics

import stoatflow as sf


@contextmanager
def open_transaction(kafka: KafkaTopics, group: str, topic: str) -> Iterator[None]:
    """A record of an open transaction in a topic. It is aborted in the end."""
    settings = {"bootstrap.servers": kafka.address, "transactional.id": f"{group}-stranger", "log_level": 0}
    producer = Producer({**settings, "transaction.timeout.ms": 120_000})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"never", b"committed", partition=0)
    producer.flush(30)
    try:
        yield
    finally:
        producer.abort_transaction(30)


@pytest.mark.parametrize(("topic", "client"), [("counts-changelog", "native"), ("offsets", "librdkafka")])
def test_a_start_behind_a_hanging_transaction_is_refused(
    kafka: KafkaTopics, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, topic: str, client: str
) -> None:
    monkeypatch.setenv("STOATFLOW_KAFKA_CLIENT", client)
    for each in ("in", "out"):
        kafka.create(f"{name}-{each}")
    kafka.write(f"{name}-in", ["word"] * 10)
    with counting(kafka, name, tmp_path) as app:
        until_consumed(app)
    with open_transaction(kafka, name, f"{name}-{topic}"):
        kafka.write(f"{name}-in", ["word"] * 5)
        with (
            counting(kafka, name, tmp_path) as app,
            pytest.raises(sf.BrokerUnavailableError, match=rf"hangs in 1 partitions, the first {name}-{topic}-0") as e,
        ):
            app.wait(60)
        assert f"abort --topic {name}-{topic} --partition 0 --start-offset " in str(e.value)
        assert counts(kafka, name) == list(range(1, 11))
    with counting(kafka, name, tmp_path) as app:
        until_consumed(app)
    assert counts(kafka, name) == list(range(1, 16))


def test_an_open_transaction_of_somebody_else_in_a_sink_is_no_reason(
    kafka: KafkaTopics, name: str, tmp_path: Path
) -> None:
    for each in ("in", "out"):
        kafka.create(f"{name}-{each}")
    kafka.write(f"{name}-in", ["word"] * 10)
    with open_transaction(kafka, name, f"{name}-out"), counting(kafka, name, tmp_path) as app:
        until_consumed(app)
    until(lambda: counts(kafka, name) == list(range(1, 11)), "readers see the counts once it has ended")
