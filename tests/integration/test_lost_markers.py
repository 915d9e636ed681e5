"""Kafka 4.4.0 drops the markers of partitions without a leader; a start of the application writes them.

A broker that has the only replica of some partitions is killed. Meanwhile a transaction ends, and its coordinator, on
another broker, drops the markers for those partitions. When the broker comes back, the transaction is open there for
good.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from broker.cluster import Coordinator, KafkaCluster
from broker.listeners import DENIED
from broker.wire_admin import Operation, Resource
from counting import check_every_update, lines, make, until, until_consumed
from processes import Process, word_count
from topics import KafkaTopics

PARTITIONS = 6
TIMEOUT_MS = 12_000
OWN = (Operation.DESCRIBE_CONFIGS, Operation.READ, Operation.WRITE, Operation.CREATE)

pytestmark = [pytest.mark.xdist_group("secured")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    """Three brokers that look for transactions that have timed out every second."""
    often = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000"}
    with KafkaCluster(version="4.4.0", settings=often) as cluster:
        yield cluster


def begun(cluster: KafkaCluster, name: str, state: Path, count: int) -> list[str]:
    """An application that has counted some lines, into topics with one replica."""
    cluster.create_topic(f"{name}-in", PARTITIONS)
    cluster.create_topic(f"{name}-out", PARTITIONS, replicas=1)
    given = lines(1, count)
    KafkaTopics(cluster.bootstrap()).write(f"{name}-in", given)
    with make(cluster.bootstrap(), name, state, replication_factor=1) as app:
        until_consumed(app)
    return given


def without_coordinator(cluster: KafkaCluster, name: str) -> int:
    """A node that coordinates neither of the application's transactional ids."""
    busy = {cluster.coordinator(Coordinator.TRANSACTIONS, each) for each in (name, f"{name}~2")}
    return next(node for node in cluster.nodes if node not in busy)


def is_open(kafka: KafkaTopics, topic: str) -> bool:
    """Whether a transaction is open in one of the partitions."""
    return kafka.ends(topic, "read_committed") != kafka.ends(topic)


def check_hangs(kafka: KafkaTopics, topic: str) -> None:
    """A transaction stays open in some partition."""
    for _ in range(10):
        assert is_open(kafka, topic), "the broker has lost no marker"
        time.sleep(0.3)


def as_user(cluster: KafkaCluster, name: str) -> dict[str, str]:
    """The environment of an application whose user has the permissions of the page, and none on the cluster."""
    cluster.grant(DENIED, Resource.TOPIC, f"{name}-", *OWN, prefixed=True)
    cluster.grant(DENIED, Resource.GROUP, name, Operation.READ)
    cluster.grant(DENIED, Resource.TRANSACTIONAL_ID, name, Operation.WRITE, prefixed=True)
    settings = {**cluster.client("SASL_SSL_SCRAM", DENIED), "replication.factor": "1"}
    return {f"STOATFLOW_{key.replace('.', '_').upper()}": value for key, value in settings.items()}


def start(cluster: KafkaCluster, name: str, state: Path, environ: Mapping[str, str]) -> tuple[int, str]:
    """A life that ends when it has counted everything: its exit code and what it said."""
    address = cluster.bootstrap("SASL_SSL_SCRAM")
    with Process(word_count(address, name, state), environ) as child:
        return child.wait(), " ".join(child.errors.split())


def check_is_ended(said: str, kafka: KafkaTopics, name: str, given: list[str], outcome: str) -> None:
    """The start has written the markers, and every update is there once."""
    assert "a transaction of this application was still open" in said
    assert f'"outcome":"{outcome}"' in said
    assert not is_open(kafka, f"{name}-out")
    check_every_update(kafka.read(f"{name}-out"), given)


def life(
    cluster: KafkaCluster, name: str, state: Path, environ: Mapping[str, str], failpoints: str, timeout_ms: int
) -> Process:
    """A life of the application that a failpoint kills."""
    more = {
        "STOATFLOW_FAILPOINTS": failpoints,
        "STOATFLOW_IN_FLIGHT_MAX_BYTES": "64KiB",
        "STOATFLOW_COMMIT_MIN_INTERVAL_MS": "1",
        "STOATFLOW_TRANSACTION_TIMEOUT_MS": str(timeout_ms),
    }
    address = cluster.bootstrap("SASL_SSL_SCRAM")
    return Process(word_count(address, name, state, "--follow"), {**environ, **more})


@pytest.mark.long
def test_what_was_aborted_stays_invisible(cluster: KafkaCluster, name: str, tmp_path: Path) -> None:
    given, environ = begun(cluster, name, tmp_path, 500), as_user(cluster, name)
    cluster.grant(DENIED, Resource.CLUSTER, "kafka-cluster", Operation.ALTER)
    kafka = KafkaTopics(cluster.bootstrap())
    more = lines(2, 500)
    kafka.write(f"{name}-in", more)
    with life(cluster, name, tmp_path, environ, "commit.before-commit=kill@2", TIMEOUT_MS) as child:
        assert child.wait() < 0, child.reported()
        died = time.monotonic()
    assert is_open(kafka, f"{name}-out")
    node = without_coordinator(cluster, name)
    cluster.kill(node)
    cluster.wait_until_missed(node)
    time.sleep(max(0.0, died + TIMEOUT_MS / 1000 + 4 - time.monotonic()))
    cluster.start(node)
    check_hangs(kafka, f"{name}-out")
    code, said = start(cluster, name, tmp_path, environ)
    cluster.revoke(DENIED, Resource.CLUSTER, "kafka-cluster", Operation.ALTER)
    assert code == 0, said
    check_is_ended(said, kafka, name, given + more, "Aborted")


def test_what_was_committed_becomes_visible(cluster: KafkaCluster, name: str, tmp_path: Path) -> None:
    given, environ = begun(cluster, name, tmp_path, 500), as_user(cluster, name)
    kafka = KafkaTopics(cluster.bootstrap())
    more = lines(2, 500)
    kafka.write(f"{name}-in", more)
    before = kafka.ends(f"{name}-out")
    # The broker is gone when the coordinator is asked to commit.
    failpoints = "commit.before-commit=sleep:15000@2,commit.before-apply=kill@2"
    with life(cluster, name, tmp_path, environ, failpoints, 120_000) as child:
        until(lambda: kafka.ends(f"{name}-out") != before and is_open(kafka, f"{name}-out"), "it writes")
        time.sleep(1.0)
        node = without_coordinator(cluster, name)
        cluster.kill(node)
        cluster.wait_until_missed(node)
        assert child.wait() < 0, child.reported()
    cluster.start(node)
    check_hangs(kafka, f"{name}-out")
    # Refused before the coordinator forgets how it has ended.
    code, said = start(cluster, name, tmp_path, environ)
    assert code != 0
    assert "grant this user Alter on the cluster" in said
    cluster.grant(DENIED, Resource.CLUSTER, "kafka-cluster", Operation.ALTER)
    code, said = start(cluster, name, tmp_path, environ)
    cluster.revoke(DENIED, Resource.CLUSTER, "kafka-cluster", Operation.ALTER)
    assert code == 0, said
    check_is_ended(said, kafka, name, given + more, "Committed")
