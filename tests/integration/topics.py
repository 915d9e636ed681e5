"""Writes and reads topics beside the engine, on real Kafka and on the embedded broker.

Takes rows, returns rows. Reads `read_committed` up to the current end, with a deadline. Never uses the engine's own
clients: Kafka is read through another library, so that a mistake of the engine's clients can't hide itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from broker import wire
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)
from confluent_kafka.cimpl import NewPartitions, NewTopic

from stoatflow.embedded import EmbeddedBroker

PATIENCE_S = 60.0
MARKERS_S = 10.0
"""How long a broker may take to write the markers of a transaction that it has acknowledged as committed."""
_NOT_YET = (
    KafkaError._TRANSPORT,
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
)


class Row(NamedTuple):
    """A record as a reader sees it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    """Only on Kafka."""


class Topics(Protocol):
    """What a test needs of a broker."""

    @property
    def address(self) -> str:
        """The value of `bootstrap.servers`."""
        ...

    def create(self, topic: str, partitions: int = 1) -> None:
        """Create a topic."""
        ...

    def write(self, topic: str, values: Iterable[str], key: str | None = None) -> None:
        """Append values; without a key they are distributed round-robin."""
        ...

    def read(self, topic: str) -> list[Row]:
        """Everything committed, in the order of each partition."""
        ...

    def count(self, topic: str) -> int:
        """The number of committed records."""
        ...


class KafkaTopics:
    """Topics of a real broker, through confluent-kafka."""

    def __init__(self, bootstrap: str, *, replicas: int = 1) -> None:
        self._bootstrap, self._replicas = bootstrap, replicas
        self._deleted: set[str] = set()
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    @property
    def address(self) -> str:
        """`host:port`."""
        return self._bootstrap

    def create(self, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Create a topic and wait until it can be written."""
        made = self._admin.create_topics([NewTopic(topic, partitions, self._replicas, config=dict(config or {}))])
        made[topic].result(PATIENCE_S)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            found = self._admin.list_topics(topic, PATIENCE_S).topics[topic].partitions
            led = len(found) == partitions and all(p.leader >= 0 for p in found.values())
            # After a delete and a create, a broker lists the new topic before it has closed the old log.
            # Records written until then go into the old log, and are deleted with it.
            if led and not (topic in self._deleted and any(self.ends(topic).values())):
                return
            assert time.monotonic() < deadline, f"{topic} has no leaders"
            time.sleep(0.02)

    def config(self, topic: str) -> dict[str, str]:
        """Its settings."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        found = self._admin.describe_configs([resource])[resource].result(PATIENCE_S)
        return {name: str(entry.value) for name, entry in found.items()}

    def topics(self) -> set[str]:
        """Names of all topics."""
        return set(self._admin.list_topics(timeout=PATIENCE_S).topics)

    def write(self, topic: str, values: Iterable[str], key: str | None = None) -> None:
        """Append values; without a key they are distributed round-robin."""
        # Idempotent: a batch that is sent again after a broker went away would otherwise be there twice.
        producer = Producer(
            {"bootstrap.servers": self._bootstrap, "linger.ms": 5, "enable.idempotence": True, "log_level": 0}
        )
        partitions = self.partitions(topic)
        for number, value in enumerate(values):
            while True:
                try:
                    if key is None:
                        producer.produce(topic, value.encode(), partition=number % partitions)
                    else:
                        producer.produce(topic, value.encode(), key=key.encode())
                    break
                except BufferError:
                    producer.poll(0.05)
            if number % 1000 == 0:
                producer.poll(0)
        assert producer.flush(PATIENCE_S) == 0

    def delete(self, topics: Iterable[str]) -> None:
        """Delete the existing ones of these topics, and wait until they are gone."""
        gone = [topic for topic in topics if topic in self.topics()]
        self._deleted.update(gone)
        for done in self._admin.delete_topics(gone).values() if gone else ():
            done.result(PATIENCE_S)
        deadline = time.monotonic() + PATIENCE_S
        while any(_is_known(address, gone) for address in self._bootstrap.split(",")):
            assert time.monotonic() < deadline, f"{gone} are still there"
            time.sleep(0.02)

    def configure(self, topic: str, **settings: str) -> None:
        """Change settings; their dots are underscores."""
        entries = [
            ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for name, value in settings.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
        self._admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)

    def empty(self, topic: str) -> None:
        """Delete all records, as retention does."""
        asked = [TopicPartition(topic, partition, end) for partition, end in self.ends(topic).items()]
        for done in self._admin.delete_records(asked).values():
            done.result(PATIENCE_S)

    def grow(self, topic: str, partitions: int) -> None:
        """Add partitions up to this number."""
        self._admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(PATIENCE_S)

    def partitions(self, topic: str) -> int:
        """The number of partitions."""
        return len(self._admin.list_topics(topic, PATIENCE_S).topics[topic].partitions)

    def read(self, topic: str, isolation: str = "read_committed") -> list[Row]:
        """Everything that a reader of this isolation sees, in the order of each partition."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "reader",
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 20,  # otherwise each end of a partition costs half a second
                "log_level": 0,
            }
        )
        try:
            open_partitions = set(range(self.partitions(topic)))
            # A broker acknowledges a commit before its markers are in every partition: until then the end
            # offset for a committed reader is before records that are committed already.
            ends, settled = self.ends(topic), time.monotonic() + MARKERS_S
            consumer.assign([TopicPartition(topic, p, 0) for p in open_partitions])
            rows: list[Row] = []
            waiting: set[int] = set()
            deadline = time.monotonic() + PATIENCE_S
            while open_partitions:
                assert time.monotonic() < deadline, f"nothing more of {topic} for {PATIENCE_S} s, read {len(rows)}"
                messages = consumer.consume(10_000, 0.05)
                if messages:  # as long as records arrive, keep reading
                    deadline = time.monotonic() + PATIENCE_S
                for message in messages:
                    partition, offset = message.partition(), message.offset()
                    assert partition is not None
                    assert offset is not None
                    if message.error() is None:
                        headers = tuple((of, _bytes(held) or b"") for of, held in message.headers() or ())
                        rows.append(Row(partition, offset, _bytes(message.key()), _bytes(message.value()), headers))
                    elif offset >= ends[partition]:  # the end of the partition
                        open_partitions.discard(partition)
                    else:
                        waiting.add(partition)
                if waiting and time.monotonic() > settled:
                    visible = self.ends(topic, isolation)
                    # The remaining records belong to an open transaction; otherwise a new leader doesn't
                    # know the end yet.
                    open_partitions -= {p for p in waiting if visible[p] < ends[p]}
                    settled = time.monotonic() + 1.0
            return sorted(rows, key=lambda row: (row.partition, row.offset))
        finally:
            consumer.close()

    def count(self, topic: str) -> int:
        """The number of committed records, without transaction markers, which offsets would include."""
        return len(self.read(topic))

    def ends(self, topic: str, isolation: str = "read_uncommitted") -> dict[int, int]:
        """The end offset of each partition, including open transactions."""
        consumer = Consumer(
            {"bootstrap.servers": self._bootstrap, "group.id": "reader", "isolation.level": isolation, "log_level": 0}
        )
        try:
            return {p: _end(consumer, TopicPartition(topic, p)) for p in range(self.partitions(topic))}
        finally:
            consumer.close()

    def committed(self, group: str, topic: str, isolation: str = "read_committed") -> dict[int, int]:
        """The offsets that a group has committed: `read_uncommitted` does not wait for an open transaction."""
        # As a member of the group would: librdkafka's admin call crashes while a coordinator is loading.
        asked = [TopicPartition(topic, p) for p in range(self.partitions(topic))]
        consumer = Consumer(
            {"bootstrap.servers": self._bootstrap, "group.id": group, "isolation.level": isolation, "log_level": 0}
        )
        deadline = time.monotonic() + PATIENCE_S
        try:
            while True:
                try:
                    return {entry.partition: entry.offset for entry in consumer.committed(asked, PATIENCE_S)}
                except KafkaException as error:  # noqa: PERF203 (asked again a few times, not in a hot loop)
                    # A broker that has just started answers "not coordinator" until it is one.
                    if time.monotonic() > deadline or error.args[0].code() not in _NOT_YET:
                        raise
                    time.sleep(0.1)
        finally:
            consumer.close()


class EmbeddedTopics:
    """Topics in a directory. It is opened only for each call, because the engine's process needs exclusive access."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def address(self) -> str:
        """`embedded:PATH`."""
        return f"embedded:{self._path}"

    def create(self, topic: str, partitions: int = 1) -> None:
        """Create a topic."""
        with EmbeddedBroker(self._path) as broker:
            broker.create_topic(topic, partitions)

    def write(self, topic: str, values: Iterable[str], key: str | None = None) -> None:
        """Append values; without a key they are distributed round-robin."""
        with EmbeddedBroker(self._path) as broker:
            partitions = broker.topics()[topic]
            broker.produce_many(
                topic,
                (
                    (n % partitions if key is None else None, key.encode() if key else None, value.encode(), n + 1)
                    for n, value in enumerate(values)
                ),
            )

    def read(self, topic: str) -> list[Row]:
        """Everything committed, in the order of each partition."""
        with EmbeddedBroker(self._path) as broker:
            return [Row(r.partition, r.offset, r.key, r.value) for r in broker.read(topic)]

    def count(self, topic: str) -> int:
        """The number of committed records."""
        with EmbeddedBroker(self._path) as broker:
            return sum(broker.end_offsets(topic).values())

    def size(self) -> int:
        """Bytes on disk: the progress of a run that holds the directory."""
        total = 0
        for path in self._path.rglob("*"):
            with suppress(FileNotFoundError):  # files come and go
                total += path.stat().st_size
        return total


def _is_known(address: str, topics: list[str]) -> bool:
    """Whether this broker knows one of them; each broker learns of a change asynchronously."""
    host, port = address.rsplit(":", 1)
    return any(found.error != wire.UNKNOWN_TOPIC for found in wire.metadata(host, int(port), topics).topics.values())


def _bytes(part: bytes | str | None) -> bytes | None:
    return part.encode() if isinstance(part, str) else part


def _end(consumer: Consumer, place: TopicPartition) -> int:
    """The end offset of a partition. On a busy machine a client may not know yet that a new topic has it."""
    deadline = time.monotonic() + PATIENCE_S
    while (end := _known_end(consumer, place)) is None:
        assert time.monotonic() < deadline, f"nobody knows {place.topic}-{place.partition} after {PATIENCE_S} s"
        time.sleep(0.1)
    return end


def _known_end(consumer: Consumer, place: TopicPartition) -> int | None:
    try:
        return consumer.get_watermark_offsets(place, PATIENCE_S)[1]
    except KafkaException as failed:
        # Just created, moving to another broker, or led by a broker that was held up and is briefly no
        # leader.
        if failed.args[0].code() in (
            KafkaError._UNKNOWN_PARTITION,
            KafkaError._TRANSPORT,
            KafkaError.UNKNOWN_TOPIC_OR_PART,
            KafkaError.NOT_LEADER_FOR_PARTITION,
            KafkaError.LEADER_NOT_AVAILABLE,
            KafkaError.OFFSET_NOT_AVAILABLE,
        ):
            return None
        raise
