"""The group's coordinator holds offsets pending that will not be settled, while the application starts.

Kafka 4.1.1 did so for good after it was killed: its coordinator loaded its partition anew, lost the end of a
transaction on the way, and answered UNSTABLE_OFFSET_COMMIT from then on. A transaction of somebody else with offsets of
this group, that stays open, looks the same to a start.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from counting import until, until_consumed, until_running
from test_long_downtime import counting, counts
from topics import KafkaTopics

import stoatflow as sf

PENDING = "then start again"


@contextmanager
def pending(kafka: KafkaTopics, group: str, offsets: dict[int, int]) -> Iterator[Producer]:
    """An open transaction with offsets of this group. It is aborted in the end."""
    settings = {"bootstrap.servers": kafka.address, "transactional.id": f"{group}-stranger", "log_level": 0}
    producer = Producer({**settings, "transaction.timeout.ms": 120_000})
    producer.init_transactions(30)
    producer.begin_transaction()
    consumer = Consumer({"bootstrap.servers": kafka.address, "group.id": group})
    parts = [TopicPartition(f"{group}-in", partition, offset) for partition, offset in offsets.items()]
    producer.send_offsets_to_transaction(parts, consumer.consumer_group_metadata(), 30)
    consumer.close()
    try:
        yield producer
    finally:
        producer.abort_transaction(30)


def is_pending(kafka: KafkaTopics, group: str) -> bool:
    """Whether the coordinator refuses to say what is committed."""
    admin = AdminClient({"bootstrap.servers": kafka.address, "log_level": 0})
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(f"{group}-in", 0)])
    answer = admin.list_consumer_group_offsets([asked], require_stable=True)[group].result(30)
    (found,) = answer.topic_partitions
    return found.error is not None and found.error.name() == "UNSTABLE_OFFSET_COMMIT"


def test_a_start_goes_on_from_the_offsets_topic(
    kafka: KafkaTopics, name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for topic in ("in", "out"):
        kafka.create(f"{name}-{topic}")
    kafka.write(f"{name}-in", ["word"] * 10)
    with counting(kafka, name, tmp_path) as app:
        until_consumed(app)
    with pending(kafka, name, {0: 3}):
        assert is_pending(kafka, name)
        kafka.write(f"{name}-in", ["word"] * 5)
        began = time.monotonic()
        with counting(kafka, name, tmp_path) as app:
            until_running(app)
            took = time.monotonic() - began
            # Not by the group's offsets, which stay pending.
            until(lambda: counts(kafka, name) == list(range(1, 16)), "all is counted")
            until(lambda: app.lag() == 0, "the engine knows what it has committed")
            assert is_pending(kafka, name)
        assert 9 < took < 25, "it waits ten seconds for the offsets to be settled"
    assert "continuing from the offsets topic" in " ".join(capfd.readouterr().err.split())
    # What was pending is gone; nothing of it has moved anything.
    with counting(kafka, name, tmp_path) as app:
        until_consumed(app)
    assert counts(kafka, name) == list(range(1, 16))


def test_without_an_offset_row_the_error_names_the_next_step(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    for topic in ("in", "out"):
        kafka.create(f"{name}-{topic}")
    kafka.write(f"{name}-in", ["word"])
    with pending(kafka, name, {0: 1}):
        app = counting(kafka, name, tmp_path)
        with pytest.raises(sf.BrokerUnavailableError, match=f"holds an offset of {name}-in-0 pending") as raised:
            app.run()
        assert PENDING in str(raised.value)
    with counting(kafka, name, tmp_path) as app:
        until_consumed(app)
    assert counts(kafka, name) == [1]
