"""Word count on three brokers, of which one at a time goes away: it goes on, and every update is there once."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from broker.cluster import Coordinator, KafkaCluster
from broker.kafka_since import UNCLEAN_ELECTIONS
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from counting import PATIENCE_S as SOON_S
from counting import by_hand, check_every_update, consume, lines, make, table, until, until_running
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
            # A node that was held up for three seconds leads nothing for a moment.
            until(lambda seed=seed: secured.leader(f"{name}-in", seed) >= 0, "it has a leader")  # type: ignore[misc]
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


@pytest.mark.long
def test_brokers_are_restarted_in_turn(secured: KafkaCluster, name: str, tmp_path: Path) -> None:
    check_goes_on(secured, name, tmp_path, secured.restart, lambda _: None, times=3)


@pytest.mark.parametrize("client", [pytest.param("native", marks=pytest.mark.long), "librdkafka"])
def test_the_coordinator_of_the_group_comes_back(secured: KafkaCluster, name: str, tmp_path: Path, client: str) -> None:
    """Questions for the group's members are given up meanwhile. librdkafka's late answers must not hurt (4605)."""
    for topic in (f"{name}-in", f"{name}-out"):
        secured.create_topic(topic, PARTITIONS)
    given = lines(1, 100)
    KafkaTopics(secured.bootstrap()).write(f"{name}-in", given)
    settings = {"kafka.client": client, "metadata.max.age.ms": 300}
    with make(secured.bootstrap(), name, tmp_path, **settings) as app:
        until_running(app)
        until_committed(app, KafkaTopics(secured.bootstrap()), name)
        coordinator = secured.coordinator(Coordinator.GROUP, name)
        # The last one names no other.
        gone = [coordinator, next(node for node in secured.nodes if node != coordinator)]
        for node in gone:
            secured.kill(node)
        try:
            assert not app.wait(6.0), "the engine ended by itself"
        finally:
            for node in gone:
                secured.start(node)
        secured.wait_until_in_sync(f"{name}-in")
        given += (more := lines(2, 100))
        KafkaTopics(secured.bootstrap()).write(f"{name}-in", more)
        until_committed(app, KafkaTopics(secured.bootstrap()), name)
    check_every_update(KafkaTopics(secured.bootstrap()).read(f"{name}-out"), given)


def leader_and_follower(secured: KafkaCluster, topic: str) -> tuple[int, int]:
    """Of a topic with two replicas, once both keep up."""
    until(
        lambda: len(secured.replicas(topic)) == 2 and secured.leader(topic) in secured.replicas(topic), "both keep up"
    )
    leader = secured.leader(topic)
    return leader, next(node for node in secured.replicas(topic) if node != leader)


@UNCLEAN_ELECTIONS
@pytest.mark.long
def test_a_source_lost_records_while_it_was_away(secured: KafkaCluster, name: str, tmp_path: Path) -> None:
    """An unclean leader election takes records that were read, and others take their offsets."""
    topic, out = f"{name}-in", f"{name}-out"
    secured.create_topic(topic, 1, {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}, replicas=2)
    secured.create_topic(out, PARTITIONS)
    kept, lost, new = lines(1, 10), lines(2, 20), lines(3, 40)
    KafkaTopics(secured.bootstrap()).write(topic, kept)
    consume(make(secured.bootstrap(), name, tmp_path))
    leader, follower = leader_and_follower(secured, topic)
    secured.kill(follower)
    secured.wait_until_missed(follower)
    KafkaTopics(secured.bootstrap(without=follower)).write(topic, lost)
    consume(make(secured.bootstrap(without=follower), name, tmp_path))
    secured.kill(leader)
    secured.start(follower)
    try:
        others = secured.bootstrap(without=leader)
        until(lambda: secured.leader(topic) == follower, "the one that lacks records leads", SOON_S)
        KafkaTopics(others).write(topic, new)
        for state in (tmp_path, tmp_path / "elsewhere"):
            with pytest.raises(sf.IncompatibleStateError, match="has lost records since the last commit") as refused:
                make(others, name, state).run()
            assert f"--topic {topic}:0 --reset-offsets --to-offset 10" in str(refused.value)
        # As it says.
        admin = AdminClient({"bootstrap.servers": others, "log_level": 0})
        moved = ConsumerGroupTopicPartitions(name, [TopicPartition(topic, 0, 10)])
        admin.alter_consumer_group_offsets([moved])[name].result(SOON_S)
        consume(make(others, name, tmp_path))
    finally:
        secured.start(leader)
        secured.wait_until_in_sync(out)
    check_every_update(KafkaTopics(secured.bootstrap()).read(out), kept + lost + new)


@UNCLEAN_ELECTIONS
def test_a_changelog_lost_records_while_it_was_away(secured: KafkaCluster, name: str, tmp_path: Path) -> None:
    """An unclean leader election takes updates of the state whose results and positions are committed."""
    changelog, out = f"{name}-counts-changelog", f"{name}-out"
    unclean = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1", "cleanup.policy": "compact"}
    secured.create_topic(changelog, 1, unclean, replicas=2)
    for topic in (f"{name}-in", out):
        secured.create_topic(topic)
    KafkaTopics(secured.bootstrap()).write(f"{name}-in", lines(1, 20))
    consume(make(secured.bootstrap(), name, tmp_path))
    leader, follower = leader_and_follower(secured, changelog)
    secured.kill(follower)
    secured.wait_until_missed(follower)
    KafkaTopics(secured.bootstrap(without=follower)).write(f"{name}-in", lines(2, 20))
    consume(make(secured.bootstrap(without=follower), name, tmp_path))
    ends = KafkaTopics(secured.bootstrap(without=follower)).ends(changelog)
    secured.kill(leader)
    secured.start(follower)
    try:
        others = secured.bootstrap(without=leader)
        until(lambda: secured.leader(changelog) == follower, "the one that lacks records leads", SOON_S)
        assert KafkaTopics(others).ends(changelog)[0] < ends[0]
        for state in (tmp_path, tmp_path / "elsewhere"):
            with pytest.raises(sf.IncompatibleStateError, match=f"the changelog {changelog}-0 has lost records"):
                make(others, name, state).run()
        # As it says: without the lost updates.
        left = table(KafkaTopics(others).read(changelog))
        KafkaTopics(others).delete([f"{name}-offsets"])
        last = lines(3, 20)
        KafkaTopics(others).write(f"{name}-in", last)
        consume(make(others, name, tmp_path / "elsewhere"))
        expected = {word: left.get(word, 0) + count for word, count in by_hand(last).items()}
        found = table(KafkaTopics(others).read(out))
        assert {word: found[word] for word in expected} == expected
    finally:
        secured.start(leader)
        secured.wait_until_in_sync(out)


@UNCLEAN_ELECTIONS
@pytest.mark.parametrize("client", ["native", "librdkafka"])
@pytest.mark.parametrize("guarantee", ["exactly_once_v2", pytest.param("at_least_once", marks=pytest.mark.long)])
def test_a_changelog_loses_records_while_it_runs(
    secured: KafkaCluster, name: str, tmp_path: Path, guarantee: str, client: str
) -> None:
    """Its next records take the offsets of those that are gone: no commit stands on them."""
    changelog, settings = f"{name}-counts-changelog", {"processing_guarantee": guarantee, "kafka_client": client}
    unclean = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1", "cleanup.policy": "compact"}
    secured.create_topic(changelog, 1, unclean, replicas=2)
    for topic in (f"{name}-in", f"{name}-out"):
        secured.create_topic(topic)
    leader, follower = leader_and_follower(secured, changelog)
    secured.kill(follower)
    secured.wait_until_missed(follower)
    before = KafkaTopics(secured.bootstrap(without=follower))
    before.write(f"{name}-in", lines(1, 20))
    others = secured.bootstrap(without=leader)
    consume(make(secured.bootstrap(without=follower), name, tmp_path, **settings))
    # What this run knows of the changelog's end it was told at its start.
    app = make(secured.bootstrap(without=follower), name, tmp_path, **settings)
    try:
        with pytest.raises(sf.IncompatibleStateError, match=f"{changelog}-0 has lost records"), app:  # noqa: PT012 (one moment of its life)
            until_running(app)
            ends = before.ends(changelog)
            secured.kill(leader)
            secured.start(follower)
            until(lambda: secured.leader(changelog) == follower, "the one that lacks records leads", SOON_S)
            KafkaTopics(others).write(f"{name}-in", lines(2, 200))
            until(lambda: app.wait(0.2), "it ends", SOON_S)
        # What was appended since ends behind what was noted.
        assert KafkaTopics(others).ends(changelog)[0] > ends[0]
        with pytest.raises(sf.IncompatibleStateError, match=f"{changelog}-0 has lost records, as a run"):
            make(others, name, tmp_path / "elsewhere", **settings).run()
    finally:
        secured.start(leader)
        secured.wait_until_in_sync(f"{name}-out")
