"""Async functions on a real broker: thousands of concurrent calls, exactly once despite kills."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from calls import SLOW, Probe, admin_url, child, create, kill_and_finish, rate, write, written
from counting import until
from topics import KafkaTopics


@pytest.mark.alone
def test_two_thousand_calls_at_a_time(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    """At least 8,000 records a second with calls of 200 ms; the ceiling of 2,000 calls is 10,000."""
    records = 80_000
    create(kafka, name)
    write(kafka, name, records, [f"k{number}" for number in range(20_000)])
    with child(kafka, name, tmp_path, "async", 8, 0.2) as running:
        with Probe(admin_url(running)) as probe:
            per_second = rate(kafka, name, running, 0.2, records)
        running.signal(signal.SIGTERM)
        assert running.wait() == 0, running.reported()
    print(f"\n{per_second:.0f} records/s with 2,000 calls of 200 ms; {probe.words}")  # noqa: T201  # a figure
    assert per_second >= 8_000


def test_calls_under_way_and_five_kills(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    create(kafka, name)
    records = 12_000
    write(kafka, name, records, [f"k{number}" for number in range(300)])
    kill_and_finish(kafka, name, tmp_path, "async", 6, records, 11)


def test_at_least_once_no_kill_loses_a_parked_record(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    """A parked record is committed as read: only its row brings it back, until its result has arrived."""
    create(kafka, name)
    records, topic = 12_000, f"{name}-out"

    def arrived() -> int:
        return len({row.value for row in kafka.read(topic)})

    write(kafka, name, records, [f"k{number}" for number in range(300)])
    for lanes in (6, 2, 6):
        with child(kafka, name, tmp_path, "async", lanes, SLOW, "at_least_once") as running:
            goal = written(kafka, topic) + 600
            running.until(lambda goal=goal: written(kafka, topic) >= goal, "it is at work")  # type: ignore[misc]
            running.signal(signal.SIGKILL)
            running.wait()
    assert arrived() < records, "the kills came too late"
    with child(kafka, name, tmp_path, "async", 6, 0.02, "at_least_once") as running:
        until(lambda: arrived() == records, "each is there", 120)
        running.signal(signal.SIGTERM)
        assert running.wait() == 0, running.reported()
