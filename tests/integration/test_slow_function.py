"""A slow function: epochs stay shorter than the broker's transaction timeout."""

from __future__ import annotations

import time
from pathlib import Path

from counting import until
from topics import KafkaTopics

import stoatflow as sf

RECORDS, SECONDS_EACH, PATIENCE_MS = 800, 0.02, 10_000


def test_work_beyond_the_transaction_timeout_is_committed_in_parts(
    kafka: KafkaTopics, name: str, tmp_path: Path
) -> None:
    for topic in ("in", "out"):
        kafka.create(f"{name}-{topic}", 1)
    kafka.write(f"{name}-in", [f"line {number}" for number in range(RECORDS)])
    assert RECORDS * SECONDS_EACH * 1_000 > 1.5 * PATIENCE_MS, "one epoch would be too long"

    def slow(value: str) -> str:
        time.sleep(SECONDS_EACH)
        return value

    builder = sf.StreamsBuilder()
    builder.stream(f"{name}-in", key=bytes, value=str).map_values(slow).to(f"{name}-out", key=bytes, value=str)
    config = {
        "application.id": name,
        "bootstrap.servers": kafka.address,
        "state.dir": str(tmp_path),
        "lanes.count": 1,
        "transaction.timeout.ms": PATIENCE_MS,
        "commit.timeout.ms": 60_000,
    }
    with sf.StoatFlow(builder.build(), config) as app:
        until(lambda: kafka.count(f"{name}-out") >= RECORDS, "all is written", 120)
        assert app.metrics()["restarts"] == 0
    values = [row.value for row in kafka.read(f"{name}-out")]
    assert values == [f"line {number}".encode() for number in range(RECORDS)]
