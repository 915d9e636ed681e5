"""Word count on three brokers, of which one at a time goes away: it goes on, and every update is there once."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from broker.cluster import KafkaCluster
from counting import by_hand, check_every_update, lines, make, table, until_running
from topics import KafkaTopics

import stoatflow as sf

PARTITIONS = 4
# The coordinator of a transaction asks a broker that doesn't answer again only after 30 seconds.
PATIENCE_S = 150.0

pytestmark = pytest.mark.xdist_group("secured")


def until_committed(app: sf.StoatFlow, kafka: KafkaTopics, name: str) -> None:
    """All of the input is: asked beside the engine, whose own clients may be connecting."""
    began = time.monotonic()
    while kafka.committed(name, f"{name}-in") != kafka.ends(f"{name}-in"):
        assert not app.wait(0.2), "the engine ended by itself"
        assert time.monotonic() - began < PATIENCE_S, f"not consumed within {PATIENCE_S} s: {app.metrics()}"


def until_ended(kafka: KafkaTopics, topic: str) -> None:
    """No transaction is open: one that hangs would hide what comes behind it from all readers."""
    began = time.monotonic()
    while kafka.ends(topic, "read_committed") != (ends := kafka.ends(topic)):
        assert time.monotonic() - began < PATIENCE_S, f"a transaction is open in {topic}, which ends at {ends}"
        time.sleep(0.2)


def check_goes_on(
    secured: KafkaCluster, name: str, state: Path, down: Callable[[int], None], up: Callable[[int], None], times: int
) -> None:
    """Count, also while a broker is down: so many times that which leads a partition of the input."""
    for topic in (f"{name}-in", f"{name}-out"):
        secured.create_topic(topic, PARTITIONS)
    given = lines(1, 500)
    KafkaTopics(secured.bootstrap()).write(f"{name}-in", given)
    with make(secured.bootstrap(), name, state) as app:
        until_running(app)
        for seed in range(times):
            more = lines(10 + seed, 500)
            given += more
            leader = secured.leader(f"{name}-in", seed)
            # New clients, which don't know the broker that is gone: they would wait for it.
            others = secured.bootstrap(without=leader)
            KafkaTopics(others).write(f"{name}-in", more[:250])
            down(leader)
            try:
                KafkaTopics(others).write(f"{name}-in", more[250:])
                until_committed(app, KafkaTopics(others), name)
            finally:
                up(leader)
            secured.wait_until_in_sync(f"{name}-in")
            secured.wait_until_in_sync(f"{name}-counts-changelog")
    kafka = KafkaTopics(secured.bootstrap())
    for topic in (f"{name}-out", f"{name}-counts-changelog"):
        until_ended(kafka, topic)
    check_every_update(kafka.read(f"{name}-out"), given)
    assert table(kafka.read(f"{name}-counts-changelog")) == by_hand(given)


def test_brokers_are_killed(secured: KafkaCluster, name: str, tmp_path: Path) -> None:
    check_goes_on(secured, name, tmp_path, secured.kill, secured.start, times=2)


def test_a_broker_does_not_answer(secured: KafkaCluster, name: str, tmp_path: Path) -> None:
    def down(node: int) -> None:
        secured.pause(node)
        secured.wait_until_missed(node)

    check_goes_on(secured, name, tmp_path, down, secured.resume, times=1)


def test_brokers_are_restarted_in_turn(secured: KafkaCluster, name: str, tmp_path: Path) -> None:
    check_goes_on(secured, name, tmp_path, secured.restart, lambda _: None, times=3)
