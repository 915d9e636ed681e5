"""Scheduled sources on a real broker: an application without input, or with a silent one, that is killed."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest
from processes import Process
from topics import KafkaTopics

EVERY = 20
APPLICATION = """
import sys
import stoatflow as sf

builder = sf.StreamsBuilder()
ticks = builder.scheduled("tick", every="20ms", catch_up="all", max_catch_up=1_000_000)
ticks.to(f"{sys.argv[2]}-out", key=str, value=int)
ticks.group_by_key().count(store="ticks").to_stream().to(f"{sys.argv[2]}-counts", key=str, value=int)
for topic in sys.argv[6:]:
    builder.stream(topic).foreach(print)
app = sf.StoatFlow(builder.build(), {
    "bootstrap.servers": sys.argv[1], "application.id": sys.argv[2], "state.dir": sys.argv[3], "lanes.count": 3,
    "processing.guarantee": sys.argv[4], "statestore.cache.max.bytes": 0, "replication.factor": 1,
})
with app:
    app.wait(float(sys.argv[5]))
"""


def numbers(kafka: KafkaTopics, topic: str) -> list[int]:
    """The numbers in a topic of one partition."""
    return [int.from_bytes(row.value or b"", "big") for row in kafka.read(topic)]


@pytest.mark.broker
@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_ticks_survive_kills(kafka: KafkaTopics, name: str, tmp_path: Path, guarantee: str) -> None:
    chance = random.Random(guarantee)  # when it is killed
    for topic in ("out", "counts", "in"):
        kafka.create(f"{name}-{topic}")
    reads = [f"{name}-in"] if guarantee == "at_least_once" else []

    def life(seconds: float) -> Process:
        return Process(["-c", APPLICATION, kafka.address, name, tmp_path / "state", guarantee, seconds, *reads])

    for _ in range(5):
        before = kafka.count(f"{name}-out")
        with life(60) as child:
            child.until(lambda before=before: kafka.count(f"{name}-out") > before, "it ticks")  # type: ignore[misc]
            time.sleep(chance.random() / 2)
            child.signal(signal.SIGKILL)
            child.wait()
    with life(1) as child:
        assert child.wait() == 0, child.reported()
    ticks = numbers(kafka, f"{name}-out")
    if guarantee == "at_least_once":
        ticks = sorted(set(ticks))
    else:
        assert numbers(kafka, f"{name}-counts") == list(range(1, len(ticks) + 1))
    assert len(ticks) > 100
    assert ticks == list(range(ticks[0], ticks[-1] + 1, EVERY))


@pytest.mark.broker
def test_at_least_once_refuses_a_topology_without_sources(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    for topic in ("out", "counts"):
        kafka.create(f"{name}-{topic}")
    with Process(["-c", APPLICATION, kafka.address, name, tmp_path / "state", "at_least_once", 60]) as child:
        assert child.wait() != 0
        assert "an application that reads no topic can't prove" in child.errors
        assert "exactly_once_v2" in child.errors
    assert numbers(kafka, f"{name}-out") == []
