"""Watermarks on a real broker: windows over unequal partitions, with kills, each emitted once and complete."""

from __future__ import annotations

import random
import signal
import struct
import time
from collections import Counter
from pathlib import Path

from confluent_kafka import Producer
from processes import Process
from topics import PATIENCE_S, KafkaTopics

PARTITIONS, KILLS, LUMP = 3, 6, 1_500
SIZE_MS, DISORDER_MS = 10_000, 4_000
START, STEP_MS = 1_700_000_000_000, 40
APPLICATION = """
import sys
import stoatflow as sf

address, name, state, lanes = sys.argv[1:]
builder = sf.StreamsBuilder()
records = builder.stream(f"{name}-in", key=str, value=str, watermark=sf.Watermark.bounded("4s"))
windows = records.group_by_key().windowed_by(sf.TimeWindows("10s", grace="0s"))
final = windows.count(store=sf.Materialized("counts", retention="1h"))
final.suppress(sf.Suppressed.until_window_closes(), name="final").to_stream().to(f"{name}-suppressed")
closed = windows.emit_strategy(sf.EmitStrategy.on_window_close()).count(store="closed")
closed.to_stream().to(f"{name}-closed")
app = sf.StoatFlow(builder.build(), {
    "bootstrap.servers": address, "application.id": name, "state.dir": state, "lanes.count": lanes,
    "time.semantics": "watermark", "emit.interval.ms.kstreams.windowed.aggregation": 0,
})
app.run()
"""


def window_counts(kafka: KafkaTopics, topic: str) -> Counter[tuple[bytes, int, int]]:
    """Key, window start and count, with their number of occurrences."""
    rows = ((row.key or b"", row.value or b"") for row in kafka.read(topic))
    return Counter((key[:-8], struct.unpack(">q", key[-8:])[0], struct.unpack(">q", value)[0]) for key, value in rows)


def test_windows_close_once_and_whole_over_kills(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    """By the minimum of all partitions: one of them is minutes behind the others, and none of its records is late."""
    for topic, partitions in (("in", PARTITIONS), ("suppressed", 2), ("closed", 2)):
        kafka.create(f"{name}-{topic}", partitions)
    chance = random.Random(11)
    producer = Producer({"bootstrap.servers": kafka.address, "acks": "all", "log_level": 0})
    wanted: Counter[tuple[bytes, int]] = Counter()

    def give(key: bytes, partition: int, at: int) -> None:
        producer.produce(f"{name}-in", b"x", key, partition, timestamp=at)
        wanted[key, at // SIZE_MS * SIZE_MS] += 1

    now = [START, START, START - 5 * 60_000]
    for kill in range(KILLS + 1):
        for _ in range(LUMP):
            partition = chance.randrange(PARTITIONS)
            now[partition] += STEP_MS
            give(b"k%d" % chance.randrange(9), partition, now[partition] - chance.randrange(DISORDER_MS))
        if kill == KILLS:
            for partition in range(PARTITIONS):
                producer.produce(f"{name}-in", b"x", b"last", partition, timestamp=START + 3_600_000)
        assert producer.flush(PATIENCE_S) == 0
        read = f"{name}-in"
        # Read before it starts: a fast application has committed everything before a second look.
        before = kafka.committed(name, read, "read_uncommitted")
        with Process(["-c", APPLICATION, kafka.address, name, tmp_path / "state", 1 + kill % 4]) as child:
            ends = kafka.ends(read)
            if kill == KILLS:
                child.until(lambda: kafka.committed(name, read) == ends, "all of it is read")  # noqa: B023
                child.signal(signal.SIGTERM)
                assert child.wait() == 0, child.reported()
            else:
                child.until(lambda: kafka.committed(name, read) != before, "it commits")  # noqa: B023
                time.sleep(chance.random() * 0.3)
                child.signal(signal.SIGKILL)
                child.wait()
    expected = Counter((*window, count) for window, count in wanted.items())
    assert window_counts(kafka, f"{name}-suppressed") == expected
    assert window_counts(kafka, f"{name}-closed") == expected
    assert len(expected) > 250
