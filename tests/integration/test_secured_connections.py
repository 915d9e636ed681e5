"""Connections to a secured cluster over time: sessions that end, replicas nearby, workers."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest
from broker.cluster import KafkaCluster
from counting import until
from processes import Process
from topics import KafkaTopics

import stoatflow as sf

HERE = Path(__file__).parent
pytestmark = pytest.mark.xdist_group("secured")


def copying(client: dict[str, str], name: str, state: Path) -> Process:
    """The application, with what its Kafka client logs."""
    config = {"application.id": name, "state.dir": str(state), **client}
    return Process([HERE / "copying.py", json.dumps(config)], {"RUST_LOG": "warn,stoatflow::kafka=debug"})


def copied(kafka: KafkaTopics, name: str) -> list[bytes | None]:
    """The values that came out."""
    return [row.value for row in kafka.read(f"{name}-out")]


def test_a_session_is_renewed_before_the_broker_ends_it(name: str, tmp_path: Path) -> None:
    lifetime_s, rounds = 2, 8
    with KafkaCluster(nodes=1, settings={"connections.max.reauth.ms": str(lifetime_s * 1000)}) as cluster:
        for topic in ("in", "out"):
            cluster.create_topic(f"{name}-{topic}")
        kafka = KafkaTopics(cluster.bootstrap())
        with copying(cluster.client("SASL_SSL_SCRAM"), name, tmp_path) as running:
            running.until(lambda: "RUNNING" in running.lines, "it runs")
            for number in range(rounds):
                kafka.write(f"{name}-in", [str(number)])
                until(lambda number=number: kafka.count(f"{name}-out") > number, "the record is copied", 20)  # type: ignore[misc]
                time.sleep(1)
            running.signal(signal.SIGTERM)
            assert running.wait() == 0, running.told()
            said = running.errors
        assert copied(kafka, name) == [str(number).encode() for number in range(rounds)]
    assert "authenticated again" in said, said
    assert "no connection" not in said, said


def test_the_replica_of_the_own_rack_is_read(secured: KafkaCluster, name: str, tmp_path: Path) -> None:
    for topic in ("in", "out"):
        secured.create_topic(f"{name}-{topic}")
    secured.wait_until_in_sync(f"{name}-in")
    leader = secured.leader(f"{name}-in")
    nearby = next(node for node in secured.nodes if node != leader)
    kafka = KafkaTopics(secured.bootstrap())
    given = [str(number) for number in range(100)]
    with copying({**secured.client("SASL_SSL_SCRAM"), "client.rack": f"rack-{nearby}"}, name, tmp_path) as running:
        running.until(lambda: "RUNNING" in running.lines, "it runs")
        kafka.write(f"{name}-in", given)
        until(lambda: kafka.count(f"{name}-out") == len(given), "all is copied", 30)
        running.signal(signal.SIGTERM)
        assert running.wait() == 0, running.told()
        said = running.errors
    assert copied(kafka, name) == [value.encode() for value in given]
    assert f"read from the replica on broker {nearby}" in said, said


def test_a_worker_answers_through_sasl(secured: KafkaCluster, name: str, tmp_path: Path) -> None:
    for topic in ("in", "asked", "answered", "out"):
        secured.create_topic(f"{name}-{topic}")
    asked, answered = f"{name}-asked", f"{name}-answered"
    builder = sf.StreamsBuilder()
    builder.stream(f"{name}-in", key=str, value=str).offload(
        asked, answered, joiner=lambda _, answer: answer, response_value=str, name="upper"
    ).to(f"{name}-out", key=str, value=str)
    client = secured.client("SASL_SSL_SCRAM")
    given = [f"value {number}" for number in range(200)]
    kafka = KafkaTopics(secured.bootstrap())
    worker = sf.Worker(str.upper, requests=asked, responses=answered, config=client, value=str, answer=str)
    with sf.StoatFlow(builder.build(), {"application.id": name, "state.dir": tmp_path, **client}), worker:
        kafka.write(f"{name}-in", given, key="k")
        until(lambda: kafka.count(f"{name}-out") == len(given), "all are answered", 60)
    assert copied(kafka, name) == [value.upper().encode() for value in given]
