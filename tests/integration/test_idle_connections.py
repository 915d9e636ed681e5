"""A broker closes idle connections (`connections.max.idle.ms`): the application opens them again, and loses nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker.kafka_broker import KafkaBroker
from counting import by_hand, check_every_update, lines, make, table, until_consumed, until_running
from topics import KafkaTopics

IDLE_MS = 2000
ESTABLISHED = "01"


@pytest.fixture(scope="module")
def impatient() -> Iterator[KafkaBroker]:
    """A broker that closes a connection after two seconds without a request."""
    with KafkaBroker(settings={"connections.max.idle.ms": str(IDLE_MS)}) as running:
        yield running


def connections(port: int) -> set[str]:
    """The established connections of this machine to a port on loopback, by their own addresses."""
    rows = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    return {row[1] for row in rows if row[2].endswith(f":{port:04X}") and row[3] == ESTABLISHED}


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_connections_that_the_broker_closes_are_opened_again(
    impatient: KafkaBroker, name: str, tmp_path: Path, guarantee: str
) -> None:
    kafka = KafkaTopics(impatient.bootstrap)
    for topic in (f"{name}-in", f"{name}-out"):
        kafka.create(topic, 3)
    first, second = lines(1, 300), lines(2, 300)
    kafka.write(f"{name}-in", first)
    with make(impatient.bootstrap, name, tmp_path, processing_guarantee=guarantee) as app:
        until_running(app)
        until_consumed(app)
        port = int(impatient.bootstrap.rpartition(":")[2])
        before = connections(port)
        time.sleep(3 * IDLE_MS / 1000)
        assert before - connections(port), "the broker has closed none"
        kafka.write(f"{name}-in", second)
        until_consumed(app)
        assert app.metrics()["restarts"] == 0
    check_every_update(kafka.read(f"{name}-out"), first + second)
    assert table(kafka.read(f"{name}-counts-changelog")) == by_hand(first + second)
