"""Where a source starts without a committed offset, on real Kafka."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from counting import consume, until, until_running
from topics import KafkaTopics

import stoatflow as sf
from stoatflow.materialized import Reset

MINUTE_MS = 60_000
# The ages of the records, in the order of their offsets, which is not the order of their timestamps.
AGES = {"two hours": 120, "now": 0, "half an hour": 30}


def app(kafka: KafkaTopics, name: str, state: Path, reset: Reset) -> sf.StoatFlow:
    builder = sf.StreamsBuilder()
    builder.stream(f"{name}-in", key=str, value=str, reset=reset).to(f"{name}-out")
    config = {"application.id": name, "bootstrap.servers": kafka.address, "state.dir": state, "lanes.count": 2}
    return sf.StoatFlow(builder.build(), config)


def given(kafka: KafkaTopics, name: str) -> None:
    """Records of some ages in each of two partitions."""
    for topic in (f"{name}-in", f"{name}-out"):
        kafka.create(topic, 2)
    producer = Producer({"bootstrap.servers": kafka.address, "log_level": 0})
    now = time.time_ns() // 1_000_000
    for partition in range(2):
        for value, minutes in AGES.items():
            at = now - minutes * MINUTE_MS
            producer.produce(f"{name}-in", value=value, key="k", partition=partition, timestamp=at)
    assert producer.flush(30) == 0


def values(kafka: KafkaTopics, name: str) -> list[str]:
    return sorted(row.value.decode() for row in kafka.read(f"{name}-out") if row.value is not None)


@pytest.mark.parametrize(
    ("reset", "expected"),
    [
        ("earliest", list(AGES)),
        ("latest", []),
        (sf.OffsetReset.by_duration("1h"), ["now", "half an hour"]),
        (sf.OffsetReset.by_duration("30d"), list(AGES)),
        (sf.OffsetReset.by_duration("0s"), []),
    ],
)
def test_a_source_starts_at_its_offset_reset(
    kafka: KafkaTopics, name: str, tmp_path: Path, reset: Reset, expected: list[str]
) -> None:
    given(kafka, name)
    with app(kafka, name, tmp_path, reset) as running:
        until_running(running)
        kafka.write(f"{name}-in", ["later"], key="k")
        until(lambda: "later" in values(kafka, name), "the new record comes out")
    assert values(kafka, name) == sorted([*expected * 2, "later"])


def test_none_needs_a_committed_position(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    given(kafka, name)
    with pytest.raises(sf.ConfigError, match=f"topic '{name}-in'") as caught:
        app(kafka, name, tmp_path, "none").run()
    assert "--reset-offsets" in caught.value.next_step
    consume(app(kafka, name, tmp_path, "earliest"))
    kafka.write(f"{name}-in", ["later"], key="k")
    consume(app(kafka, name, tmp_path, "none"))
    assert values(kafka, name) == sorted([*list(AGES) * 2, "later"])
