"""The streaming twin of a word count is killed between a write and its commit, and continues from the checkpoint."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

from broker.kafka_broker import KafkaBroker
from counting import by_hand, lines
from topics import KafkaTopics

from stoatflow.spark.twin.once import Once

PROGRAM = Path(__file__).with_name("spark_stream.py")
LINES = 600


def run(cluster: KafkaBroker, name: str, checkpoint: Path, *last: str) -> subprocess.CompletedProcess[str]:
    """Run the program in its own process group, which it kills as a whole."""
    command = [sys.executable, str(PROGRAM), cluster.bootstrap, name, str(checkpoint), *last]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, start_new_session=True)


def test_a_killed_word_count_goes_on_and_its_table_is_exact(
    cluster: KafkaBroker, kafka: KafkaTopics, name: str, tmp_path: Path
) -> None:
    for topic in ("in", "out"):
        kafka.create(f"{name}-{topic}", 2)
    given = lines(3, LINES)
    kafka.write(f"{name}-in", given[: LINES // 2])
    killed = run(cluster, name, tmp_path / "checkpoint", "1")
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-4000:]
    before = kafka.count(f"{name}-out")
    kafka.write(f"{name}-in", given[LINES // 2 :])
    ended = run(cluster, name, tmp_path / "checkpoint")
    assert ended.returncode == 0, ended.stderr[-4000:]
    # Trigger 0 was committed before the kill; 1 ran again.
    assert json.loads(ended.stdout.splitlines()[-1])[0] == 1
    rows = kafka.read(f"{name}-out")
    expected = by_hand(given)
    assert len(rows) > sum(expected.values()) > before
    readers = {partition: Once() for partition in range(2)}
    new = [row for row in rows if readers[row.partition].is_new(row.headers)]
    found: dict[str, list[int]] = {}
    for row in new:
        assert row.key is not None
        assert row.value is not None
        found.setdefault(row.key.decode(), []).append(int.from_bytes(row.value, "big"))
    # Each update once and in order; so the table is exact too.
    assert {word: counts for word, counts in found.items() if counts != list(range(1, expected[word] + 1))} == {}
    assert Counter({word: counts[-1] for word, counts in found.items()}) == expected
