"""Async functions on a real broker: thousands of calls at a time, exactly once through kills."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from calls import Probe, admin_url, child, create, kill_and_finish, rate, write
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
        assert running.wait() == 0, running.told()
    print(f"\n{per_second:.0f} records/s with 2,000 calls of 200 ms; {probe.words}")  # noqa: T201  # a figure
    assert per_second >= 8_000


def test_calls_under_way_and_five_kills(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    create(kafka, name)
    records = 12_000
    write(kafka, name, records, [f"k{number}" for number in range(300)])
    kill_and_finish(kafka, name, tmp_path, "async", 6, 0.05, records, 11)
