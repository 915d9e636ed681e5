"""A cluster becomes a newer version of Kafka, broker by broker, under an application that counts words.

Then the features are upgraded: transactions get an epoch each (KIP-890) under producers that are at work.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker.cluster import KafkaCluster
from confluent_kafka import KafkaError, Message, Producer
from counting import check_every_update, check_nothing_lost, lines, make, table, until, until_running
from topics import KafkaTopics
from transactions import CONTROL, Batch, batches_of

import stoatflow as sf

OLD, NEW = "3.9.1", "4.4.0"
PARTITIONS = 4
EVERY_S = 0.01
TRANSACTIONS = 20
# The coordinator of a transaction asks a broker that doesn't answer again only after 30 seconds.
PATIENCE_S = 150.0

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("secured")]


class Work:
    """An application at work, and what it was given."""

    def __init__(self, cluster: KafkaCluster, name: str) -> None:
        self._cluster, self._name = cluster, name
        self.kafka = KafkaTopics(cluster.bootstrap())
        self._addresses = cluster.bootstrap().split(",")
        self.given: list[str] = []

    @contextlib.contextmanager
    def steady_input(self) -> Iterator[None]:
        """A line every few milliseconds, whatever the brokers do."""
        over, lost = threading.Event(), list[str]()
        producer = Producer(
            {"bootstrap.servers": self._cluster.bootstrap(), "enable.idempotence": True, "log_level": 0}
        )

        def note(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                lost.append(f"{message.value()!r}: {error}")

        def write() -> None:
            while not over.wait(EVERY_S):
                (line,) = lines(len(self.given), 1)
                producer.produce(f"{self._name}-in", line.encode(), on_delivery=note)
                producer.poll(0)
                self.given.append(line)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            assert producer.flush(PATIENCE_S) == 0
            assert not lost, f"the test itself has not written {len(lost)} lines: {lost[:3]}"

    def until_it_goes_on(self, app: sf.StoatFlow) -> None:
        """What is there now is committed. Asked beside the engine, whose own clients may be connecting."""
        topic = f"{self._name}-in"
        ends = self.kafka.ends(topic)

        def is_committed() -> bool:
            assert not app.wait(0.1), "the engine ended by itself"
            committed = self.kafka.committed(self._name, topic)
            return all(committed[partition] >= end for partition, end in ends.items())

        until(is_committed, "it goes on", PATIENCE_S)

    def until_in_sync(self) -> None:
        """Any broker may go, as the coordinators' topics see it too."""
        for topic in sorted(self.kafka.topics()):
            self._cluster.wait_until_in_sync(topic)

    def epochs(self) -> int:
        """How many epochs of producers the next transactions have: as many, or one or two."""
        topic = f"{self._name}-out"
        end = self.kafka.ends(topic)[0]

        def later() -> list[Batch]:
            leader = self._cluster.nodes.index(self._cluster.leader(topic))
            return [batch for batch in batches_of(self._addresses[leader], topic) if batch.first >= end]

        def is_enough() -> bool:
            return sum(bool(batch.attributes & CONTROL) for batch in later()) >= TRANSACTIONS

        until(is_enough, "it commits", PATIENCE_S)
        return len({(batch.producer, batch.epoch) for batch in later() if not batch.attributes & CONTROL})


@pytest.mark.parametrize("client", ["native", "librdkafka"])
@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_brokers_are_upgraded_in_turn(name: str, tmp_path: Path, guarantee: str, client: str) -> None:
    exactly_once = guarantee == "exactly_once_v2"
    # librdkafka has only the first version.
    two_versions = exactly_once and client == "native"
    with KafkaCluster(version=OLD) as cluster:
        work = Work(cluster, name)
        for topic in (f"{name}-in", f"{name}-out"):
            cluster.create_topic(topic, PARTITIONS)
        with make(cluster.bootstrap(), name, tmp_path, kafka_client=client, processing_guarantee=guarantee) as app:
            until_running(app)
            with work.steady_input():
                # Each of the two ids takes another one after a request that was not answered.
                assert not exactly_once or work.epochs() <= 4, "the first version of transactions"
                for node in cluster.nodes:
                    cluster.upgrade(node, NEW)
                    work.until_in_sync()
                    work.until_it_goes_on(app)
                assert "transaction.version" not in cluster.features()
                cluster.upgrade_features()
                assert cluster.features().get("transaction.version") == 2
                work.until_it_goes_on(app)
                # A client hears of it when it connects.
                for node in cluster.nodes:
                    cluster.restart(node)
                    work.until_in_sync()
                    work.until_it_goes_on(app)
                assert not two_versions or work.epochs() > TRANSACTIONS / 2, "the second: one for each transaction"
            work.until_it_goes_on(app)
            restarts = int(app.metrics()["restarts"])
        print(f"\n{guarantee}, {client}: {len(work.given)} lines, {restarts} restarts by itself")  # noqa: T201  # a figure
        rows = work.kafka.read(f"{name}-out")
        if exactly_once or not restarts:
            check_every_update(rows, work.given)
        else:
            check_nothing_lost(rows, work.given)
        assert table(work.kafka.read(f"{name}-counts-changelog")) == table(rows)
