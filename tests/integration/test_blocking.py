"""Functions that block in hundreds of lanes: a lane costs a thread, and nobody else waits for it."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from calls import Probe, admin_url, child, create, even_keys, kill_and_finish, write, written
from topics import KafkaTopics

LANES, SECONDS = 256, 0.2


@pytest.mark.alone
def test_256_lanes_that_block(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    """At least 1,000 records a second with calls of 200 ms; the ceiling of 256 lanes is 1,280.

    Every lane has as many keys: with few keys that fall by chance the fullest lane decides instead.
    """
    records = 12_000
    create(kafka, name)
    write(kafka, name, records, even_keys(LANES, 4))
    with child(kafka, name, tmp_path, "blocking", LANES, SECONDS) as running:
        with Probe(admin_url(running)) as probe:
            began = time.monotonic()
            running.until(lambda: written(kafka, f"{name}-out") >= records, "all is written", 60)
            # From the start to the end: commits are seconds apart here, so no part of it would be a fair one.
            per_second = records / (time.monotonic() - began)
        running.signal(signal.SIGTERM)
        assert running.wait() == 0, running.reported()
    print(f"\n{per_second:.0f} records/s with {LANES} lanes that block {SECONDS * 1000:.0f} ms; {probe.words}")  # noqa: T201  # a figure
    assert per_second >= 1_000
    assert sorted(probe.took_ms)[len(probe.took_ms) * 99 // 100] < 50


@pytest.mark.long
def test_blocked_lanes_and_five_kills(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    create(kafka, name)
    records = 4_000
    write(kafka, name, records, [f"k{number}" for number in range(400)])
    kill_and_finish(kafka, name, tmp_path, "blocking", 128, records, 7)
